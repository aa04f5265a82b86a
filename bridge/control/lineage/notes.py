"""Use case: notes. Each is an entry of the session that its sender speaks from; nothing is written anywhere else.

Reading goes over all branches of a session, and where it is asked for on through the sessions that it continues. What
somebody joined by a delegation has addressed to the session's agent is handed over beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.sessions import AppendRequest, append_entry
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.listing.store import newest_note_ids
from bridge.conversations.models import Entry, Session
from bridge.conversations.store import get_entry, get_session, list_sessions
from bridge.lineage.descent import Stop, ancestors
from bridge.semantics.interpretation import interpret
from bridge.storage.transaction import Connection

KIND: Final = "note"
#: What stands for the session that the present one continues.
PREVIOUS: Final = "previous"
#: The recipient that means whoever reads the session.
EVERYBODY: Final = "*"
DEFAULT_TYPE: Final = "inform"
#: Notes of one answer, unless another number is asked for, and at most.
DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200
#: Longest note that is taken, in characters.
MAX_NOTE_CHARACTERS: Final = 16_000
#: Bytes of text that one answer holds; the oldest notes are left out for it, and a longer single one is cut.
MAX_NOTES_BYTES: Final = 128 * 1024
#: Sessions joined by delegations that are looked through for what is addressed to an agent, the last touched ones.
MAX_JOINED: Final = 32


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it was left."""

    id: str
    session_id: str
    sequence: int
    created_at: str
    text: str
    sender: str | None
    recipient: str
    type: str
    is_cut: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "session_id": self.session_id,
            "sequence": self.sequence,
            "created_at": self.created_at,
            "sender": self.sender,
            "recipient": self.recipient,
            "type": self.type,
            "text": self.text,
            "cut": self.is_cut,
        }


@dataclass(frozen=True, slots=True)
class Notes:
    """What was found.

    Parameters
    ----------
    session_id
        The session that was read; None if the one before was asked for and there is none.
    notes
        Of each session in the order of sequence, an earlier session's first.
    received
        What others have addressed to the session's agent, in the order of time.
    has_older
        Whether older notes were left out.
    stop
        Why the way back through the sessions ended early; None if it did not.
    """

    session_id: str | None
    notes: tuple[Note, ...]
    received: tuple[Note, ...]
    has_older: bool
    stop: Stop | None

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "notes": [note.to_json() for note in self.notes],
            "received": [note.to_json() for note in self.received],
            "hasOlder": self.has_older,
            "stop": None if self.stop is None else str(self.stop),
        }


@dataclass(frozen=True, slots=True)
class Predecessors:
    """The sessions that one continues, the last one first, and why the way back ended early."""

    sessions: tuple[Session, ...]
    stop: Stop | None


def predecessors(connection: Connection, session: Session) -> Predecessors:
    """Return the sessions that a session continues: chats before a chat, ten at most.

    A worker does not continue its orchestrator, nor a fork its origin.
    """
    found = ancestors(session, partial(get_session, connection))
    line: list[Session] = []
    current = session
    for parent in found.sessions:
        if current.parent_relation != "continued" or {current.kind, parent.kind} != {"chat"}:
            return Predecessors(tuple(line), None)
        line.append(parent)
        current = parent
    return Predecessors(tuple(line), found.stop)


