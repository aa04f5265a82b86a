"""What counts as an object that was cut short."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transcripts.sessionfile.prefixes import completion_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=5), VALUES, max_size=4)


@given(OBJECTS, st.booleans(), st.sampled_from([None, (", ", ": "), (" ,\t", " :\r")]), st.data())
def test_every_prefix_of_an_object_is_one_and_the_object_is_none(value, ascii_only, separators, data):
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
    cut = data.draw(st.integers(1, len(text) - 1))
    completion = completion_of(text[:cut])
    assert completion is not None
    assert isinstance(json.loads(text[:cut] + completion), dict)
    assert completion_of(text) is None
    assert completion_of(text + "x") is None
    assert completion_of(text + "{") is None


@given(st.text(alphabet='{}[]",:\\u0123456789abcdeE.+-truefalsn \t\x01é', max_size=24).map("{".__add__))
def test_what_is_taken_for_cut_short_can_be_made_whole(text):
    completion = completion_of(text)
    if completion is not None:
        assert isinstance(json.loads(text + completion), dict)


@given(OBJECTS, st.data())
def test_an_altered_prefix_is_one_only_if_it_can_be_made_whole(value, data):
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text) - 1))
    changed = text[:cut] + data.draw(st.sampled_from('{}[]",:x0.-\\ \x00')) + text[cut + 1 :]
    completion = completion_of(changed)
    if completion is not None:
        assert isinstance(json.loads(changed + completion), dict)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        ' {"',
        '{"a',
        '{"a\\',
        '{"a\\u00',
        '{"a"',
        '{"a":',
        '{"a":-',
        '{"a":1.',
        '{"a":1e+',
        '{"a":t',
        '{"a":[',
        '{"a":[1,',
        '{"a":{"b":nul',
        '{"type":"entry","id":"cut',
        '{"a":1,',
        '{"a":[]',
        '{"a":[{}]',
    ],
)
def test_cut_short(text):
    assert completion_of(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "[",
        '"a',
        "not-json",
        "{a",
        "{,",
        '{"a",',
        '{"a":,',
        '{"a":01',
        '{"a":tx',
        '{"a":1}',
        '{"a":1}x',
        '{"a":[,',
        "{]",
        '{"a":[1,]',
        '{"a":1,}',
        '{"a\\x',
        '{"a\x01',
        '{"a":+1',
        '{"a":.5',
        '{"a":1.e',
        '{"a":NaN',
        '{"a":1 2',
        '{"id":"e9","te{"type":',
    ],
)
def test_not_cut_short(text):
    assert completion_of(text) is None


def test_depth_is_no_matter():
    assert completion_of('{"a":' + "[" * 60_000) == "]" * 60_000 + "}"
