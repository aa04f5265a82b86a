"""The life of a worker's worktree: path reserved, made and verified, given up only on proof that nothing is lost."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bridge.foundation.errors import BridgeError
from bridge.foundation.ids import require_safe_id
from bridge.foundation.logs import get_logger
from bridge.git.paths import plain_path
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.git.removal import Obstacle, ObstacleReason, removal_obstacles
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.worktrees import add_detached, find_worktree, remove_worktree
from bridge.storage.transaction import Transaction
from bridge.workspaces import store
from bridge.workspaces.inclusion import copy_included
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus, folder_of, shown_folder
from bridge.workspaces.wording import kept_reason

#: Digits of the repository id that name its folder below the worktrees directory.
REPOSITORY_DIGITS = 12

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Release:
    """What became of a worktree that is no longer needed.

    Parameters
    ----------
    kept_because
        Why it stays, in words for people; None if it is gone.
    obstacles
        The same, for programs.
    """

    kept_because: str | None
    obstacles: tuple[Obstacle, ...] = ()


def reserve(
    tx: Transaction,
    parent: Workspace,
    *,
    worktrees: Path,
    name: str,
    base_commit: str,
    label: str | None,
    moment: str,
) -> Workspace:
    """Take a path for a worktree in the database, before anything is made there.

    Parameters
    ----------
    parent
        The checkout that delegates.
    worktrees
        The directory below which all worktrees of workers live, outside any repository.
    name
        Unique name of the folder; a delegation's id.

    Raises
    ------
    InvalidId
        If the name cannot be a folder's.
    WorkspacePathTaken
        If another workspace has the path.
    """
    folder = (
        worktrees / (parent.repository_id or parent.id)[:REPOSITORY_DIGITS] / require_safe_id(name, "worktree name")
    )
    workspace = Workspace(
        id=store.new_workspace_id(),
        kind=WorkspaceKind.WORKER,
        parent_id=parent.id,
        path=shown_folder(folder),
        common_dir=parent.common_dir,
        repository_id=parent.repository_id,
        worktree_id=None,
        base_commit=base_commit,
        label=label,
        status=WorkspaceStatus.RESERVED,
        kept_reason=None,
        created_at=moment,
        updated_at=moment,
    )
    store.insert_workspace(tx, workspace)
    return workspace


def create(parent: RepositoryLocation, workspace: Workspace) -> RepositoryLocation:
    """Make the worktree of a reserved workspace at its base commit, detached; return its verified location.

    The files that the parent's ``.worktreeinclude`` names are copied into it
    (:func:`bridge.workspaces.inclusion.copy_included`).

    Raises
    ------
    CommitMissing, WorktreePathTaken, WorktreeMismatch, GitFailed
        What :func:`bridge.git.worktrees.add_detached` raises; nothing is left behind then.
    IncludeRefused
        If a file that should be copied cannot be; the worktree was removed again.
    """
    if workspace.base_commit is None:
        raise ValueError("a worker's workspace has a base commit")
    folder = workspace.folder
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = add_detached(parent, folder, workspace.base_commit)
    try:
        included = copy_included(parent, made)
    except BaseException:
        # Nothing has run in it: it holds a commit and copies.
        remove_worktree(parent, folder, is_forced=True)
        raise
    for path, why in included.skipped:
        _log.warning("a file was not copied", action="include_skipped", path=plain_path(path), why=why)
    return made


def activate(tx: Transaction, workspace: Workspace, location: RepositoryLocation, moment: str) -> Workspace:
    """Record that the worktree is there, under its own identity."""
    return store.update_workspace(
        tx, workspace.id, moment, status=WorkspaceStatus.ACTIVE, worktree_id=location.worktree_id
    )


def take_up(tx: Transaction, workspace: Workspace, moment: str) -> Workspace:
    """Record that somebody works in a kept worktree again."""
    return store.update_workspace(tx, workspace.id, moment, status=WorkspaceStatus.ACTIVE, kept_reason=None)


def free(tx: Transaction, workspace: Workspace, moment: str) -> Workspace:
    """Record that there is no worktree (any more); its path may be used again."""
    return store.update_workspace(tx, workspace.id, moment, status=WorkspaceStatus.REMOVED, kept_reason=None)


def keep(tx: Transaction, workspace: Workspace, reason: str, moment: str) -> Workspace:
    """Record why a worktree stays."""
    return store.update_workspace(tx, workspace.id, moment, status=WorkspaceStatus.KEPT, kept_reason=reason)


def obstacles(
    workspace: Workspace, *, kept_in: tuple[str, ...], preserved: str | None, timeout_seconds: float
) -> list[Obstacle]:
    """Return every reason not to remove a worktree; an empty list is the proof that nothing would be lost.

    Parameters
    ----------
    kept_in
        Refs or commits whose history keeps the work.
    preserved
        A commit that holds exactly what the worktree holds, uncommitted work included, if there is one.
    """
    try:
        common = discover(folder_of(workspace.common_dir)) if workspace.common_dir else discover(workspace.folder)
    except BridgeError as error:
        return [Obstacle(ObstacleReason.INSPECTION_FAILED, error.message)]
    return removal_obstacles(
        common,
        workspace.folder,
        merged_into=kept_in,
        base=workspace.base_commit,
        preserved=preserved,
        timeout_seconds=timeout_seconds,
    )


def release(
    workspace: Workspace,
    *,
    kept_in: tuple[str, ...] = (),
    preserved: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Release:
    """Remove a worktree if that is proven to lose nothing; else leave it as it is and say why.

    The proof is taken right before the removal. Recording the outcome (:func:`free`, :func:`keep`) is the caller's.

    Parameters
    ----------
    kept_in, preserved
        As for :func:`obstacles`.
    """
    found = obstacles(workspace, kept_in=kept_in, preserved=preserved, timeout_seconds=timeout_seconds)
    if found:
        return Release(kept_reason(found), tuple(found))
    try:
        # git refuses by itself what is modified or untracked; only a preserved worktree may hold such files.
        remove(workspace, is_forced=preserved is not None)
    except BridgeError as error:
        return Release(error.message, (Obstacle(ObstacleReason.INSPECTION_FAILED, error.message),))
    return Release(None)


def remove(workspace: Workspace, *, is_forced: bool) -> None:
    """Remove a worktree and its registration; one that git never made, or that is gone already, is no error.

    ``is_forced`` needs the proof that its work is kept elsewhere.

    Raises
    ------
    GitFailed, GitTimedOut
        If git refuses; the worktree is still there then.
    """
    common = discover(folder_of(workspace.common_dir)) if workspace.common_dir else discover(workspace.folder)
    if find_worktree(common, workspace.folder) is None and not os.path.lexists(workspace.folder):
        return
    remove_worktree(common, workspace.folder, is_forced=is_forced)
