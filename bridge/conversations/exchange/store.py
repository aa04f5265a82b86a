"""Queries by sequence, for sessions that are passed on: paths in eight bytes an entry, entries by the page, hashes."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, func, select

from bridge.conversations.models import ENTRY_FIELDS, Entry
from bridge.storage.longtexts import whole_payload
from bridge.storage.prepared import Prepared
from bridge.storage.tables import session_entries, sessions

_E, _S = session_entries.c, sessions.c
_COLUMNS: list[ColumnElement[Any]] = [*(_E[name] for name in ENTRY_FIELDS[:-1]), whole_payload()]
#: Rows fetched at a time where a result is not loaded at once.
_PAGE = 500


def _path() -> Prepared:
    """Return the recursive query from an entry upwards; that a parent comes earlier makes it end in any database."""
    start = (
        select(_E.session_id, _E.parent_entry_id, _E.sequence)
        .where(_E.session_id == bindparam("session"), _E.id == bindparam("leaf"))
        .cte("path", recursive=True)
    )
    up = select(_E.session_id, _E.parent_entry_id, _E.sequence).where(
        _E.session_id == start.c.session_id, _E.id == start.c.parent_entry_id, _E.sequence < start.c.sequence
    )
    whole = start.union_all(up)
    return Prepared(select(whole.c.sequence), "session", "leaf")


_SEQUENCES = _path()


def path_sequences(connection: Connection, session_id: str, leaf_entry_id: str) -> array[int]:
    """Return the sequences of an entry of that session and its ancestors there, ascending: eight bytes for each."""
    return array("q", sorted(row[0] for row in _SEQUENCES.run(connection, session_id, leaf_entry_id)))


def entries_at(connection: Connection, session_id: str, sequences: Sequence[int]) -> list[Entry]:
    """Return the entries of a session at some sequences, ascending; those that are not there are left out."""
    query = select(*_COLUMNS).where(_E.session_id == session_id, _E.sequence.in_(sequences)).order_by(_E.sequence)
    return [Entry.from_row(row) for row in connection.execute(query)]


def iterate_hashes(connection: Connection, session_id: str) -> Generator[tuple[int, str]]:
    """Yield sequence and hash of a session's entries, ascending, without loading them at once."""
    query = select(_E.sequence, _E.entry_hash).where(_E.session_id == session_id).order_by(_E.sequence)
    # Closed with the generator: a cursor on a server is left open by who does not read to the end.
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as rows:
        for row in rows:
            yield row[0], row[1]


def last_sequence(connection: Connection, session_id: str) -> int:
    """Return the highest sequence among a session's entries, -1 if it has none."""
    found: int | None = connection.execute(select(func.max(_E.sequence)).where(_E.session_id == session_id)).scalar()
    return -1 if found is None else found
