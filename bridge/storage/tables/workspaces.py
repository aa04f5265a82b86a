"""Tables of the workspace tree and of repository states (owner: ``bridge.workspaces``)."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
)

from bridge.storage.tables.base import key, metadata, optional, partial_unique, required

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
    partial_unique("uq_workspaces_path", "path", where="status <> 'removed'"),
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

#: Contents that were kept for a dirty manifest of a repository; absent means none were.
#:
#: ``ref`` names, in Bridge's own object store, the commit that holds them; it is absent when all were left out.
kept_states = Table(
    "kept_states",
    metadata,
    key("repository_id"),
    key("dirty_hash"),
    optional("ref"),
    required("status"),
    required("kept_count", Integer),
    required("kept_bytes", BigInteger),
    required("omitted_count", Integer),
    required("omitted_bytes", BigInteger),
    required("limit_bytes", BigInteger),
    required("created_at"),
    CheckConstraint("status IN ('complete', 'over_limit', 'incomplete')", name="status"),
    sqlite_with_rowid=False,
)

#: Which object of Bridge's own store holds the bytes with a SHA-256 digest.
kept_contents = Table(
    "kept_contents",
    metadata,
    key("repository_id"),
    key("content_digest"),
    required("object_id"),
    required("size", BigInteger),
    sqlite_with_rowid=False,
)

#: One relinking of a workspace: stamps taken under the old ids stand for the new ones. Append-only by trigger.
workspace_links = Table(
    "workspace_links",
    metadata,
    key("workspace_id"),
    key("number", Integer),
    required("old_repository_id"),
    required("old_worktree_id"),
    required("new_repository_id"),
    required("new_worktree_id"),
    required("old_path"),
    required("new_path"),
    required("created_at"),
    ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_workspace_links_workspace_id"),
    sqlite_with_rowid=False,
)

#: A root commit of a registered repository: by it the repository is known again elsewhere.
workspace_roots = Table(
    "workspace_roots",
    metadata,
    key("workspace_id"),
    key("commit_id"),
    ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_workspace_roots_workspace_id"),
    sqlite_with_rowid=False,
)
