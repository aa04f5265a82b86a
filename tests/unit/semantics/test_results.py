"""What a worker hands in: read strictly, judged field by field, never raising."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.canonical import canonical_bytes
from bridge.semantics.errors import InvalidOutputSchema
from bridge.semantics.results import (
    MAX_OUTPUT_SCHEMA_BYTES,
    MAX_RESULT_BYTES,
    ResultStatus,
    check_output_schema,
    validate_result,
)
from bridge.semantics.schemas import load_schema

GOOD = {"status": "completed", "summary": "Counted the words."}
COUNT_SCHEMA = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}


def submit(**fields: Any) -> bytes:
    return json.dumps(GOOD | fields).encode()


def paths(raw: bytes, schema: dict[str, Any] | None = None) -> list[str]:
    check = validate_result(raw, schema)
    assert not check.valid
    assert check.value is None
    return [error["path"] for error in check.fields]


def test_the_least_and_the_most_that_a_worker_may_say() -> None:
    most = GOOD | {
        "files_changed": ["a.py"],
        "tests": [{"command": "make test", "status": "passed", "detail": ""}],
        "decisions": ["d"],
        "risks": ["r"],
        "remaining_work": ["w"],
        "data": {"count": 3},
        "provider_meta": {"anything": 1},
    }
    for submitted in (GOOD, most):
        check = validate_result(json.dumps(submitted).encode(), None)
        assert (check.valid, check.value, check.fields) == (True, submitted, [])


@pytest.mark.parametrize("status", [status for status in ResultStatus if status != ResultStatus.INVALID])
def test_a_worker_may_say_how_it_ended(status: str) -> None:
    assert validate_result(submit(status=status), None).valid


def test_a_worker_may_ask_for_another() -> None:
    needed = {"objective": "Look at the logs.", "role": "research", "reason": "no access"}
    assert validate_result(submit(status="needs_delegation", needs_delegation=needed), None).valid


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        (b"{}", "/status", "is missing"),
        (b"", "", "is empty"),
        (b" \n", "", "is empty"),
        (b'Here it is: {"status":"completed","summary":"s"}', "", "not one plain JSON object"),
        (b'{"status":"completed","summary":"s"}\nDone.', "", "not one plain JSON object"),
        (b'```json\n{"status":"completed","summary":"s"}\n```', "", "not one plain JSON object"),
        (b'{"status":"completed","summary":"s"}{"status":"failed","summary":"s"}', "", "not one plain JSON object"),
        (b'{"status":1,"summary":"s"}', "/status", "must be completed"),
        (b'{"status":"completed","summary":["s"]}', "/summary", "must be a string"),
        (b'{"status":"completed","summary":""}', "/summary", "must not be empty"),
        (b'{"status":"failed","status":"completed","summary":"s"}', "", "occurs twice"),
        (b'{"status":"completed","summary":"s","data":NaN}', "", "NaN"),
        (b'{"status":"completed","summary":"s","data":1e999}', "", "range of a double"),
        (b'{"status":"completed","summary":"\\ud800"}', "", "not one plain JSON object"),
        (b'{"status":"completed","summary":"\xff"}', "", "not UTF-8"),
        (b'\xef\xbb\xbf{"status":"completed","summary":"s"}', "", "not one plain JSON object"),
        (b'[{"status":"completed","summary":"s"}]', "", "must be an object"),
        (b'{"status":"completed","summary":"s","data":' + b"[" * 300 + b"]" * 300 + b"}", "", "deeper"),
        (b"[" * 500_000, "", "deeper"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_fc_39_what_breaks_the_contract_is_invalid_with_its_reason(raw: bytes, path: str, message: str) -> None:
    check = validate_result(raw, None)

    assert (check.valid, check.value) == (False, None)
    assert check.fields[0]["path"] == path
    assert message in check.fields[0]["message"]
    assert check.raw_text.startswith(raw[:10].decode(errors="backslashreplace"))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"status": "invalid"}, "/status"),
        ({"status": "done"}, "/status"),
        ({"tests": [{"command": "x", "status": "ok"}]}, "/tests/0/status"),
        ({"tests": [{"status": "passed"}]}, "/tests/0/command"),
        ({"files_changed": "a.py"}, "/files_changed"),
        ({"risks": [1]}, "/risks/0"),
        ({"remaining": []}, "/remaining"),
        ({"base_commit": "a" * 40}, "/base_commit"),
        ({"stamp": {"unknown": "no_path"}}, "/stamp"),
        ({"needs_delegation": {}}, "/needs_delegation/objective"),
    ],
)
def test_each_wrong_field_is_named(fields: dict[str, Any], path: str) -> None:
    assert paths(submit(**fields)) == [path]


def test_data_is_checked_against_the_schema_of_the_delegation() -> None:
    assert validate_result(submit(data={"count": 3}), COUNT_SCHEMA).valid
    assert paths(submit(data={"count": "three"}), COUNT_SCHEMA) == ["/data/count"]
    assert paths(submit(data={}), COUNT_SCHEMA) == ["/data/count"]
    assert paths(submit(data=None), COUNT_SCHEMA) == ["/data"]
    assert paths(submit(), COUNT_SCHEMA) == ["/data"]


@pytest.mark.parametrize("status", ["failed", "cancelled", "blocked", "needs_delegation"])
def test_only_a_completed_result_must_have_data_but_any_data_must_fit(status: str) -> None:
    assert validate_result(submit(status=status), COUNT_SCHEMA).valid
    assert paths(submit(status=status, data={}), COUNT_SCHEMA) == ["/data/count"]


def test_fc_39_a_placeholder_passes_only_a_schema_that_lets_it() -> None:
    assert validate_result(submit(data={}), {"type": "object"}).valid
    assert not validate_result(submit(data={}), {"type": "object", "minProperties": 1}).valid


def test_values_stay_as_they_were_first_written() -> None:
    raw = b'{"summary":"s","status":"completed","data":{"b":1.0,"a":1e3}}'
    check = validate_result(raw, {"properties": {"a": {"type": "number"}}})

    assert check.value is not None
    assert canonical_bytes(check.value) == b'{"data":{"a":1e3,"b":1.0},"status":"completed","summary":"s"}'


def test_secrets_are_masked_before_anything_is_checked_or_kept() -> None:
    token = "ghp_" + "a1" * 18
    check = validate_result(
        submit(summary=f"Used {token}.", data={"key": token}), {"properties": {"key": {"pattern": "^ghp_"}}}
    )

    assert [error["path"] for error in check.fields] == ["/data/key"]
    assert token not in check.raw_text
    assert "[redacted:github-token]" in check.raw_text
    assert token not in json.dumps(validate_result(submit(summary=token), None).value)


def test_the_size_limit_at_its_edge() -> None:
    room = MAX_RESULT_BYTES - len(submit(summary=""))

    assert validate_result(submit(summary="x" * room), None).valid
    beyond = validate_result(submit(summary="x" * (room + 1)), None)
    assert beyond.fields == [{"path": "", "message": f"is larger than {MAX_RESULT_BYTES} bytes"}]
    assert beyond.is_raw_text_cut
    assert len(beyond.raw_text) == MAX_RESULT_BYTES
    assert not validate_result(submit(), None, max_bytes=10).valid


def test_bytes_that_are_no_text_are_kept_legibly() -> None:
    assert validate_result(b"\xff\x00{", None).raw_text == "\\xff\x00{"


@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]":,\\ueE+-.019 strn\ud800', max_size=40).map(lambda text: text.encode(errors="replace"))
)
def test_nothing_that_a_worker_writes_raises(raw: bytes) -> None:
    check = validate_result(raw, COUNT_SCHEMA)
    assert check.valid is (check.fields == [])
    check.raw_text.encode()  # never a lone surrogate


@pytest.mark.parametrize(
    "schema",
    [
        {},
        COUNT_SCHEMA,
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$defs": {"a": {"$id": "https://example.invalid/a", "type": "string"}}, "$ref": "https://example.invalid/a"},
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
    ],
)
def test_output_schemas_that_can_be_used(schema: dict[str, Any]) -> None:
    check_output_schema(schema)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        "object",
        {"type": "strin"},
        {"required": "count"},
        {"pattern": "("},
        {"minimum": "1"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://example.invalid/schema.json"},
        {"properties": {"a": {"items": {"$ref": "http://127.0.0.1:9/x"}}}},
        {"$ref": "file:///etc/hostname"},
        {"$schema": "https://example.invalid/my-draft"},
        {"const": float("nan")},
        {"const": "\ud800"},
        {1: {}},
    ],
    ids=repr,
)
def test_output_schemas_that_cannot_be_used_are_refused(schema: Any) -> None:
    with pytest.raises(InvalidOutputSchema, match="Nothing was started") as caught:
        check_output_schema(schema)
    assert caught.value.details["reason"]
    assert len(caught.value.message) < 400
    with pytest.raises(InvalidOutputSchema):
        validate_result(submit(), schema if schema is not None else [])  # type: ignore[arg-type]  # wrong on purpose


def test_the_size_limit_of_an_output_schema_at_its_edge() -> None:
    room = MAX_OUTPUT_SCHEMA_BYTES - len(canonical_bytes({"description": ""}))

    check_output_schema({"description": "x" * room})
    with pytest.raises(InvalidOutputSchema, match="larger"):
        check_output_schema({"description": "x" * (room + 1)})


def test_the_statuses_are_those_of_the_published_contract() -> None:
    assert [*ResultStatus] == load_schema("worker-result/v2")["properties"]["status"]["enum"]
