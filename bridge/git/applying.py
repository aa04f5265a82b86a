"""Putting single files into a folder that is ours, by names that somebody else chose: never through a symlink."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from bridge.git.manifest import ContentKind, ManifestRow

_EXECUTABLE = b"100755"
_FILE_MODE = 0o666
_EXECUTABLE_MODE = 0o777
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Blocked(Exception):
    """Raised when a path cannot be written without touching something else; the message says what."""


def clear_path(root: bytes, path: bytes) -> None:
    """Remove a file or symlink, or an empty folder, and the folders that it leaves empty. What is not there is fine.

    Raises
    ------
    OSError
        If it cannot be removed.
    """
    if not _is_safe(path) or _blocker(root, path) is not None:
        return
    absolute = root + b"/" + path
    try:
        mode = os.lstat(absolute).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(mode):
        _remove_if_empty(absolute)
    else:
        os.unlink(absolute)
    folder = path.rpartition(b"/")[0]
    while folder and _remove_if_empty(root + b"/" + folder):
        folder = folder.rpartition(b"/")[0]


def apply_file(root: bytes, row: ManifestRow, copy: Path) -> None:
    """Write a file or symlink as a manifest row says, from a copy of its content.

    Raises
    ------
    Blocked
        If something stands at the path, or a folder of it is none, or the name is none that git would list.
    OSError
        If it cannot be written.
    """
    if not _is_safe(row.path):
        raise Blocked("its name is not one of a file in a worktree")
    blocker = _blocker(root, row.path)
    if blocker is not None:
        raise Blocked(f"{os.fsdecode(blocker)!r} is no folder")
    absolute = root + b"/" + row.path
    os.makedirs(os.path.dirname(absolute), exist_ok=True)
    if os.path.lexists(absolute):
        raise Blocked("something is there")
    if row.content_kind is ContentKind.LINK:
        os.symlink(copy.read_bytes(), absolute)
        return
    mode = _EXECUTABLE_MODE if row.worktree_mode == _EXECUTABLE else _FILE_MODE
    with open(os.open(absolute, _NEW_FILE, mode), "wb") as target, copy.open("rb") as source:
        shutil.copyfileobj(source, target)


def _is_safe(path: bytes) -> bool:
    parts = path.split(b"/")
    return b"\0" not in path and not any(part in {b"", b".", b".."} or part.lower() == b".git" for part in parts)


def _blocker(root: bytes, path: bytes) -> bytes | None:
    """Return the first folder of a path that is there and is no real folder; None if there is none."""
    folder = b""
    for part in path.split(b"/")[:-1]:
        folder = part if not folder else folder + b"/" + part
        try:
            mode = os.lstat(root + b"/" + folder).st_mode
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(mode):
            return folder
    return None


def _remove_if_empty(folder: bytes) -> bool:
    if os.listdir(folder):
        return False
    os.rmdir(folder)
    return True
