"""What every door shows of sessions and entries: objects with the published field names.

An entry of a version that this Bridge does not read is shown, marked as unreadable, with its stored text and
without a ``payload``: nobody can take for meaning what has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bridge.conversations.models import Entry, ListedEntry, Node, Session, stamp_to_json
from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import BridgeError, NotCanonical
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.interpretation import interpret, require_readable
from bridge.semantics.kinds import CURRENT_VERSION
from bridge.semantics.stamps import RepositoryState, UnknownReason

#: Key of an imported entry's source that names the parent which was not there.
MISSING_PARENT: Final = "missing_parent"
MISSING_PARENT_MARK: Final = f'"{MISSING_PARENT}":'
#: Longest one-line summary of an entry, in characters.
MAX_SUMMARY_CHARACTERS: Final = 300
#: Payload fields that say in words what an entry is about, the first present one wins.
TEXT_FIELDS: Final = (
    "text",
    "summary",
    "message",
    "objective",
    "title",
    "reason",
    "status",
    "model",
    "effort",
    "path",
    "harness",
    "name",
    "raw_type",
    "turn_id",
    "approval_id",
    "delegation_id",
)
#: Fields of a tool's input that say what the call is about.
_INPUT_FIELDS: Final = ("command", "cmd", "path", "file_path", "pattern", "query", "url")


def session_view(session: Session) -> dict[str, Any]:
    """Return a session as an object; ``entries`` leaves the synthetic root out."""
    return {
        "id": session.id,
        "session_id": session.id,
        "kind": session.kind,
        "workspace_id": session.workspace_id,
        "agent_id": session.agent_id,
        "harness": session.harness,
        "label": session.label,
        "status": session.status,
        "parent_session_id": session.parent_session_id,
        "parent_relation": session.parent_relation,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "active_entry_id": session.active_entry_id,
        "entries": session.next_sequence - 1,
    }


def entry_view(entry: Entry | ListedEntry, *, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Return an entry as an object, with ``readable``; an unreadable one says why under ``unreadable``.

    A listed entry with a long payload has null for it, and ``payload_bytes`` says how long it is.
    """
    problem = unreadable(entry)
    if problem is None:
        shown = {**entry.to_json(), "labels": list(labels), "readable": True, "unreadable": None}
        if isinstance(entry, ListedEntry) and entry.is_long:
            shown["payload_bytes"] = entry.payload_bytes
        return shown
    return {
        **entry.fields_to_json(None),
        "payload_text": entry.payload_text,
        "labels": list(labels),
        "readable": False,
        "unreadable": problem.to_json()["error"],
    }


def node_view(node: Node, *, labels: Sequence[str], active: bool, is_head: bool, children: int) -> dict[str, Any]:
    """Return the place of an entry in its session's tree."""
    return {
        "id": node.id,
        "session_id": node.session_id,
        "parent_entry_id": node.parent_entry_id,
        "sequence": node.sequence,
        "semantic_schema_version": node.semantic_schema_version,
        "kind": node.kind,
        "context_visibility": node.context_visibility,
        "created_at": node.created_at,
        "labels": list(labels),
        "active": active,
        "is_head": is_head,
        "children": children,
    }


def stamp_view(entry: Entry, state: RepositoryState | UnknownReason | None) -> dict[str, Any]:
    """Return an entry's stamp by value: the state's own fields beside its digest, or why it is unknown.

    Parameters
    ----------
    state
        The stored state, why it cannot be used, or None if the stamp names none.
    """
    shown = stamp_to_json(entry.stamp)
    if isinstance(state, RepositoryState):
        return {**shown, **state.to_json()}
    if state is not None:
        shown["unknown"] = str(state)
    return shown


def unreadable(entry: Entry | ListedEntry) -> BridgeError | None:
    """Return why an entry cannot be given a meaning here: its version, or damage; None if it can.

    A long payload that a list does not read is told by its outline.
    """
    try:
        require_readable(entry.semantic_schema_version, entry_id=entry.id)
        _ = parse_json(shown_text(entry)) if isinstance(entry, ListedEntry) and entry.is_long else entry.payload
    except (UnsupportedSemanticVersion, NotCanonical) as error:
        return error
    return None


def shown_text(entry: Entry | ListedEntry) -> str:
    """Return the payload's text, or the outline of a long one that a list has not read."""
    return entry.shown_text if isinstance(entry, ListedEntry) else entry.payload_text


def summary_of(entry: Entry | ListedEntry) -> str:
    """Return what an entry says, on one line of at most :data:`MAX_SUMMARY_CHARACTERS`; empty if it says nothing.

    An unreadable entry has none. Of a listed entry with a long payload it is what the outline of that says, else how
    long it is. The text is as recorded: whoever shows it on a terminal escapes it.
    """
    problem = unreadable(entry)
    if problem is not None:
        return ""
    is_long = isinstance(entry, ListedEntry) and entry.is_long
    payload = parse_json(shown_text(entry)) if is_long else entry.payload
    if entry.semantic_schema_version != CURRENT_VERSION:
        text = shown_text(entry)
        payload = interpret(entry.semantic_schema_version, entry.kind, text, entry_id=entry.id).payload
    words = _one_line(_words(entry.kind, payload)) if isinstance(payload, dict) else ""
    missing = gap_before(entry)
    if missing is not None:
        words = _one_line(f"(gap: {missing}, which came before, is not here) {words}")
    return words or (f"(long text, {entry.payload_bytes} bytes)" if isinstance(entry, ListedEntry) and is_long else "")


def gap_before(entry: Entry | ListedEntry) -> str | None:
    """Return what an imported entry named as its parent, if that was not there: what came before it is missing."""
    text = shown_text(entry)
    # Most entries have none: a look at the text costs little, reading it does.
    if MISSING_PARENT_MARK not in text or unreadable(entry) is not None:
        return None
    payload = parse_json(text)
    meta = payload.get("provider_meta") if isinstance(payload, dict) else None
    source = meta.get("source") if isinstance(meta, dict) else None
    missing = source.get(MISSING_PARENT) if isinstance(source, dict) else None
    return missing if isinstance(missing, str) else None


def _words(kind: str, payload: dict[str, Any]) -> str:
    if kind.startswith("tool."):
        return " ".join(filter(None, (_text(payload, "name"), _about(payload), _text(payload, "status"))))
    if kind.startswith("delegation."):
        return _delegation_words(payload)
    if kind == "worker.result":
        return f"{_text(payload, 'status')}: {_text(payload, 'summary')}"
    restoration = payload.get("restoration")
    if kind == "session.status" and isinstance(restoration, dict):
        return ": ".join(filter(None, (_text(restoration, "mode"), _text(restoration, "reason")))).replace("_", " ")
    for name in TEXT_FIELDS:
        found = _text(payload, name)
        if found:
            return found
    return ""


def _delegation_words(payload: dict[str, Any]) -> str:
    request = payload.get("request")
    if isinstance(request, dict):
        parts = (_text(request, "name"), _text(request, "objective"))
        return ": ".join(filter(None, parts)) or _text(payload, "delegation_id")
    return _text(payload, "reason") or _text(payload, "delegation_id")


def _about(payload: dict[str, Any]) -> str:
    told = payload.get("input")
    if not isinstance(told, dict):
        return ""
    return next((found for found in (_text(told, name) for name in _INPUT_FIELDS) if found), "")


def _text(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    return value.strip() if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * MAX_SUMMARY_CHARACTERS].split())
    return line if len(line) <= MAX_SUMMARY_CHARACTERS else line[: MAX_SUMMARY_CHARACTERS - 1] + "…"
