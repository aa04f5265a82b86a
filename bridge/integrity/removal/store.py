"""Queries of the tombstones, and of the roots that were handed out."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select

from bridge.storage.tables import handed_roots, removed_sessions, withheld_entries
from bridge.storage.transaction import Transaction

_W, _R, _H = withheld_entries.c, removed_sessions.c, handed_roots.c


class RemovedSession(NamedTuple):
    """The tombstone of a session; the fields are the columns."""

    session_id: str
    session_root: str | None
    next_sequence: int
    events: int
    event_hash: str
    removed_at: str


def add_withheld(
    tx: Transaction, session_id: str, entry_id: str, *, tombstone_hash: str, payload_hash: str, moment: str
) -> None:
    """Note that an entry's payload is about to be replaced."""
    tx.execute(
        insert(withheld_entries).values(
            session_id=session_id,
            entry_id=entry_id,
            tombstone_hash=tombstone_hash,
            payload_hash=payload_hash,
            erased_at=moment,
        )
    )


def tombstones_of(connection: Connection, session_id: str) -> dict[str, set[str]]:
    """Return the hashes of what stands, or stood, in the place of erased payloads, by entry."""
    found: dict[str, set[str]] = {}
    for entry_id, tombstone in connection.execute(
        select(_W.entry_id, _W.tombstone_hash).where(_W.session_id == session_id)
    ):
        found.setdefault(entry_id, set()).add(tombstone)
    return found


def tombstone_rows(connection: Connection, session_id: str) -> list[tuple[str, str, str, str]]:
    """Return entry, hash of what stands there, hash of the payload, and time of each erasure in a session."""
    query = select(_W.entry_id, _W.tombstone_hash, _W.payload_hash, _W.erased_at).where(_W.session_id == session_id)
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(query)]


def add_removed(tx: Transaction, removed: RemovedSession) -> None:
    tx.execute(insert(removed_sessions).values(**removed._asdict()))


def removed_session(connection: Connection, session_id: str) -> RemovedSession | None:
    """Return the tombstone of a session; None if it has none."""
    row = connection.execute(select(removed_sessions).where(_R.session_id == session_id)).first()
    return None if row is None else RemovedSession(*row)


def removed_ids(connection: Connection) -> list[str]:
    """Return the ids of all removed sessions."""
    return list(connection.execute(select(_R.session_id).order_by(_R.session_id)).scalars())


class HandedRoot(NamedTuple):
    """A root that somebody was given: what it covers, and how many events the chain had then."""

    sequence: int
    events: int


def handed_root(connection: Connection, session_id: str, session_root: str) -> HandedRoot | None:
    """Return what a root covers that was handed out; None for any other."""
    query = select(_H.sequence, _H.events).where(_H.session_id == session_id, _H.session_root == session_root)
    row = connection.execute(query).first()
    return None if row is None else HandedRoot(*row)


def add_handed_root(tx: Transaction, session_id: str, session_root: str, handed: HandedRoot) -> None:
    """Note a root that is about to be handed out; its first time counts."""
    if handed_root(tx.connection, session_id, session_root) is None:
        tx.execute(
            insert(handed_roots).values(
                session_id=session_id, session_root=session_root, sequence=handed.sequence, events=handed.events
            )
        )


def forget_handed_roots(tx: Transaction, session_id: str) -> None:
    tx.execute(delete(handed_roots).where(_H.session_id == session_id))
