"""From pi's messages to events."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.adapters.pi.reading import Reading
from bridge.semantics.validation import validate


def reading():
    return Reading("t1", Path("/w"))


def taken(found, *messages):
    events = [event for message in messages for event in found.take(message)]
    for event in events:
        validate(event.kind, dict(event.payload))
    return [(event.kind, dict(event.payload)) for event in events]


def assistant(*content, **more):
    return {"type": "message_end", "message": {"role": "assistant", "content": list(content), **more}}


USAGE = {"input": 10, "output": 5, "cacheRead": 1, "cacheWrite": 0, "totalTokens": 16, "cost": {"total": 0.5}}


def test_text_and_reasoning_are_told_whole_and_usage_at_the_end():
    found = reading()
    events = taken(
        found,
        {"type": "agent_start"},
        {"type": "message_end", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}},
        assistant({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "done"}, usage=USAGE, model="m"),
        assistant({"type": "text", "text": "again"}, usage=USAGE, stopReason="stop"),
    )
    assert [(kind, payload["text"]) for kind, payload in events] == [
        ("reasoning.completed", "hm"),
        ("assistant.message", "done"),
        ("assistant.message", "again"),
    ]
    (used,) = found.finish("completed")
    validate(used.kind, dict(used.payload))
    assert used.payload["tokens"] == {"input": 20, "output": 10, "cache_read": 2, "cache_write": 0, "total": 32}
    assert used.payload["cost"] == {"amount": 1.0, "currency": "USD"}
    assert found.outcome() == ("completed", "")


@pytest.mark.parametrize(
    ("tool", "field", "path"),
    [("write", "paths_written", "a.txt"), ("edit", "paths_written", "/w/a.txt"), ("read", "paths_read", "./a.txt")],
)
def test_a_tool_call_names_the_file_it_touched(tool, field, path):
    call = {"toolCallId": "c1", "toolName": tool}
    events = taken(
        reading(),
        {"type": "tool_execution_start", **call, "args": {"path": path}},
        {"type": "tool_execution_end", **call, "result": {"content": [{"type": "text", "text": "ok"}]}},
    )
    assert [kind for kind, _ in events] == ["tool.started", "tool.completed"]
    assert events[1][1]["status"] == "completed"
    assert events[1][1]["output"] == "ok"
    assert events[1][1][field] == ["a.txt"]


def test_a_failed_call_touched_nothing_and_an_open_one_ends_with_the_turn():
    found = reading()
    call = {"toolCallId": "c1", "toolName": "write", "args": {"path": "a"}}
    events = taken(
        found,
        {"type": "tool_execution_start", **call},
        {"type": "tool_execution_end", **call, "isError": True},
        {"type": "tool_execution_start", "toolCallId": "c2", "toolName": "bash", "args": {"command": "x"}},
    )
    assert events[1][1]["status"] == "failed"
    assert "paths_written" not in events[1][1]
    (ended,) = found.finish("cancelled")
    assert (ended.payload["tool_call_id"], ended.payload["status"]) == ("c2", "cancelled")


@pytest.mark.parametrize(
    ("stop", "status"),
    [
        ("stop", "completed"),
        ("length", "completed"),
        ("toolUse", "completed"),
        ("aborted", "cancelled"),
        ("error", "failed"),
    ],
)
def test_why_the_model_stopped_is_how_the_turn_ended(stop, status):
    found = reading()
    taken(found, assistant(stopReason=stop, errorMessage="401 no key"))
    assert found.outcome()[0] == status
    assert ("401 no key" in found.outcome()[1]) is (stop == "error")


def test_what_nobody_knows_is_kept_as_it_came():
    ((kind, payload),) = taken(reading(), {"type": "auto_retry_start", "attempt": 1})
    assert kind == "provider.unknown"
    assert payload["raw_type"] == "auto_retry_start"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
KINDS = st.sampled_from(
    ["message_end", "tool_execution_start", "tool_execution_end", "message_update", "agent_end", "surprise", ""]
)


@given(KINDS, st.dictionaries(st.sampled_from(["message", "args", "result", "toolCallId", "toolName"]), JSON))
def test_odd_messages_make_sound_events_or_none(kind, fields):
    found = reading()
    taken(found, {"type": kind, **fields})
    for event in found.finish("failed"):
        validate(event.kind, dict(event.payload))
