"""Finding the repository that a path lies in, by reading the few files that git itself reads.

A git process would take as long as half a status. Where a layout leaves any doubt (``core.worktree``), git is
asked after all; and the status call that follows is git's own, so a wrong guess here could at worst misname a
repository, never misjudge its files.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from bridge.foundation.hashing import digest_hex
from bridge.git.errors import BareRepository, GitFailed, NotARepository
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git

#: Longest pointer file (``.git``, ``commondir``, ``HEAD``) that is read.
MAX_POINTER_BYTES = 65_536
#: Largest ``config`` that is searched for a work tree of its own; beyond it git is asked.
MAX_CONFIG_BYTES = 1_048_576

_OBJECT_ID = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\s*\Z")
_OWN_WORKTREE = re.compile(rb"(?:^|\])[ \t]*worktree[ \t]*=", re.IGNORECASE | re.MULTILINE)
_BARE = re.compile(rb"(?:^|\])[ \t]*bare[ \t]*(?:=[ \t]*\"?(?:true|yes|on|1)\b|$)", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """Where a repository and one of its worktrees are; every path is absolute and free of symlinks.

    Parameters
    ----------
    worktree_root
        Top level of the worktree; None in a bare repository or inside a git directory.
    git_dir
        The worktree's own git directory (``.git``, or ``.git/worktrees/NAME`` for a linked one).
    common_dir
        The git directory that all worktrees of the repository share.
    run_directory
        Where git commands are started: the top level, except where ``core.worktree`` puts that elsewhere.
    """

    worktree_root: Path | None
    git_dir: Path
    common_dir: Path
    run_directory: Path

    @property
    def is_bare(self) -> bool:
        """Whether there is no work tree here."""
        return self.worktree_root is None

    @property
    def is_linked(self) -> bool:
        """Whether this is a linked worktree, not the main one."""
        return self.git_dir != self.common_dir

    @property
    def repository_id(self) -> str:
        """SHA-256 (hex) of the path of the common git directory."""
        return digest_hex(os.fsencode(self.common_dir))

    @property
    def worktree_id(self) -> str:
        """SHA-256 (hex) of the path of the worktree's own git directory."""
        return digest_hex(os.fsencode(self.git_dir))

    @property
    def root(self) -> Path:
        """Top level of the worktree.

        Raises
        ------
        BareRepository
            If there is none.
        """
        if self.worktree_root is None:
            raise BareRepository(f"{str(self.run_directory)!r} has no work tree.")
        return self.worktree_root


