"""Who uses the store (owner: ``bridge.storage`` itself)."""

from __future__ import annotations

from sqlalchemy import Table

from bridge.storage.tables.base import key, metadata, required

#: One row for each host and version of Bridge, so that an upgrade can say whom it locks out.
clients = Table(
    "clients",
    metadata,
    key("host"),
    key("version"),
    required("first_used_at"),
    # Brought up to date now and then, not at each use.
    required("last_used_at"),
    sqlite_with_rowid=False,
)
