"""From updates to events, without a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.adapters.acp import assembling
from bridge.adapters.acp.assembling import Assembler, trimmed
from bridge.adapters.conversation import LiveText
from bridge.semantics.validation import validate


def text(kind: str, words: str, **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": words}, **more}


def taken(*updates: dict[str, Any], status: str = "failed", usage: Any = None) -> list[tuple[str, dict[str, Any]]]:
    assembler = Assembler("t1", Path("/checkout"))
    events = [event for update in updates for event in assembler.take(update)]
    events += assembler.finish(status=status, usage=usage)
    for event in events:
        validate(event.kind, dict(event.payload))
    return [(event.kind, dict(event.payload)) for event in events]


def test_pieces_become_one_message_and_are_shown_as_they_come():
    seen: list[LiveText] = []
    assembler = Assembler("t1", Path("/checkout"), seen.append)
    assert assembler.take(text("agent_message_chunk", "Hel")) == []
    assert assembler.take(text("agent_message_chunk", "lo")) == []
    assert [event.payload["text"] for event in assembler.finish(status="failed")] == ["Hello"]
    assert [piece.text for piece in seen] == ["Hel", "lo"]


def test_reasoning_and_message_are_kept_apart_in_order():
    found = taken(
        text("agent_thought_chunk", "hm"), text("agent_message_chunk", "yes"), text("agent_thought_chunk", "hm again")
    )
    assert [(kind, payload["text"]) for kind, payload in found] == [
        ("reasoning.completed", "hm"),
        ("assistant.message", "yes"),
        ("reasoning.completed", "hm again"),
    ]


def test_another_message_id_begins_another_message():
    found = taken(text("agent_message_chunk", "a", messageId="1"), text("agent_message_chunk", "b", messageId="2"))
    assert [payload["text"] for _, payload in found] == ["a", "b"]


def test_a_call_is_told_once_its_input_is_known_and_once_it_ended():
    found = taken(
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "kind": "edit", "status": "pending"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": {"path": "a"}, "status": "in_progress"},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "c",
            "status": "completed",
            "locations": [{"path": "/checkout/a.txt"}, {"path": "/elsewhere/b"}],
            "content": [{"type": "content", "content": {"type": "text", "text": "done"}}],
        },
    )
    assert [kind for kind, _ in found] == ["tool.started", "tool.completed"]
    assert found[0][1]["input"] == {"path": "a"}
    assert found[1][1]["paths_written"] == ["a.txt", "/elsewhere/b"]
    assert found[1][1]["output"] == "done"


def test_a_failed_edit_wrote_nothing():
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Edit", "kind": "edit", "status": "failed"}
    found = taken({**call, "locations": [{"path": "/checkout/a"}]})
    assert found[-1][1]["status"] == "failed"
    assert "paths_written" not in found[-1][1]


def test_a_call_that_never_ended_is_closed_with_the_turn():
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "status": "in_progress"}
    found = taken(call, status="cancelled")
    assert [(kind, payload.get("status")) for kind, payload in found] == [
        ("tool.started", None),
        ("tool.completed", "cancelled"),
    ]


def test_the_name_an_agent_tells_beside_the_protocol_is_used():
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "kind": "edit", "status": "in_progress"}
    found = taken({**call, "_meta": {"someone": {"toolName": "Edit"}}})
    assert found[0][1]["name"] == "Edit"


def test_plan_and_usage():
    found = taken(
        {
            "sessionUpdate": "plan",
            "entries": [{"content": "a", "priority": "high", "status": "pending"}, {"content": 1}],
        },
        {"sessionUpdate": "usage_update", "used": 5, "size": 100},
        {"sessionUpdate": "usage_update", "used": 7, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}},
        usage={"inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "thoughtTokens": None},
    )
    assert found[0][1]["steps"] == [{"text": "a", "status": "pending", "priority": "high"}]
    assert found[1][1]["tokens"] == {"context": 7, "input": 3, "output": 4, "total": 7}
    assert found[1][1]["cost"] == {"amount": 0.5, "currency": "USD"}


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"sessionUpdate": "tomorrow's kind", "x": [1]},
        {"sessionUpdate": "tool_call"},
        {"sessionUpdate": 3},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}},
    ],
)
def test_what_nobody_knows_is_kept_and_never_given_a_meaning(update):
    assert [kind for kind, _ in taken(update)] == ["provider.unknown"]


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "agent_message_chunk", "content": None},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}},
        {"sessionUpdate": "plan", "entries": None},
        {"sessionUpdate": "usage_update", "used": -1, "size": True, "cost": {"amount": -1, "currency": ""}},
        {"sessionUpdate": "available_commands_update", "availableCommands": []},
    ],
)
def test_what_says_nothing_makes_no_event(update):
    assert taken(update) == []


def test_a_message_at_the_limit_is_one_and_beyond_it_several(monkeypatch):
    monkeypatch.setattr(assembling, "MAX_MESSAGE_CHARACTERS", 10)
    assert [payload["text"] for _, payload in taken(text("agent_message_chunk", "x" * 10))] == ["x" * 10]
    found = taken(text("agent_message_chunk", "x" * 25))
    assert [len(payload["text"]) for _, payload in found] == [10, 10, 5]


def test_overlong_tool_texts_are_cut_and_say_so():
    limit = assembling.MAX_TOOL_TEXT
    assert trimmed("x" * limit) == "x" * limit
    assert trimmed({"a": ["x" * (limit + 1)]})["a"][0].endswith(f"… [{limit + 1} characters]")
    deep: Any = "end"
    for _ in range(100):
        deep = [deep]
    assert "items]" in str(trimmed(deep))