def discover(path: Path, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> RepositoryLocation:
    """Return the repository that ``path`` (a folder, or a file in one) lies in.

    Like git, the search goes up from the real path and stops at a file system's boundary.

    Raises
    ------
    NotARepository
        If there is none, or the nearest ``.git`` file points to nothing.
    """
    start = os.path.realpath(path)
    folder = start if os.path.isdir(start) else os.path.dirname(start)
    try:
        device = os.stat(folder).st_dev
    except OSError as error:
        raise NotARepository(f"{str(path)!r} cannot be reached: {error.strerror}.") from error
    while True:
        found = _at(folder, timeout_seconds)
        if found is not None:
            return found
        parent = os.path.dirname(folder)
        if parent == folder or not _is_on(parent, device):
            raise NotARepository(f"{str(path)!r} is not inside a git repository.", details={"path": str(path)})
        folder = parent


def git_dirs_at(folder: str) -> tuple[str, str] | None:
    """Return the git directory and the shared one to which the ``.git`` in a folder leads; None if to neither.

    No configuration is looked at. Both are real paths.
    """
    dot_git = os.path.join(folder, ".git")
    if os.path.isdir(dot_git):
        git_dir = os.path.realpath(dot_git)
    else:
        content = read_pointer(dot_git) or b""
        if not content.startswith(b"gitdir:"):
            return None
        git_dir = _pointed(folder, content)
    common = _common_dir(git_dir)
    return None if common is None else (git_dir, common)


def read_pointer(path: str | Path) -> bytes | None:
    """Return the content of a small file, or None if there is no such regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, MAX_POINTER_BYTES)
    except OSError:  # a folder
        return None
    finally:
        os.close(descriptor)


def _is_on(folder: str, device: int) -> bool:
    try:
        return os.stat(folder).st_dev == device
    except OSError:
        return False


def _at(folder: str, timeout_seconds: float) -> RepositoryLocation | None:
    """Return the repository whose top level, or whose git directory, is exactly this folder."""
    dot_git = os.path.join(folder, ".git")
    try:
        mode = os.lstat(dot_git).st_mode
        is_real = not stat.S_ISLNK(mode)
        if not is_real:
            mode = os.stat(dot_git).st_mode
    except OSError:
        mode, is_real = 0, True
    if stat.S_ISREG(mode):
        return _linked(folder, dot_git, timeout_seconds)
    if stat.S_ISDIR(mode):
        git_dir = dot_git if is_real else os.path.realpath(dot_git)
        common = _common_dir(git_dir)
        if common is not None:
            return _located(folder, git_dir, common, timeout_seconds)
    common = _common_dir(folder)
    if common is None:
        return None
    return RepositoryLocation(None, Path(folder), Path(common), Path(folder))


def _linked(folder: str, dot_git: str, timeout_seconds: float) -> RepositoryLocation:
    content = read_pointer(dot_git) or b""
    if content.startswith(b"gitdir:"):
        git_dir = _pointed(folder, content)
        common = _common_dir(git_dir)
        if common is not None:
            return _located(folder, git_dir, common, timeout_seconds)
    # git does not climb past a broken pointer, and neither may we: above it may stand somebody else's repository.
    raise NotARepository(
        f"{dot_git!r} does not lead to a git directory.",
        hint="The repository it belonged to was moved or removed: git worktree repair, or remove the folder.",
        details={"path": folder},
    )


def _pointed(folder: str, content: bytes) -> str:
    """Return where the content of a ``.git`` file in a folder leads."""
    target = os.fsdecode(content.removeprefix(b"gitdir:").strip(b" \r\n"))
    return os.path.realpath(os.path.join(folder, target))


def _common_dir(git_dir: str) -> str | None:
    """Return the shared git directory if ``git_dir`` (a real path) is a git directory by git's own three signs."""
    head = os.path.join(git_dir, "HEAD")
    content = read_pointer(head)
    if content is None:
        try:  # an old-style HEAD: a symlink, possibly to a branch that does not exist yet
            content = b"ref: " + os.fsencode(os.readlink(head))
        except OSError:
            return None
    is_symbolic = content.startswith(b"ref:") and content[4:].lstrip().startswith(b"refs/")
    if not is_symbolic and not _OBJECT_ID.match(content) and not os.path.islink(head):
        return None
    pointer = read_pointer(os.path.join(git_dir, "commondir"))
    if pointer is not None and pointer.rstrip(b"\r\n") != b"../..":
        pointer = _unlent(git_dir, pointer)
    common = git_dir if pointer is None else os.path.join(git_dir, os.fsdecode(pointer.rstrip(b"\r\n")))
    if not os.path.isdir(os.path.join(common, "objects")) or not os.path.isdir(os.path.join(common, "refs")):
        return None
    return git_dir if pointer is None else os.path.realpath(common)


def _unlent(git_dir: str, pointer: bytes) -> bytes:
    """Return what leads to the repository of a worktree whose pointer leads to a lent directory, or wherever.

    git makes a worktree's directory inside the shared one. While a worker runs, its pointer leads elsewhere
    (:mod:`bridge.git.lending`), and what it leads to may be of the worker's making.
    """
    parent = os.path.dirname(git_dir)
    around = os.path.dirname(parent)
    is_inside = os.path.basename(parent) == "worktrees" and read_pointer(os.path.join(around, "HEAD")) is not None
    return b"../.." if is_inside else pointer


def _located(folder: str, git_dir: str, common: str, timeout_seconds: float) -> RepositoryLocation:
    config = _config_text(common, git_dir)
    if git_dir == common or b"worktreeconfig" in config.lower():
        if len(config) > MAX_CONFIG_BYTES or _OWN_WORKTREE.search(config):
            return _ask(folder, timeout_seconds)
        if _BARE.search(config):
            return _ask(folder, timeout_seconds)
    return RepositoryLocation(Path(folder), Path(git_dir), Path(common), Path(folder))


def _config_text(common: str, git_dir: str) -> bytes:
    parts: list[bytes] = []
    for path in (os.path.join(common, "config"), os.path.join(git_dir, "config.worktree")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            # Asked for a megabyte, Python makes room for one; a byte more than there is shows what grew.
            size = min(os.fstat(descriptor).st_size, MAX_CONFIG_BYTES)
            parts.append(os.read(descriptor, size + 1))
        finally:
            os.close(descriptor)
    return b"\n".join(parts)


def _ask(folder: str, timeout_seconds: float) -> RepositoryLocation:
    """Let git say where the work tree is; for layouts in which configuration decides."""
    directory = Path(folder)

    def answer(*options: str) -> str:
        return run_git(["rev-parse", *options], cwd=directory, timeout_seconds=timeout_seconds).text

    try:
        git_dir = Path(os.path.realpath(answer("--absolute-git-dir")))
        common = Path(os.path.realpath(directory / answer("--git-common-dir")))
        is_bare = answer("--is-bare-repository") == "true"
        if is_bare:
            return RepositoryLocation(None, git_dir, common, directory)
        # Outside its work tree --show-toplevel refuses; the work tree that is configured is then the answer.
        top = run_git(
            ["rev-parse", "--show-toplevel"], cwd=directory, timeout_seconds=timeout_seconds, accepted=(0, 128)
        )
        root = top.text if top.status == 0 else os.path.join(git_dir, answer_config(directory, timeout_seconds))
    except GitFailed as error:
        if "not a git repository" in error.message:
            raise NotARepository(f"{folder!r} is not inside a git repository.") from error
        raise
    return RepositoryLocation(Path(os.path.realpath(root)), git_dir, common, directory)


def answer_config(directory: Path, timeout_seconds: float) -> str:
    """Return ``core.worktree`` as git reads it in a directory."""
    return run_git(["config", "--get", "core.worktree"], cwd=directory, timeout_seconds=timeout_seconds).text
