"""The open write transaction that trees are handed, and how database failures become typed errors."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bridge.foundation.errors import BridgeError
from bridge.storage.errors import DatabaseBusy, DatabaseFailed, RowRefused
from bridge.storage.prepared import Cursor, Prepared, driver_of

#: Packages take the connection's type from here: above this layer only the ``store`` modules know SQLAlchemy.
__all__ = ["Connection", "Transaction", "typed_error"]

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_REFUSED = sqlite3.SQLITE_CONSTRAINT
#: Extended SQLite result codes keep the primary code in their low byte.
_PRIMARY = 0xFF


class Transaction:
    """A write transaction, or the part of one that belongs to one job.

    It is open only while the function it was given to runs, and belongs to that function's thread. What the
    function did is undone if it raises, and durable once its future resolves.

    ``memo`` holds what the transaction itself wrote last and would read back next (heads, ends of chains). All
    jobs of the transaction share it, since nobody else can write meanwhile; it is emptied when one is undone.
    """

    __slots__ = ("_dialect", "_driver", "connection", "memo")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.memo: dict[tuple[str, str], Any] = {}
        self._driver = driver_of(connection)
        self._dialect = connection.dialect

    def run(self, statement: Prepared, *values: Any) -> Cursor:
        """Run a prepared statement with its values in order."""
        return statement.run_on(self._driver, self._dialect, values)

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[*tuple[Any, ...]]:
        """Run a Core statement: convenient, at twice the cost of a prepared one."""
        return self.connection.execute(statement, parameters)


def typed_error(error: BaseException) -> BaseException:
    """Return what a caller is told: database errors by name, everything else as it is."""
    if isinstance(error, BridgeError):
        return error
    if isinstance(error, PoolTimeout):
        return DatabaseBusy("All reading connections of this process are in use.")
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(error, IntegrityError) or isinstance(original, sqlite3.IntegrityError):
        return RowRefused(
            f"The database refused a row: {original}. Nothing was written.", details={"reason": str(original)}
        )
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", 0) & _PRIMARY
        if code in _BUSY:
            return DatabaseBusy("The store is locked by another process. Nothing was written.")
        if code == _REFUSED:
            return RowRefused(f"The database refused a row: {original}. Nothing was written.")
        return DatabaseFailed(
            f"The database failed: {original}. Nothing was written.",
            details={"reason": str(original), "result": getattr(original, "sqlite_errorname", None)},
        )
    if isinstance(error, DBAPIError):
        return DatabaseFailed(f"The database failed: {original}. Nothing was written.")
    return error
