"""Which paths the index hides from git status: assume-unchanged and skip-worktree.

Finding them means reading the whole index, in another git process, so a stamp does not; status and diff ask for
them. The answer is remembered for as long as the index file keeps its identity.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git
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
    index = location.git_dir / "index"
    identity = _identity(index)
    if identity is None:
        return ()
    with _memory.lock:
        known = _memory.entries.get(index)
    if known is not None and known[0] == identity:
        return known[1]
    started = time.time()
    output = run_git(["ls-files", "-v", "-z", "--sparse"], cwd=location.run_directory, timeout_seconds=timeout_seconds)
    # "H" is a plain entry; lower case adds assume-unchanged, "S" is skip-worktree, "M" unmerged.
    hidden = {line[2:] for line in output.stdout.split(b"\0") if line[:1] == b"S" or line[:1].islower()}
    paths = tuple(sorted(hidden))
    if _identity(index) == identity and identity[-1] < (started - SETTLING_SECONDS) * 1e9:
        with _memory.lock:
            if len(_memory.entries) >= MAX_REMEMBERED:
                _memory.entries.clear()
            _memory.entries[index] = (identity, paths)
    return paths


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
