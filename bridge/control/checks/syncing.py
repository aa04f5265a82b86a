"""Use case: what changed in a session since somebody was given its root. Bytes follow the change, not the session.

Each root that is handed out is stored with the sequence that it covers and the length of the audit chain then. So a
root alone says what its holder lacks: the entries behind that sequence, the branch points above them, where the head
is, and the labels that events since then speak of. A root that nobody was given here means: everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from bridge.control.controller import Controller
from bridge.control.reading.views import entry_view
from bridge.control.recording import RecordingTransaction
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.models import ListedEntry
from bridge.conversations.soundness import require_sound
from bridge.conversations.store import iterate_listed, list_labels
from bridge.integrity.chain import body_of
from bridge.integrity.removal.store import HandedRoot, add_handed_root, handed_root
from bridge.integrity.store import event_count, events_since
from bridge.integrity.subtrees import roots
from bridge.integrity.subtrees.branching import BranchPoint, changed_branch_points
from bridge.integrity.verify import seal_root
from bridge.storage.transaction import Connection

#: Entries of one answer, unless asked for fewer.
MAX_ENTRIES: Final = 1000
_LABEL_EVENTS: Final = ("label.set", "label.removed")


@dataclass(frozen=True, slots=True)
class Changes:
    """What somebody lacks of a session.

    Parameters
    ----------
    status
        ``current``: no entry; ``changed``: those behind what the given root covers; ``full``: all, since the root is
        not known here.
    session_root
        The root now; None while there is more to fetch.
    sequence
        The last sequence of the entries here.
    labels
        Names that changed, with the entry they name now; None for one that is gone. Of a full listing all.
    """

    session_id: str
    status: Literal["current", "changed", "full"]
    session_root: str | None
    sequence: int
    active_entry_id: str
    entries: tuple[ListedEntry, ...]
    branch_points: tuple[BranchPoint, ...]
    labels: dict[str, str | None]
    has_more: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "status": self.status,
            "session_root": self.session_root,
            "sequence": self.sequence,
            "active_entry_id": self.active_entry_id,
            "entries": [entry_view(entry) for entry in self.entries],
            "branch_points": [point.to_json() for point in self.branch_points],
            "labels": [{"name": name, "entry_id": target} for name, target in sorted(self.labels.items())],
            "hasMore": self.has_more,
        }


def changes_since(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    session_root: str | None,
    known: int | None = None,
    limit: int = MAX_ENTRIES,
) -> Changes:
    """Return what changed in a session since a root of it was handed out, and hand out the one of now.

    Parameters
    ----------
    session_root
        What the caller holds; None if that is nothing, or only a part.
    known
        The last sequence that the caller holds. With a root it must be what that covers, or everything is listed;
        without one the listing goes on behind it.
    limit
        At most so many entries; with ``has_more`` the next call gives no root, and the last sequence as known.

    Raises
    ------
    TreeUnsound
        If the entries do not form one tree.
    SessionQuarantined
        If the session was found damaged.
    SessionNotFound, AmbiguousReference, InvalidReference
        If it cannot be found.
    """
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
        require_sound(connection, session_id)
        held = None if session_root is None else handed_root(connection, session_id, session_root)
        if held is not None and known not in (None, held.sequence):
            held = None
        after = held.sequence if held is not None else -1
        if session_root is None and known is not None:
            after = known
        events = event_count(connection, session_id)
        head = require_session(connection, session_id).active_entry_id
        entries = tuple(_first(iterate_listed(connection, session_id, after_sequence=after), limit + 1))
        has_more = len(entries) > limit
        entries = entries[:limit]
        # A root is of the whole session: while there is more to fetch nobody can use it.
        reading = None if has_more else roots.read(connection, session_id)
        points = [] if has_more else changed_branch_points(connection, session_id, after)
        labels = _labels(connection, session_id, held)
    if reading is not None and (held is None or session_root != reading.root):
        controller.recorder.transact(partial(_hand_out, reading=reading, events=events))
    return Changes(
        session_id=session_id,
        status="full" if held is None else "changed" if entries else "current",
        session_root=None if reading is None else reading.root,
        sequence=entries[-1].sequence if entries else after,
        active_entry_id=head,
        entries=entries,
        branch_points=tuple(points),
        labels=labels,
        has_more=has_more,
    )


def _hand_out(recording: RecordingTransaction, reading: roots.Reading, events: int) -> None:
    roots.keep(recording.tx, reading)
    seal_root(recording.tx, reading.session_id, reading.root, reading.exact_through, recording.moment)
    add_handed_root(recording.tx, reading.session_id, reading.root, HandedRoot(reading.exact_through, events))


def _first(entries: Iterator[ListedEntry], limit: int) -> Iterator[ListedEntry]:
    for _, entry in zip(range(limit), entries, strict=False):
        yield entry


def _labels(connection: Connection, session_id: str, held: HandedRoot | None) -> dict[str, str | None]:
    present: dict[str, str | None] = {label.name: label.entry_id for label in list_labels(connection, session_id)}
    if held is None:
        return present
    texts = events_since(connection, session_id, held.events, _LABEL_EVENTS)
    names = [str(body_of(text).get("name")) for text in texts]
    return {name: present.get(name) for name in names}
