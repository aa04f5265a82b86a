"""Canonical JSON: one form per value, refusals where there is none, limits at their edges."""

from __future__ import annotations

import copy
import enum
import json
import math
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.canonical import (
    MAX_DEPTH,
    MAX_INTEGER,
    MIN_INTEGER,
    FloatLiteral,
    canonical_bytes,
    canonical_text,
    parse_json,
)
from bridge.foundation.errors import NotCanonical

texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(MIN_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=25,
)


def nested(depth: int, *, in_objects: bool = False) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if in_objects else [value]
    return value


@given(json_values)
def test_a_round_trip_changes_neither_value_nor_bytes(value: Any) -> None:
    first = canonical_bytes(value)
    again = parse_json(first)

    assert again == value
    assert canonical_bytes(again) == first
    assert canonical_bytes(parse_json(first.decode())) == first


@given(json_values)
def test_the_output_is_json_to_anybody(value: Any) -> None:
    assert json.loads(canonical_bytes(value)) == value


@given(st.dictionaries(texts, st.integers(0, 9), min_size=2))
def test_order_of_insertion_does_not_matter(value: dict[str, int]) -> None:
    assert canonical_bytes(dict(reversed(value.items()))) == canonical_bytes(value)


@given(st.dictionaries(texts, st.none(), min_size=2))
def test_keys_are_sorted_by_code_point(value: dict[str, None]) -> None:
    assert list(json.loads(canonical_bytes(value))) == sorted(value)


def test_code_points_beyond_the_first_plane_sort_after_it() -> None:
    # UTF-16 order, which other canonical forms use, would put the first of these last.
    assert canonical_text({"\uffff": 1, "\U00010000": 2, "z": 3, "A": 4}) == '{"A":4,"z":3,"\uffff":1,"\U00010000":2}'


@pytest.mark.parametrize(
    "literal", ["1.0", "1e3", "1E3", "1e+3", "-0.0", "0.10", "1.5e-300", "100000000000000000000.0"]
)
def test_floats_keep_the_digits_they_were_first_written_with(literal: str) -> None:
    assert canonical_text(parse_json(f'{{"x": [ {literal} ]}}')) == f'{{"x":[{literal}]}}'


def test_an_integer_stays_an_integer_and_a_float_a_float() -> None:
    value = parse_json("[1, 1.0, -0, 1e0]")

    assert [type(item) for item in value] == [int, FloatLiteral, int, FloatLiteral]
    assert canonical_text(value) == "[1,1.0,0,1e0]"


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", " 1.0", "1_0.0", "01.5", "1.", ".5", "+1", "0x1p3", "", "٣"])
def test_a_float_literal_must_be_a_json_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a JSON number"):
        FloatLiteral(text)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_of_a_float_literal_keep_its_text(duplicate: Any) -> None:
    twin = duplicate(FloatLiteral("1e3"))

    assert (twin, twin.literal, canonical_text(twin)) == (1000.0, "1e3", "1e3")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {"a": {"b": [0, value]}}])
def test_nan_and_infinity_are_refused(value: float, wrap: Any) -> None:
    with pytest.raises(NotCanonical, match="NaN or an infinity"):
        canonical_bytes(wrap(value))


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e400", "-1e999", "[1e309]"])
def test_texts_beyond_the_numbers_of_json_are_refused(text: str) -> None:
    with pytest.raises(NotCanonical):
        parse_json(text)


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"b":{"x":1,"y":2,"x":3}}]'])
def test_duplicate_keys_are_refused(text: str) -> None:
    with pytest.raises(NotCanonical, match="occurs twice"):
        parse_json(text)


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", ["\udc00"], {"\ud800": 1}, {"a": {"b": "x\udbff"}}])
def test_lone_surrogates_are_refused(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical_bytes(value)
    with pytest.raises(NotCanonical):
        parse_json(json.dumps(value))
    with pytest.raises(NotCanonical):
        parse_json(json.dumps(value, ensure_ascii=False))


def test_a_surrogate_pair_is_one_character() -> None:
    assert canonical_text(parse_json('"\\ud83d\\ude00"')) == '"\U0001f600"'


@pytest.mark.parametrize("edge", [MIN_INTEGER, MAX_INTEGER])
def test_integers_of_64_bits_are_kept(edge: int) -> None:
    assert canonical_text(parse_json(str(edge))) == str(edge)


@pytest.mark.parametrize("beyond", [MIN_INTEGER - 1, MAX_INTEGER + 1, 10**4000, 10**6000], ids=lambda value: "beyond")
def test_wider_integers_are_refused(beyond: int) -> None:
    digits = "1" + "0" * 6000 if beyond > 10**4000 else str(beyond)
    with pytest.raises(NotCanonical):
        parse_json(digits)
    with pytest.raises(NotCanonical):
        canonical_bytes([beyond])


@pytest.mark.parametrize("in_objects", [False, True])
def test_the_depth_limit_at_its_edge(in_objects: bool) -> None:
    text = canonical_text(nested(MAX_DEPTH, in_objects=in_objects))
    assert parse_json(text) == nested(MAX_DEPTH, in_objects=in_objects)

    deeper = json.dumps(nested(MAX_DEPTH + 1, in_objects=in_objects))
    with pytest.raises(NotCanonical, match=f"deeper than {MAX_DEPTH}"):
        parse_json(deeper)
    with pytest.raises(NotCanonical, match=f"deeper than {MAX_DEPTH}"):
        canonical_bytes(nested(MAX_DEPTH + 1, in_objects=in_objects))


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_absurd_depth_is_refused_and_does_not_exhaust_the_stack(opening: str) -> None:
    with pytest.raises(NotCanonical):
        parse_json(opening * 200_000)
    with pytest.raises(NotCanonical):
        canonical_bytes(nested(800, in_objects=opening != "["))


def test_many_shallow_containers_are_not_deep() -> None:
    assert canonical_bytes([[] for _ in range(MAX_DEPTH * 3)]) == b"[" + b",".join([b"[]"] * MAX_DEPTH * 3) + b"]"


def test_composed_and_decomposed_text_stay_distinct() -> None:
    composed, decomposed = "é", "e\u0301"

    assert canonical_bytes(composed) != canonical_bytes(decomposed)
    assert len(parse_json(canonical_bytes({composed: 1, decomposed: 2}))) == 2


@pytest.mark.parametrize(
    "text", ["", " ", "1 2", "[1,]", "{'a':1}", "\ufeff1", '"\t"', "truth", '{"a"}', b"\xff", b'"\xc3"']
)
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(NotCanonical):
        parse_json(text)


@pytest.mark.parametrize(
    "value", [{1: 2}, {None: 1}, b"x", {1, 2}, Decimal(1), datetime(2026, 1, 2, tzinfo=UTC), object()]
)
def test_types_that_json_lacks_are_refused(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical_bytes(value)


def test_the_named_exceptions_are_written_as_their_value() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    assert (
        canonical_text({"tuple": (1, 2), "enum": Colour.RED, "null": None})
        == '{"enum":"red","null":null,"tuple":[1,2]}'
    )


def test_control_characters_are_escaped_and_nothing_else_is() -> None:
    assert canonical_text('\x00\n"\\/\x7f\u2028é') == '"\\u0000\\n\\"\\\\/\x7f\u2028é"'
