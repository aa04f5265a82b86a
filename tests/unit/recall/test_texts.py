"""What can be found of an entry."""

from __future__ import annotations

import json

import pytest

from bridge.recall.texts import FOUND_FIELDS, searchable_text
from bridge.semantics.kinds import CONVERSATIONAL_KINDS


def text_of(kind, payload, version=2, visibility="eligible"):
    return searchable_text(version, kind, json.dumps(payload), visibility)


def test_every_conversational_kind_can_be_found_and_no_other():
    assert set(FOUND_FIELDS) == set(CONVERSATIONAL_KINDS)


def test_messages_and_lists_of_words():
    assert text_of("user.message", {"text": "hello"}) == "hello"
    checkpoint = {"summary": "s", "decisions": ["d1", "d2"], "files_touched": ["f.py"], "open_work": []}
    assert text_of("checkpoint", checkpoint).split() == ["s", "d1", "d2", "f.py"]


@pytest.mark.parametrize(
    ("kind", "payload", "version", "visibility"),
    [
        ("user.message", {"text": "kept away"}, 2, "hidden"),
        ("tool.completed", {"tool_call_id": "1", "name": "x"}, 2, "eligible"),
        ("note", {"text": "a note"}, 2, "eligible"),
        ("user.message", {"text": "later"}, 3, "eligible"),
        ("user.message", {"no": "text"}, 2, "eligible"),
        ("someone.elses", {"text": "x"}, 2, "eligible"),
    ],
)
def test_what_is_hidden_foreign_or_without_meaning_is_not_found(kind, payload, version, visibility):
    assert text_of(kind, payload, version, visibility) == ""


def test_the_older_contract_is_read_as_today():
    assert text_of("user.message", {"text": "old words"}, version=1) == "old words"


def test_damaged_payloads_have_no_words():
    assert searchable_text(2, "user.message", "{not json", "eligible") == ""
