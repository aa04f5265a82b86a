"""Queries of what a check of the forest looks at, and of the sessions that are set aside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, or_, select, text

from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage.prepared import Prepared
from bridge.storage.tables import blobs, quarantined_sessions, session_entries, session_heads, sessions
from bridge.storage.tables.conversations import other_versions
from bridge.storage.transaction import Transaction

_S, _E, _H, _Q = sessions.c, session_entries.c, session_heads.c, quarantined_sessions.c

_QUARANTINE = Prepared(select(_Q.reason).where(_Q.session_id == bindparam("session")), "session")


class Shape(NamedTuple):
    """What of an entry a check of the forest looks at."""

    session_id: str
    id: str
    parent_entry_id: str | None
    sequence: int


class HeadRow(NamedTuple):
    """A stored head as it is, whether or not there is such an entry."""

    session_id: str
    active_entry_id: str
    next_sequence: int


def iterate_shapes(connection: Connection) -> Iterator[Shape]:
    """Yield the shape of all sessions, session by session in the order of sequence."""
    query = select(_E.session_id, _E.id, _E.parent_entry_id, _E.sequence).order_by(_E.session_id, _E.sequence)
    for row in connection.execution_options(yield_per=2000).execute(query):
        yield Shape(*row)


def entries_without_text(connection: Connection) -> list[tuple[str, str]]:
    """Return session and id of entries whose text is neither in their row nor where long ones are kept."""
    query = select(_E.session_id, _E.id).where(
        _E.payload.is_(None), ~select(blobs.c.digest).where(blobs.c.digest == _E.payload_hash).exists()
    )
    return [(row[0], row[1]) for row in connection.execute(query.order_by(_E.session_id, _E.sequence))]


def entries_with_blob(connection: Connection, digest: str) -> list[tuple[str, str]]:
    """Return session and id of the entries whose long text is kept under a digest."""
    query = select(_E.session_id, _E.id).where(_E.blob_digest == digest).order_by(_E.session_id, _E.sequence)
    return [(row[0], row[1]) for row in connection.execute(query)]


def list_heads(connection: Connection) -> list[HeadRow]:
    return [HeadRow(*row) for row in connection.execute(select(_H.session_id, _H.active_entry_id, _H.next_sequence))]


def session_ids(connection: Connection) -> list[str]:
    """Return the ids of all sessions that have a row."""
    return list(connection.execute(select(_S.id).order_by(_S.id)).scalars())


def quarantine_of(connection: Connection, session_id: str) -> str | None:
    """Return why a session is set aside, None if it is not."""
    row = _QUARANTINE.run(connection, session_id).fetchone()
    return None if row is None else row[0]


def list_quarantined(connection: Connection) -> list[str]:
    return list(connection.execute(select(_Q.session_id).order_by(_Q.session_id)).scalars())


def quarantine_reasons(connection: Connection) -> dict[str, str]:
    """Return why each session that is set aside is."""
    return {row[0]: row[1] for row in connection.execute(select(_Q.session_id, _Q.reason))}


def unreadable_versions(connection: Connection) -> dict[str, list[int]]:
    """Return, by session, the semantic versions of its entries that this Bridge does not read.

    From an index of what the current version did not write: a store of any size answers at once.
    """
    version = _E.semantic_schema_version
    query = (
        select(_E.session_id, version)
        .where(text(other_versions(READABLE_VERSIONS)))
        .where(or_(version < min(READABLE_VERSIONS), version > max(READABLE_VERSIONS)))
        .distinct()
    )
    found: dict[str, list[int]] = {}
    for session_id, number in connection.execute(query.order_by(_E.session_id, version)):
        found.setdefault(session_id, []).append(number)
    return found


def put_quarantine(tx: Transaction, session_id: str, reason: str, findings: str, moment: str) -> None:
    """Set a session aside, or say anew why it is."""
    delete_quarantine(tx, session_id)
    tx.execute(
        insert(quarantined_sessions).values(session_id=session_id, reason=reason, found_at=moment, findings=findings)
    )


def delete_quarantine(tx: Transaction, session_id: str) -> None:
    tx.memo.pop(("head", session_id), None)
    tx.execute(delete(quarantined_sessions).where(_Q.session_id == session_id))
