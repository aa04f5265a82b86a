"""A session file on the disk: read as one generation, replaced by the next one or not at all.

Every name is looked up in a directory that was opened once, and every file is known by device and inode: what somebody
else put in its place is never taken for it, nor removed.

Beside a file ``NAME`` there are at times: ``.NAME.lock`` (stays; whoever writes holds a lock on it), ``.NAME.next`` (a
generation being written), ``.NAME.recovery`` (another name of the generation that is being replaced) and
``.NAME.restore`` (another name of it, on its way back). Only the holder of the lock makes the last three, so what is
there when the lock is gained was left by a program that is gone.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from bridge.transcripts.sessionfile.errors import (
    SessionFileExists,
    SessionFileLocked,
    SessionFileMissing,
    SessionFileReplaced,
    SessionNotRegular,
    SessionRollbackFailed,
    SessionUnreadable,
    SessionWriteFailed,
)

#: Times that a file is read anew because it was replaced meanwhile.
MAX_READS: Final = 8
#: Seconds between two looks at a lock: at first, and at most.
_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.05
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Identity:
    """Which file it is, whatever its name."""

    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_dev, status.st_ino)


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was read: its bytes (of one too long, the beginning), its length, which file it was, permissions."""

    data: bytes
    size: int
    identity: Identity
    mode: int


class Unproved(Exception):
    """What was found is not what should be there."""


