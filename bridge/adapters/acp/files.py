"""Files for an agent, confined to its directory: every step of a path is opened without following a symlink.

Blocking, but short; run in helper threads.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bridge.adapters.errors import AgentFileMissing, AgentFileUnusable, PathOutsideDirectory

#: Bytes of a file that is read or written for an agent.
MAX_FILE_BYTES: Final = 8 * 2**20
#: Parts of a path that an agent may name.
MAX_PARTS: Final = 200
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE: Final = ".git"


class ConfinedFiles:
    """Reads and writes text files below a directory, for somebody who is not trusted with paths.

    Parameters
    ----------
    directory
        Absolute. It may itself lie behind symlinks; what is below it may not.
    is_writable
        Whether files may be written at all.
    """

    def __init__(self, directory: Path, *, is_writable: bool = True) -> None:
        self._is_writable = is_writable
        self._roots = tuple(dict.fromkeys((str(directory), os.path.realpath(directory))))

    def read(self, path: str, *, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file, or of some of its lines.

        Parameters
        ----------
        line
            First line, from 1.
        limit
            Lines at most.

        Raises
        ------
        PathOutsideDirectory, AgentFileUnusable
        """
        with self._folder_of(path) as (folder, name):
            try:
                # Without waiting, so that a pipe in the way cannot hold anybody up.
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except OSError as error:
                raise _explained(error, path) from error
            try:
                data = _read_all(file, path)
            finally:
                os.close(file)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise AgentFileUnusable(f"{path[:300]!r} is not UTF-8 text.", details={"path": path[:1000]}) from error
        if line is None and limit is None:
            return text
        start = max((line or 1) - 1, 0)
        lines = text.splitlines(keepends=True)[start:]
        return "".join(lines if limit is None else lines[: max(limit, 0)])

    def write(self, path: str, text: str) -> None:
        """Replace or create a file in one step; missing folders are made. Raises as :meth:`read`."""
        if not self._is_writable:
            raise AgentFileUnusable(
                f"{path[:300]!r} was not written: this worker only reads.", details={"path": path[:1000]}
            )
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > MAX_FILE_BYTES:
            raise AgentFileUnusable(
                f"{path[:300]!r} would have {len(data)} bytes; {MAX_FILE_BYTES} may be written. Nothing was written.",
                details={"path": path[:1000], "bytes": len(data)},
            )
        with self._folder_of(path, make=True) as (folder, name):
            mode = self._mode(folder, name, path)
            draft = f".{name[:100]}.{secrets.token_hex(6)}"
            try:
                # A new file gets what the umask leaves of 0666, an existing one keeps its mode.
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                file = os.open(draft, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
                try:
                    _write_all(file, data)
                    if mode is not None:
                        os.fchmod(file, mode)
                finally:
                    os.close(file)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                _remove(draft, folder)
                raise _explained(error, path) from error

    def folder(self, path: str | None) -> Path:
        """Return a folder below the directory that a program may be started in; None means the directory itself."""
        if path is None:
            return Path(self._roots[0])
        parts = self._parts(path, may_be_root=True)
        with self._opened(parts, path):
            return Path(self._roots[0]).joinpath(*parts)

    def _mode(self, folder: int, name: str, path: str) -> int | None:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _explained(error, path) from error
        if stat.S_ISLNK(found.st_mode):
            raise _outside(path, "is a symlink")
        if not stat.S_ISREG(found.st_mode):
            raise AgentFileUnusable(f"{path[:300]!r} is no regular file.", details={"path": path[:1000]})
        return stat.S_IMODE(found.st_mode)

    def _parts(self, path: str, *, may_be_root: bool = False) -> list[str]:
        if "\x00" in path:
            raise _outside(path, "holds a NUL")
        for root in self._roots:
            if path == root or path.startswith(root.rstrip("/") + "/"):
                parts = [part for part in path[len(root) :].split("/") if part not in ("", ".")]
                break
        else:
            if path.startswith("/"):
                raise _outside(path, "lies elsewhere")
            parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise _outside(path, "goes upwards")
        if len(parts) > MAX_PARTS or (not parts and not may_be_root):
            raise _outside(path, "names no file")
        if any(part.casefold() == _PRIVATE for part in parts):
            raise _outside(path, "lies in git's own folder")
        return parts

    @contextmanager
    def _folder_of(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        parts = self._parts(path)
        with self._opened(parts[:-1], path, make=make) as folder:
            yield folder, parts[-1]

    @contextmanager
    def _opened(self, parts: list[str], path: str, *, make: bool = False) -> Iterator[int]:
        try:
            current = os.open(self._roots[-1], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _explained(error, path) from error
        try:
            for part in parts:
                try:
                    if make:
                        _make_folder(part, current)
                    below = os.open(part, _FOLDER, dir_fd=current)
                except OSError as error:
                    raise _explained(error, path) from error
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)


def _make_folder(name: str, folder: int) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return  # it was never made, or the folder is gone


def _read_all(file: int, path: str) -> bytes:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise AgentFileUnusable(f"{path[:300]!r} is no regular file.", details={"path": path[:1000]})
    chunks: list[bytes] = []
    size = 0
    while chunk := os.read(file, 2**20):
        size += len(chunk)
        if size > MAX_FILE_BYTES:
            raise AgentFileUnusable(
                f"{path[:300]!r} has more than {MAX_FILE_BYTES} bytes.", details={"path": path[:1000]}
            )
        chunks.append(chunk)
    return b"".join(chunks)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _outside(path: str, why: str) -> PathOutsideDirectory:
    return PathOutsideDirectory(
        f"{path[:300]!r} {why}. Nothing was read or written.", details={"path": path[:1000], "why": why}
    )


def _explained(error: OSError, path: str) -> PathOutsideDirectory | AgentFileUnusable:
    # ELOOP: a symlink where none is followed. ENOTDIR is said of a symlink to a folder as well.
    if error.errno == errno.ELOOP:
        return _outside(path, "leads through a symlink")
    if error.errno == errno.ENOTDIR:
        return _outside(path, "leads through a symlink or a file")
    kind = AgentFileMissing if error.errno == errno.ENOENT else AgentFileUnusable
    return kind(f"{path[:300]!r}: {error.strerror}.", details={"path": path[:1000]})
