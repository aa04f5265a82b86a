"""Every table of the store, one module per owner. Nothing but declarations."""

from __future__ import annotations

from sqlalchemy import Column, Table, Text

from bridge.storage.tables.agents import agents
from bridge.storage.tables.base import metadata
from bridge.storage.tables.clients import clients
from bridge.storage.tables.control import (
    agent_tokens,
    approvals,
    attempts,
    captured_hosts,
    captured_sessions,
    chat_agents,
    controllers,
    delegations,
    plans,
    quota_pauses,
    submissions,
    task_messages,
)
from bridge.storage.tables.conversations import (
    blobs,
    branch_cursors,
    entry_labels,
    legacy_events,
    quarantined_sessions,
    session_entries,
    session_heads,
    sessions,
)
from bridge.storage.tables.exchange import import_chunks, import_links, import_sessions, import_sources
from bridge.storage.tables.integrity import audit_events, event_order, log_leaves, subtree_marks, subtree_pages
from bridge.storage.tables.recall import recall_documents, recall_marks, recall_scopes, recall_state, recall_terms
from bridge.storage.tables.removal import handed_roots, removed_sessions, withheld_entries
from bridge.storage.tables.workspaces import (
    kept_contents,
    kept_states,
    manifest_pages,
    manifests,
    repository_states,
    workspace_links,
    workspace_roots,
    workspaces,
)

#: The one row of this table is the schema version; it has no key.
schema_version = Table("schema_version", metadata, Column("version_num", Text, nullable=False))

__all__ = [
    "agent_tokens",
    "agents",
    "approvals",
    "attempts",
    "audit_events",
    "blobs",
    "branch_cursors",
    "captured_hosts",
    "captured_sessions",
    "chat_agents",
    "clients",
    "controllers",
    "delegations",
    "entry_labels",
    "event_order",
    "handed_roots",
    "import_chunks",
    "import_links",
    "import_sessions",
    "import_sources",
    "kept_contents",
    "kept_states",
    "legacy_events",
    "log_leaves",
    "manifest_pages",
    "manifests",
    "metadata",
    "plans",
    "quarantined_sessions",
    "quota_pauses",
    "recall_documents",
    "recall_marks",
    "recall_scopes",
    "recall_state",
    "recall_terms",
    "removed_sessions",
    "repository_states",
    "schema_version",
    "session_entries",
    "session_heads",
    "sessions",
    "submissions",
    "subtree_marks",
    "subtree_pages",
    "task_messages",
    "withheld_entries",
    "workspace_links",
    "workspace_roots",
    "workspaces",
]
