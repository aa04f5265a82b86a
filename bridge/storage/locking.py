"""The lock file beside a store: everyone who has the store open shares it, who replaces or upgrades it holds it alone.

SQLite's own locks do not serve here: they guard a transaction, while an upgrade is several and a restore replaces
the file under its readers. The kernel takes the lock back from a process that was killed.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bridge.storage.errors import DatabaseBusy, DatabaseFailed

#: What the lock file is called, after the store's own name.
LOCK_SUFFIX = ".lock"
_RETRY_SECONDS = 0.05


class StoreLock:
    """A hold on a store's lock file; released by :meth:`release` or with the process.

    Use :meth:`share` or :meth:`take`.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @classmethod
    def share(cls, database: Path, *, timeout_seconds: float) -> StoreLock:
        """Wait for the lock that users of the store share.

        Where no lock file can be made (a directory that is only readable) or locked, nothing is held: nobody can
        upgrade the store there either.

        Raises
        ------
        DatabaseBusy
            If an upgrade or a restore took longer than ``timeout_seconds``.
        """
        try:
            descriptor = _open(database)
        except OSError:
            return cls(None)
        try:
            return cls(_lock(descriptor, fcntl.LOCK_SH, timeout_seconds))
        except BlockingIOError as error:
            os.close(descriptor)
            raise DatabaseBusy("The store is being upgraded or restored. Nothing was written.") from error
        except OSError:
            os.close(descriptor)
            return cls(None)

    @classmethod
    def take(cls, database: Path, *, timeout_seconds: float) -> StoreLock:
        """Wait until nobody else has the store open, and keep everyone out.

        Raises
        ------
        DatabaseBusy
            If somebody had it open for longer than ``timeout_seconds``.
        DatabaseFailed
            If the lock file cannot be made or locked.
        """
        descriptor = -1
        try:
            descriptor = _open(database)
            return cls(_lock(descriptor, fcntl.LOCK_EX, timeout_seconds))
        except BlockingIOError as error:
            os.close(descriptor)
            raise DatabaseBusy(
                "Another Bridge process has the store open, or is upgrading it. Nothing was touched.",
                hint="End the controller (bridge serve --stop) and other Bridge processes, then try again.",
            ) from error
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise DatabaseFailed(
                f"The store {database} cannot be locked: {error.strerror}. Nothing was touched."
            ) from error

    def release(self) -> None:
        """Let go of the lock. Safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _open(database: Path) -> int:
    # The file stays: removing it while another process waits for it would give two processes two locks.
    path = database.with_name(database.name + LOCK_SUFFIX)
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def _lock(descriptor: int, operation: int, timeout_seconds: float) -> int:
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return descriptor
