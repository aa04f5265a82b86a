"""Merging without a checkout, and bringing the outcome into one without touching work in progress."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bridge.git.commits import tree_of
from bridge.git.errors import CheckoutBlocked, GitFailed, NotAFastForward, RefMoved
from bridge.git.history import changed_paths, is_ancestor
from bridge.git.observe import operation_in_progress, read_status
from bridge.git.paths import display_path, plain_path
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git, stderr_tail
from bridge.git.repository import RepositoryLocation
from bridge.git.usercommits import draft_commit
from bridge.git.worktrees import CHECKOUT_TIMEOUT_SECONDS, require_commit, require_registered
from bridge.semantics.stamps import UNBORN

#: Paths that a message names; the details hold all of them.
MAX_NAMED_PATHS = 3


@dataclass(frozen=True, slots=True)
class Conflict:
    """One conflicted path; ``stages`` maps 1 (base), 2 (ours), 3 (theirs) to mode and object id."""

    path: bytes
    stages: dict[int, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergeMessage:
    """What git says about some paths, with its stable name for the kind of event (``CONFLICT (contents)``)."""

    kind: str
    paths: tuple[bytes, ...]
    text: str


@dataclass(frozen=True, slots=True)
class MergeOutcome:
    """The tree of a merge; with conflicts it holds conflict markers and must not be committed as it is."""

    tree: str
    conflicts: tuple[Conflict, ...]
    messages: tuple[MergeMessage, ...]

    @property
    def is_clean(self) -> bool:
        return not self.conflicts


def merge_tree(
    location: RepositoryLocation,
    ours: str,
    theirs: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> MergeOutcome:
    """Merge two commits into a tree; no ref, index or file changes.

    Raises
    ------
    GitFailed
        If a commit is missing, the histories share nothing, or git is older than 2.38.
    """
    output = run_git(
        ["merge-tree", "--write-tree", "-z", "--messages", ours, theirs],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        accepted=(0, 1),
    )
    return parse_merge(output.stdout, is_clean=output.status == 0)


def merge_from(
    location: RepositoryLocation,
    base: str,
    ours: str,
    theirs: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> MergeOutcome:
    """Merge two commits as if ``base`` were what they have in common; so ``theirs`` brings what it adds to ``base``.

    Raises
    ------
    GitFailed
        If one is missing.

    Notes
    -----
    git merge-tree takes a base of its own only from 2.40 on. So it is given stand-ins with the same files and that
    ancestor: loose objects that nothing points to, which git removes in time.
    """
    root = draft_commit(location, tree_of(location, base), [])
    one, other = (draft_commit(location, tree_of(location, side), [root]) for side in (ours, theirs))
    return merge_tree(location, one, other, timeout_seconds=timeout_seconds)


def parse_merge(output: bytes, *, is_clean: bool) -> MergeOutcome:
    """Return the outcome that ``git merge-tree --write-tree -z --messages`` wrote.

    Raises
    ------
    ValueError
        If the output does not have the documented form.
    """
    fields = iter(output.split(b"\0"))
    tree = next(fields).decode("ascii")
    conflicts: dict[bytes, Conflict] = {}
    if not is_clean:
        for entry in fields:
            if not entry:  # an empty field ends the conflicted files
                break
            facts, separator, path = entry.partition(b"\t")
            mode, identity, stage = facts.decode("ascii").split(" ")
            if not separator:
                raise ValueError(f"malformed merge output: {entry[:60]!r}")
            conflicts.setdefault(path, Conflict(path)).stages[int(stage)] = (mode, identity)
        if not conflicts:
            raise ValueError("git reported conflicts and named none")
    else:
        next(fields, None)  # the empty field before the messages
    return MergeOutcome(tree, tuple(conflicts.values()), tuple(_messages(fields)))


def _messages(fields: Iterator[bytes]) -> Iterator[MergeMessage]:
    for count in fields:
        if not count.strip():
            continue
        paths = tuple(next(fields) for _ in range(int(count)))
        kind = next(fields).decode("utf-8", "replace")
        yield MergeMessage(kind, paths, next(fields).decode("utf-8", "backslashreplace").strip())


def fast_forward_checkout(
    worktree_path: Path,
    commit: str,
    *,
    expected_head: str | None = None,
    timeout_seconds: float = CHECKOUT_TIMEOUT_SECONDS,
) -> None:
    """Move a checkout (its branch, or its detached HEAD) forward to a commit, files included.

    Unrelated staged, unstaged and untracked work stays as it is. If anything is in the way nothing changes.

    Parameters
    ----------
    expected_head
        The commit that HEAD was at when the merge was made.

    Raises
    ------
    CheckoutBlocked
        If uncommitted, untracked or ignored files would be overwritten, or an operation is in progress.
    RefMoved
        If HEAD is not at ``expected_head``.
    NotAFastForward
        If HEAD is not in the history of ``commit``.
    CommitMissing, WorktreeNotRegistered, GitFailed, GitTimedOut
    """
    location = require_registered(worktree_path)
    require_commit(location, commit)
    status = read_status(location)
    head = UNBORN if status.head is None else status.head.decode("ascii")
    if expected_head is not None and head != expected_head:
        raise RefMoved(
            f"HEAD of {str(worktree_path)!r} is at {head}, not at {expected_head}; nothing was changed.",
            details={"ref": "HEAD", "expected": expected_head, "found": head},
        )
    operation = operation_in_progress(location)
    if operation not in {None, "bisect"}:
        raise CheckoutBlocked(
            f"A {operation} is in progress in {str(worktree_path)!r}; nothing was changed.",
            hint="Finish or abort it, then try again.",
            details={"paths": [], "operation": operation},
        )
    if head != UNBORN and not is_ancestor(location, head, commit):
        raise NotAFastForward(
            f"HEAD of {str(worktree_path)!r} ({head}) is not in the history of {commit}; nothing was changed.",
            details={"head": head, "commit": commit},
        )
    try:
        _merge(location, commit, timeout_seconds)
    except GitFailed as error:
        if clashing_paths(location, head, commit):
            raise blocked(location, head, commit, str(error.details.get("stderr", ""))) from error
        raise
    found = run_git(["rev-parse", "HEAD"], cwd=location.root).text
    if found != commit:
        raise RefMoved(
            f"HEAD of {str(worktree_path)!r} is at {found} after moving it to {commit}: something else moved it too.",
            details={"ref": "HEAD", "expected": commit, "found": found},
        )


def _merge(location: RepositoryLocation, commit: str, timeout_seconds: float) -> None:
    run_git(
        [
            "-c",
            "submodule.recurse=false",
            "-c",
            "gc.auto=0",
            "-c",
            "maintenance.auto=false",
            "merge",
            "--ff-only",
            "--no-autostash",
            "--no-overwrite-ignore",
            "--no-verify-signatures",
            "--no-squash",
            "--commit",
            "--no-stat",
            "--quiet",
            commit,
        ],
        cwd=location.root,
        timeout_seconds=timeout_seconds,
        may_prompt=True,
    )


def require_way(location: RepositoryLocation, head: str, commit: str) -> None:
    """Return if a checkout could be moved from HEAD to a commit: git itself tries it, without writing anything.

    Raises
    ------
    CheckoutBlocked
        If uncommitted or untracked files are in the way.
    """
    with tempfile.TemporaryDirectory(prefix="bridge-index-") as folder:
        private = Path(folder) / "index"
        if (location.git_dir / "index").exists():
            shutil.copy2(location.git_dir / "index", private)
        environment = {"GIT_INDEX_FILE": str(private)}
        options = ["-c", "core.splitIndex=false", "-c", "submodule.recurse=false"]
        run_git(
            [*options, "update-index", "-q", "--refresh"],
            cwd=location.root,
            extra_environment=environment,
            accepted=(0, 1),
        )
        tried = run_git(
            [*options, "read-tree", "--dry-run", "-m", "-u", head, commit],
            cwd=location.root,
            timeout_seconds=CHECKOUT_TIMEOUT_SECONDS,
            extra_environment=environment,
            accepted=(0, 128),
            may_prompt=True,
        )
    if tried.status != 0:
        raise blocked(location, head, commit, stderr_tail(tried.stderr))


def blocked(location: RepositoryLocation, head: str, commit: str, stderr: str) -> CheckoutBlocked:
    """Return the error that names what is in the way of moving a checkout from HEAD to a commit."""
    paths = clashing_paths(location, head, commit)
    named = ", ".join(display_path(path) for path in paths[:MAX_NAMED_PATHS])
    more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
    return CheckoutBlocked(
        f"{len(paths)} path(s) in {str(location.root)!r} stand in the way: {named}{more}. Nothing was changed.",
        details={"paths": [plain_path(path) for path in paths], "stderr": stderr},
    )


def clashing_paths(location: RepositoryLocation, head: str, commit: str) -> list[bytes]:
    """Return the paths with uncommitted, untracked or ignored content that moving from HEAD to a commit would write.

    A file where the commit needs a folder clashes too, and the other way round.
    """
    listed = [row.path for row in read_status(location).rows]
    root = os.fsencode(location.root)
    found: set[bytes] = set()
    for change in changed_paths(location, head, commit):
        for target in (change.path, change.old_path):
            if target is None:
                continue
            found.update(path for path in listed if _overlaps(path, target))
        if change.status in "AR" and os.path.lexists(root + b"/" + change.path):
            found.add(change.path)
    return sorted(found)


def _overlaps(path: bytes, other: bytes) -> bool:
    return path == other or path.startswith(other + b"/") or other.startswith(path + b"/")
