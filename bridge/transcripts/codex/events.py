"""Events of Codex as entries: turns, errors, compactions. What repeats the response items is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.transcripts.foreign.neutral import Part, count_of, mapping, name_of, opaque, text_or_none, without_nothing
from bridge.transcripts.foreign.records import Record

#: Events at the beginning and the end of a turn.
TURN_EVENTS: Final = frozenset({"task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted"})
#: Events that say what response items, or other events, say as well.
REPEATED: Final = frozenset(
    {
        "user_message",
        "agent_message",
        "agent_reasoning",
        "agent_reasoning_raw_content",
        "agent_reasoning_section_break",
        "item_started",
        "item_completed",
        "raw_response_item",
        "exec_command_begin",
        "exec_command_end",
        "patch_apply_begin",
        "patch_apply_end",
        "mcp_tool_call_begin",
        "mcp_tool_call_end",
        "web_search_begin",
        "web_search_end",
        "view_image_tool_call",
        "turn_diff",
        "thread_settings_applied",
        "thread_rolled_back",
    }
)


def event_parts(payload: Mapping[str, Any], record: Record, turn: str | None) -> list[Part]:
    """Return the entries of an event."""
    kind = text_or_none(payload.get("type"))
    own = text_or_none(payload.get("turn_id")) or turn or "unknown"
    if kind in {"task_started", "turn_started"}:
        return [("turn.started", {"turn_id": own[:1024]}, None)]
    if kind in {"task_complete", "turn_complete"}:
        ended = without_nothing(duration_seconds=_seconds(payload.get("duration_ms")))
        return [("turn.completed", {"turn_id": own[:1024], "status": "completed", **ended}, None)]
    if kind == "turn_aborted":
        reason = name_of(payload.get("reason"), "aborted")
        return [("turn.completed", {"turn_id": own[:1024], "status": "cancelled", "reason": reason}, None)]
    if kind in {"error", "stream_error", "warning"}:
        code = mapping(payload.get("codex_error_info")) or payload.get("codex_error_info")
        text = text_or_none(payload.get("message")) or "an error"
        return [("error", {"message": text, "code": code if isinstance(code, str) and code else str(kind)}, None)]
    if kind == "context_compacted":
        return [("context.compacted", without_nothing(harness="codex", turn_id=turn), None)]
    if kind == "plan_update":
        steps = _steps(payload.get("plan"))
        if steps is not None:
            why = text_or_none(payload.get("explanation"))
            return [("plan.updated", without_nothing(steps=steps, explanation=why, turn_id=turn), None)]
    return [("provider.unknown", opaque(f"event_msg.{kind}"[:1024], record), None)]


def _steps(plan: Any) -> list[dict[str, Any]] | None:
    if not isinstance(plan, list):
        return None
    steps = []
    for step in plan:
        text = text_or_none(mapping(step).get("step"))
        if text is None:
            return None
        steps.append({"text": text, **without_nothing(status=text_or_none(mapping(step).get("status")))})
    return steps


def _seconds(value: Any) -> float | None:
    return count_of(value) / 1000 if count_of(value) else None
