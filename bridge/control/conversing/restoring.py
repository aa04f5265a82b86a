"""How an agent comes by what it is to know of a conversation, before a turn begins.

In this order: it knows already (hot), its own session knows (native resume), it is told what is recorded (checkpoint
restored), or there is nothing to tell (fresh). What decides is the entry that the agent's knowledge leads up to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.control.controller import Controller
from bridge.control.conversing import store as rows
from bridge.conversations.models import Entry
from bridge.conversations.paths import ancestors, path_to
from bridge.conversations.projection import BOOKKEEPING_KINDS, project
from bridge.foundation.canonical import canonical_text
from bridge.semantics.kinds import ELIGIBLE
from bridge.storage.transaction import Connection

#: Stands before what an agent is told of a conversation that it does not know.
INTRODUCTION: Final = (
    "The record of this conversation so far, oldest first. It was said and done before this session began."
)
#: Entries that are looked at upwards from the head for one that an agent knows.
MAX_LOOKED_AT: Final = 200


class RestorationMode(StrEnum):
    """How an agent knows."""

    HOT = "hot"
    NATIVE_RESUME = "native_resume"
    CHECKPOINT_RESTORED = "checkpoint_restored"
    FRESH = "fresh"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an agent's knowledge is, seen from the head.

    Parameters
    ----------
    is_current
        Whether nothing that an agent would be told lies between the entry and the head.
    native_session_id
        A session of the harness itself that is current; None if there is none.
    """

    head_entry_id: str
    is_current: bool
    native_session_id: str | None


def standing_of(
    connection: Connection, session_id: str, head_entry_id: str, *, known: str | None, harness: str, directory: str
) -> Standing:
    """Return whether an agent that knows the conversation up to ``known`` can go on from the head."""
    if known == head_entry_id:
        return Standing(head_entry_id, is_current=True, native_session_id=None)
    candidates = [head_entry_id]
    for entry in ancestors(connection, head_entry_id, limit=MAX_LOOKED_AT):
        candidates.append(entry.id)
        if _is_told(entry):
            break
        if entry.parent_entry_id is not None:
            candidates.append(entry.parent_entry_id)
    if known is not None and known in candidates:
        return Standing(head_entry_id, is_current=True, native_session_id=None)
    natives = rows.natives_at(connection, session_id, harness, directory=directory, leaf_entry_ids=candidates)
    native = next((natives[entry] for entry in candidates if entry in natives), None)
    return Standing(head_entry_id, is_current=False, native_session_id=native)


def _is_told(entry: Entry) -> bool:
    return entry.context_visibility == ELIGIBLE and entry.kind not in BOOKKEEPING_KINDS


def restored_text(controller: Controller, session_id: str, head_entry_id: str) -> str:
    """Return what is recorded up to an entry, as an agent is told it; empty if there is nothing to tell. Blocking."""
    with controller.store.read() as connection:
        projection = project(path_to(connection, head_entry_id))
    if not projection.messages:
        return ""
    parts = [INTRODUCTION]
    for message in projection.messages:
        words = next(
            (message.payload[name] for name in ("text", "summary", "message") if name in message.payload), None
        )
        parts.append(f"[{message.kind}] {words if isinstance(words, str) else canonical_text(message.payload)}")
    return "\n\n".join(parts)
