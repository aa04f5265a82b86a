"""Files that a new worktree needs and git does not carry: what ``.worktreeinclude`` names is copied.

The file stands at the top of the parent's checkout and holds gitignore patterns. Copied is only what the new
worktree ignores: anything else would show there as the worker's own work, and be adopted with it. Uncommitted work
is a matter of the delegation's dirty policy.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.git.lookups import ignored_paths, matching_untracked
from bridge.git.paths import display_path
from bridge.git.repository import RepositoryLocation
from bridge.workspaces.errors import IncludeRefused

#: Name of the file with the patterns.
INCLUDE_FILE: Final = ".worktreeinclude"
#: Files, and bytes in all, that one worktree is given; more is a pattern that matches too much.
MAX_INCLUDED_FILES: Final = 20_000
MAX_INCLUDED_BYTES: Final = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Included:
    """What was copied.

    Parameters
    ----------
    copied
        Paths, raw bytes, relative to both top levels.
    skipped
        Paths that matched and were not copied, each with the reason.
    """

    copied: tuple[bytes, ...] = ()
    skipped: tuple[tuple[bytes, str], ...] = ()


def copy_included(
    parent: RepositoryLocation,
    made: RepositoryLocation,
    *,
    max_files: int = MAX_INCLUDED_FILES,
    max_bytes: int = MAX_INCLUDED_BYTES,
) -> Included:
    """Copy what the parent's ``.worktreeinclude`` matches into a worktree that was just made; nothing if there is none.

    Symlinks are copied as they are. Nothing that stands in the worktree is overwritten, and nothing is written
    through a symlink in it.

    Raises
    ------
    IncludeRefused
        If a file cannot be read or written, or there are too many or too large ones.
    GitFailed, GitTimedOut
        If git cannot say which files match.
    """
    patterns = parent.root / INCLUDE_FILE
    if not patterns.is_file():
        return Included()
    matching = matching_untracked(parent, patterns)
    ignored = ignored_paths(made, matching)
    source, target = parent.root, made.root
    skipped: list[tuple[bytes, str]] = []
    wanted: list[bytes] = []
    for path in matching:
        why = _reason_to_skip(source, target, path, is_ignored=path in ignored)
        if why is None:
            wanted.append(path)
        else:
            skipped.append((path, why))
    _check_size(source, wanted, max_files, max_bytes)
    for path in wanted:
        _copy(source, target, path)
    return Included(tuple(wanted), tuple(skipped))


def _reason_to_skip(source: Path, target: Path, path: bytes, *, is_ignored: bool) -> str | None:
    if path.endswith(b"/"):
        return "it is a repository of its own"
    try:
        mode = _in(source, path).lstat().st_mode
    except FileNotFoundError:
        return "it is no longer there"
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        return "it is neither a file nor a symlink"
    if os.path.lexists(_in(target, path)):
        return "the base commit has a file there"
    if _has_foreign_parent(target, path):
        return "the base commit has a file or symlink in the place of its folder"
    return None if is_ignored else "git does not ignore it in the worktree"


def _has_foreign_parent(target: Path, path: bytes) -> bool:
    """Return whether a folder of the path is something else in the worktree."""
    folder = target
    for part in path.split(b"/")[:-1]:
        folder = _in(folder, part)
        if not os.path.lexists(folder):
            return False
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return True
    return False


def _check_size(source: Path, paths: list[bytes], max_files: int, max_bytes: int) -> None:
    if len(paths) > max_files:
        raise IncludeRefused(
            f"{INCLUDE_FILE} matches {len(paths)} files; a worktree is given {max_files} at most. Nothing was copied.",
            details={"files": len(paths), "limit": max_files},
        )
    total = sum(_in(source, path).lstat().st_size for path in paths)
    if total > max_bytes:
        raise IncludeRefused(
            f"{INCLUDE_FILE} matches {total} bytes; a worktree is given {max_bytes} at most. Nothing was copied.",
            details={"bytes": total, "limit": max_bytes},
        )


def _copy(source: Path, target: Path, path: bytes) -> None:
    destination = _in(target, path)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_in(source, path), destination, follow_symlinks=False)
    except OSError as error:
        raise IncludeRefused(
            f"{display_path(path)}, matched by {INCLUDE_FILE}, cannot be copied: {error.strerror}.",
            details={"path": display_path(path)},
        ) from error


def _in(root: Path, path: bytes) -> Path:
    return root / os.fsdecode(path)
