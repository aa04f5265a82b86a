"""Adoptions and their previews, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bridge.cli.rendering import cut

if TYPE_CHECKING:
    from bridge.control.delegations.adoption.model import Adoption, Obstacle, Preview, PreviewedTask, Verification

#: Paths of one list that are printed; the JSON form has all.
MAX_PATHS: Final = 20
#: Longest text of an obstacle's line.
_MAX_WORDS: Final = 600


def adoption_lines(done: Adoption) -> str:
    """Return what an adoption did, in lines."""
    return "\n".join(_adoption(done))


def preview_lines(preview: Preview) -> str:
    """Return what an adoption would do, in lines."""
    return "\n".join(_preview(preview))


def _adoption(done: Adoption) -> Iterator[str]:
    for task in done.tasks:
        name = task.delegation.name or task.delegation.id
        if done.was_contained or task.method == "contained":
            yield f"{name}: the branch held its changes already ({done.commit[:12]})"
        else:
            yield f"{name}: adopted {len(task.files_changed)} file(s) into {done.branch} as {done.commit[:12]}"
        yield from _verification(task.verification)
        if task.delegation.kept_reason is not None:
            yield f"  its worktree was kept: {task.delegation.kept_reason}"
    if done.check is not None:
        yield f"check passed in {done.check.seconds:.1f} s: {cut(done.check.command, 80)}"
    if done.undo:
        if not done.is_checked_out:
            yield f"{done.branch} is not checked out here; your files are as they were"
        yield f"undo: {done.undo}"


def _preview(preview: Preview) -> Iterator[str]:
    where = "no branch" if preview.branch is None else f"{preview.branch} at {str(preview.tip)[:12]}"
    held = "" if preview.branch is None or preview.is_checked_out else " (not checked out)"
    yield f"into {where}{held}; nothing was changed"
    for task in preview.tasks:
        yield from _previewed(task)
    for obstacle in preview.blocked_by:
        yield _obstacle(obstacle)
    if preview.check is not None:
        yield f"check passed in {preview.check.seconds:.1f} s: {cut(preview.check.command, 80)}"
    yield "would be adopted" if preview.is_adoptable else "would not be adopted"


def _previewed(task: PreviewedTask) -> Iterator[str]:
    yield f"{task.delegation.name or task.delegation.id}: {task.method}, {len(task.files_changed)} file(s)"
    yield from _paths("", task.files_changed)
    yield from _paths("out of scope: ", task.out_of_scope)
    others = f" (with {', '.join(task.conflicts_with)})" if task.conflicts_with else ""
    yield from _paths(f"conflict{others}: ", task.conflicts)
    if task.has_base_moved:
        yield f"  the branch has moved since it started from {str(task.base_commit)[:12]}"
    yield from _verification(task.verification)
    if task.obstacle is not None:
        yield "  " + _obstacle(task.obstacle)


def _verification(verification: Verification) -> Iterator[str]:
    if not verification.tests:
        return
    for test in verification.tests:
        yield f"  tested: {cut(str(test.get('command')), 60)}: {test.get('status')}"
    if str(verification.status) == "reopened":
        yield "  these tests did not run on what the branch holds then; verify again"


def _paths(prefix: str, paths: tuple[str, ...]) -> Iterator[str]:
    for path in paths[:MAX_PATHS]:
        yield f"  {prefix}{path}"
    if len(paths) > MAX_PATHS:
        yield f"  {prefix}and {len(paths) - MAX_PATHS} more"


def _obstacle(obstacle: Obstacle) -> str:
    return f"in the way ({obstacle.code}): {cut(obstacle.message, _MAX_WORDS)}"
