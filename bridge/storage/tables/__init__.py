"""Every table of the store, one module per owner. Nothing but declarations."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from bridge.storage.tables.agents import AgentRow
from bridge.storage.tables.base import metadata
from bridge.storage.tables.control import AttemptRow, ControllerRow, DelegationRow, PlanRow
from bridge.storage.tables.conversations import CursorRow, EntryRow, HeadRow, LabelRow, SessionRow
from bridge.storage.tables.integrity import AuditEventRow
from bridge.storage.tables.workspaces import (
    KeptContentRow,
    KeptStateRow,
    ManifestPageRow,
    ManifestRow,
    RepositoryStateRow,
    WorkspaceLinkRow,
    WorkspaceRootRow,
    WorkspaceRow,
)


def _table(row: type) -> Table:
    return metadata.tables[row.__tablename__]  # type: ignore[attr-defined]  # set on every table class


#: The one row of this table is the schema version; it has no key, and is no mapped class for that reason.
schema_version = Table("schema_version", metadata, Column("version_num", Text, nullable=False))

sessions = _table(SessionRow)
session_entries = _table(EntryRow)
session_heads = _table(HeadRow)
branch_cursors = _table(CursorRow)
entry_labels = _table(LabelRow)
audit_events = _table(AuditEventRow)
workspaces = _table(WorkspaceRow)
repository_states = _table(RepositoryStateRow)
manifests = _table(ManifestRow)
manifest_pages = _table(ManifestPageRow)
kept_states = _table(KeptStateRow)
kept_contents = _table(KeptContentRow)
workspace_links = _table(WorkspaceLinkRow)
workspace_roots = _table(WorkspaceRootRow)
agents = _table(AgentRow)
plans = _table(PlanRow)
delegations = _table(DelegationRow)
attempts = _table(AttemptRow)
controllers = _table(ControllerRow)

__all__ = [
    "agents",
    "attempts",
    "audit_events",
    "branch_cursors",
    "controllers",
    "delegations",
    "entry_labels",
    "kept_contents",
    "kept_states",
    "manifest_pages",
    "manifests",
    "metadata",
    "plans",
    "repository_states",
    "schema_version",
    "session_entries",
    "session_heads",
    "sessions",
    "workspace_links",
    "workspace_roots",
    "workspaces",
]
