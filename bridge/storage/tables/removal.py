"""Tables of what was taken away on purpose, and of roots that were handed out (owner: ``bridge.integrity``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Table

from bridge.storage.tables.base import key, metadata, optional, required

#: An entry whose payload was erased: ``payload_hash`` is what the entry goes on being hashed under, ``tombstone_hash``
#: that of the text that stands in its place. The trigger of ``session_entries`` asks for such a row. Append-only.
withheld_entries = Table(
    "withheld_entries",
    metadata,
    key("session_id"),
    key("entry_id"),
    key("tombstone_hash"),
    required("payload_hash"),
    required("erased_at"),
    CheckConstraint("length(tombstone_hash) = 64 AND length(payload_hash) = 64", name="hashes"),
    sqlite_with_rowid=False,
)

#: A session that was removed: its id is never used again. ``event_hash`` is that of the last event of its chain, the
#: removal itself. The triggers of what is removed ask for such a row. Append-only.
removed_sessions = Table(
    "removed_sessions",
    metadata,
    key("session_id"),
    # What it had; NULL if its entries formed no tree.
    optional("session_root"),
    required("next_sequence", BigInteger),
    required("events", BigInteger),
    required("event_hash"),
    required("removed_at"),
    CheckConstraint("length(event_hash) = 64", name="event_hash"),
    sqlite_with_rowid=False,
)

#: Up to which sequence a root that somebody was given covers its session, and how many events the chain had then.
handed_roots = Table(
    "handed_roots",
    metadata,
    key("session_id"),
    key("session_root"),
    required("sequence", BigInteger),
    required("events", BigInteger),
    CheckConstraint("length(session_root) = 64", name="session_root"),
    sqlite_with_rowid=False,
)
