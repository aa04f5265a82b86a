"""Bringing the difference of two trees onto another commit, and into a worktree as uncommitted changes."""

from __future__ import annotations

from bridge.git.commits import BRIDGE_IDENTITY, tree_of, write_commit
from bridge.git.merging import MergeOutcome, merge_tree
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git
from bridge.git.repository import RepositoryLocation


def merge_difference(
    location: RepositoryLocation,
    base: str,
    changed: str,
    onto: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> MergeOutcome:
    """Merge what changed between two commits onto a third one, and nothing that lies before the first.

    The histories play no part: the three trees are given commits of their own, which no ref names.

    Raises
    ------
    GitFailed
        If a commit is missing.
    """

    def committed(commit: str, parents: list[str]) -> str:
        tree = tree_of(location, commit, timeout_seconds=timeout_seconds)
        message = f"Files of {commit}, to be merged by Bridge"
        return write_commit(location, tree, parents, message, BRIDGE_IDENTITY, timeout_seconds=timeout_seconds)

    root = committed(base, [])
    ours, theirs = committed(onto, [root]), committed(changed, [root])
    return merge_tree(location, ours, theirs, timeout_seconds=timeout_seconds)


def bring_to_tree(location: RepositoryLocation, tree: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
    """Make files and index of a clean worktree those of a tree; HEAD stays, so that the difference is uncommitted.

    Raises
    ------
    GitFailed
        If an untracked file is in the way; nothing was changed then.
    """
    run_git(["read-tree", "-m", "-u", "HEAD", tree], cwd=location.root, timeout_seconds=timeout_seconds)
