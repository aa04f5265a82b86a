"""Answers to the request for a checkpoint as agents really wrap them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.control.contexts import checkpointanswer
from bridge.control.contexts.checkpointanswer import MAX_ANSWER_CHARACTERS, MAX_OBJECTS_TRIED, read_answer

GOOD = {"summary": "s", "decisions": ["d"], "files_touched": ["f"], "open_work": ["o"]}
TEXT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "raw",
    [
        TEXT,
        json.dumps(GOOD, indent=2),
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```\nLet me know if more is needed.",
        f"Here is the checkpoint {{as asked}}: {TEXT}",
        f'First an example {{"summary": "…"}}, then the real one:\n{TEXT}',
        f"{TEXT}\n{TEXT}",
        json.dumps({"checkpoint": GOOD}),
        '{"summary": " s ", "decisions": ["d", "d ", " "], "filesTouched": ["f", "f"], "openWork": ["o"]}',
    ],
)
def test_plain_fenced_prefaced_and_repeated_answers_are_read(raw):
    answer = read_answer(raw)
    assert (answer.value, answer.fields) == (GOOD, ())


def test_what_is_not_the_agents_to_say_is_left_aside_and_named():
    answer = read_answer(json.dumps({**GOOD, "session_id": "x", "tokens_before": 5}))
    assert (answer.value, answer.ignored) == (GOOD, ("session_id", "tokens_before"))


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("", ""),
        ("I cannot do that.", ""),
        (TEXT[:-1], ""),
        ("[1, 2]", ""),
        ('{"summary": "a", "summary": "b", "decisions": [], "files_touched": [], "open_work": []}', ""),
        (json.dumps({**GOOD, "summary": "  "}), "/summary"),
        (json.dumps({**GOOD, "decisions": "d"}), "/decisions"),
        (json.dumps({**GOOD, "open_work": [1]}), "/open_work/0"),
        (json.dumps({**GOOD, "files_touched": None}), "/files_touched"),
        (json.dumps({name: value for name, value in GOOD.items() if name != "open_work"}), "/open_work"),
        ("{" * 5000, ""),
    ],
)
def test_what_is_wrong_is_named_by_field(raw, path):
    answer = read_answer(raw)
    assert answer.value is None
    assert path in [field["path"] for field in answer.fields]


def test_the_object_that_holds_most_is_the_one_that_is_judged():
    near = {name: value for name, value in GOOD.items() if name != "summary"}
    answer = read_answer(f'{{"note": 1}} {json.dumps(near)} {{"x": 2}}')
    assert [field["path"] for field in answer.fields] == ["/summary"]


def test_limits():
    padding = " " * (MAX_ANSWER_CHARACTERS - len(TEXT))
    assert read_answer(padding + TEXT).value == GOOD
    assert read_answer(padding + " " + TEXT).value is None
    assert read_answer("{ " * (MAX_OBJECTS_TRIED - 1) + TEXT).value == GOOD
    assert read_answer("{ " * MAX_OBJECTS_TRIED + TEXT).value is None
    assert set(checkpointanswer.FIELDS) == set(GOOD)


@given(st.text(max_size=200))
def test_any_text_is_an_answer_or_says_what_is_wrong(raw):
    answer = read_answer(raw)
    assert (answer.value is None) == bool(answer.fields)
