"""Tables of the audit chains (owner: ``bridge.integrity``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Table, Text

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
