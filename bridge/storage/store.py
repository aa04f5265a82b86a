"""The store: opening it, reading from it, and handing writes to its writer thread."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from bridge.storage.clients import Visit, note
from bridge.storage.ddl import trigger_statements
from bridge.storage.engine import create_file, make_directories, parse_url, reader_engine, sqlite_path, writer_engine
from bridge.storage.errors import DatabaseBusy, DatabaseMissing, NotEnoughSpace, SchemaUpgradeNeeded, StoreClosed
from bridge.storage.locking import StoreLock
from bridge.storage.schema_version import SCHEMA_VERSION, look, require_supported
from bridge.storage.tables import metadata, schema_version
from bridge.storage.tables.recall import derived_statements
from bridge.storage.transaction import Transaction, typed_error
from bridge.storage.writer import Writer

if TYPE_CHECKING:
    from bridge.storage.upgrading import Upgraded

#: How long a write waits for another process's write, unless the store is opened with another limit.
BUSY_TIMEOUT_SECONDS = 15.0
#: Pause between tries of what SQLite does not wait for by itself (switching a new file to WAL).
_RETRY_SECONDS = 0.02

T = TypeVar("T")

_stores: weakref.WeakSet[Store] = weakref.WeakSet()


class Store:
    """One database file, shared with any number of other processes.

    Reads have connections of their own and are never held up by the writer. Writes are functions that run on
    the writer thread inside a transaction; their futures resolve once the transaction is durable.
    Use :meth:`open`; close it, or use it as a context manager. After a fork both processes may go on with it, but for
    a fork amid a snapshot or a write: then the child's is closed.
    """

    def __init__(self, url: URL, *, busy_timeout_seconds: float, lock: StoreLock) -> None:
        self._url = url
        self._lock = lock
        #: What was done to the store on opening it; None if it was up to date.
        self.upgraded: Upgraded | None = None
        self._busy_timeout_seconds = busy_timeout_seconds
        self._is_closed = False
        # Guards the count of open snapshots, and keeps new ones from opening while the process forks.
        self._gate = threading.Lock()
        self._open_reads = 0
        self._is_clean_fork = True
        self._connect()
        _stores.add(self)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = True,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        visit: Visit | None = None,
        auto_upgrade: bool = False,
    ) -> Store:
        """Open the store at a database URL; make it, and its directories (0700), if it is not there.

        Parameters
        ----------
        url
            SQLAlchemy URL, ``sqlite:////full/path/bridge.db``.
        create
            Whether a missing store is made.
        busy_timeout_seconds
            How long a write waits for the writes of other processes.
        visit
            Who opens it; written down in the store at most once an hour. None leaves no trace.
        auto_upgrade
            Whether a store of an older schema is upgraded at once, where the backup fits. Needs a visit.

        Raises
        ------
        SchemaUpgradeNeeded
            If the store has an older schema and was not to be upgraded, or does not fit on the disk twice.
        UnsupportedSchemaVersion
            If the store was written by a newer or unknown program; decided before any write.
        DatabaseMissing
            If there is none and ``create`` is false.
        DatabaseFailed
            If the file cannot be read, or is not a database.
        InvalidConfiguration
            If the URL cannot be used.
        """
        parsed = parse_url(url)
        path = sqlite_path(parsed)
        found = look(path, timeout_seconds=busy_timeout_seconds)
        upgraded = None
        if not found.is_empty:
            try:
                require_supported(found)
            except SchemaUpgradeNeeded as needed:
                if not auto_upgrade or visit is None:
                    raise
                upgraded = _upgrade_at_once(path, visit, busy_timeout_seconds, needed)
        elif not create:
            raise DatabaseMissing(f"There is no store at {path}.")
        else:
            make_directories(path.parent)
        lock = StoreLock.share(path, timeout_seconds=busy_timeout_seconds)
        try:
            store = cls._open_held(parsed, lock, visit, create=create, busy_timeout_seconds=busy_timeout_seconds)
        except BaseException:
            lock.release()
            raise
        store.upgraded = upgraded
        return store

    @classmethod
    def _open_held(
        cls, url: URL, lock: StoreLock, visit: Visit | None, *, create: bool, busy_timeout_seconds: float
    ) -> Store:
        """Open a store that nobody can upgrade or replace any more: what was seen before the lock may be gone."""
        path = sqlite_path(url)
        client = None if visit is None else (visit.host, visit.version)
        found = look(path, timeout_seconds=busy_timeout_seconds, client=client)
        if not found.is_empty:
            require_supported(found)
        elif not create:
            raise DatabaseMissing(f"There is no store at {path}.")
        else:
            _create(url, busy_timeout_seconds)
        store = cls(url, busy_timeout_seconds=busy_timeout_seconds, lock=lock)
        if visit is not None and visit.is_news(found.last_use):
            # Nobody waits for it, and a store that cannot be written to can be read all the same.
            store.submit(lambda tx: note(tx, visit))
        return store

    @property
    def url(self) -> URL:
        return self._url

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a snapshot for reading; it sees what was committed before its first statement, and no more.

        Raises
        ------
        StoreClosed
            If the store was closed.
        DatabaseBusy, DatabaseFailed
            If the database fails while the snapshot is open.
        """
        with self._gate:
            if self._is_closed:
                raise StoreClosed("The store was closed.")
            self._open_reads += 1
        try:
            # Begun here: prepared statements go past SQLAlchemy, which would begin by itself otherwise.
            with self._reader.begin() as connection:
                yield connection
        except Exception as error:
            told = typed_error(error)
            if told is error:
                raise
            raise told from error
        finally:
            with self._gate:
                self._open_reads -= 1

    def submit(self, fn: Callable[[Transaction], T]) -> Future[T]:
        """Queue a function for the writer thread and return its future.

        The function runs once, in a transaction that other functions may share; if it raises, what it did is
        undone and its future raises. The future resolves after COMMIT. Cancelling it before it started means
        that nothing happens; later it cannot be cancelled any more. The function must not wait for other
        writes.

        Raises
        ------
        StoreClosed
            If the store was closed.
        DatabaseBusy
            If the queue stayed full.
        """
        return self._writer.submit(fn)

    def write(self, fn: Callable[[Transaction], T]) -> T:
        """Run a function in a write transaction and return its result once it is durable.

        It runs on the calling thread while nobody else writes, else on the writer's.

        Raises
        ------
        RuntimeError
            If called from inside a write: the writer would wait for itself.
        """
        return self._writer.run(fn)

    def close(self) -> None:
        """Finish the writes that wait, then close all connections. Safe to call twice."""
        self._is_closed = True
        self._writer.close()
        self._writer_engine.dispose()
        self._reader.dispose()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> None:
        timeout = self._busy_timeout_seconds
        self._reader = reader_engine(self._url, busy_timeout_seconds=timeout)
        self._writer_engine = writer_engine(self._url, busy_timeout_seconds=timeout)
        self._writer = Writer(self._writer_engine, busy_timeout_seconds=timeout)

    def _before_fork(self) -> None:
        self._is_clean_fork = self._writer.pause()
        self._gate.acquire()
        self._is_clean_fork = self._is_clean_fork and self._open_reads == 0
        self._reader.dispose()

    def _after_fork_in_parent(self) -> None:
        self._gate.release()
        if not self._writer.is_inside_job:
            self._writer.go_on()

    def _after_fork_in_child(self) -> None:
        """Start anew: locks, queue and thread of the parent are not the child's."""
        self._gate = threading.Lock()
        self._open_reads = 0
        if self._is_clean_fork:
            self._connect()
        else:
            self._is_closed = True
        if self._is_closed:
            self._writer = Writer(self._writer_engine, busy_timeout_seconds=self._busy_timeout_seconds)
            self._writer.close()
            # The parent's hold on the lock is not ended by closing the copy of its descriptor.
            self._lock.release()


