"""SQLite behind the store: a file in WAL mode, which is made here, looked at, and watched for commits."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sqlalchemy import Engine
from sqlalchemy.engine import URL

from bridge.foundation.errors import InvalidConfiguration
from bridge.storage import engine, fulltext
from bridge.storage.ddl import trigger_statements
from bridge.storage.errors import DatabaseBusy, NotEnoughSpace, SchemaUpgradeNeeded, StoreClosed
from bridge.storage.locking import StoreLock
from bridge.storage.schema_version import SCHEMA_VERSION, Look, look
from bridge.storage.tables import metadata, schema_version
from bridge.storage.transaction import typed_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from bridge.storage.survey import Survey
    from bridge.storage.upgrading import Plan, Upgraded, UpgradeProgress

#: Jobs that share one transaction and its fsync.
MAX_BATCH_JOBS = 256
#: Pause between two looks of a follower.
POLL_SECONDS = 0.02
#: Pause between tries of what SQLite does not wait for by itself (switching a new file to WAL).
_RETRY_SECONDS = 0.02


class SqliteBackend:
    """A SQLite file.

    Raises
    ------
    InvalidConfiguration
        If the URL names no file.
    """

    max_batch_jobs = MAX_BATCH_JOBS

    def __init__(self, url: URL) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise InvalidConfiguration("The store needs a file: its readers and its writer are separate connections.")
        self.url = url
        self.path = engine.sqlite_path(url)

    @property
    def place(self) -> str:
        return str(self.path)

    def look(self, *, timeout_seconds: float, client: tuple[str, str] | None = None) -> Look:
        return look(self.path, timeout_seconds=timeout_seconds, client=client)

    def create(self, *, timeout_seconds: float) -> bool:
        try:
            engine.create_file(self.path)
            _switch_to_wal(self.path, timeout_seconds)
            writer = self.writer_engine(busy_timeout_seconds=timeout_seconds)
            try:
                with writer.begin() as connection:
                    if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one():
                        return False
                    metadata.create_all(connection, checkfirst=False)
                    for statement in (*fulltext.sqlite_statements(), *trigger_statements()):
                        connection.exec_driver_sql(statement)
                    connection.execute(schema_version.insert().values(version_num=str(SCHEMA_VERSION)))
                    return True
            finally:
                writer.dispose()
        except Exception as error:
            told = typed_error(error)
            if told is error:
                raise
            raise told from error

    def share(self, *, timeout_seconds: float) -> StoreLock:
        engine.make_directories(self.path.parent)
        return StoreLock.share(self.path, timeout_seconds=timeout_seconds)

    def upgrade_at_once(self, needed: SchemaUpgradeNeeded, *, moment: str, timeout_seconds: float) -> Upgraded:
        # Imported here: it is used once in the life of a store, and pulls in Alembic.
        from bridge.storage.upgrading import upgrade

        try:
            return upgrade(self.path, moment=moment, timeout_seconds=timeout_seconds)
        except NotEnoughSpace as error:
            raise SchemaUpgradeNeeded(
                f"{needed.message.removesuffix(' Nothing was touched.')} {error.message}",
                hint=error.hint,
                details=needed.details | error.details,
            ) from error

    def survey(self, *, readable_versions: Collection[int], timeout_seconds: float) -> Survey:
        from bridge.storage.survey import survey  # as in upgrade_at_once()

        return survey(self.path, readable_versions=readable_versions, timeout_seconds=timeout_seconds)

    def plan_upgrade(self, *, moment: str, timeout_seconds: float) -> Plan:
        from bridge.storage.upgrading import plan  # as in upgrade_at_once()

        return plan(self.path, moment=moment, timeout_seconds=timeout_seconds)

    def upgrade(
        self,
        *,
        moment: str,
        timeout_seconds: float,
        progress: UpgradeProgress | None = None,
        rehearse: bool = False,
        is_backed_up: bool = False,
    ) -> Upgraded:
        from bridge.storage.upgrading import upgrade  # as in upgrade_at_once()

        return upgrade(self.path, moment=moment, timeout_seconds=timeout_seconds, progress=progress, rehearse=rehearse)

    def writer_engine(self, *, busy_timeout_seconds: float) -> Engine:
        return engine.writer_engine(self.url, busy_timeout_seconds=busy_timeout_seconds)

    def reader_engine(self, *, busy_timeout_seconds: float) -> Engine:
        return engine.reader_engine(self.url, busy_timeout_seconds=busy_timeout_seconds)

    def scrub(self, *, timeout_seconds: float) -> str | None:
        try:
            with closing(
                sqlite3.connect(
                    f"file:{quote(os.fsencode(self.path))}?mode=rw",
                    uri=True,
                    timeout=timeout_seconds,
                    isolation_level=None,
                )
            ) as connection:
                for index in fulltext.INDEXES:
                    # What was taken out of an index stands in it until its parts are merged.
                    connection.execute(f"INSERT INTO {index}({index}) VALUES ('optimize')")  # noqa: S608 - a constant
                connection.execute("VACUUM")
                is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            told = typed_error(error)
            if isinstance(told, DatabaseBusy):
                return "another process reads or writes the store"
            raise told from error
        return "another process reads the store" if is_busy else None

    def follow(self) -> SqliteFollower:
        return SqliteFollower(self.path)


class SqliteFollower:
    """Looks now and then at SQLite's own count of what others committed; a look reads a few bytes of shared memory."""

    def __init__(self, path: Path) -> None:
        self._connection: sqlite3.Connection | None = sqlite3.connect(
            f"file:{quote(os.fsencode(path))}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
        )
        self._seen = self._version()

    def wait(self, timeout_seconds: float) -> bool:
        deadline = time.monotonic() + timeout_seconds
        while True:
            version = self._version()
            if version != self._seen:
                self._seen = version
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(POLL_SECONDS, left))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _version(self) -> int:
        if self._connection is None:
            raise StoreClosed("The follower was closed.")
        try:
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise typed_error(error) from error
        return version


def _switch_to_wal(path: Path, busy_timeout_seconds: float) -> None:
    # The mode is kept in the file. SQLite does not wait while several processes switch a new file at once.
    deadline = time.monotonic() + busy_timeout_seconds
    with closing(sqlite3.connect(path, timeout=busy_timeout_seconds, isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() > deadline:
                    raise DatabaseBusy("Another process holds the new store. Nothing was written.") from error
                time.sleep(_RETRY_SECONDS)
            else:
                return
