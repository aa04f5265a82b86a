"""Tables of the audit chains (owner: ``bridge.integrity``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Integer, Table, Text

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
#: Writers take turns, so what is counted up here is never overtaken by what commits later. Positions may be skipped,
#: and old ones dropped. A table of its own, since it concerns no event's content: no hash covers it, no copy takes it
#: along.
event_order = Table(
    "event_order",
    metadata,
    Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    required("chain_id"),
    required("ordinal", BigInteger),
)
