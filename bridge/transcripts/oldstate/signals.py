"""Reading ``signals`` tables of a foreign SQLite file: from a copy, so that nothing is ever written beside it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bridge.transcripts.oldstate.model import TableState

TABLE: Final = "signals"
#: Bytes of one database, and rows of its table, that are read.
MAX_BYTES: Final = 4 * 1024**3
MAX_ROWS: Final = 1_000_000
#: How long somebody else's lock is waited for, in seconds.
LOCK_WAIT_SECONDS: Final = 0.25
_MAGIC: Final = b"SQLite format 3\0"
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


@dataclass(frozen=True, slots=True)
class SignalTable:
    """What became of one file: its rows in their order, as far as they could be read, and why not further."""

    state: TableState
    rows: tuple[Mapping[str, Any], ...] = ()
    detail: str = ""


def read_signals(path: Path) -> SignalTable:
    """Return the rows of a file's table; whatever is wrong with the file is part of the answer."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
        if path.stat().st_size > MAX_BYTES:
            return SignalTable(TableState.DAMAGED, detail=f"it is larger than {MAX_BYTES} bytes")
        if not header:
            return SignalTable(TableState.MISSING)
        if not header.startswith(_MAGIC):
            return SignalTable(TableState.DAMAGED, detail="it is no SQLite file")
        with tempfile.TemporaryDirectory(prefix="bridge-signals-") as folder:
            copy = Path(folder) / "copy.db"
            # In this mode readers and writers do not wait for each other, and what was written last is beside the file.
            if header[18] == 2:
                _copy_with_log(path, copy)
            else:
                _copy_under_lock(path, copy)
            return _read_copy(copy)
    except FileNotFoundError:
        return SignalTable(TableState.MISSING)
    except sqlite3.Error as error:
        is_locked = getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
        return SignalTable(TableState.LOCKED if is_locked else TableState.DAMAGED, detail=str(error))
    except OSError as error:
        return SignalTable(TableState.DAMAGED, detail=error.strerror or str(error))


def _copy_with_log(path: Path, copy: Path) -> None:
    shutil.copyfile(path, copy)
    log = path.with_name(path.name + "-wal")
    if log.exists():
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))


def _copy_under_lock(path: Path, copy: Path) -> None:
    """Copy a file while nobody can write to it. One whose writer died half-way cannot be read so, and is damaged."""
    address = f"file:{quote(str(path))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=LOCK_WAIT_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        shutil.copyfile(path, copy)


def _read_copy(copy: Path) -> SignalTable:
    with _opened(copy) as connection:
        found = connection.execute("SELECT type FROM sqlite_master WHERE name = ?", (TABLE,)).fetchone()
        if found is None or found[0] != "table":
            return SignalTable(TableState.MISSING)
        rows: list[Mapping[str, Any]] = []
        try:
            rows.extend(_rows(connection))
        except sqlite3.Error as error:
            return SignalTable(TableState.DAMAGED, tuple(rows), str(error))
        if len(rows) > MAX_ROWS:
            return SignalTable(TableState.DAMAGED, tuple(rows[:MAX_ROWS]), f"it has more than {MAX_ROWS} rows")
    return SignalTable(TableState.READ if rows else TableState.EMPTY, tuple(rows))


def _rows(connection: sqlite3.Connection) -> Iterator[Mapping[str, Any]]:
    cursor = connection.execute(f"SELECT * FROM {TABLE} LIMIT {MAX_ROWS + 1}")  # noqa: S608 - constants only
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))


@contextmanager
def _opened(copy: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            raise sqlite3.DatabaseError(answer)
        yield connection
