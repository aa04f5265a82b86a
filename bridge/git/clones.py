"""Cloning a repository from the same machine."""

from __future__ import annotations

from pathlib import Path

from bridge.git.process import run_git
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.worktrees import CHECKOUT_TIMEOUT_SECONDS


def clone_local(
    source: RepositoryLocation, target: Path, *, timeout_seconds: float = CHECKOUT_TIMEOUT_SECONDS
) -> RepositoryLocation:
    """Clone what a repository has committed into a new folder; the source is only read.

    Objects are copied, not linked: whatever happens in the clone, the source's files stay its own.

    Raises
    ------
    GitFailed
        If the source cannot be read, or the target exists.
    """
    run_git(
        ["clone", "--quiet", "--no-hardlinks", "--no-tags", source.worktree_root or source.git_dir, target],
        cwd=target.parent,
        timeout_seconds=timeout_seconds,
    )
    return discover(target)


def set_identity(location: RepositoryLocation, name: str, email: str) -> None:
    """Write a committer into a repository's own configuration: for a clone that is Bridge's to shape."""
    for key, value in (("user.name", name), ("user.email", email)):
        run_git(["config", "--local", key, value], cwd=location.run_directory)
