"""Reads OpenCode's SQLite database, which may be in use: from a copy, which SQLite itself makes at one moment.

A session is read as JSON lines, one for each row, so that everything that works on lines works here as well. Nothing
is written beside the original.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson

from bridge.transcripts.errors import TranscriptDatabaseUnreadable

MAGIC: Final = b"SQLite format 3\x00"
#: Columns without which a table is another program's.
_COLUMNS: Final = {
    "session": {"id", "parent_id", "directory", "title", "version", "time_created", "time_updated"},
    "message": {"id", "session_id", "time_created", "data"},
    "part": {"id", "message_id", "session_id", "data"},
}
#: Pages copied between two looks at the clock of whoever writes.
_PAGES: Final = 2048


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a copy of a database, which is removed afterwards.

    Raises
    ------
    TranscriptDatabaseUnreadable
        If it cannot be read, or is damaged.
    """
    with TemporaryDirectory(prefix="bridge-import-") as folder:
        copy = Path(folder) / "copy.db"
        try:
            _copy(path, copy)
            with closing(sqlite3.connect(f"{copy.as_uri()}?mode=ro", uri=True)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise TranscriptDatabaseUnreadable(
                f"The database {str(path)!r} cannot be read: {error}. Nothing was written.",
                details={"path": str(path), "reason": str(error)},
            ) from error


def _copy(path: Path, copy: Path) -> None:
    log = path.with_name(path.name + "-wal")
    if not (log.exists() and log.stat().st_size):
        # Nobody has it open, or nothing is in its log: then a reader needs no files beside it.
        _back_up(f"{path.absolute().as_uri()}?mode=ro&immutable=1", copy)
        return
    try:
        _back_up(f"{path.absolute().as_uri()}?mode=ro", copy)
    except sqlite3.OperationalError:
        # A folder in which SQLite may not keep its shared memory: both files, and the log is applied to the copy.
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
        with closing(sqlite3.connect(copy)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("PRAGMA journal_mode=DELETE")


def _back_up(uri: str, copy: Path) -> None:
    with closing(sqlite3.connect(uri, uri=True)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target, pages=_PAGES)
        target.execute("PRAGMA journal_mode=DELETE")


def is_opencode(connection: sqlite3.Connection) -> bool:
    """Return whether a database has the tables of OpenCode."""
    return all(
        columns <= {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        for table, columns in _COLUMNS.items()
    )


def sessions_of(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """Return id and time of the last change of all sessions, those first that others were started from."""
    rows = connection.execute("SELECT id, time_updated FROM session ORDER BY time_created, id")
    return [(str(row[0]), int(row[1] or 0)) for row in rows]


def lines_of_session(connection: sqlite3.Connection, session: str) -> Iterator[bytes]:
    """Yield the rows of a session as lines: the session, then each message with its parts."""
    yield from _rows(connection, "session", "SELECT * FROM session WHERE id = ?", session)
    messages = connection.execute("SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id", (session,))
    for (message,) in messages:
        yield from _rows(connection, "message", "SELECT * FROM message WHERE id = ?", message)
        yield from _rows(connection, "part", "SELECT * FROM part WHERE message_id = ? ORDER BY id", message)
    yield b'{"table":"end","row":{}}\n'


def _rows(connection: sqlite3.Connection, table: str, query: str, value: str) -> Iterator[bytes]:
    cursor = connection.execute(query, (value,))
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield orjson.dumps({"table": table, "row": dict(zip(names, map(_plain, row), strict=True))}) + b"\n"


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
