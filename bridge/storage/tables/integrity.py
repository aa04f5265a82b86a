"""Tables of the audit chains (owner: ``bridge.integrity``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, LargeBinary, Table, Text

from bridge.storage.tables.base import key, metadata, required

#: One link of a chain. No foreign key: events outlive what they speak of. Append-only by trigger.
audit_events = Table(
    "audit_events",
    metadata,
    key("chain_id"),
    key("ordinal", BigInteger),
    required("event_type"),
    required("created_at"),
    required("event_hash"),
    required("body", Text),
    CheckConstraint("ordinal >= 0", name="ordinal"),
    CheckConstraint("length(event_hash) = 64", name="event_hash"),
    sqlite_with_rowid=False,
)

#: The order in which the events of all chains were committed: what whoever follows the store has a place in.
#:
#: Writers take turns, so what is counted up here is never overtaken by what commits later. Positions may be skipped.
#: The leaves of the log follow this order, so a copy keeps it, under positions of its own.
event_order = Table(
    "event_order",
    metadata,
    Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    required("chain_id"),
    required("ordinal", BigInteger),
)

#: The leaves of the Merkle log (RFC 9162) over all events, in their order: derived. ``hashes`` is the hash of the leaf
#: and those of the perfect subtrees that it completes, 32 bytes each, the smallest first; ``position`` is that of its
#: event.
log_leaves = Table(
    "log_leaves",
    metadata,
    Column("leaf", BigInteger, primary_key=True, autoincrement=False),
    required("chain_id"),
    required("ordinal", BigInteger),
    required("position", BigInteger),
    required("hashes", LargeBinary),
    Index("ix_log_leaves_chain_id_ordinal", "chain_id", "ordinal"),
)

#: Subtree hashes of large sessions: derived. A page holds what :mod:`bridge.integrity.subtrees.pages` says.
subtree_pages = Table(
    "subtree_pages",
    metadata,
    key("session_id"),
    key("page", BigInteger),
    required("data", LargeBinary),
)

#: Up to which sequence the pages of a session are exact; written along with them.
subtree_marks = Table(
    "subtree_marks",
    metadata,
    key("session_id"),
    required("exact_through", BigInteger),
)
