"""An outline is short, is JSON, and says nothing that the text does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.outlines import MAX_OUTLINE_CHARACTERS, is_outline, outline_of, outline_of_text

TEXTS = st.text(max_size=8) | st.builds(lambda text, times: text * times, st.text(max_size=3), st.integers(0, 2000))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(TEXTS, inner, max_size=60),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=60))
def test_an_outline_is_short_and_agrees(payload):
    outline = outline_of(payload)
    assert len(outline) <= MAX_OUTLINE_CHARACTERS
    assert isinstance(parse_json(outline), dict)
    assert is_outline(outline, canonical_text(payload))
    assert outline_of_text(canonical_text(payload)) == outline


def test_what_stands_behind_a_long_field_is_in_it():
    payload = {"name": "shell", "output": "x" * 100_000, "status": "failed", "input": {"command": "make", "n": 1.50}}
    outline = parse_json(outline_of(payload))
    assert outline == {
        "name": "shell",
        "output": "x" * 1200,
        "status": "failed",
        "input": {"command": "make", "n": 1.5},
    }


@pytest.mark.parametrize("text", ["nothing of the kind", '{"text":"cut o', '{"a":1,"a":2}'])
def test_of_what_is_no_json_it_is_the_beginning(text):
    long = text * 1000
    assert outline_of_text(long) == long[:MAX_OUTLINE_CHARACTERS]
    assert is_outline(outline_of_text(long), long)


@pytest.mark.parametrize(
    "outline", ['{"a":"y"}', '{"b":"x"}', '{"a":["x"]}', '{"a":"xxx!"}', '{"c":[1,3]}', '{"c":[1,2,3,4]}', "x"]
)
def test_another_one_is_told(outline):
    assert not is_outline(outline, '{"a":"xxx","c":[1,2,3]}')
