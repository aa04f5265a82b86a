"""Values of the workspace tree."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WorkspaceKind(StrEnum):
    """Level of the workspace tree."""

    REPOSITORY = "repository"
    TASK = "task"
    WORKER = "worker"


class WorkspaceStatus(StrEnum):
    """What is known of the folder behind a workspace."""

    #: The path is taken in the database; nothing is on disk yet.
    RESERVED = "reserved"
    #: The folder is there and in use.
    ACTIVE = "active"
    #: The work is over and the folder stays, with ``kept_reason`` saying why.
    KEPT = "kept"
    #: The folder is gone, after proof that nothing was lost or on a person's word.
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Workspace:
    """One node: a repository's checkout, or a worktree cut from it.

    ``path`` is absolute, in display form (:func:`bridge.git.paths.display_path`), as are ``common_dir``.
    ``base_commit`` is set for worker worktrees alone. Times are timestamps as text.
    """

    id: str
    kind: WorkspaceKind
    parent_id: str | None
    path: str
    common_dir: str | None
    repository_id: str | None
    worktree_id: str | None
    base_commit: str | None
    label: str | None
    status: WorkspaceStatus
    kept_reason: str | None
    created_at: str
    updated_at: str
