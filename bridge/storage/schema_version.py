"""Which schema a store has: decided from a look that changes neither the database nor its WAL.

Versions 1 to 5 are the older linear history, 6 moves it into the forest, 7 is the first that this program writes. Only
the version that the code was written for is opened: an older one is upgraded first, a newer one may mean anything.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bridge.storage.errors import DatabaseFailed, SchemaUpgradeNeeded, UnsupportedSchemaVersion

#: The schema version that this program reads and writes.
SCHEMA_VERSION = 7
#: The table with the one row that holds it.
VERSION_TABLE = "schema_version"

#: Rows of the version table that a look reads: one is right, and a few show what is wrong.
MAX_SHOWN = 5
_PLAIN_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Look:
    """What a read-only look found.

    ``is_empty`` means no file, or one without any table: free to become a store. Otherwise ``versions`` holds
    every row of the version table as text (None for NULL); it is None where the table itself is missing.
    ``last_use`` is when the client that was asked for used the store last, as it is written down there.
    """

    is_empty: bool
    versions: tuple[str | None, ...] | None = None
    last_use: str | None = None


def look(path: Path, *, timeout_seconds: float, client: tuple[str, str] | None = None) -> Look:
    """Look at a SQLite file without changing a byte of it or of its WAL (but see :func:`_look_beyond_journal`).

    Parameters
    ----------
    client
        Host and version of Bridge whose last use is asked for.

    Raises
    ------
    DatabaseFailed
        If the file is not a database, is damaged, or cannot be read.
    """
    try:
        if not path.exists() or path.stat().st_size == 0:
            return Look(is_empty=True)
        try:
            return _look(unaltered_uri(path), timeout_seconds, client)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            return _look_beyond_journal(path, timeout_seconds)
    except (OSError, sqlite3.Error) as error:
        raise DatabaseFailed(f"The store {path} cannot be read: {error}. Nothing was touched.") from error


def _look(uri: str, timeout_seconds: float, client: tuple[str, str] | None = None) -> Look:
    with closing(sqlite3.connect(uri, uri=True, timeout=timeout_seconds, isolation_level=None)) as connection:
        return _read(connection, client)


def _look_beyond_journal(path: Path, timeout_seconds: float) -> Look:
    """Look at a store outside WAL mode whose writer was killed: what it had not committed is still in the file.

    SQLite can take that back only by writing. It may where the store is one that this program works with or upgrades;
    any other is left as it is.
    """
    found = _look(f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1", timeout_seconds)
    if judge(found.versions)[0] not in ("same", "older"):
        return found
    return _look(f"file:{quote(os.fsencode(path))}?mode=rw", timeout_seconds)


def unaltered_uri(path: Path) -> str:
    """Return the URI under which SQLite reads a file without changing a byte of it or of its WAL.

    Without a WAL the file is immutable, and no side files are made. With one, a read-only connection is needed to see
    what the WAL adds; it may create the ``-shm``, which is SQLite's own.
    """
    sides = (path.with_name(path.name + "-wal"), path.with_name(path.name + "-journal"))
    has_side_file = any(side.exists() and side.stat().st_size > 0 for side in sides)
    return f"file:{quote(os.fsencode(path))}?{'mode=ro' if has_side_file else 'mode=ro&immutable=1'}"


def _read(connection: sqlite3.Connection, client: tuple[str, str] | None) -> Look:
    connection.execute("BEGIN")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return Look(is_empty=True)
    if VERSION_TABLE not in tables:
        return Look(is_empty=False)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({VERSION_TABLE})")]
    if "version_num" not in columns:
        return Look(is_empty=False)
    rows = connection.execute(f"SELECT version_num FROM {VERSION_TABLE} LIMIT {MAX_SHOWN}")  # noqa: S608 - constants
    versions = tuple(None if value is None else str(value) for (value,) in rows)
    last = None
    if client is not None and "clients" in tables:
        query = "SELECT last_used_at FROM clients WHERE host = ? AND version = ?"
        last = connection.execute(query, client).fetchone()
    return Look(is_empty=False, versions=versions, last_use=None if last is None else str(last[0]))


def require_supported(found: Look) -> None:
    """Return if a non-empty store has exactly the version that this program understands.

    Raises
    ------
    SchemaUpgradeNeeded
        If it is older, and there are steps from it to this one.
    UnsupportedSchemaVersion
        If the version is newer, not a plain number, doubled or missing. ``details`` holds ``found`` (a number, a
        text, a list, or null), ``supported`` and ``relation``; those of the other error likewise.
    """
    relation, shown, value = judge(found.versions)
    if relation == "same":
        return
    if relation == "older":
        raise SchemaUpgradeNeeded(
            f"This store has {shown}; this Bridge works with schema {SCHEMA_VERSION}. Nothing was touched.",
            details={"found": value, "supported": [SCHEMA_VERSION, SCHEMA_VERSION], "relation": relation},
        )
    raise UnsupportedSchemaVersion(
        f"This store has {shown}; this Bridge understands schema {SCHEMA_VERSION}. Nothing was touched.",
        details={"found": value, "supported": [SCHEMA_VERSION, SCHEMA_VERSION], "relation": relation},
    )


def judge(versions: tuple[str | None, ...] | None) -> tuple[str, str, int | str | list[str | None] | None]:
    """Return how a store's version relates to this program's, how to speak of it, and its value.

    The relation is ``same``, ``older``, ``newer``, ``odd``, ``doubled`` or ``missing``.
    """
    if not versions:
        return "missing", "no schema version", None
    if len(versions) > 1:
        return "doubled", f"{len(versions)} schema versions ({', '.join(map(str, versions))})", list(versions)
    (text,) = versions
    # Only the form that Bridge writes counts: "07", " 7" and "7.0" were written by something else.
    if text is None or not _PLAIN_NUMBER.fullmatch(text):
        return "odd", f"the odd schema version {text!r}", text
    number = int(text)
    if number == SCHEMA_VERSION:
        return "same", "", number
    return ("newer" if number > SCHEMA_VERSION else "older"), f"schema {number}", number