# SQLite keeps the locks of a process in memory that a fork copies, while the kernel's locks stay behind: a child
# would believe to hold what it does not, and its acknowledged writes can vanish. So every connection is closed before
# a fork, and opened again on both sides. Where one is in use at that moment, the child's store is closed instead.
# (subprocess does not come here: it forks and executes in C.)
_forking: list[Store] = []


def _before_fork() -> None:
    _forking[:] = list(_stores)
    for store in _forking:
        store._before_fork()  # noqa: SLF001 - same module; a hook has no other way in


def _after_fork_in_parent() -> None:
    for store in _forking:
        store._after_fork_in_parent()  # noqa: SLF001 - as above
    _forking.clear()


def _after_fork_in_child() -> None:
    for store in _forking:
        store._after_fork_in_child()  # noqa: SLF001 - as above
    _forking.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


def _upgrade_at_once(path: Path, visit: Visit, busy_timeout_seconds: float, needed: SchemaUpgradeNeeded) -> Upgraded:
    # Imported here: it is used once in the life of a store, and pulls in Alembic.
    from bridge.storage.upgrading import upgrade

    try:
        return upgrade(path, moment=visit.moment, timeout_seconds=busy_timeout_seconds)
    except NotEnoughSpace as error:
        raise SchemaUpgradeNeeded(
            f"{needed.message.removesuffix(' Nothing was touched.')} {error.message}",
            hint=error.hint,
            details=needed.details | error.details,
        ) from error


def _create(url: URL, busy_timeout_seconds: float) -> None:
    """Make the tables in an empty file, unless another process was quicker; all of it in one transaction."""
    path = sqlite_path(url)
    try:
        create_file(path)
        _switch_to_wal(str(path), busy_timeout_seconds)
        engine = writer_engine(url, busy_timeout_seconds=busy_timeout_seconds)
        try:
            with engine.begin() as connection:
                if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one():
                    raced = True
                else:
                    raced = False
                    metadata.create_all(connection, checkfirst=False)
                    for statement in (*derived_statements(), *trigger_statements()):
                        connection.exec_driver_sql(statement)
                    connection.execute(schema_version.insert().values(version_num=str(SCHEMA_VERSION)))
        finally:
            engine.dispose()
    except Exception as error:
        told = typed_error(error)
        if told is error:
            raise
        raise told from error
    if raced:
        require_supported(look(path, timeout_seconds=busy_timeout_seconds))


def _switch_to_wal(path: str, busy_timeout_seconds: float) -> None:
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
