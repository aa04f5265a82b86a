"""The beginning of a JSON text, wherever it was cut, becomes JSON that says no more than it did."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.beginnings import close_json
from bridge.foundation.canonical import canonical_text, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), st.integers(min_value=1))
def test_wherever_a_payload_is_cut_its_beginning_is_an_object(payload, at):
    for text in (canonical_text(payload), json.dumps(payload)):
        closed = close_json(text[: 1 + at % len(text)])
        assert isinstance(parse_json(closed), dict), closed


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_what_was_not_cut_stays_as_it_is(payload):
    assert close_json(canonical_text(payload)) == canonical_text(payload)


@pytest.mark.parametrize(
    ("beginning", "closed"),
    [
        ('{"text":"one tw', '{"text":"one tw"}'),
        ('{"text":"', '{"text":""}'),
        ('{"a":{"b":[1,"x', '{"a":{"b":[1,"x"]}}'),
        ('{"a":1,"na', '{"a":1}'),
        ('{"a":1,"name"', '{"a":1}'),
        ('{"a":1,"name":', '{"a":1}'),
        ('{"a":"x","n":12', '{"a":"x"}'),
        ('{"a":["x",tr', '{"a":["x"]}'),
        ('{"a":"b\\', '{"a":"b"}'),
        ('{"a":"b\\u00', '{"a":"b"}'),
        ('{"a":"b\\ud83d', '{"a":"b"}'),
        ('{"a":"b\\\\', '{"a":"b\\\\"}'),
        ('{"a":"b\\\\ud83d', '{"a":"b\\\\ud83d"}'),
        ('{"a":"b\\ud83d\\ude', '{"a":"b"}'),
        ('["a"', '["a"]'),
        ('"a', '"a"'),
    ],
)
def test_what_was_cut_off_is_left_out(beginning, closed):
    assert close_json(beginning) == closed
    json.loads(closed)


@pytest.mark.parametrize("beginning", ["", "nothing of the kind", "12", "}", '{"a":1]'])
def test_what_begins_like_no_object_or_list_gives_nothing(beginning):
    assert close_json(beginning) is None
