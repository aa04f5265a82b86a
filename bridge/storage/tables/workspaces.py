"""Tables of the workspace tree and of repository states (owner: ``bridge.workspaces``)."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, LargeBinary, Text, text
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
