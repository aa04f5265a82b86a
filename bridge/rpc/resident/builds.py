"""Which build of Bridge a process runs: the version, and a mark made of the sizes and times of its files.

A controller that outlives an update would answer with yesterday's code. So it says its build to every client, and
one whose build is another does not use it. Reading the files would take longer than a command may; their sizes and
times take a millisecond. Part of every command's start: standard library only, and little of it.
"""

from __future__ import annotations

import os

import bridge
from bridge import __version__

_ROOT = os.path.dirname(os.path.abspath(bridge.__file__))
_MASK = (1 << 64) - 1


def build_id(root: str = _ROOT) -> str:
    """Return the build: version, newest change of a source file (nanoseconds), and a mark over all of them.

    Parameters
    ----------
    root
        Folder of the package ``bridge``.
    """
    newest = count = mark = 0
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as found:
            for item in found:
                name = item.name
                if name.endswith(".py"):
                    facts = item.stat()
                    newest = max(newest, facts.st_mtime_ns)
                    count += 1
                    # Order does not matter, so that no sorting is needed; every change of a time or size shows.
                    mark += facts.st_mtime_ns * 31 + facts.st_size * 1_000_003
                elif "." not in name and name != "__pycache__" and item.is_dir():
                    pending.append(item.path)
    return f"{__version__}+{newest:x}.{count:x}.{mark & _MASK:x}"


def is_older(build: str, than: str) -> bool:
    """Tell whether a build is older: by its version, and within one version by its newest file."""
    return _age(build) < _age(than)


def _age(build: str) -> tuple[tuple[int, ...], int]:
    version, _, rest = build.partition("+")
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    try:
        return numbers, int(rest.partition(".")[0], 16)
    except ValueError:
        return numbers, 0
