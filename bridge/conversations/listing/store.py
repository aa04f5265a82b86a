"""Queries for lists: entries by id and by the page, without long texts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, func, select

from bridge.conversations.models import ListedEntry, Node
from bridge.conversations.store import LISTED_COLUMNS, NODE_COLUMNS
from bridge.storage.tables import session_entries

_E = session_entries.c
#: Ids asked for at a time.
_PAGE = 500


def entries_by_id(connection: Connection, session_id: str, ids: Sequence[str]) -> dict[str, ListedEntry]:
    """Return entries of a session by their ids; what there is not is left out."""
    found: dict[str, ListedEntry] = {}
    for start in range(0, len(ids), _PAGE):
        query = select(*LISTED_COLUMNS).where(_E.session_id == session_id, _E.id.in_(ids[start : start + _PAGE]))
        for row in connection.execute(query):
            entry = ListedEntry.from_row(row)
            found[entry.id] = entry
    return found


def newest_entries(
    connection: Connection, session_id: str, *, before_sequence: int | None, after_sequence: int, limit: int
) -> list[ListedEntry]:
    """Return the last entries of a session between two sequences, both left out, the last one first."""
    query = select(*LISTED_COLUMNS).where(*_between(session_id, before_sequence, after_sequence))
    rows = connection.execute(query.order_by(_E.sequence.desc()).limit(limit))
    return [ListedEntry.from_row(row) for row in rows]


def newest_nodes(
    connection: Connection, session_id: str, *, before_sequence: int | None, after_sequence: int, limit: int
) -> list[Node]:
    """Return what :func:`newest_entries` does, without payloads."""
    query = select(*NODE_COLUMNS).where(*_between(session_id, before_sequence, after_sequence))
    rows = connection.execute(query.order_by(_E.sequence.desc()).limit(limit))
    return [Node(*row) for row in rows]


def oldest_nodes(connection: Connection, session_id: str, *, after_sequence: int, limit: int) -> list[Node]:
    """Return the first entries of a session behind a sequence, in its order."""
    query = select(*NODE_COLUMNS).where(*_between(session_id, None, after_sequence))
    return [Node(*row) for row in connection.execute(query.order_by(_E.sequence).limit(limit))]


def _between(session_id: str, before_sequence: int | None, after_sequence: int) -> list[ColumnElement[bool]]:
    conditions = [_E.session_id == session_id, _E.sequence > after_sequence]
    return conditions if before_sequence is None else [*conditions, _E.sequence < before_sequence]


def count_children(connection: Connection, session_id: str, ids: Sequence[str]) -> dict[str, int]:
    """Return how many children entries of a session have; those without are left out."""
    counts: dict[str, int] = {}
    for start in range(0, len(ids), _PAGE):
        chosen = _E.parent_entry_id.in_(ids[start : start + _PAGE])
        query = select(_E.parent_entry_id, func.count()).where(_E.session_id == session_id, chosen)
        counts.update((row[0], row[1]) for row in connection.execute(query.group_by(_E.parent_entry_id)))
    return counts
