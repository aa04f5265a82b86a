"""Which contents are still needed: the one question that joins entries with states."""

from __future__ import annotations

from sqlalchemy import select

from bridge.storage.tables import repository_states, session_entries
from bridge.storage.transaction import Connection


def stamped_dirty_hashes(connection: Connection) -> frozenset[str]:
    """Return the dirty hash of every state that an entry is stamped with."""
    stamped = select(session_entries.c.state_digest)
    query = select(repository_states.c.dirty_hash).where(repository_states.c.state_digest.in_(stamped)).distinct()
    return frozenset(connection.execute(query).scalars())
