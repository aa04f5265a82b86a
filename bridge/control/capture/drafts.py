"""What a host's event becomes in the conversation. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from bridge.adapters.hosts.events import HostEvent, Moment, Source, ToolUse
from bridge.control.capture.model import Captured
from bridge.conversations.models import EntryDraft
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.errors import NotCanonical

#: Characters kept of an event that no entry can hold as it is.
MAX_KEPT: Final = 2_000
#: How a session is said to go on, by where it came from.
_STARTS: Final = {
    Source.STARTUP: "started",
    Source.RESUME: "resumed",
    Source.CLEAR: "started",
    Source.COMPACT: "compacted",
    Source.FORK: "resumed",
}


def drafts_of(event: HostEvent, captured: Captured, delivery_id: str) -> list[EntryDraft]:
    """Return the entries that an event becomes, in their order; recorded twice, each is there once."""
    found = list(_payloads(event, captured))
    return [
        EntryDraft(
            kind=kind,
            payload=payload,
            cursor=captured.cursor,
            external_id=external_id(delivery_id, number),
            external_source=captured.source,
        )
        for number, (kind, payload) in enumerate(found)
    ]


def external_id(delivery_id: str, number: int = 0) -> str:
    """Return the external id of an entry of a delivered event."""
    return f"{delivery_id}:{number}"


def opaque(draft: EntryDraft, why: str) -> EntryDraft:
    """Return what is recorded in place of an entry that cannot be: nothing is lost silently."""
    return EntryDraft(
        kind="provider.unknown",
        payload={"raw_type": draft.kind, "raw": why[:MAX_KEPT]},
        cursor=draft.cursor,
        external_id=draft.external_id,
        external_source=draft.external_source,
    )


def turn_end(captured: Captured, turn_id: str, *, is_whole: bool = True) -> EntryDraft:
    """Return the end of a turn; ``is_whole`` is false if the host never told that it ended."""
    payload: dict[str, Any] = {"turn_id": turn_id, "status": "completed", "native_session_id": captured.native_id}
    if not is_whole:
        payload |= {"status": "cancelled", "reason": "The host told of no end."}
    return EntryDraft(kind="turn.completed", payload=payload, cursor=captured.cursor)


def turn_start(captured: Captured) -> EntryDraft:
    """Return the beginning of a turn without a prompt: a hook sent the agent back to work after its end."""
    payload = {"turn_id": captured.turn_id, "native_session_id": captured.native_id}
    return EntryDraft(kind="turn.started", payload=payload, cursor=captured.cursor)


def turn_id_of(event: HostEvent, delivery_id: str) -> str:
    """Return the id of the turn that a prompt begins."""
    return event.turn if event.turn is not None and event.moment is Moment.PROMPT else f"{event.host}-{delivery_id}"


def call_id_of(tool: ToolUse, turn_id: str | None) -> str:
    """Return what joins a call's start to its end: the host's id, else one made of what both of them say."""
    if tool.call_id is not None:
        return tool.call_id
    try:
        text = canonical_bytes([tool.name, tool.input, turn_id])
    except NotCanonical:
        text = repr([tool.name, turn_id]).encode("utf-8", "surrogatepass")
    return f"call-{hashlib.sha256(text).hexdigest()[:16]}"


def _payloads(event: HostEvent, captured: Captured) -> Iterator[tuple[str, dict[str, Any]]]:
    turn = {} if captured.turn_id is None else {"turn_id": captured.turn_id}
    moment = event.moment
    if moment is Moment.SESSION_STARTED:
        yield "session.status", {"status": _STARTS[event.source or Source.STARTUP]}
    elif moment is Moment.PROMPT:
        yield "user.message", {"text": event.text or "", **turn}
        started: dict[str, Any] = {**turn, "native_session_id": captured.native_id}
        yield "turn.started", started if event.model is None else {**started, "model": event.model}
    elif event.tool is not None:
        yield _tool(event, event.tool, captured)
    elif moment in {Moment.TURN_ENDED, Moment.SUBAGENT_ENDED}:
        if event.text is not None:
            yield "assistant.message", {"text": event.text, **turn}
        if moment is Moment.SUBAGENT_ENDED:
            yield "session.status", {"status": "ended"}
        elif event.text is None:
            yield "session.status", {"status": "idle", **turn}
    elif moment is Moment.COMPACTED:
        yield "context.compacted", _with_reason({"harness": event.host, **turn}, event)
    else:
        status = {Moment.COMPACTING: "compacting", Moment.SESSION_ENDED: "ended", Moment.SUBAGENT_STARTED: "started"}
        yield "session.status", _with_reason({"status": status.get(moment, str(moment)), **turn}, event)


def _with_reason(payload: dict[str, Any], event: HostEvent) -> dict[str, Any]:
    return payload if event.text is None else {**payload, "reason": event.text}


def _tool(event: HostEvent, tool: ToolUse, captured: Captured) -> tuple[str, dict[str, Any]]:
    payload: dict[str, Any] = {"tool_call_id": call_id_of(tool, captured.turn_id), "name": tool.name}
    if captured.turn_id is not None:
        payload["turn_id"] = captured.turn_id
    if tool.paths_read:
        payload["paths_read"] = list(tool.paths_read)
    if tool.paths_written:
        payload["paths_written"] = list(tool.paths_written)
    if event.moment is Moment.TOOL_STARTED:
        return "tool.started", {**payload, "input": tool.input}
    payload |= {"output": tool.output, "status": tool.status or "completed"}
    if tool.duration_seconds is not None:
        payload["duration_seconds"] = tool.duration_seconds
    return "tool.completed", payload
