"""Bringing a worktree to another tree, as changes that nobody has committed."""

from __future__ import annotations

from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git
from bridge.git.repository import RepositoryLocation


def bring_to_tree(location: RepositoryLocation, tree: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
    """Make files and index of a clean worktree those of a tree; HEAD stays, so that the difference is uncommitted.

    Raises
    ------
    GitFailed
        If an untracked file is in the way; nothing was changed then.
    """
    run_git(["read-tree", "-m", "-u", "HEAD", tree], cwd=location.root, timeout_seconds=timeout_seconds)
