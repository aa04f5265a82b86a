"""Commits in the user's name, made as git itself would: with the user's hooks, and signed where the user signs.

Where no hook would run a commit is written as an object, without files. Hooks want files, so with them it is made in
a scratch worktree, by ``git commit``. The user's own checkouts are never touched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.git.commits import BRIDGE_IDENTITY, require_identity, write_commit
from bridge.git.errors import CommitRefused, GitFailed
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, IDENTITY_VARIABLES, run_git
from bridge.git.repository import RepositoryLocation
from bridge.git.worktrees import CHECKOUT_TIMEOUT_SECONDS

#: The hooks that ``git commit`` runs.
COMMIT_HOOKS: Final = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit")
#: Time limit of one commit with its hooks, in seconds; they may run a project's checks.
COMMIT_TIMEOUT_SECONDS: Final = 1800.0
#: When drafts were made: always the same moment, so that a draft made twice is one object.
_DRAFT_DATE: Final = "946684800 +0000"
_QUIET: Final = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "submodule.recurse=false")


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """How the user's commits are made in a repository.

    Parameters
    ----------
    hooks
        The folder with the user's hooks; None if a commit would run none.
    is_signed
        Whether commits are signed.
    """

    hooks: Path | None
    is_signed: bool


@dataclass(frozen=True, slots=True)
class CommitText:
    """Message of a commit and, where it is somebody's, its author as git's variables."""

    message: str
    author: Mapping[str, str] | None = None


def commit_settings(
    location: RepositoryLocation, *, runs_hooks: bool = True, is_signing_wanted: bool = True
) -> CommitSettings:
    """Return how the user commits in a worktree: which hooks would run, and whether commits are signed.

    Parameters
    ----------
    runs_hooks, is_signing_wanted
        False leaves them out, as ``--no-verify`` and ``--no-gpg-sign`` do.

    Raises
    ------
    GitFailed
        If the configuration cannot be read.
    """
    signed = run_git(
        ["config", "--type=bool", "--get", "commit.gpgSign"], cwd=location.run_directory, accepted=(0, 1)
    ).text
    hooks = _hooks_folder(location) if runs_hooks else None
    has_hook = hooks is not None and any(_is_hook(hooks / name) for name in COMMIT_HOOKS)
    return CommitSettings(hooks if has_hook else None, is_signing_wanted and signed == "true")


def _hooks_folder(location: RepositoryLocation) -> Path:
    """Return where the user's hooks are; a relative setting counts from the top of the worktree, as in git."""
    # Every call of ours overrides the setting; the user's own is the last that does not come from the command line.
    output = run_git(
        ["config", "--type=path", "--show-scope", "-z", "--get-all", "core.hooksPath"],
        cwd=location.run_directory,
        accepted=(0, 1),
    ).stdout
    fields = output.split(b"\0")
    own = [value for scope, value in zip(fields[::2], fields[1::2], strict=False) if scope != b"command"]
    if not own or not own[-1]:
        return location.common_dir / "hooks"
    return Path(os.path.join(location.run_directory, os.fsdecode(own[-1])))


