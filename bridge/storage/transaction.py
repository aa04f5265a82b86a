"""The open write transaction that trees are handed, and how database failures become typed errors."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Connection, CursorResult, Executable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from bridge.foundation.errors import BridgeError
from bridge.storage.errors import DatabaseBusy, DatabaseFailed, RowRefused
from bridge.storage.prepared import Cursor, DriverConnection, Prepared

#: Packages take the connection's type from here: above this layer only the ``store`` modules know SQLAlchemy.
__all__ = ["NOTHING", "UNKNOWN", "Connection", "Transaction", "is_collision", "typed_error"]

#: What became of the work that failed, for messages.
NOTHING = "Nothing was written."
UNKNOWN = "The connection was lost while it was committed: whether it was written is not known."

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_REFUSED = sqlite3.SQLITE_CONSTRAINT
#: Extended SQLite result codes keep the primary code in their low byte.
_PRIMARY = 0xFF

# SQLSTATE codes of PostgreSQL.
#: Serialization failure, deadlock.
_COLLIDED = frozenset({"40001", "40P01"})
#: Lock not available in time, statement cancelled, too many connections.
_WAITED = frozenset({"55P03", "57014", "53300"})
#: Data exception, integrity constraint violation (the triggers' own code as well).
_REFUSED_CLASSES = frozenset({"22", "23"})
_NO_PRIVILEGE = "42501"


class Transaction:
    """A write transaction, or the part of one that belongs to one job.

    It is open only while the function it was given to runs, and belongs to that function's thread. What the
    function did is undone if it raises, and durable once its future resolves.

    ``memo`` holds what the transaction itself wrote last and would read back next (heads, ends of chains). All
    jobs of the transaction share it, since nobody else can write meanwhile; it is emptied when one is undone. Where the
    database can say that nobody else wrote since, the next transaction of appends begins with it (``Memory``).

    Writes may be queued (:meth:`queue`, :meth:`queue_last`). They are done, in order, before anything else is asked of
    the transaction and before it ends: nobody sees a difference, but for the cost.
    """

    __slots__ = ("_connection", "_dialect", "_driver", "_last", "_rows", "memo", "queued")

    def __init__(
        self, connection: Connection, driver: DriverConnection, memo: dict[tuple[str, str], Any] | None = None
    ) -> None:
        self._connection = connection
        self.memo: dict[tuple[str, str], Any] = {} if memo is None else memo
        self._driver = driver
        self._dialect = connection.dialect
        self._rows: dict[Prepared, list[tuple[Any, ...]]] = {}
        self._last: dict[tuple[Prepared, Any], tuple[Any, ...]] = {}
        #: Writes queued so far, done or not.
        self.queued = 0

    @property
    def connection(self) -> Connection:
        """The connection, to read or write with; what was queued is done first."""
        self.flush()
        return self._connection

    def run(self, statement: Prepared, *values: Any) -> Cursor:
        """Run a prepared statement with its values in order."""
        self.flush()
        return statement.run_on(self._driver, self._dialect, values)

    def execute(self, statement: Executable, parameters: Any = None) -> CursorResult[*tuple[Any, ...]]:
        """Run a Core statement: convenient, at twice the cost of a prepared one."""
        return self.connection.execute(statement, parameters)

    def queue(self, statement: Prepared, *values: Any) -> None:
        """Queue a row for an INSERT; rows of one statement are inserted in one go, statements in order of use."""
        self.queue_row(statement, values)

    def queue_row(self, statement: Prepared, values: tuple[Any, ...]) -> None:
        """Queue a row as :meth:`queue` does."""
        rows = self._rows.get(statement)
        if rows is None:
            rows = self._rows[statement] = []
        rows.append(values)
        self.queued += 1

    def queue_last(self, statement: Prepared, key: Any, *values: Any) -> None:
        """Queue a change of one row, after all inserts; a later one with the same key takes its place."""
        self._last[statement, key] = values
        self.queued += 1

    def flush(self) -> None:
        """Do what was queued."""
        if self._rows:
            rows, self._rows = self._rows, {}
            for statement, values in rows.items():
                statement.run_many_on(self._driver, self._dialect, values)
        if self._last:
            last, self._last = self._last, {}
            for (statement, _), row in last.items():
                statement.run_on(self._driver, self._dialect, row)

    def forget(self) -> None:
        """Drop what was queued and remembered, since the transaction, or its last job, is undone."""
        self._rows.clear()
        self._last.clear()
        self.memo.clear()


def typed_error(error: BaseException, *, outcome: str = NOTHING) -> BaseException:
    """Return what a caller is told: database errors by name, everything else as it is.

    Parameters
    ----------
    outcome
        What became of the work, for the message.
    """
    if isinstance(error, BridgeError):
        return error
    if isinstance(error, PoolTimeout):
        return DatabaseBusy("All reading connections of this process are in use.")
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        return _of_sqlite(original, outcome)
    if isinstance(error, DBAPIError) or _is_from_psycopg(original):
        return _of_postgresql(original, outcome)
    return error


def is_collision(error: BaseException) -> bool:
    """Return whether a transaction failed for no fault of its own, so that the same again may succeed at once."""
    original = error.orig if isinstance(error, DBAPIError) else error
    return getattr(original, "sqlstate", None) in _COLLIDED


def _of_sqlite(error: sqlite3.Error, outcome: str) -> BridgeError:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if code in _BUSY:
        return DatabaseBusy(f"The store is locked by another process. {outcome}")
    if code == _REFUSED or isinstance(error, sqlite3.IntegrityError):
        return _refused(error, outcome)
    return DatabaseFailed(
        f"The database failed: {error}. {outcome}",
        details={"reason": str(error), "result": getattr(error, "sqlite_errorname", None)},
    )


def _is_from_psycopg(error: BaseException | None) -> bool:
    # By name: psycopg is not imported, and need not be installed, where the store is a file.
    return any(kind.__module__.partition(".")[0] == "psycopg" for kind in type(error).__mro__)


def _of_postgresql(error: BaseException | None, outcome: str) -> BridgeError:
    state = getattr(error, "sqlstate", None)
    if state in _COLLIDED:
        return DatabaseBusy(f"Another process's write collided with this one. {outcome}", details={"result": state})
    if state in _WAITED:
        return DatabaseBusy(f"The store is locked by another process. {outcome}", details={"result": state})
    refused = state is not None and (state[:2] in _REFUSED_CLASSES or state == _NO_PRIVILEGE)
    # What the driver refuses to send (a NUL in a text) has no state.
    if refused or any(kind.__name__ == "DataError" for kind in type(error).__mro__):
        return _refused(error, outcome)
    return DatabaseFailed(
        f"The database failed: {_first_line(error)}. {outcome}", details={"reason": str(error), "result": state}
    )


def _refused(error: BaseException | None, outcome: str) -> RowRefused:
    return RowRefused(f"The database refused a row: {_first_line(error)}. {outcome}", details={"reason": str(error)})


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
