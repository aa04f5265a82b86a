"""Values of the workspace tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bridge.git.paths import parse_path, plain_path


class WorkspaceKind(StrEnum):
    """Level of the workspace tree."""

    #: A checkout that was registered on its own.
    REPOSITORY = "repository"
    #: A linked worktree of a registered repository, made by a person.
    TASK = "task"
    #: A worktree that Bridge made for a worker.
    WORKER = "worker"


class WorkspaceStatus(StrEnum):
    """What is known of the folder behind a workspace."""

    #: The path is taken in the database; nothing is known to be on disk yet.
    RESERVED = "reserved"
    #: The folder is there and in use.
    ACTIVE = "active"
    #: The work is over and the folder stays; ``kept_reason`` says why.
    KEPT = "kept"
    #: The folder is gone, after proof that nothing was lost or on a person's word; its path is free again.
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Workspace:
    """One node: a repository's checkout, or a worktree cut from it.

    Parameters
    ----------
    path, common_dir
        Absolute, in the reversible form of :func:`bridge.git.paths.plain_path`; :attr:`folder` is the real one.
    repository_id, worktree_id
        As in the states observed there; None until a reserved worktree exists.
    base_commit
        Where a worker's worktree was cut; None for other kinds.
    created_at, updated_at
        Timestamps as text.
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

    @property
    def folder(self) -> Path:
        """The top level as a path of the file system."""
        return folder_of(self.path)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": str(self.kind),
            "parent_id": self.parent_id,
            "path": self.path,
            "common_dir": self.common_dir,
            "repository_id": self.repository_id,
            "worktree_id": self.worktree_id,
            "base_commit": self.base_commit,
            "label": self.label,
            "status": str(self.status),
            "kept_reason": self.kept_reason,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


class KeptStatus(StrEnum):
    """How much of the contents behind a dirty manifest was kept."""

    #: Every file and symlink that the manifest lists.
    COMPLETE = "complete"
    #: Some were left out because of the limits on bytes or files.
    OVER_LIMIT = "over_limit"
    #: Some were no longer what had been stamped when they were read; a later stamp of the same state tries again.
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class KeptState:
    """What was kept for a dirty manifest of a repository.

    Parameters
    ----------
    ref
        Holds the contents in Bridge's own store; None when all were left out.
    kept_count, kept_bytes, omitted_count, omitted_bytes
        Different contents that are, and that are not kept; bytes of those that no longer could be read are 0.
    limit_bytes
        The limit that applied.
    """

    repository_id: str
    dirty_hash: str
    ref: str | None
    status: KeptStatus
    kept_count: int
    kept_bytes: int
    omitted_count: int
    omitted_bytes: int
    limit_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "status": str(self.status),
            "kept_count": self.kept_count,
            "kept_bytes": self.kept_bytes,
            "omitted_count": self.omitted_count,
            "omitted_bytes": self.omitted_bytes,
            "limit_bytes": self.limit_bytes,
        }


@dataclass(frozen=True, slots=True)
class WorkspaceLink:
    """One relinking: what a workspace's repository and worktree were called before and after."""

    workspace_id: str
    old_repository_id: str
    old_worktree_id: str
    new_repository_id: str
    new_worktree_id: str
    old_path: str
    new_path: str


def shown_folder(folder: Path) -> str:
    """Return a folder in the form in which workspaces keep it."""
    return plain_path(os.fsencode(folder))


def folder_of(path: str) -> Path:
    """Return the folder that :func:`shown_folder` wrote."""
    return Path(os.fsdecode(parse_path(path)))
