"""The loader and its field errors: offline, bounded, and silent about the values themselves."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.semantics.errors import SchemaMissing
from bridge.semantics.schemas import (
    MAX_FIELD_ERRORS,
    MAX_MESSAGE_CHARACTERS,
    field_errors,
    foreign_validator,
    is_valid,
    load_schema,
    pointer,
    validator,
)


def errors_of(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    return [(error["path"], error["message"]) for error in field_errors(jsonschema_rs.validator_for(schema), value)]


def test_a_validator_is_compiled_once() -> None:
    assert validator("semantic/v2/note") is validator("semantic/v2/note")


@pytest.mark.parametrize("name", ["semantic/v2/nothing", "semantic/v9/note", "digests/..", ""])
def test_a_missing_schema_is_named(name: str) -> None:
    with pytest.raises(SchemaMissing):
        load_schema(name)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "object", "required": ["a"]}, {}, [("/a", "is missing")]),
        ({"properties": {"a": {"type": "string"}}}, {"a": 1}, [("/a", "must be a string")]),
        ({"type": ["string", "null"]}, 1, [("", "must be a string or null")]),
        ({"type": ["object", "array", "integer"]}, "x", [("", "must be an object, an array or an integer")]),
        ({"enum": ["passed", "failed", "skipped"]}, "x", [("", "must be passed, failed or skipped")]),
        ({"enum": [1, None]}, "x", [("", "must be 1 or null")]),
        ({"const": True}, "x", [("", "must be true")]),
        ({"minLength": 1}, "", [("", "must not be empty")]),
        ({"minItems": 1}, [], [("", "must not be empty")]),
        ({"minProperties": 2}, {}, [("", "is below its limit (minProperties 2)")]),
        ({"minimum": 3}, 1, [("", "is below its limit (minimum 3)")]),
        ({"maxLength": 3}, "long", [("", "is above its limit (maxLength 3)")]),
        ({"pattern": "^a"}, "b", [("", "does not match ^a")]),
        ({"uniqueItems": True}, [1, 1], [("", "breaks the schema's rule 'uniqueItems'")]),
        (
            {"properties": {"q": {}}, "additionalProperties": False},
            {"x/y": 1, "a~b": 2},
            [("/a~0b", "is not a known field"), ("/x~1y", "is not a known field")],
        ),
        (
            {"items": {"properties": {"s": {"enum": ["a", "b"]}}}},
            [{"s": "a"}, {"s": "c"}],
            [("/1/s", "must be a or b")],
        ),
        ({"anyOf": [{"type": "string"}, {"required": ["a", "b"], "type": "object"}]}, {"a": 1}, [("/b", "is missing")]),
        ({"oneOf": [{"type": "string"}, {"type": "object"}]}, 1, [("", "must be a string")]),
        (
            {"anyOf": [{"minLength": 9, "pattern": "^b"}, {"minLength": 9}]},
            "a",
            [("", "is below its limit (minLength 9)")],
        ),
        ({"oneOf": [{}, {}]}, 1, [("", "breaks the schema's rule 'oneOf'")]),
        ({"properties": {"a": False}}, {"a": 1}, [("/a", "is not allowed")]),
        ({"additionalProperties": False}, {"a": 1}, [("", "is not allowed")]),
    ],
)
def test_messages_say_what_would_be_right(schema: Any, value: Any, expected: list[tuple[str, str]]) -> None:
    assert errors_of(schema, value) == expected


@pytest.mark.parametrize(("path", "expected"), [([], ""), (["a", 0, "b"], "/a/0/b"), (["~", "/", ""], "/~0/~1/")])
def test_a_path_is_a_json_pointer(path: list[str | int], expected: str) -> None:
    assert pointer(path) == expected


def test_the_number_of_errors_is_bounded() -> None:
    schema = {"items": {"type": "string"}, "properties": {"q": {}}, "additionalProperties": False}
    assert len(errors_of(schema, [1] * (MAX_FIELD_ERRORS - 1))) == MAX_FIELD_ERRORS - 1
    assert len(errors_of(schema, [1] * MAX_FIELD_ERRORS)) == MAX_FIELD_ERRORS
    assert len(errors_of(schema, [1] * (MAX_FIELD_ERRORS + 1))) == MAX_FIELD_ERRORS
    assert len(errors_of(schema, {str(number): 1 for number in range(500)})) == MAX_FIELD_ERRORS


def test_the_length_of_a_message_and_of_a_path_is_bounded() -> None:
    (error,) = errors_of({"enum": ["x" * 100_000, "y"]}, 1)
    assert len(error[1]) == MAX_MESSAGE_CHARACTERS
    (error,) = errors_of({"properties": {"q": {}}, "additionalProperties": False}, {"k" * 100_000: 1})
    assert len(error[0]) == MAX_MESSAGE_CHARACTERS


def test_no_message_quotes_the_value() -> None:
    schema = {
        "enum": ["a"],
        "type": "integer",
        "pattern": "^a",
        "maxLength": 1,
        "const": "b",
        "format": "date",
        "not": {},
    }
    assert all("hunter2" not in message for _, message in errors_of(schema, "hunter2"))


def test_floats_that_remember_their_text_are_numbers() -> None:
    numbers = {"type": "array", "items": {"type": "number", "minimum": 2}}

    assert errors_of(numbers, parse_json("[2.0, 1e3]")) == []
    assert errors_of(numbers, parse_json("[2.0, 1.5]")) == [("/1", "is below its limit (minimum 2)")]
    assert errors_of({"items": {"not": {"type": "number"}}}, parse_json("[1.5]")) != []
    assert errors_of({"type": "integer"}, parse_json("1.0")) == []


@pytest.mark.parametrize("value", [{1: 2}, {"a": object()}, [b"x"]])
def test_what_is_not_json_is_refused(value: Any) -> None:
    with pytest.raises(NotCanonical):
        field_errors(validator("semantic/v2/note"), value)


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/x.json",
        "https://example.invalid/s",
        "file:///etc/passwd",
        "bridge://schema/worker-result/v2.json",
    ],
)
def test_a_foreign_schema_reaches_nothing_outside_itself(reference: str) -> None:
    with pytest.raises(ValueError, match=r"not present|disabled"):
        foreign_validator(f'{{"$ref":"{reference}"}}'.encode())


def test_a_pattern_that_backtracks_without_end_is_stopped() -> None:
    compiled = foreign_validator(b'{"pattern":"(a+)+\\\\1$"}')
    assert not is_valid(compiled, "a" * 50_000 + "b")


@pytest.mark.parametrize("schema", [b'{"$ref":"#"}', b'{"allOf":[{"$ref":"#"}]}', b'{"not":{"$ref":"#"}}'])
def test_a_schema_that_refers_to_itself_ends(schema: bytes) -> None:
    compiled = foreign_validator(schema)
    assert is_valid(compiled, {"a": [1]}) in {True, False}
