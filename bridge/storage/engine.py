"""SQLAlchemy engines with the settings that keep SQLite transactional.

Left to themselves, the standard library's sqlite3 begins transactions late and commits behind one's back
around DDL. So: ``isolation_level=None`` (no implicit BEGIN), and an explicit BEGIN from a hook.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Connection
from sqlalchemy.pool import NullPool, QueuePool

from bridge.storage.prepared import driver_of, in_transaction
from bridge.storage.schema_version import unaltered_uri

#: Readers of one process that may be open at the same time; further ones wait.
MAX_READERS = 32


#: Memory for pages of the writing connection, in KiB. What a transaction changes beyond it is written before its end,
#: and again when it is changed once more: SQLite's own 2,000 are less than one transaction of an import changes.
WRITER_CACHE_KIB = 8 * 1024
#: Pages in the write-ahead log from which on a commit moves them into the database: 16 MiB. Four times SQLite's own,
#: since each time costs two flushes beside those that make a commit durable.
CHECKPOINT_PAGES = 4000


def sqlite_path(url: URL) -> Path:
    """Return the absolute path of a SQLite URL's file."""
    return Path(str(url.database)).absolute()


def make_directories(directory: Path) -> None:
    """Create a directory and its missing parents, each readable by its owner alone (0700)."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def create_file(path: Path) -> None:
    """Create the database file, if it is absent, readable and writable by its owner alone (0600)."""
    make_directories(path.parent)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def writer_engine(url: URL, *, busy_timeout_seconds: float) -> Engine:
    """Return the engine of the one writing connection: BEGIN IMMEDIATE, WAL, ``synchronous=FULL``."""
    engine = sqlite_engine(url, busy_timeout_seconds=busy_timeout_seconds, poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{WRITER_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The writer may have begun already, through the driver.
        driver = driver_of(connection)
        if not in_transaction(driver):
            driver.execute("BEGIN IMMEDIATE")

    return engine


def reader_engine(url: URL, *, busy_timeout_seconds: float) -> Engine:
    """Return the engine of the reading connections: plain BEGIN (a WAL snapshot), writes refused."""
    engine = sqlite_engine(
        url,
        busy_timeout_seconds=busy_timeout_seconds,
        is_reading=True,
        poolclass=QueuePool,
        pool_size=5,
        max_overflow=MAX_READERS - 5,
        pool_timeout=busy_timeout_seconds,
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        driver_of(connection).execute("BEGIN")

    return engine


def sqlite_engine(url: URL, *, busy_timeout_seconds: float, is_reading: bool = False, **options: Any) -> Engine:
    """Return an engine without hooks whose transactions are nobody's but the caller's.

    Parameters
    ----------
    is_reading
        Whether a file, or a folder, in which nothing may be written is read all the same.
    """
    path = sqlite_path(url)

    def connect() -> sqlite3.Connection:
        # mode=rw: a file that vanished is an error, never a fresh and empty store.
        uri = f"file:{quote(os.fsencode(path))}?mode=rw"
        if is_reading and path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
            # Even a reader of a file in WAL mode wants to make the -shm.
            uri = unaltered_uri(path)
        # Connections wander between threads (pool, writer), one at a time: SQLite is built for that.
        return sqlite3.connect(
            uri, uri=True, timeout=busy_timeout_seconds, isolation_level=None, check_same_thread=False
        )

    return create_engine("sqlite+pysqlite://", creator=connect, **options)
