"""From an active path to what an agent gets as its restored context. Pure: entries in, messages out.

Only eligible entries whose meaning is known are projected; stamps, ids of the database and bookkeeping kinds
are not. The newest compaction that fits the path is the boundary: its summary stands for all that lies before
its first retained entry. One that does not fit is passed over for an older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.conversations.models import Entry
from bridge.semantics.interpretation import Interpretation, interpret
from bridge.semantics.kinds import ELIGIBLE

#: Kinds that steer or describe the conversation; what they say reaches the context in other ways, if at all.
BOOKKEEPING_KINDS: Final = frozenset(
    {
        "session.root",
        "session.status",
        "session.resume_failed",
        "turn.started",
        "turn.completed",
        "usage.updated",
        "model.changed",
        "effort.changed",
        "checkpoint",
        "compaction",
        "compaction.requested",
        "compaction.failed",
        "context.compacted",
        "delegation.approved",
        "delegation.rejected",
        "approval.requested",
        "approval.resolved",
    }
)
#: Payload fields that are kept for inspection and never told to an agent.
_STRIPPED_FIELDS: Final = ("provider_meta",)


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of a projected context: an entry's kind and meaning, without stamp and provider metadata."""

    entry_id: str
    kind: str
    payload: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"entry_id": self.entry_id, "kind": self.kind, "payload": self.payload}


@dataclass(frozen=True, slots=True)
class Projection:
    """A projected context.

    Parameters
    ----------
    messages
        What was said and done, oldest first. With a boundary, the compaction comes first.
    boundary_entry_id
        The compaction that stands for what lies before; None if nothing was left out.
    model, effort
        The latest on the path, None if never set.
    """

    messages: tuple[ContextMessage, ...]
    boundary_entry_id: str | None
    model: str | None
    effort: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "messages": [message.to_json() for message in self.messages],
            "boundary_entry_id": self.boundary_entry_id,
            "model": self.model,
            "effort": self.effort,
        }


def project(path: Sequence[Entry]) -> Projection:
    """Return the context that a path, root first, restores.

    Raises
    ------
    UnsupportedSemanticVersion
        If any entry of the path was written under a version that this Bridge does not read: a context with a
        hole that nobody sees would be worse than none.
    """
    meanings = [
        interpret(entry.semantic_schema_version, entry.kind, entry.payload_text, entry_id=entry.id) for entry in path
    ]
    start, boundary = _boundary(path, meanings)
    messages = []
    if boundary is not None:
        messages.append(_message(path[boundary], meanings[boundary]))
    messages.extend(
        _message(entry, meaning)
        for entry, meaning in zip(path[start:], meanings[start:], strict=True)
        if _is_projected(entry, meaning)
    )
    return Projection(
        messages=tuple(messages),
        boundary_entry_id=None if boundary is None else path[boundary].id,
        model=_latest(meanings, "model.changed", "model"),
        effort=_latest(meanings, "effort.changed", "effort"),
    )


def _boundary(path: Sequence[Entry], meanings: Sequence[Interpretation]) -> tuple[int, int | None]:
    """Return where the retained part begins, and the index of the compaction that says so."""
    places = {entry.id: index for index, entry in enumerate(path)}
    for index in range(len(path) - 1, -1, -1):
        meaning = meanings[index]
        if meaning.kind != "compaction" or meaning.opaque or path[index].context_visibility != ELIGIBLE:
            continue
        # A summary written for another branch does not speak of this one.
        start = places.get(meaning.payload["first_retained_entry_id"])
        if start is not None and start <= index:
            return start, index
    return 0, None


def _is_projected(entry: Entry, meaning: Interpretation) -> bool:
    visibility = meaning.visibility_override or entry.context_visibility
    return visibility == ELIGIBLE and not meaning.opaque and meaning.kind not in BOOKKEEPING_KINDS


def _message(entry: Entry, meaning: Interpretation) -> ContextMessage:
    payload = {name: value for name, value in meaning.payload.items() if name not in _STRIPPED_FIELDS}
    return ContextMessage(entry.id, meaning.kind, payload)


def _latest(meanings: Sequence[Interpretation], kind: str, field: str) -> str | None:
    for meaning in reversed(meanings):
        if meaning.kind == kind and not meaning.opaque:
            return str(meaning.payload[field])
    return None