class Directory:
    """The directory of a session file, opened; use it in a ``with`` statement.

    Parameters
    ----------
    path
        Its canonical path.
    name
        The file's name in it.
    expected
        Which directory it has to be; None if that is not known yet.

    Raises
    ------
    SessionFileMissing, SessionFileReplaced, SessionUnreadable
        If it is not there, is another one, or cannot be opened.
    """

    def __init__(self, path: str, name: str, expected: Identity | None = None) -> None:
        self.path = path
        self.name = name
        self.file = os.path.join(path, name)
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SessionFileMissing(
                f"There is no directory {path!r}. Nothing was changed.", details={"path": self.file}
            ) from error
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            self.identity = Identity.of(os.fstat(self._descriptor))
        except OSError as error:
            os.close(self._descriptor)
            raise self._unreadable(error) from error
        if expected is not None and self.identity != expected:
            os.close(self._descriptor)
            raise self.replaced("its directory is another one now")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    @property
    def lock_name(self) -> str:
        return f".{self.name}.lock"

    @property
    def next_name(self) -> str:
        return f".{self.name}.next"

    @property
    def marker_name(self) -> str:
        return f".{self.name}.recovery"

    @property
    def restore_name(self) -> str:
        return f".{self.name}.restore"

    @property
    def marker(self) -> str:
        """Path of the recovery marker."""
        return os.path.join(self.path, self.marker_name)

    def replaced(self, what: str, **details: Any) -> SessionFileReplaced:
        return SessionFileReplaced(
            f"{self.file!r} is not what was loaded: {what}. Nothing was changed.",
            details={"path": self.file, **details},
        )

    # Reading

    def read(self, name: str, limit: int) -> Found:
        """Return a file's bytes, of one generation; of a longer file, one byte more than the limit.

        Raises
        ------
        SessionFileMissing, SessionNotRegular, SessionUnreadable
            If there is none, it is no regular file, or it cannot be read.
        SessionFileReplaced
            If it changed each time while it was read.
        """
        for _ in range(MAX_READS):
            found = self._read_once(name, limit)
            if found is not None:
                return found
        raise self.replaced("it kept changing while it was read")

    def _read_once(self, name: str, limit: int) -> Found | None:
        try:
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
        except FileNotFoundError as error:
            raise SessionFileMissing(
                f"There is no file {self.file!r}. Nothing was changed.", details={"path": self.file}
            ) from error
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
                raise self._not_regular() from error
            raise self._unreadable(error) from error
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise self._not_regular()
            data = _read_up_to(descriptor, limit + 1)
            after = os.fstat(descriptor)
            if _version_of(before) != _version_of(after) or len(data) != min(after.st_size, limit + 1):
                return None
            # Whoever replaced it meanwhile made another generation: that one is wanted.
            if self._identity(name) != Identity.of(after):
                return None
            return Found(data, after.st_size, Identity.of(after), stat.S_IMODE(after.st_mode))
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            os.close(descriptor)

    def has_marker(self) -> bool:
        """Return whether a recovery marker lies beside the file."""
        try:
            return self._identity(self.marker_name) is not None
        except OSError as error:
            raise self._unreadable(error) from error

    def has_file(self) -> bool:
        """Return whether something has the file's name."""
        try:
            return self._identity(self.name) is not None
        except OSError as error:
            raise self._unreadable(error) from error

    def _identity(self, name: str) -> Identity | None:
        try:
            return Identity.of(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def _not_regular(self) -> SessionNotRegular:
        return SessionNotRegular(f"{self.file!r} is not a regular file; it was not read.", details={"path": self.file})

    def _unreadable(self, error: OSError) -> SessionUnreadable:
        return SessionUnreadable(
            f"{self.file!r} cannot be read: {error.strerror}. Nothing was changed.",
            details={"path": self.file, "errno": error.errno},
        )

    # Writing

    @contextmanager
    def locked(self, seconds: float) -> Iterator[None]:
        """Hold the file against other writers, of this process and of others; the lock ends with the process.

        Raises
        ------
        SessionFileLocked
            If another writer holds it for so long.
        SessionWriteFailed
            If it cannot be locked at all.
        """
        deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE
        descriptor = self._try_lock()
        while descriptor is None:
            if time.monotonic() >= deadline:
                raise SessionFileLocked(
                    f"Another writer held {self.file!r} for {seconds:g} s. Nothing was written.",
                    details={"path": self.file, "seconds": seconds},
                )
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            descriptor = self._try_lock()
        try:
            yield
        finally:
            os.close(descriptor)

    def _try_lock(self) -> int | None:
        """Return a locked descriptor, or None while somebody else has the lock."""
        try:
            descriptor = os.open(self.lock_name, _LOCK, _MODE, dir_fd=self._descriptor)
        except OSError as error:
            raise self._failed(error, "it cannot be locked") from error
        has_lock = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Somebody may have removed the file since it was opened: then that lock keeps nobody out.
            has_lock = self._identity(self.lock_name) == Identity.of(os.fstat(descriptor))
        except OSError as error:
            if not isinstance(error, BlockingIOError):
                raise self._failed(error, "it cannot be locked") from error
        finally:
            if not has_lock:
                os.close(descriptor)
        return descriptor if has_lock else None

    def create(self, data: bytes) -> None:
        """Make the file, whole, where nothing is. The lock must be held.

        Raises
        ------
        SessionFileExists, SessionWriteFailed, SessionRollbackFailed
            If something is there; it cannot be written; it cannot be proved that it was not made.
        """
        written = self._write_next(data, _MODE)
        try:
            os.link(
                self.next_name,
                self.name,
                src_dir_fd=self._descriptor,
                dst_dir_fd=self._descriptor,
                follow_symlinks=False,
            )
            self._require(self.name, written)
            os.fsync(self._descriptor)
        except FileExistsError as error:
            self._forget(self.next_name, written)
            raise SessionFileExists(
                f"{self.file!r} exists already. Nothing was changed.", details={"path": self.file}
            ) from error
        except BaseException as error:
            self._undo_creation(written, error)
            if isinstance(error, (OSError, Unproved)):
                raise self._failed(error, "it cannot be made") from error
            raise
        self._forget(self.next_name, written)

    def _undo_creation(self, written: Identity, cause: BaseException) -> None:
        try:
            if self._identity(self.name) == written:
                os.unlink(self.name, dir_fd=self._descriptor)
                os.fsync(self._descriptor)
        except OSError as error:
            raise self._not_undone(error, cause) from error
        self._forget(self.next_name, written)

    def replace(self, data: bytes, current: Found) -> None:
        """Put the next generation in the place of the current one. The lock must be held.

        Raises
        ------
        SessionWriteFailed, SessionFileReplaced
            If that failed; the current generation is in its place.
        SessionRollbackFailed
            If it failed, and it cannot be proved that the current generation is in its place.
        """
        written = self._write_next(data, current.mode)
        is_begun = is_durable = False
        try:
            self._mark(current.identity)
            self._require_place(current.identity)
            is_begun = True
            os.rename(self.next_name, self.name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            self._require(self.name, written)
            os.fsync(self._descriptor)
            is_durable = True
            os.unlink(self.marker_name, dir_fd=self._descriptor)
        except BaseException as error:
            is_ours = isinstance(error, (OSError, Unproved))
            if is_durable and self._stands(written):
                if is_ours:
                    return  # all was done, the removal of the marker included, whatever it said
                raise
            if is_begun:
                self._roll_back(current.identity, written, error)
            self._forget(self.next_name, written)
            self._forget(self.marker_name, current.identity)
            if is_ours:
                raise self._failed(error, "the next generation cannot be put in its place") from error
            raise

    def _stands(self, written: Identity) -> bool:
        """Return whether the next generation is in its place, and the marker of the one before is gone."""
        try:
            return self._identity(self.name) == written and self._identity(self.marker_name) is None
        except OSError:
            return False

    def settle(self) -> None:
        """Remove a recovery marker whose generation the file has, or goes on from. The lock must be held.

        Raises
        ------
        SessionWriteFailed
            If it cannot be removed.
        """
        try:
            os.fsync(self._descriptor)
            os.unlink(self.marker_name, dir_fd=self._descriptor)
        except OSError as error:
            raise self._failed(error, "what an earlier commit left cannot be removed") from error

    def keep_aside(self, data: bytes, name: str) -> None:
        """Write bytes to a file of their own beside the session file. The lock must be held.

        Raises
        ------
        SessionWriteFailed
            If they cannot be written.
        """
        written = self._write_next(data, _MODE)
        try:
            os.rename(self.next_name, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except OSError as error:
            self._forget(self.next_name, written)
            raise self._failed(error, "its torn last line cannot be kept aside") from error

    def _write_next(self, data: bytes, mode: int) -> Identity:
        """Write a file beside the session file, on the disk when this returns."""
        identity = None
        try:
            for name in (self.next_name, self.restore_name):
                self._remove_stale(name)
            descriptor = os.open(self.next_name, _WRITE, _MODE, dir_fd=self._descriptor)
            try:
                identity = Identity.of(os.fstat(descriptor))
                _write_all(descriptor, data)
                if mode != _MODE:
                    os.fchmod(descriptor, mode)
                os.fsync(descriptor)
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            self._require(self.next_name, identity)
            if status.st_size != len(data):
                raise Unproved(f"{status.st_size} of {len(data)} bytes were written")
        except BaseException as error:
            if identity is not None:
                self._forget(self.next_name, identity)
            if isinstance(error, (OSError, Unproved)):
                raise self._failed(error, "the next generation cannot be written") from error
            raise
        return identity

    def _mark(self, current: Identity) -> None:
        """Give the current generation a second name, under which it outlives being replaced."""
        os.link(
            self.name,
            self.marker_name,
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
            follow_symlinks=False,
        )
        self._require(self.marker_name, current)

    def _require_place(self, current: Identity) -> None:
        """Check, last thing before the file is replaced, that directory and file are the ones that were read."""
        if Identity.of(os.stat(self.path, follow_symlinks=False)) != self.identity:
            raise self.replaced("its directory was replaced meanwhile")
        if self._identity(self.name) != current:
            raise self.replaced("it was replaced meanwhile")

    def _roll_back(self, current: Identity, written: Identity, cause: BaseException) -> None:
        """Prove that the current generation is in its place, bringing it back if need be."""
        try:
            found = self._identity(self.name)
            if found == written:
                self._remove_stale(self.restore_name)
                os.link(
                    self.marker_name,
                    self.restore_name,
                    src_dir_fd=self._descriptor,
                    dst_dir_fd=self._descriptor,
                    follow_symlinks=False,
                )
                self._require(self.restore_name, current)
                os.rename(self.restore_name, self.name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
                self._require(self.name, current)
                os.fsync(self._descriptor)
            elif found != current:
                raise Unproved("it is neither the generation before nor the one that was written")
        except (OSError, Unproved) as error:
            raise self._not_undone(error, cause) from error

    def _require(self, name: str, identity: Identity) -> None:
        if self._identity(name) != identity:
            raise Unproved(f"{name!r} is not the file that was put there")

    def _remove_stale(self, name: str) -> None:
        """Remove what a program that is gone left under a name of ours; nothing but a regular file."""
        try:
            status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(status.st_mode):
            raise Unproved(f"{name!r} is in the way, and no file of ours")
        os.unlink(name, dir_fd=self._descriptor)

    def _forget(self, name: str, identity: Identity) -> None:
        """Remove a file of ours if it is still that one; what stays is removed by the next commit."""
        try:
            if self._identity(name) == identity:
                os.unlink(name, dir_fd=self._descriptor)
        except OSError:
            return

    def _failed(self, error: BaseException, what: str) -> SessionWriteFailed:
        number = error.errno if isinstance(error, OSError) else None
        return SessionWriteFailed(
            f"{self.file!r}: {what} ({_words(error)}). Nothing was changed.",
            details={"path": self.file, "errno": number, "reason": _words(error)},
        )

    def _not_undone(self, error: BaseException, cause: BaseException) -> SessionRollbackFailed:
        return SessionRollbackFailed(
            f"A commit of {self.file!r} failed ({_words(cause)}), and undoing it cannot be proved ({_words(error)}). "
            f"The generation before it may be {self.marker!r}.",
            details={"path": self.file, "marker": self.marker, "cause": _words(cause), "reason": _words(error)},
        )


def _words(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error) or type(error).__name__


def _version_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _read_up_to(descriptor: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(descriptor, limit)):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
