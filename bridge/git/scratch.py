"""Scratch worktrees: made to try something, gone afterwards, and swept up by the next one after a kill.

Each has a lock file beside it, held with ``flock`` as long as its process lives. A lock that can be taken means that
nobody needs the worktree any more; in it there is nothing but what was derived from commits.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from bridge.git.process import run_git
from bridge.git.repository import RepositoryLocation
from bridge.git.worktrees import CHECKOUT_TIMEOUT_SECONDS, add_detached

_LOCK = ".lock"


@contextlib.contextmanager
def scratch_worktree(location: RepositoryLocation, folder: Path, commit: str) -> Iterator[RepositoryLocation]:
    """Make a worktree at a commit below ``folder``, detached, and remove it with all that is in it afterwards.

    Parameters
    ----------
    folder
        Where the scratch worktrees of this repository are; nothing else may be there.

    Raises
    ------
    CommitMissing, WorktreeMismatch, GitFailed, GitTimedOut
        If it cannot be made; nothing is left then.
    OSError
        If the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    sweep(location, folder)
    path, lock = _reserve(folder)
    try:
        yield add_detached(location, path, commit)
    finally:
        try:
            _remove(location, path)
        finally:
            _lock_path(path).unlink(missing_ok=True)
            os.close(lock)


def sweep(location: RepositoryLocation, folder: Path) -> int:
    """Remove the scratch worktrees whose process is gone, and return how many there were."""
    count = 0
    for lock_path in sorted(folder.glob(f"*{_LOCK}")):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # its owner was faster
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(location, lock_path.with_suffix(""))
            lock_path.unlink(missing_ok=True)
            count += 1
        except BlockingIOError:
            continue  # somebody works there
        finally:
            os.close(lock)
    return count


def _reserve(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f"scratch-{secrets.token_hex(6)}"
        lock = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # A sweep may have taken the lock first, and the file away.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.stat(_lock_path(path))):
                return path, lock
        os.close(lock)


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + _LOCK)


def _remove(location: RepositoryLocation, path: Path) -> None:
    """Remove a worktree, its registration, and whatever a half-made or half-removed one left."""
    run_git(
        ["worktree", "remove", "--force", "--force", str(path)],
        cwd=location.common_dir,
        timeout_seconds=CHECKOUT_TIMEOUT_SECONDS,
        accepted=(0, 128),
    )
    if path.exists():
        shutil.rmtree(path)
        run_git(["worktree", "prune"], cwd=location.common_dir)
