"""What an entry becomes in a context: one message, or none; and the markers where a call or its result is missing."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple

from bridge.foundation.canonical import canonical_bytes
from bridge.semantics.interpretation import meaning_of
from bridge.semantics.kinds import CURRENT_VERSION

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
CALL: Final = "tool.started"
RESULT: Final = "tool.completed"
#: Payload fields that are kept for inspection and never told to an agent.
_STRIPPED: Final = "provider_meta"
#: Bytes of a message's frame in the text: rule, blanks, brackets, line ends, and one escape.
_FRAME_BYTES: Final = 16


class Marker(StrEnum):
    """Why a message stands in a context that no entry was recorded for."""

    #: A tool call without a result on this path, or none near enough to belong to it.
    NO_RESULT = "no_result"
    #: A tool's result without its call.
    NO_CALL = "no_call"


class ContextMessage(NamedTuple):
    """One message of a projected context: an entry's kind and meaning, without stamp and provider metadata.

    ``marker`` says that it stands in for what was not recorded; ``entry_id`` is then that of the call or result
    that lacks its other half.
    """

    entry_id: str
    kind: str
    payload: dict[str, Any]
    marker: Marker | None = None

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"entry_id": self.entry_id, "kind": self.kind, "payload": self.payload}
        return shown if self.marker is None else {**shown, "marker": str(self.marker)}


#: Half the cost of calling the class, ten thousand times in a long path.
_new = tuple.__new__


def message_of(entry_id: str, version: int, kind: str, payload_text: str) -> ContextMessage | None:
    """Return the message of an eligible entry; None if it is bookkeeping or has no meaning.

    Raises
    ------
    UnsupportedSemanticVersion
        If the entry was written under a version that this Bridge does not read.
    """
    if kind in BOOKKEEPING_KINDS and version == CURRENT_VERSION:
        return None
    payload = meaning_of(version, kind, payload_text, entry_id=entry_id)
    if payload is None or kind in BOOKKEEPING_KINDS:
        return None
    if _STRIPPED in payload:
        del payload[_STRIPPED]
    return _new(ContextMessage, (entry_id, kind, payload, None))


def no_result(call: ContextMessage) -> ContextMessage:
    """Return what closes a call that has no result."""
    payload = {"tool_call_id": call.payload["tool_call_id"], "name": call.payload["name"], "status": "missing"}
    return ContextMessage(call.entry_id, RESULT, payload, Marker.NO_RESULT)


def no_call(result: ContextMessage) -> ContextMessage:
    """Return what opens a result that has no call."""
    payload = {"tool_call_id": result.payload["tool_call_id"], "name": result.payload["name"], "status": "missing"}
    return ContextMessage(result.entry_id, CALL, payload, Marker.NO_CALL)


def bytes_of(message: ContextMessage) -> int:
    """Return no fewer bytes than a message takes in the text (see ``contexttext``)."""
    frame = len(message.entry_id) + len(message.kind.encode()) + _FRAME_BYTES
    return frame + len(canonical_bytes(message.payload)) + (0 if message.marker is None else MARKER_BYTES)


#: Bytes that the words of a marker take at most.
MARKER_BYTES: Final = 64
