"""Every table of the store, one module per owner. Nothing but declarations."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from bridge.storage.tables.agents import agents
from bridge.storage.tables.base import metadata
from bridge.storage.tables.control import attempts, controllers, delegations, plans
from bridge.storage.tables.conversations import branch_cursors, entry_labels, session_entries, session_heads, sessions
from bridge.storage.tables.integrity import audit_events
from bridge.storage.tables.recall import recall_documents, recall_marks
from bridge.storage.tables.workspaces import manifest_pages, manifests, repository_states, workspaces

#: The one row of this table is the schema version; it has no key.
schema_version = Table("schema_version", metadata, Column("version_num", Text, nullable=False))

__all__ = [
    "agents",
    "attempts",
    "audit_events",
    "branch_cursors",
    "controllers",
    "delegations",
    "entry_labels",
    "manifest_pages",
    "manifests",
    "metadata",
    "plans",
    "recall_documents",
    "recall_marks",
    "repository_states",
    "schema_version",
    "session_entries",
    "session_heads",
    "sessions",
    "workspaces",
]
