"""What is needed to show a session and to follow it from there: one snapshot, with the cursor of its last event."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bridge.control.controller import Controller
from bridge.control.feed import event_cursor
from bridge.control.reading.views import entry_view, session_view
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.models import Cursor, Label, ListedEntry, Session
from bridge.conversations.store import iterate_listed, list_cursors, list_labels


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session at one moment.

    Parameters
    ----------
    entries
        Of all branches, in the order of sequence.
    has_more
        Whether later entries follow.
    event_cursor
        What is subscribed to from here on is what happened since.
    """

    session: Session
    entries: tuple[ListedEntry, ...]
    labels: tuple[Label, ...]
    cursors: tuple[Cursor, ...]
    has_more: bool
    event_cursor: str

    def to_json(self) -> dict[str, Any]:
        names: dict[str, list[str]] = {}
        for label in self.labels:
            names.setdefault(label.entry_id, []).append(label.name)
        return {
            "session": session_view(self.session),
            "active_entry_id": self.session.active_entry_id,
            "entries": [entry_view(entry, labels=names.get(entry.id, ())) for entry in self.entries],
            "labels": [{"name": label.name, "entry_id": label.entry_id} for label in self.labels],
            "cursors": [{"owner": cursor.owner, "leaf_entry_id": cursor.leaf_entry_id} for cursor in self.cursors],
            "hasMore": self.has_more,
            "event_cursor": self.event_cursor,
        }


def session_snapshot(
    controller: Controller, standpoint: Standpoint, session: str | None, *, after: int | None, limit: int
) -> Snapshot:
    """Return a session with a page of its entries, as they were at one moment.

    Parameters
    ----------
    after
        Entries whose sequence is higher; None means the last ones.
    limit
        At most so many.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        As ``find_session``.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        # The synthetic root, of sequence 0, is collapsed here as everywhere.
        start = max(0, found.next_sequence - 1 - limit if after is None else after)
        with closing(iterate_listed(connection, found.id, after_sequence=start)) as rows:
            page = list(islice(rows, limit + 1))
        return Snapshot(
            session=found,
            entries=tuple(page[:limit]),
            labels=tuple(list_labels(connection, found.id)),
            cursors=tuple(list_cursors(connection, found.id)),
            has_more=len(page) > limit,
            event_cursor=event_cursor(connection),
        )
