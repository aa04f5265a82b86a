"""Tables of the workspace tree and of repository states (owner: ``bridge.workspaces``)."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, LargeBinary, Table, Text, text

from bridge.storage.tables.base import key, metadata, optional, required

#: A node of the workspace tree. Paths are in the reversible display form (``bridge.git.paths``).
workspaces = Table(
    "workspaces",
    metadata,
    key("id"),
    required("kind"),
    optional("parent_id"),
    required("path"),
    optional("common_dir"),
    optional("repository_id"),
    optional("worktree_id"),
    optional("base_commit"),
    optional("label"),
    required("status"),
    optional("kept_reason"),
    required("created_at"),
    required("updated_at"),
    ForeignKeyConstraint(["parent_id"], ["workspaces.id"], name="fk_workspaces_parent_id"),
    CheckConstraint("kind IN ('repository', 'task', 'worker')", name="kind"),
    CheckConstraint("(kind = 'repository') = (parent_id IS NULL)", name="parent"),
    # A path is reserved before anything is created there, and free again once removed.
    Index(
        "uq_workspaces_path",
        "path",
        unique=True,
        sqlite_where=text("status <> 'removed'"),
        postgresql_where=text("status <> 'removed'"),
    ),
    Index("ix_workspaces_parent_id", "parent_id"),
    Index("ix_workspaces_worktree_id", "worktree_id"),
)

#: One exact repository state, stored once and named by its digest. Append-only by trigger.
#:
#: ``dirty_hash`` names the row in ``manifests``; it is absent there when the state came without paths.
repository_states = Table(
    "repository_states",
    metadata,
    key("state_digest"),
    required("dirty_hash"),
    required("created_at"),
    required("state", Text),
    CheckConstraint("length(state_digest) = 64", name="state_digest"),
    sqlite_with_rowid=False,
)

#: A dirty manifest: ``page_index`` lists its directories with the digest of each one's page.
manifests = Table(
    "manifests",
    metadata,
    key("dirty_hash"),
    required("created_at"),
    required("page_index", Text),
    CheckConstraint("length(dirty_hash) = 64", name="dirty_hash"),
)

#: The manifest rows of one directory, content-addressed. Append-only by trigger.
manifest_pages = Table(
    "manifest_pages",
    metadata,
    key("page_digest"),
    required("body", LargeBinary),
    CheckConstraint("length(page_digest) = 64", name="page_digest"),
)
