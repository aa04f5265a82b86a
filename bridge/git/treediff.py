"""The difference of two commits or trees as people read it: counts per path, and the patch as git writes it."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.git.history import ChangedPath, changed_paths
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git
from bridge.git.repository import RepositoryLocation

#: Neither the user's drivers nor their text conversions nor their taste in presentation.
_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "--diff-algorithm=default", "--inter-hunk-context=0")


@dataclass(frozen=True, slots=True)
class PathCount:
    """One changed path; ``additions`` and ``deletions`` are lines, None for what is binary."""

    change: ChangedPath
    additions: int | None
    deletions: int | None


def count_changes(
    location: RepositoryLocation, old: str, new: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> list[PathCount]:
    """Return which paths differ between two commits or trees, renames paired, with the lines that changed.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot compare them.
    """
    changes = changed_paths(location, old, new, timeout_seconds=timeout_seconds)
    output = run_git(
        ["diff-tree", "-r", "-z", "-M", "--numstat", *_PLAIN, "--end-of-options", old, new],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    counts = _counts(output.stdout)
    return [PathCount(change, *counts.get(change.path, (None, None))) for change in changes]


def tree_patch(
    location: RepositoryLocation,
    old: str,
    new: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> bytes:
    """Return the patch between two commits or trees, with names quoted as git quotes them. Raises as above."""
    return run_git(
        ["-c", "core.quotePath=true", "diff-tree", "-r", "-p", "-M", *_PLAIN, "--end-of-options", old, new],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    ).stdout


def _counts(output: bytes) -> dict[bytes, tuple[int | None, int | None]]:
    """Read ``--numstat -z``: additions, deletions and path; of a rename an empty path, then the two names."""
    found: dict[bytes, tuple[int | None, int | None]] = {}
    fields = iter(output.split(b"\0"))
    for field in fields:
        if not field:
            continue
        added, deleted, path = field.split(b"\t", 2)
        if not path:
            next(fields)
            path = next(fields)
        found[path] = (_number(added), _number(deleted))
    return found


def _number(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
