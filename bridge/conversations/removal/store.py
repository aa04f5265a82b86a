"""Queries that take away what was recorded. The tables' triggers refuse each of them without its tombstone."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, and_, delete, select, update

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.storage.longtexts import remove_unused, whole_payload
from bridge.storage.tables import (
    branch_cursors,
    entry_labels,
    legacy_events,
    quarantined_sessions,
    session_entries,
    session_heads,
    sessions,
)
from bridge.storage.transaction import Transaction

_E, _S = session_entries.c, sessions.c


def replace_payload(tx: Transaction, session_id: str, entry_id: str, text: str) -> None:
    """Put another text in the place of an entry's payload, in the row itself; its hashes stay."""
    tx.execute(
        update(session_entries)
        .where(_E.session_id == session_id, _E.id == entry_id)
        .values(payload=text, blob_digest=None, payload_bytes=None, payload_outline=None)
    )
    remove_unused(tx)


def entries_with_payload(connection: Connection, payload_hash: str, *, beside: str) -> list[str]:
    """Return the ids of other entries that hold the very same payload; goes through all entries."""
    query = select(_E.id).where(_E.payload_hash == payload_hash, _E.id != beside).order_by(_E.session_id, _E.sequence)
    return list(connection.execute(query).scalars())


def entries_with_state(connection: Connection, state_digest: str, *, beside: str) -> list[str]:
    """Return the ids of other entries with the same stamp; goes through all entries."""
    query = select(_E.id).where(_E.state_digest == state_digest, _E.id != beside).order_by(_E.session_id, _E.sequence)
    return list(connection.execute(query).scalars())


def delete_session(tx: Transaction, session_id: str) -> int:
    """Remove a session with all of its rows; return how many entries it had."""
    for table in (branch_cursors, entry_labels, session_heads, legacy_events, quarantined_sessions):
        tx.execute(delete(table).where(table.c.session_id == session_id))
    entries = tx.execute(delete(session_entries).where(_E.session_id == session_id)).rowcount
    tx.execute(delete(sessions).where(_S.id == session_id))
    remove_unused(tx)
    tx.memo.clear()
    return entries


def fork_origins(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield each fork's session with the session that it was forked from."""
    # From the sessions to their roots by the key: a scan would go through all entries.
    roots = select(_E.session_id, whole_payload()).join_from(
        sessions, session_entries, and_(_E.session_id == _S.id, _E.sequence == 0)
    )
    for session_id, text in connection.execute(roots.where(_E.payload != "{}")):
        try:
            origin = parse_json(text)["forked_from"]["entry_id"]
        except (NotCanonical, KeyError, TypeError):
            continue  # no fork; or a damaged root, which a verification names
        yield session_id, str(origin).rpartition("-")[0]


def state_digests(connection: Connection, session_id: str) -> list[str]:
    """Return the states that a session's entries are stamped with."""
    query = select(_E.state_digest).where(_E.session_id == session_id, _E.state_digest.is_not(None)).distinct()
    return list(connection.execute(query).scalars())
