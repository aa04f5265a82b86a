"""Whether a worktree may be removed: only on positive proof that nothing in it would be lost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bridge.foundation.errors import BridgeError
from bridge.git.commits import snapshot_tree, tree_of
from bridge.git.observe import operation_in_progress, read_status
from bridge.git.porcelain import StatusOutput
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git
from bridge.git.repository import RepositoryLocation
from bridge.git.unobserved import unobserved_paths
from bridge.git.worktrees import find_worktree, require_registered


class ObstacleReason(StrEnum):
    """Why a worktree is kept."""

    #: git status lists something that is kept nowhere else.
    UNCOMMITTED_FILES = "uncommitted_files"
    #: HEAD has commits that none of the given places has.
    UNMERGED_COMMITS = "unmerged_commits"
    #: A merge, rebase, cherry-pick, revert or bisect is under way.
    OPERATION_IN_PROGRESS = "operation_in_progress"
    #: The index hides files that are on the disk; they may differ unseen.
    HIDDEN_FILES = "hidden_files"
    #: It has submodules checked out, whose repositories go with it.
    SUBMODULES = "submodules"
    #: Somebody locked it.
    LOCKED = "locked"
    #: git or the disk could not tell.
    INSPECTION_FAILED = "inspection_failed"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One reason to keep a worktree.

    Parameters
    ----------
    detail
        One sentence for people.
    count
        How many paths or commits, where that says something.
    paths
        The paths, as bytes.
    """

    reason: ObstacleReason
    detail: str
    count: int = 0
    paths: tuple[bytes, ...] = ()


def removal_obstacles(
    location: RepositoryLocation,
    path: Path,
    *,
    merged_into: Sequence[str] = (),
    base: str | None = None,
    preserved: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> list[Obstacle]:
    """Return every reason not to remove the worktree at ``path``; an empty list is the proof that nothing is lost.

    Parameters
    ----------
    location
        Any worktree of the repository.
    merged_into
        Refs or commits whose history keeps work (the branch it was adopted into).
    base
        The commit that the worktree was cut from; it and what precedes it are kept by others.
    preserved
        A preserving commit. Uncommitted files are no obstacle if its tree is exactly what the worktree holds now
        and the commit itself is in the history of ``merged_into``.
    """
    if not os.path.lexists(path):
        return _gone(location, path, merged_into, base, timeout_seconds)
    try:
        inner = require_registered(path)
        known = find_worktree(location, path, timeout_seconds=timeout_seconds)
        found: list[Obstacle] = []
        if known is not None and known.locked is not None:
            found.append(Obstacle(ObstacleReason.LOCKED, f"It is locked{f': {known.locked}' if known.locked else ''}."))
        operation = operation_in_progress(inner)
        if operation is not None:
            found.append(Obstacle(ObstacleReason.OPERATION_IN_PROGRESS, f"A {operation} is in progress."))
        if inner.is_linked and (inner.git_dir / "modules").exists():
            detail = "Submodules are checked out in it; their commits may be nowhere else."
            found.append(Obstacle(ObstacleReason.SUBMODULES, detail))
        found += _hidden(inner, timeout_seconds)
        status = read_status(inner, timeout_seconds=timeout_seconds)
        found += _uncommitted(inner, status, preserved, timeout_seconds)
        heads = [commit for commit in (status.head and status.head.decode("ascii"), preserved) if commit]
        found += _unmerged(inner, heads, merged_into, base, timeout_seconds)
    except (BridgeError, OSError) as error:
        detail = error.message if isinstance(error, BridgeError) else str(error)
        return [Obstacle(ObstacleReason.INSPECTION_FAILED, detail)]
    return found


def _gone(
    location: RepositoryLocation,
    path: Path,
    merged_into: Sequence[str],
    base: str | None,
    timeout_seconds: float,
) -> list[Obstacle]:
    """Return the obstacles of a worktree whose folder was removed by somebody else: its HEAD may still matter."""
    try:
        known = find_worktree(location, path, timeout_seconds=timeout_seconds)
        if known is None or known.head is None:
            return []
        return _unmerged(location, [known.head], merged_into, base, timeout_seconds)
    except BridgeError as error:
        return [Obstacle(ObstacleReason.INSPECTION_FAILED, error.message)]


def _hidden(location: RepositoryLocation, timeout_seconds: float) -> list[Obstacle]:
    paths = unobserved_paths(location, timeout_seconds=timeout_seconds)
    root = os.fsencode(location.root)
    present = tuple(path for path in paths if os.path.lexists(root + b"/" + path.rstrip(b"/")))
    if not present:
        return []
    detail = f"The index hides {len(present)} present path(s) from git status (assume-unchanged or skip-worktree)."
    return [Obstacle(ObstacleReason.HIDDEN_FILES, detail, len(present), present)]


def _uncommitted(
    location: RepositoryLocation, status: StatusOutput, preserved: str | None, timeout_seconds: float
) -> list[Obstacle]:
    if not status.rows:
        return []
    paths = tuple(row.path for row in status.rows)
    if preserved is not None:
        now = snapshot_tree(location, timeout_seconds=timeout_seconds)
        paths = now.omitted if now.tree == tree_of(location, preserved, timeout_seconds=timeout_seconds) else paths
        if not paths:
            return []
    detail = f"{len(paths)} uncommitted path(s) are kept nowhere else."
    return [Obstacle(ObstacleReason.UNCOMMITTED_FILES, detail, len(paths), paths)]


def _unmerged(
    location: RepositoryLocation,
    heads: Sequence[str],
    merged_into: Sequence[str],
    base: str | None,
    timeout_seconds: float,
) -> list[Obstacle]:
    if not heads:
        return []
    kept = [*merged_into, *([base] if base else [])]
    exclusions = [f"^{commit}" for commit in kept]
    output = run_git(
        ["rev-list", "--count", "--end-of-options", *heads, *exclusions],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    count = int(output.text)
    if count == 0:
        return []
    return [Obstacle(ObstacleReason.UNMERGED_COMMITS, f"{count} commit(s) are in no branch given.", count)]
