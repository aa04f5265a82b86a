"""The work of a try that ended, merged onto the commit that the next one starts from. Blocking."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bridge.control.delegations.model import Delegation
from bridge.control.errors import RetryConflict
from bridge.git.merging import merge_from
from bridge.git.paths import plain_path
from bridge.git.repository import discover

#: Conflicting paths that a refusal names.
MAX_NAMED_PATHS: Final = 20


def carried_work(checkout: Path, before: Delegation, head: str, *, timeout_seconds: float) -> str | None:
    """Return the tree of a commit with a task's changes on top; None if it changed nothing.

    Raises
    ------
    RetryConflict
        If they do not merge.
    GitFailed
        If the commits are gone.
    """
    if before.base_commit is None or before.result_commit is None:
        return None
    location = discover(checkout)
    merged = merge_from(location, before.base_commit, head, before.result_commit, timeout_seconds=timeout_seconds)
    if not merged.is_clean:
        paths = sorted({plain_path(conflict.path) for conflict in merged.conflicts})
        raise RetryConflict(
            f"The work of {before.name or before.id} conflicts with {head[:12]} in {len(paths)} paths. "
            "Nothing was started.",
            details={"delegation_id": before.id, "onto": head, "paths": paths[:MAX_NAMED_PATHS], "count": len(paths)},
        )
    return merged.tree
