"""What the setup of a worktree made, kept for the next one: folders such as ``node_modules`` or ``.venv``.

A kept outcome has a name made of the setup's lines and the content of the files it depends on. It is put in place
whole or not at all, and is never changed. Copies are reflinks where the file system can, and never hard links: a
worker that writes into its own would write into everybody's.

Some programs write the path of the worktree into what they make (the scripts of a virtual environment do). Where such
files are is found when the outcome is kept, and the path is replaced when it is given to another worktree.
Blocking; for helper threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge.control.delegations.placesettings import WorktreeSettings
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.copying import copy_tree
from bridge.foundation.hashing import digest_hex

#: Outcomes that are kept for one repository; the ones least recently used go first.
MAX_KEPT: Final = 4
#: Bytes of a file that is looked through for the worktree's path; larger ones are taken to hold none.
MAX_SEARCHED_BYTES: Final = 32 * 2**20
#: Bytes of a file that the name of an outcome depends on.
MAX_KEY_FILE_BYTES: Final = 64 * 2**20

_FILES: Final = "files"
_FACTS: Final = "facts.json"


@dataclass(frozen=True, slots=True)
class SetupCache:
    """The kept outcomes of one repository.

    Parameters
    ----------
    folder
        Where they are.
    settings
        What is kept, and what it depends on.
    """

    folder: Path
    settings: WorktreeSettings

    def key(self, worktree: Path) -> str:
        """Return the name of the outcome that fits a worktree as it is now."""
        files = {name: _content_digest(worktree / name) for name in self.settings.cache_key}
        parts: dict[str, Any] = {
            "version": 1,
            "setup": list(self.settings.setup),
            "cache": list(self.settings.cache),
            "files": files,
            # What is compiled for another machine, or for another Python, is of no use here.
            "machine": [sys.platform, platform.machine()],
        }
        return digest_hex(canonical_bytes(parts))[:32]

    def restore(self, key: str, worktree: Path) -> int | None:
        """Put a kept outcome into a worktree; return how many files it has, or None if none is kept.

        Raises
        ------
        OSError
            If it cannot be copied.
        """
        place = self.folder / key
        with _locked(self._lock_path(key), fcntl.LOCK_SH):
            try:
                facts = json.loads((place / _FACTS).read_bytes())
            except FileNotFoundError:
                return None
            copied = 0
            for name in facts["names"]:
                target = worktree / name
                if os.path.lexists(target):
                    return None  # the commit has something there: not what was kept from
                target.parent.mkdir(parents=True, exist_ok=True)
                copied += copy_tree(place / _FILES / name, target)
            _replace_path(worktree, facts["naming"], os.fsencode(facts["worktree"]), os.fsencode(worktree))
            os.utime(place)
        return copied

    def keep(self, key: str, worktree: Path) -> bool:
        """Keep what a setup made in a worktree; return False if it made none of it, or it is kept already.

        Raises
        ------
        OSError
            If it cannot be copied; then it is not kept.
        """
        names = [name for name in self.settings.cache if os.path.lexists(worktree / name)]
        place = self.folder / key
        if not names or place.exists():
            return False
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.folder / f"{key}.{secrets.token_hex(4)}.tmp"
        try:
            for name in names:
                target = draft / _FILES / name
                target.parent.mkdir(parents=True, exist_ok=True)
                copy_tree(worktree / name, target)
            naming = sorted(_naming(worktree, names, os.fsencode(worktree)))
            facts = {"names": names, "worktree": str(worktree), "naming": naming}
            (draft / _FACTS).write_text(json.dumps(facts))
            with contextlib.suppress(FileExistsError, NotADirectoryError):
                draft.rename(place)
        finally:
            if draft.exists():
                _remove(draft)
        self.prune()
        return True

    def prune(self) -> None:
        """Remove what is kept beyond :data:`MAX_KEPT`, but for what somebody copies right now."""
        kept = [entry for entry in self.folder.iterdir() if entry.is_dir() and entry.suffix != ".tmp"]
        kept.sort(key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
        for entry in kept[MAX_KEPT:]:
            with contextlib.suppress(BlockingIOError), _locked(self._lock_path(entry.name), fcntl.LOCK_EX):
                _remove(entry)

    def _lock_path(self, key: str) -> Path:
        return self.folder / f"{key}.lock"


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Who copies waits for nobody: only a removal is exclusive, and it gives way.
        fcntl.flock(lock, how | (fcntl.LOCK_NB if how == fcntl.LOCK_EX else 0))
        yield
    finally:
        os.close(lock)


def _content_digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return digest_hex(file.read(MAX_KEY_FILE_BYTES))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _naming(worktree: Path, names: list[str], wanted: bytes) -> Iterator[str]:
    """Yield the files and symlinks, relative to the worktree, in which its path stands."""
    for name in names:
        for path in _walk(worktree / name):
            if path.is_symlink():
                found = wanted in os.fsencode(path.readlink())
            else:
                status = path.lstat()
                is_searched = stat.S_ISREG(status.st_mode) and status.st_size <= MAX_SEARCHED_BYTES
                found = is_searched and wanted in path.read_bytes()
            if found:
                yield str(path.relative_to(worktree))


def _walk(root: Path) -> Iterator[Path]:
    if root.is_symlink() or not root.is_dir():
        yield root
        return
    for folder, _, files in os.walk(root):
        for name in files:
            yield Path(folder, name)
        with os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_symlink() and entry.is_dir())


def _replace_path(worktree: Path, naming: list[str], old: bytes, new: bytes) -> None:
    for name in naming:
        path = worktree / name
        if path.is_symlink():
            target = os.fsencode(path.readlink()).replace(old, new)
            path.unlink()
            path.symlink_to(os.fsdecode(target))
            continue
        content = path.read_bytes()
        if len(old) != len(new) and b"\0" in content:
            continue  # a place in a binary file has a length; a Python cache is made anew by itself
        status = path.stat()
        path.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
        path.write_bytes(content.replace(old, new))
        path.chmod(stat.S_IMODE(status.st_mode))
        # A Python cache holds the time of its source.
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _remove(folder: Path) -> None:
    """Remove a folder of copies, read-only ones among them (Go keeps its modules so)."""

    def writable(_call: object, path: str, _error: object) -> None:
        os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120 - as rmtree hands it over
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114 - as above
            os.chmod(path, 0o700)  # noqa: PTH101 - as above
            shutil.rmtree(path)
        else:
            os.unlink(path)  # noqa: PTH108 - as above

    shutil.rmtree(folder, onerror=writable)