def write_note(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    text: str,
    *,
    sender: str | None = None,
    recipient: str = EVERYBODY,
    note_type: str = DEFAULT_TYPE,
) -> Note:
    """Leave a note in a session.

    Parameters
    ----------
    sender
        Who says it; the session's agent, or the session itself, unless given.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If the session cannot be told.
    InvalidPayload, NotCanonical
        If the text is empty or no text.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
    payload = {
        "text": text,
        "sender": sender or found.agent_id or found.id,
        "recipient": recipient,
        "type": note_type,
    }
    appended = append_entry(controller, standpoint, found.id, AppendRequest(kind=KIND, payload=payload))
    with controller.store.read() as connection:
        note = _note(connection, found.id, appended.entry.id)
    if note is None:
        raise LookupError(f"the note {appended.entry.id} was written and is not there")
    return note


def read_notes(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    of: str | None = None,
    include_previous: bool = False,
    limit: int = DEFAULT_LIMIT,
) -> Notes:
    """Return notes, the newest ``limit`` of them, oldest first.

    Parameters
    ----------
    session
        The session from which is read.
    of
        None for that one, :data:`PREVIOUS` for the one it continues, or a reference to another one.
    include_previous
        Whether to go on with the sessions before, as long as the limit has room.
    limit
        Of all sessions together; at most :data:`MAX_LIMIT`.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If a session cannot be told.
    """
    limit = max(1, min(limit, MAX_LIMIT))
    with controller.store.read() as connection:
        own = require_session(connection, find_session(connection, standpoint, session))
        start: Session | None = own
        if of == PREVIOUS:
            start = next(iter(predecessors(connection, own).sessions), None)
        elif of is not None:
            start = require_session(connection, find_session(connection, standpoint, of))
        if start is None:
            return Notes(None, (), (), has_older=False, stop=None)
        before = predecessors(connection, start) if include_previous else Predecessors((), None)
        newest_first: list[Note] = []
        for one in (start, *before.sessions):
            # One more than wanted says whether there are older ones.
            left = limit + 1 - len(newest_first)
            if left <= 0:
                break
            ids = newest_note_ids(connection, one.id, left)
            newest_first += _found(_note(connection, one.id, entry_id) for entry_id in ids)
        received = _received(connection, own, limit) if start.id == own.id else []
    kept = _bounded(newest_first[:limit])
    return Notes(
        start.id,
        tuple(reversed(kept)),
        tuple(reversed(_bounded(received))),
        has_older=len(kept) < len(newest_first),
        stop=before.stop,
    )


def last_note(connection: Connection, session_id: str) -> Note | None:
    """Return the last note of a session."""
    ids = newest_note_ids(connection, session_id, 1)
    return _note(connection, session_id, ids[0]) if ids else None


def _received(connection: Connection, session: Session, limit: int) -> list[Note]:
    """Return what those who are joined to a session by a delegation have addressed to its agent, the newest first."""
    if session.agent_id is None:
        return []
    joined = [
        one
        for one in list_sessions(connection, parent_session_id=session.id, limit=MAX_JOINED)
        if one.parent_relation == "delegated"
    ]
    if session.parent_relation == "delegated" and session.parent_session_id is not None:
        parent = get_session(connection, session.parent_session_id)
        joined += [] if parent is None else [parent]
    found = [
        note
        for one in joined
        for note in _found(_note(connection, one.id, entry) for entry in newest_note_ids(connection, one.id, MAX_LIMIT))
        if note.recipient == session.agent_id
    ]
    return sorted(found, key=lambda note: (note.created_at, note.id), reverse=True)[:limit]


def _note(connection: Connection, session_id: str, entry_id: str) -> Note | None:
    """Return a note; None for one that was written under a contract which has no notes, or none that can be read."""
    entry = get_entry(connection, session_id, entry_id)
    return None if entry is None else _read(entry)


def _read(entry: Entry) -> Note | None:
    meaning = interpret(entry.semantic_schema_version, entry.kind, entry.payload_text, entry_id=entry.id)
    if meaning.opaque:
        return None
    payload = meaning.payload
    return Note(
        id=entry.id,
        session_id=entry.session_id,
        sequence=entry.sequence,
        created_at=entry.created_at,
        text=str(payload.get("text", "")),
        sender=payload.get("sender") or payload.get("author"),
        recipient=str(payload.get("recipient", EVERYBODY)),
        type=str(payload.get("type", DEFAULT_TYPE)),
    )


def _found(notes: Iterable[Note | None]) -> list[Note]:
    return [note for note in notes if note is not None]


def _bounded(newest_first: list[Note]) -> list[Note]:
    """Return as many of the newest as fit into one answer; of the newest at least its beginning."""
    kept: list[Note] = []
    size = 0
    for note in newest_first:
        size += len(note.text.encode())
        if size > MAX_NOTES_BYTES:
            if not kept:
                kept.append(_cut(note))
            break
        kept.append(note)
    return kept


def _cut(note: Note) -> Note:
    text = note.text.encode()[:MAX_NOTES_BYTES].decode(errors="ignore")
    return Note(**{name: getattr(note, name) for name in Note.__slots__} | {"text": text, "is_cut": True})
