"""Linked worktrees: made at an exact commit and verified, found by path, never confused with a plain folder."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bridge.git.errors import (
    BranchCheckedOut,
    CommitMissing,
    GitFailed,
    GitTimedOut,
    NotARepository,
    RefMoved,
    WorktreeMismatch,
    WorktreeNotRegistered,
    WorktreePathTaken,
)
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, GitOutput, run_git
from bridge.git.repository import RepositoryLocation, discover, read_pointer

#: Time limit for writing out or deleting a whole work tree.
CHECKOUT_TIMEOUT_SECONDS = 600.0
#: How often, and how long apart in seconds, git is run again that came upon a half-made worktree of another git.
HALF_MADE_TRIES = 20
HALF_MADE_SECONDS = 0.02

_COMMIT_ID = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_locks: dict[str, threading.Lock] = {}
_locks_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Worktree:
    """One worktree as its repository lists it.

    Parameters
    ----------
    path
        Its top level, as registered; it may be gone.
    head
        Commit id; None for a bare repository or before the first commit.
    branch
        Full name of the checked-out branch; None when detached.
    locked, prunable
        git's reason (possibly empty) if it is so, else None.
    """

    path: Path
    head: str | None
    branch: str | None
    is_bare: bool
    locked: str | None
    prunable: str | None


def list_worktrees(location: RepositoryLocation, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> list[Worktree]:
    """Return all worktrees of the repository, the main one first."""
    output = _past_half_made(
        lambda: run_git(
            ["worktree", "list", "--porcelain", "-z"], cwd=location.run_directory, timeout_seconds=timeout_seconds
        )
    )
    found: list[Worktree] = []
    for block in output.stdout.split(b"\0\0"):
        facts = dict(_fact(line) for line in block.split(b"\0") if line)
        if "worktree" not in facts:
            continue
        head = facts.get("HEAD")
        found.append(
            Worktree(
                path=Path(facts["worktree"]),
                head=None if head is None or not head.strip("0") else head,
                branch=facts.get("branch"),
                is_bare="bare" in facts,
                locked=facts.get("locked"),
                prunable=facts.get("prunable"),
            )
        )
    return found


def _fact(line: bytes) -> tuple[str, str]:
    name, _, value = line.partition(b" ")
    return os.fsdecode(name), os.fsdecode(value)


def find_worktree(
    location: RepositoryLocation, path: Path, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> Worktree | None:
    """Return the worktree registered at a path, whatever its branch is called by now; None if there is none."""
    wanted = os.path.realpath(path)
    for worktree in list_worktrees(location, timeout_seconds=timeout_seconds):
        if os.path.realpath(worktree.path) == wanted:
            return worktree
    return None


def require_registered(path: Path) -> RepositoryLocation:
    """Return the location of the worktree whose top level is exactly ``path``.

    Only files are read: ``.git`` must lead to a git directory that leads back here.

    Raises
    ------
    WorktreeNotRegistered
        If the folder is missing, lies within another worktree, or its repository does not know it.
    """
    real = Path(os.path.realpath(path))
    try:
        location = discover(real)
    except NotARepository as error:
        raise _not_registered(path, "it leads to no repository") from error
    if location.worktree_root != real:
        raise _not_registered(path, f"git there would act on {str(location.worktree_root or location.git_dir)!r}")
    if location.is_linked:
        back = read_pointer(location.git_dir / "gitdir")
        if back is None:
            raise _not_registered(path, "its repository does not know it")
        target = os.path.join(location.git_dir, os.fsdecode(back.rstrip(b"\r\n")))
        if os.path.realpath(target) != os.path.join(real, ".git"):
            raise _not_registered(path, f"its repository has {os.path.dirname(target)!r} in its place")
    return location


def _not_registered(path: Path, why: str) -> WorktreeNotRegistered:
    return WorktreeNotRegistered(
        f"{str(path)!r} is not a registered worktree: {why}. Nothing was run there.", details={"path": str(path)}
    )


def add_detached(
    location: RepositoryLocation, path: Path, commit: str, *, timeout_seconds: float = CHECKOUT_TIMEOUT_SECONDS
) -> RepositoryLocation:
    """Make a worktree at ``path`` whose detached HEAD is ``commit``, and return its location, verified.

    Hooks do not run; filters do, since they make the files what they should be.

    Raises
    ------
    CommitMissing
        If the repository does not have the commit.
    WorktreePathTaken
        If something is at the path, or git has it registered.
    WorktreeMismatch
        If what came out is not what was asked for; it was removed again.
    GitFailed, GitTimedOut, GitMissing
        If git fails; no half-made worktree is left.
    """
    try:
        _add(location, path, ["--detach", str(path), commit], timeout_seconds)
    except GitFailed:
        # Asked only now, since the commit is nearly always there: it was somebody's HEAD a moment ago.
        require_commit(location, commit)
        raise
    return _verified(location, path, commit)


def add_on_branch(
    location: RepositoryLocation,
    path: Path,
    branch: str,
    *,
    expected_tip: str,
    timeout_seconds: float = CHECKOUT_TIMEOUT_SECONDS,
) -> RepositoryLocation:
    """Make a worktree at ``path`` on an existing git branch (full name), which must be at ``expected_tip``.

    Raises
    ------
    BranchCheckedOut
        If another worktree has the branch; details name it. There is no fallback to a detached HEAD.
    RefMoved
        If the branch does not exist or its tip is another commit: it is not reused silently.
    """
    holder = branch_holder(location, branch)
    if holder is not None:
        raise BranchCheckedOut(
            f"{branch} is checked out in {str(holder)!r}; no worktree was made.",
            details={"branch": branch, "worktree": str(holder)},
        )
    found = run_git(["rev-parse", "--verify", "--quiet", branch], cwd=location.run_directory, accepted=(0, 1, 128))
    tip = found.text if found.status == 0 else None
    if tip != expected_tip:
        raise RefMoved(
            f"{branch} is at {tip or 'no commit'}, not at {expected_tip}; no worktree was made.",
            details={"ref": branch, "expected": expected_tip, "found": tip},
        )
    _add(location, path, [str(path), branch.removeprefix("refs/heads/")], timeout_seconds)
    return _verified(location, path, expected_tip)


def require_commit(location: RepositoryLocation, commit: str) -> None:
    """Return if the repository has the commit.

    Raises
    ------
    CommitMissing
        If it does not, or the id names something else. Nothing is fetched to find out.
    """
    answer = run_git(
        ["cat-file", "-t", commit],
        cwd=location.run_directory,
        extra_environment={"GIT_NO_LAZY_FETCH": "1"},
        accepted=(0, 1, 128),
    )
    if answer.status != 0 or answer.text != "commit":
        raise CommitMissing(f"The repository has no commit {commit}.", details={"commit": commit})


def branch_holder(
    location: RepositoryLocation, branch: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> Path | None:
    """Return the worktree that has a branch (full name) checked out, or is rebasing or bisecting it."""
    for worktree in list_worktrees(location, timeout_seconds=timeout_seconds):
        if worktree.branch == branch or (worktree.branch is None and _works_on(worktree.path, branch)):
            return worktree.path
    return None


def _works_on(path: Path, branch: str) -> bool:
    try:
        git_dir = discover(path).git_dir
    except NotARepository:
        return False
    for name in ("rebase-merge/head-name", "rebase-apply/head-name"):
        if (read_pointer(git_dir / name) or b"").strip() == os.fsencode(branch):
            return True
    start = (read_pointer(git_dir / "BISECT_START") or b"").strip()
    return start != b"" and os.fsencode(branch) == b"refs/heads/" + start


def _add(location: RepositoryLocation, path: Path, arguments: list[str], timeout_seconds: float) -> None:
    if os.path.lexists(path):
        raise WorktreePathTaken(f"{str(path)!r} exists already; no worktree was made.", details={"path": str(path)})
    command = ["-c", "submodule.recurse=false", "worktree", "add", "--quiet", *arguments]
    try:
        with _adding(location):
            _past_half_made(
                lambda: run_git(command, cwd=location.run_directory, timeout_seconds=timeout_seconds, may_prompt=True)
            )
    except GitFailed as error:
        words = str(error.details.get("stderr", ""))
        if "already registered worktree" in words:
            raise WorktreePathTaken(
                f"git has a worktree registered at {str(path)!r} whose folder is gone; no worktree was made.",
                details={"path": str(path)},
            ) from error
        raise
    except GitTimedOut:
        _discard(location, path)
        raise


@contextlib.contextmanager
def _adding(location: RepositoryLocation) -> Iterator[None]:
    """Let one thread of this process at a time make a worktree in a repository; see :func:`_past_half_made`."""
    with _locks_lock:
        lock = _locks.setdefault(str(location.common_dir), threading.Lock())
    with lock:
        yield


def _past_half_made(run: Callable[[], GitOutput]) -> GitOutput:
    """Run a git that looks at all worktrees, again where it came upon one that another git was just making.

    git writes the small files of a new worktree in place, and gives up when it finds one of them empty. It does so
    before it makes anything itself.
    """
    for _ in range(HALF_MADE_TRIES - 1):
        try:
            return run()
        except GitFailed as error:
            words = str(error.details.get("stderr", ""))
            if "failed to read" not in words or "commondir" not in words:
                raise
            time.sleep(HALF_MADE_SECONDS)
    return run()


def _verified(location: RepositoryLocation, path: Path, commit: str) -> RepositoryLocation:
    made: RepositoryLocation | None = None
    try:
        made = require_registered(path)
    except WorktreeNotRegistered as error:
        _discard(location, path)
        raise WorktreeMismatch(
            f"The new worktree {str(path)!r} is not registered; it was removed again.", details={"path": str(path)}
        ) from error
    found = _detached_head(made) or run_git(["rev-parse", "HEAD"], cwd=path).text
    if found != commit or made.common_dir != location.common_dir:
        _discard(location, path)
        raise WorktreeMismatch(
            f"The new worktree {str(path)!r} is at {found}, not at {commit}; it was removed again.",
            details={"path": str(path), "expected": commit, "found": found},
        )
    return made


def _detached_head(location: RepositoryLocation) -> str | None:
    """Return the commit in the HEAD of a worktree, as its file has it; None if that names a branch, or is no file."""
    content = (read_pointer(location.git_dir / "HEAD") or b"").strip()
    return content.decode("ascii") if _COMMIT_ID.fullmatch(content) else None


def _discard(location: RepositoryLocation, path: Path) -> None:
    """Remove a worktree that was just made and in which nothing has run."""
    run_git(["worktree", "remove", "--force", "--force", str(path)], cwd=location.run_directory, accepted=(0, 128))


def remove_worktree(
    location: RepositoryLocation,
    path: Path,
    *,
    is_forced: bool = False,
    timeout_seconds: float = CHECKOUT_TIMEOUT_SECONDS,
) -> None:
    """Remove a linked worktree and its registration; its commits and refs stay.

    Without ``is_forced`` git itself refuses one with modified or untracked files, or locked. Forced removal is
    for work that is proven to be kept elsewhere (:mod:`bridge.git.removal`) or that the user gives up in so many
    words; a locked one is refused either way.

    Raises
    ------
    WorktreeNotRegistered
        If no linked worktree is registered at the path.
    GitFailed
        If git refuses; the worktree is as it was.
    """
    known = find_worktree(location, path)
    if known is None or os.path.realpath(known.path) == os.path.realpath(location.common_dir.parent):
        raise _not_registered(path, "no linked worktree is known there")
    if os.path.lexists(path):
        require_registered(path)
    run_git(
        ["worktree", "remove", *(["--force"] if is_forced else []), str(known.path)],
        cwd=location.common_dir,
        timeout_seconds=timeout_seconds,
    )


@dataclass(frozen=True, slots=True)
class CheckoutDrift:
    """How a worktree's HEAD differs from what was recorded; None and False where it does not.

    Parameters
    ----------
    expected_branch, branch
        Full branch names, None for detached.
    notes
        One sentence per difference, for people.
    """

    expected_branch: str | None
    branch: str | None
    notes: tuple[str, ...]


def checkout_drift(path: Path, expected_branch: str | None) -> CheckoutDrift:
    """Return what became of a worktree's branch since it was recorded: renamed, switched, attached, detached.

    Raises
    ------
    WorktreeNotRegistered
        If the folder is no longer a worktree of its own.
    """
    location = require_registered(path)
    branch = None
    if _detached_head(location) is None:
        head = run_git(["symbolic-ref", "--quiet", "HEAD"], cwd=location.root, accepted=(0, 1))
        branch = head.text if head.status == 0 else None
    notes: list[str] = []
    if branch != expected_branch:
        if branch is None:
            notes.append(f"HEAD was on {expected_branch} and is detached now.")
        elif expected_branch is None:
            notes.append(f"HEAD was detached and is on {branch} now.")
        else:
            exists = run_git(["show-ref", "--verify", "--quiet", expected_branch], cwd=location.root, accepted=(0, 1))
            became = "was switched" if exists.status == 0 else "was renamed, or removed and switched,"
            notes.append(f"The branch {expected_branch} {became} to {branch}.")
    return CheckoutDrift(expected_branch, branch, tuple(notes))