def _is_hook(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def draft_commit(location: RepositoryLocation, tree: str, parents: Sequence[str]) -> str:
    """Write a commit that only serves to find out how a merge would go; nothing points to it, and git removes it."""
    dates = {"GIT_AUTHOR_DATE": _DRAFT_DATE, "GIT_COMMITTER_DATE": _DRAFT_DATE}
    return write_commit(location, tree, parents, "draft", BRIDGE_IDENTITY | dates)


def commit_object(
    location: RepositoryLocation, tree: str, parents: Sequence[str], text: CommitText, *, is_signed: bool
) -> str:
    """Write a commit in the user's name without files and hooks, and return its id.

    Raises
    ------
    GitIdentityMissing
        If git does not know the user's name.
    CommitRefused
        If it cannot be signed.
    """
    require_identity(location)
    try:
        return write_commit(location, tree, parents, text.message, text.author, is_signed=is_signed, is_users=True)
    except GitFailed as error:
        if not is_signed:
            raise
        raise _refused("It could not be signed", error) from error


def commit_in_scratch(
    scratch: RepositoryLocation, tree: str, parents: Sequence[str], text: CommitText, settings: CommitSettings
) -> str:
    """Make a commit in the user's name with ``git commit`` in a scratch worktree, hooks included; return its id.

    A hook may change what is committed; the caller looks at the tree that came out.

    Raises
    ------
    GitIdentityMissing
        If git does not know the user's name.
    CommitRefused
        If a hook refuses, or it cannot be signed.
    GitFailed, GitTimedOut
        If git fails for another reason.
    """
    require_identity(scratch)
    reset_scratch(scratch, parents[0])
    for other in parents[1:]:
        # The strategy only notes the second parent; what the merge holds is read right after.
        strategy = ["-s", "ours", "--no-commit", "--no-ff", "--no-verify-signatures", "--quiet"]
        _in_scratch(scratch, ["merge", *strategy, other])
    _in_scratch(scratch, ["read-tree", "--reset", "-u", tree])
    hooks = os.devnull if settings.hooks is None else os.fspath(settings.hooks)
    sign = "--gpg-sign" if settings.is_signed else "--no-gpg-sign"
    arguments = ["commit", "--quiet", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim", sign, "-F", "-"]
    try:
        run_git(
            [*_QUIET, "-c", f"core.hooksPath={hooks}", "-c", "user.useConfigOnly=true", *arguments],
            cwd=scratch.root,
            timeout_seconds=COMMIT_TIMEOUT_SECONDS,
            stdin=text.message.encode("utf-8", "surrogateescape") + b"\n",
            extra_environment=text.author,
            keep=IDENTITY_VARIABLES,
            may_prompt=True,
        )
    except GitFailed as error:
        raise _refused("A hook refused it, or it could not be signed", error) from error
    made = run_git(["rev-list", "--parents", "--max-count=1", "HEAD"], cwd=scratch.root).text.split()
    if made[1:] != list(parents):
        raise CommitRefused(
            "A hook moved HEAD while the commit was made. Your branch and files are unchanged.",
            details={"expected": list(parents), "found": made[1:]},
        )
    return made[0]


def reset_scratch(scratch: RepositoryLocation, commit: str) -> None:
    """Make a scratch worktree's tracked files those of a commit; what else is in it stays."""
    _in_scratch(scratch, ["reset", "--hard", "--quiet", commit])


def text_of(location: RepositoryLocation, commit: str) -> CommitText:
    """Return message and author of a commit, to be given to another that takes its place."""
    output = run_git(
        ["log", "-1", "--encoding=UTF-8", "--date=raw", "--format=%an%x00%ae%x00%ad%x00%B", commit, "--"],
        cwd=location.run_directory,
    )
    name, email, date, message = output.stdout.split(b"\0", 3)
    author = {
        "GIT_AUTHOR_NAME": os.fsdecode(name) or "unknown",
        "GIT_AUTHOR_EMAIL": os.fsdecode(email),
        "GIT_AUTHOR_DATE": os.fsdecode(date),
    }
    return CommitText(message.decode("utf-8", "surrogateescape").rstrip("\n"), author)


def _in_scratch(scratch: RepositoryLocation, arguments: list[str]) -> None:
    run_git(
        [*_QUIET, *arguments],
        cwd=scratch.root,
        timeout_seconds=max(CHECKOUT_TIMEOUT_SECONDS, DEFAULT_TIMEOUT_SECONDS),
        # "merge" notes who merges, though it makes no commit.
        keep=IDENTITY_VARIABLES,
        may_prompt=True,
    )


def _refused(what: str, error: GitFailed) -> CommitRefused:
    said = str(error.details.get("stderr", "")).strip()
    return CommitRefused(
        f"git did not make the commit: {what}. Your branch and files are unchanged."
        + (f" It said: {said[-600:]}" if said else ""),
        details=error.details,
    )
