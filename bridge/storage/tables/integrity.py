"""Tables of the audit chains (owner: ``bridge.integrity``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Text
from sqlmodel import Field

from bridge.storage.tables.base import Row


class AuditEventRow(Row, table=True):
    """One link of a chain. No foreign key: events outlive what they speak of. Append-only by trigger."""

    __tablename__ = "audit_events"
    __table_args__ = (
        CheckConstraint("ordinal >= 0", name="ordinal"),
        CheckConstraint("length(event_hash) = 64", name="event_hash"),
        {"sqlite_with_rowid": False},
    )

    chain_id: str = Field(primary_key=True)
    ordinal: int = Field(primary_key=True, sa_type=BigInteger, sa_column_kwargs={"autoincrement": False})
    event_type: str
    created_at: str
    event_hash: str
    body: str = Field(sa_type=Text)
