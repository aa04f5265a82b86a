"""Commits and refs that Bridge makes: preserving snapshots, adoption's merges, moves of refs.

Preserving commits are Bridge's own: a private index, no hooks, no signing, a fixed identity, refs under
``refs/bridge/`` only. Merges for an adoption carry the user's identity, or are refused.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge.git.errors import BranchCheckedOut, GitFailed, GitIdentityMissing, RefMoved, UnbornHead
from bridge.git.observe import read_status
from bridge.git.porcelain import StatusOutput
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, IDENTITY_VARIABLES, run_git
from bridge.git.repository import RepositoryLocation
from bridge.git.worktrees import branch_holder, require_registered

#: The only namespace that Bridge's own refs live in.
REF_NAMESPACE = "refs/bridge/"
#: Who preserving commits say they are from, whatever the user's configuration.
BRIDGE_IDENTITY = {
    "GIT_AUTHOR_NAME": "Bridge",
    "GIT_AUTHOR_EMAIL": "bridge@localhost",
    "GIT_COMMITTER_NAME": "Bridge",
    "GIT_COMMITTER_EMAIL": "bridge@localhost",
}
#: Options of the calls that fill and read the private index. Line-end warnings must not fail it, a split index would be
#: written into the user's git directory, and a nested repository is reported by us, not by advice.
_PRIVATE_INDEX_OPTIONS = (
    "-c",
    "core.safecrlf=false",
    "-c",
    "core.splitIndex=false",
    "-c",
    "add.ignoreErrors=false",
    "-c",
    "advice.addEmbeddedRepo=false",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a worktree's files are as a tree.

    Parameters
    ----------
    tree
        Id of the tree object: HEAD's own when nothing is uncommitted; None when HEAD is unborn and nothing is there.
    head
        The commit that HEAD was at; None when unborn.
    had_uncommitted
        Whether git status listed anything.
    omitted
        Paths whose content a tree cannot hold: nested repositories, and submodules with commits or work of their own.
    """

    tree: str | None
    head: str | None
    had_uncommitted: bool
    omitted: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Preserved:
    """A commit that keeps everything a worktree held; ``commit`` is ``head`` itself when nothing was uncommitted."""

    commit: str
    head: str | None
    had_uncommitted: bool
    omitted: tuple[bytes, ...]
    ref: str


