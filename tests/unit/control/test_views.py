"""What is shown of an entry."""

from __future__ import annotations

import json

import pytest

from bridge.control.reading.views import MAX_SUMMARY_CHARACTERS, entry_view, summary_of
from bridge.conversations.models import ENTRY_FIELDS, Entry


def entry(kind: str, payload: object, version: int = 2) -> Entry:
    values = dict.fromkeys(ENTRY_FIELDS)
    values |= {
        "session_id": "s",
        "id": "s-000001",
        "sequence": 1,
        "kind": kind,
        "semantic_schema_version": version,
        "unknown_reason": "no_path",
        "payload_text": payload if isinstance(payload, str) else json.dumps(payload),
    }
    return Entry.from_row(values[name] for name in ENTRY_FIELDS)


@pytest.mark.parametrize(
    ("kind", "payload", "summary"),
    [
        ("user.message", {"text": "  two\n lines "}, "two lines"),
        ("tool.started", {"tool_call_id": "1", "name": "shell", "input": {"command": "ls -la"}}, "shell ls -la"),
        ("tool.completed", {"tool_call_id": "1", "name": "shell", "status": "failed"}, "shell failed"),
        ("worker.result", {"delegation_id": "d", "status": "completed", "summary": "done"}, "completed: done"),
        ("model.changed", {"model": "m-1"}, "m-1"),
        ("usage.updated", {"tokens": {"input": 1}}, ""),
        ("no.such.kind", {"title": "odd"}, "odd"),
    ],
)
def test_the_summary_is_what_was_said_on_one_line(kind, payload, summary):
    assert summary_of(entry(kind, payload)) == summary


def test_a_summary_is_cut():
    limit = MAX_SUMMARY_CHARACTERS
    assert summary_of(entry("note", {"text": "x" * limit})) == "x" * limit
    assert summary_of(entry("note", {"text": "x" * (limit + 1)})) == "x" * (limit - 1) + "…"


def test_what_cannot_be_read_has_neither_payload_nor_summary():
    for unreadable, code in (
        (entry("note", {"text": "t"}, version=3), "unsupported_semantic_version"),
        (entry("note", '{"text":'), "not_canonical"),
    ):
        assert summary_of(unreadable) == ""
        view = entry_view(unreadable)
        assert (view["readable"], view["payload"], view["payload_text"]) == (False, None, unreadable.payload_text)
        assert view["unreadable"]["code"] == code


def test_an_opaque_entry_is_readable():
    view = entry_view(entry("no.such.kind", {"a": 1}))
    assert (view["readable"], view["payload"], view["unreadable"]) == (True, {"a": 1}, None)
