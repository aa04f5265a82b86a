"""Tables of the workspace tree and of repository states (owner: ``bridge.workspaces``)."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, LargeBinary, Text, text
from sqlmodel import Field

from bridge.storage.tables.base import Row


class WorkspaceRow(Row, table=True):
    """A node of the workspace tree. Paths are in the reversible display form (``bridge.git.paths``)."""

    __tablename__ = "workspaces"
    __table_args__ = (
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

    id: str = Field(primary_key=True)
    kind: str
    parent_id: str | None = None
    path: str
    common_dir: str | None = None
    repository_id: str | None = None
    worktree_id: str | None = None
    base_commit: str | None = None
    label: str | None = None
    status: str
    kept_reason: str | None = None
    created_at: str
    updated_at: str


class RepositoryStateRow(Row, table=True):
    """One exact repository state, stored once and named by its digest. Append-only by trigger.

    ``dirty_hash`` names the row in ``manifests``; it is absent there when the state came without paths.
    """

    __tablename__ = "repository_states"
    __table_args__ = (
        CheckConstraint("length(state_digest) = 64", name="state_digest"),
        {"sqlite_with_rowid": False},
    )

    state_digest: str = Field(primary_key=True)
    dirty_hash: str
    created_at: str
    state: str = Field(sa_type=Text)


class ManifestRow(Row, table=True):
    """A dirty manifest: ``page_index`` lists its directories with the digest of each one's page."""

    __tablename__ = "manifests"
    __table_args__ = (CheckConstraint("length(dirty_hash) = 64", name="dirty_hash"),)

    dirty_hash: str = Field(primary_key=True)
    created_at: str
    page_index: str = Field(sa_type=Text)


class ManifestPageRow(Row, table=True):
    """The manifest rows of one directory, content-addressed. Append-only by trigger."""

    __tablename__ = "manifest_pages"
    __table_args__ = (CheckConstraint("length(page_digest) = 64", name="page_digest"),)

    page_digest: str = Field(primary_key=True)
    body: bytes = Field(sa_type=LargeBinary)


class KeptStateRow(Row, table=True):
    """Contents that were kept for a dirty manifest of a repository; absent means none were.

    ``ref`` names, in Bridge's own object store, the commit that holds them; it is absent when all were left out.
    """

    __tablename__ = "kept_states"
    __table_args__ = (
        CheckConstraint("status IN ('complete', 'over_limit', 'incomplete')", name="status"),
        {"sqlite_with_rowid": False},
    )

    repository_id: str = Field(primary_key=True)
    dirty_hash: str = Field(primary_key=True)
    ref: str | None = None
    status: str
    kept_count: int
    kept_bytes: int = Field(sa_type=BigInteger)
    omitted_count: int
    omitted_bytes: int = Field(sa_type=BigInteger)
    limit_bytes: int = Field(sa_type=BigInteger)
    created_at: str


class KeptContentRow(Row, table=True):
    """Which object of Bridge's own store holds the bytes with a SHA-256 digest."""

    __tablename__ = "kept_contents"
    __table_args__ = ({"sqlite_with_rowid": False},)

    repository_id: str = Field(primary_key=True)
    content_digest: str = Field(primary_key=True)
    object_id: str
    size: int = Field(sa_type=BigInteger)


class WorkspaceLinkRow(Row, table=True):
    """One relinking of a workspace: stamps taken under the old ids stand for the new ones. Append-only by trigger."""

    __tablename__ = "workspace_links"
    __table_args__ = (
        ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_workspace_links_workspace_id"),
        {"sqlite_with_rowid": False},
    )

    workspace_id: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    old_repository_id: str
    old_worktree_id: str
    new_repository_id: str
    new_worktree_id: str
    old_path: str
    new_path: str
    created_at: str


class WorkspaceRootRow(Row, table=True):
    """A root commit of a registered repository: by it the repository is known again elsewhere."""

    __tablename__ = "workspace_roots"
    __table_args__ = (
        ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_workspace_roots_workspace_id"),
        {"sqlite_with_rowid": False},
    )

    workspace_id: str = Field(primary_key=True)
    commit_id: str = Field(primary_key=True)