def preserve(
    worktree_path: Path,
    *,
    ref: str,
    message: str,
    clean_at: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Preserved:
    """Keep HEAD and all uncommitted, unignored work of a worktree in a commit that ``ref`` points to.

    The worktree, its index, its branch and its HEAD stay as they are. The same serves a worker's worktree before
    it is given up and the parent's checkout when its uncommitted work is carried to a worker.

    Parameters
    ----------
    clean_at
        The commit that an exact look at the worktree, taken just now, found it clean at; None where it was not clean
        or nobody looked, and it is looked at here.

    Raises
    ------
    ValueError
        If ``ref`` is not under ``refs/bridge/``.
    UnbornHead
        If there is neither a commit nor a file to keep.
    WorktreeNotRegistered, GitFailed, GitTimedOut, GitMissing
        If the work cannot be kept in full; nothing may be removed then.
    """
    require_bridge_ref(ref)
    location = require_registered(worktree_path)
    if clean_at is not None:
        update_ref(location, ref, clean_at, message="bridge: preserve", timeout_seconds=timeout_seconds)
        return Preserved(clean_at, clean_at, had_uncommitted=False, omitted=(), ref=ref)
    taken = snapshot_tree(location, timeout_seconds=timeout_seconds)
    if taken.tree is None:
        raise UnbornHead(f"{str(worktree_path)!r} has no commit and no file to keep; nothing was written.")
    if taken.head is not None and (
        not taken.had_uncommitted or taken.tree == tree_of(location, taken.head, timeout_seconds=timeout_seconds)
    ):
        commit = taken.head
    else:
        parents = [] if taken.head is None else [taken.head]
        commit = write_commit(location, taken.tree, parents, message, BRIDGE_IDENTITY, timeout_seconds=timeout_seconds)
    update_ref(location, ref, commit, message="bridge: preserve", timeout_seconds=timeout_seconds)
    return Preserved(commit, taken.head, taken.had_uncommitted, taken.omitted, ref)


def snapshot_tree(location: RepositoryLocation, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> Snapshot:
    """Write the files of a worktree as a tree object, through an index of our own.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot read all of the work.
    """
    status = read_status(location, timeout_seconds=timeout_seconds)
    head = None if status.head is None else status.head.decode("ascii")
    if not status.rows:
        tree = None if head is None else tree_of(location, head, timeout_seconds=timeout_seconds)
        return Snapshot(tree, head, had_uncommitted=False, omitted=())
    tree = _write_tree(location, status, timeout_seconds)
    return Snapshot(tree, head, had_uncommitted=True, omitted=_omitted(status))


def _omitted(status: StatusOutput) -> tuple[bytes, ...]:
    # "SCMU": of a submodule a tree holds the id of a commit, not that commit itself, nor what is modified there.
    return tuple(row.path for row in status.rows if row.is_nested or row.submodule not in {b"N...", b"S..."})


def _write_tree(location: RepositoryLocation, status: StatusOutput, timeout_seconds: float) -> str:
    nested = [b":(top,exclude,literal)" + row.path for row in status.rows if row.is_nested]
    with tempfile.TemporaryDirectory(prefix="bridge-index-") as folder:
        private = Path(folder) / "index"
        # The copy keeps the times of the original: by them git knows which entries it has to look at again.
        if (location.git_dir / "index").exists():
            shutil.copy2(location.git_dir / "index", private)
        environment = {"GIT_INDEX_FILE": str(private)}
        run_git(
            [*_PRIVATE_INDEX_OPTIONS, "add", "--all", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"],
            cwd=location.root,
            timeout_seconds=timeout_seconds,
            stdin=b"\0".join([b":(top)", *nested]),
            extra_environment=environment,
        )
        return run_git(
            [*_PRIVATE_INDEX_OPTIONS, "write-tree"],
            cwd=location.root,
            timeout_seconds=timeout_seconds,
            extra_environment=environment,
        ).text


def tree_of(location: RepositoryLocation, commit: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> str:
    """Return the id of a commit's tree.

    Raises
    ------
    GitFailed
        If there is no such commit.
    """
    return run_git(
        ["rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}"],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    ).text


def require_bridge_ref(ref: str) -> str:
    """Return a ref name if Bridge may write it as its own.

    Raises
    ------
    ValueError
        If it is not under ``refs/bridge/``; a fault of the caller, not a condition.
    """
    if not ref.startswith(REF_NAMESPACE) or ".." in ref or ref.endswith(("/", ".lock")) or "//" in ref:
        raise ValueError(f"not a ref of Bridge's own: {ref!r}")
    return ref


def commit_tree(
    location: RepositoryLocation,
    tree: str,
    parents: Sequence[str],
    message: str,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> str:
    """Write a commit in the user's name and return its id; no ref moves.

    Raises
    ------
    GitIdentityMissing
        If neither configuration nor environment names the user; a guess from the host name does not count.
    GitFailed
        If the tree or a parent is missing.
    """
    require_identity(location, timeout_seconds=timeout_seconds)
    return write_commit(location, tree, parents, message, None, is_users=True, timeout_seconds=timeout_seconds)


def require_identity(location: RepositoryLocation, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
    """Return if git knows in whose name the user commits.

    Raises
    ------
    GitIdentityMissing
        If it does not.
    """
    for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        found = run_git(
            ["-c", "user.useConfigOnly=true", "var", who],
            cwd=location.run_directory,
            timeout_seconds=timeout_seconds,
            keep=IDENTITY_VARIABLES,
            accepted=(0, 128),
        )
        if found.status != 0:
            raise GitIdentityMissing("git does not know whose name the commit should carry; nothing was changed.")


def write_commit(
    location: RepositoryLocation,
    tree: str,
    parents: Sequence[str],
    message: str,
    identity: Mapping[str, str] | None,
    *,
    is_users: bool = False,
    is_signed: bool = False,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> str:
    """Write a commit object and return its id; no ref moves, and no hook runs.

    Parameters
    ----------
    identity
        Variables that say whose it is.
    is_users
        Whether what ``identity`` leaves open is the user's, as configured.
    is_signed
        Whether it is signed with the user's key. ``commit.gpgSign`` alone does not make it so.

    Raises
    ------
    GitFailed
        If the tree or a parent is missing, or it cannot be signed.
    """
    return run_git(
        [
            "-c",
            "i18n.commitEncoding=UTF-8",
            "-c",
            "user.useConfigOnly=true",
            "commit-tree",
            *(["-S"] if is_signed else []),
            *[part for parent in parents for part in ("-p", parent)],
            "-F",
            "-",
            tree,
        ],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        stdin=message.encode("utf-8", "surrogateescape") + b"\n",
        extra_environment=identity,
        keep=IDENTITY_VARIABLES if is_users else (),
        may_prompt=is_signed,
    ).text


def record_message(
    location: RepositoryLocation, ref: str, message: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> str:
    """Add a commit without files to a ref of Bridge's own, in Bridge's name, and return its id.

    Raises
    ------
    RefMoved
        If somebody else added one at the same moment; nothing moved.
    GitFailed
        If git refuses.
    """
    parent = read_ref(location, require_bridge_ref(ref), timeout_seconds=timeout_seconds)
    tree = run_git(["mktree"], cwd=location.run_directory, timeout_seconds=timeout_seconds, stdin=b"").text
    parents = [] if parent is None else [parent]
    commit = write_commit(location, tree, parents, message, BRIDGE_IDENTITY, timeout_seconds=timeout_seconds)
    update_ref(location, ref, commit, expected=parent, must_be_new=parent is None, timeout_seconds=timeout_seconds)
    return commit


def read_message(
    location: RepositoryLocation, ref: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> str | None:
    """Return the message of the commit that a ref is at; None if there is no such ref."""
    found = run_git(
        ["for-each-ref", "--count=1", "--format=%(contents)", ref],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
    )
    return found.text or None


def read_ref(location: RepositoryLocation, ref: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> str | None:
    """Return the commit that a full ref name points to, or None if there is no such ref."""
    found = run_git(
        ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        accepted=(0, 1, 128),
    )
    return found.text if found.status == 0 else None


def update_ref(
    location: RepositoryLocation,
    ref: str,
    new: str | None,
    *,
    expected: str | None = None,
    must_be_new: bool = False,
    message: str = "bridge",
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Point a ref to a commit (None removes it), if it is where the caller last saw it.

    Parameters
    ----------
    expected
        Commit that the ref must be at; None accepts any.
    must_be_new
        Refuse if the ref exists.

    Raises
    ------
    RefMoved
        If it is elsewhere; nothing was written.
    GitFailed
        If git refuses for another reason.
    """
    old = expected
    if must_be_new:
        old = "0" * (40 if new is None else len(new))
    if new is None:
        arguments = ["update-ref", "--no-deref", "-m", message, "-d", ref, *([old] if old else [])]
    else:
        arguments = ["update-ref", "--no-deref", "-m", message, ref, new, *([old] if old else [])]
    try:
        run_git(
            arguments, cwd=location.run_directory, timeout_seconds=timeout_seconds, extra_environment=BRIDGE_IDENTITY
        )
    except GitFailed as error:
        found = read_ref(location, ref, timeout_seconds=timeout_seconds)
        if old is None or found == expected:
            raise
        raise RefMoved(
            f"{ref} is at {found or 'no commit'}, not at {expected or 'no commit'}; nothing was written.",
            details={"ref": ref, "expected": expected, "found": found},
        ) from error


def move_branch(
    location: RepositoryLocation,
    branch: str,
    new: str,
    *,
    expected: str,
    message: str = "bridge: adopt",
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Move a git branch (full name) that no worktree has checked out from one commit to another.

    Raises
    ------
    BranchCheckedOut
        If a worktree has it checked out; moving it would turn its files into apparent changes.
    RefMoved
        If it is not at ``expected``.
    """
    holder = branch_holder(location, branch, timeout_seconds=timeout_seconds)
    if holder is not None:
        raise BranchCheckedOut(
            f"{branch} is checked out in {str(holder)!r}; nothing was changed.",
            details={"branch": branch, "worktree": os.fspath(holder)},
        )
    update_ref(location, branch, new, expected=expected, message=message, timeout_seconds=timeout_seconds)
