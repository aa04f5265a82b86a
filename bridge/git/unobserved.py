"""Which paths the index hides from git status: assume-unchanged and skip-worktree.

Finding them means reading the whole index, in another git process, so a stamp does not; status and diff ask for
them. The answer is remembered for as long as the index file keeps its identity.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, RunningGit, begin_git, child_environment
from bridge.git.repository import RepositoryLocation

#: Indexes whose answer is remembered; beyond it the memory starts anew.
MAX_REMEMBERED = 64
#: An index younger than this may be rewritten within one tick of its clock and is not trusted yet.
SETTLING_SECONDS = 1.0


@dataclass
class _Memory:
    lock: threading.Lock = field(default_factory=threading.Lock)
    entries: dict[Path, tuple[tuple[int, ...], tuple[bytes, ...]]] = field(default_factory=dict)


_memory = _Memory()


def unobserved_paths(
    location: RepositoryLocation, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> tuple[bytes, ...]:
    """Return the tracked paths that git status does not look at, sorted; a sparse folder ends in a slash.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot read the index.
    """
    with begin_unobserved(location, child_environment()) as asking:
        return asking.finish(timeout_seconds)


class Asking:
    """A question after the unobserved paths that is under way, or answered from memory already."""

    def __init__(self, index: Path, identity: tuple[int, ...] | None, known: tuple[bytes, ...] | None) -> None:
        self._index = index
        self._identity = identity
        self._known = known
        self._started = time.time()
        self.running: RunningGit | None = None

    def finish(self, timeout_seconds: float) -> tuple[bytes, ...]:
        """Return the answer. Raises as :func:`unobserved_paths`."""
        if self.running is None:
            return self._known or ()
        output = self.running.finish(timeout_seconds)
        # "H" is a plain entry; lower case adds assume-unchanged, "S" is skip-worktree, "M" unmerged.
        hidden = {line[2:] for line in output.stdout.split(b"\0") if line[:1] == b"S" or line[:1].islower()}
        paths = tuple(sorted(hidden))
        identity = self._identity
        is_same = identity is not None and _identity(self._index) == identity
        if is_same and identity is not None and identity[-1] < (self._started - SETTLING_SECONDS) * 1e9:
            with _memory.lock:
                if len(_memory.entries) >= MAX_REMEMBERED:
                    _memory.entries.clear()
                _memory.entries[self._index] = (identity, paths)
        return paths


@contextlib.contextmanager
def begin_unobserved(location: RepositoryLocation, environment: Mapping[str, str]) -> Iterator[Asking]:
    """Ask after the unobserved paths, for callers with something to do in the meantime; leaving the block ends it.

    Parameters
    ----------
    environment
        A whole environment made by :func:`bridge.git.process.child_environment`.
    """
    index = location.git_dir / "index"
    identity = _identity(index)
    with _memory.lock:
        known = _memory.entries.get(index)
    is_known = known is not None and known[0] == identity
    asking = Asking(index, identity, known[1] if known is not None and is_known else None)
    if identity is None or is_known:
        yield asking
        return
    command = ["ls-files", "-v", "-z", "--sparse"]
    with begin_git(command, cwd=location.run_directory, environment=environment) as asking.running:
        yield asking


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
