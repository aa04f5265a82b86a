"""The store: opening it, reading from it, and handing writes to its writer thread."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from bridge.storage.backend import Backend, Follower, backend_for
from bridge.storage.clients import Visit, note
from bridge.storage.errors import DatabaseMissing, SchemaUpgradeNeeded, StoreClosed
from bridge.storage.locking import StoreLock
from bridge.storage.schema_version import require_supported
from bridge.storage.transaction import Transaction, typed_error
from bridge.storage.writer import Job, Writer

if TYPE_CHECKING:
    from bridge.storage.upgrading import Upgraded

#: How long a write waits for another process's write, unless the store is opened with another limit.
BUSY_TIMEOUT_SECONDS = 15.0

T = TypeVar("T")

_stores: weakref.WeakSet[Store] = weakref.WeakSet()


class Store:
    """One database, shared with any number of other processes.

    Reads have connections of their own and are never held up by the writer. Writes are functions that run on
    the writer thread inside a transaction; their futures resolve once the transaction is durable.
    Use :meth:`open`; close it, or use it as a context manager. After a fork both processes may go on with it, but for
    a fork amid a snapshot or a write: then the child's is closed.
    """

    def __init__(self, backend: Backend, *, busy_timeout_seconds: float, lock: StoreLock) -> None:
        self._backend = backend
        self._lock = lock
        #: What was done to the store on opening it; None if it was up to date.
        self.upgraded: Upgraded | None = None
        self._busy_timeout_seconds = busy_timeout_seconds
        self._is_closed = False
        # Guards the count of open snapshots, and keeps new ones from opening while the process forks.
        self._gate = threading.Lock()
        self._open_reads = 0
        self._is_clean_fork = True
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()
        self._follower: Follower | None = None
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
            SQLAlchemy URL, ``sqlite:////full/path/bridge.db`` or ``postgresql+psycopg://user@host/database``. A
            PostgreSQL database must exist; the store's tables are made in the first schema of its search path.
        create
            Whether a missing store is made.
        busy_timeout_seconds
            How long a write waits for the writes of other processes.
        visit
            Who opens it; written down in the store at most once an hour. None leaves no trace.
        auto_upgrade
            Whether a store of an older schema is upgraded at once, where the backup fits. Needs a visit. Never on
            PostgreSQL, where that is the operator's business.

        Raises
        ------
        SchemaUpgradeNeeded
            If the store has an older schema and was not to be upgraded, or does not fit on the disk twice.
        UnsupportedSchemaVersion
            If the store was written by a newer or unknown program; decided before any write.
        DatabaseMissing
            If there is none and ``create`` is false.
        DatabaseFailed
            If the file cannot be read, or is not a database; if the server cannot be reached.
        InvalidConfiguration
            If the URL cannot be used.
        """
        backend = backend_for(url)
        found = backend.look(timeout_seconds=busy_timeout_seconds)
        upgraded = None
        if not found.is_empty:
            try:
                require_supported(found)
            except SchemaUpgradeNeeded as needed:
                if not auto_upgrade or visit is None:
                    raise
                upgraded = backend.upgrade_at_once(needed, moment=visit.moment, timeout_seconds=busy_timeout_seconds)
        elif not create:
            raise DatabaseMissing(f"There is no store at {backend.place}.")
        lock = backend.share(timeout_seconds=busy_timeout_seconds)
        try:
            store = cls._open_held(backend, lock, visit, create=create, busy_timeout_seconds=busy_timeout_seconds)
        except BaseException:
            lock.release()
            raise
        store.upgraded = upgraded
        return store

    @classmethod
    def _open_held(
        cls, backend: Backend, lock: StoreLock, visit: Visit | None, *, create: bool, busy_timeout_seconds: float
    ) -> Store:
        """Open a store that nobody can upgrade or replace any more: what was seen before the lock may be gone."""
        client = None if visit is None else (visit.host, visit.version)
        found = backend.look(timeout_seconds=busy_timeout_seconds, client=client)
        if not found.is_empty:
            require_supported(found)
        elif not create:
            raise DatabaseMissing(f"There is no store at {backend.place}.")
        elif not backend.create(timeout_seconds=busy_timeout_seconds):
            require_supported(backend.look(timeout_seconds=busy_timeout_seconds))
        store = cls(backend, busy_timeout_seconds=busy_timeout_seconds, lock=lock)
        if visit is not None and visit.is_news(found.last_use):
            # Nobody waits for it, and a store that cannot be written to can be read all the same.
            store.submit(lambda tx: note(tx, visit))
        return store

    @property
    def url(self) -> URL:
        return self._backend.url

    @property
    def place(self) -> str:
        """Where the database is, for messages; without its password."""
        return self._backend.place

    @property
    def database(self) -> str:
        """The kind of database: ``sqlite`` or ``postgresql``."""
        return self._backend.url.get_backend_name()

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

    def submit(self, fn: Callable[[Transaction], T], *, is_repeatable: bool = False) -> Future[T]:
        """Queue a function for the writer thread and return its future.

        The function runs in a transaction that other functions may share; if it raises, what it did is
        undone and its future raises. The future resolves after COMMIT. Cancelling it before it started means
        that nothing happens; later it cannot be cancelled any more. The function must not wait for other
        writes.

        Parameters
        ----------
        is_repeatable
            Whether the function does nothing but read and write through the transaction. It may then run once more
            after a collision with others undid what it did; else it runs once. It also costs less.

        Raises
        ------
        StoreClosed
            If the store was closed.
        DatabaseBusy
            If the queue stayed full.
        """
        return self._writer.submit(fn, is_repeatable=is_repeatable)

    def offer(self, jobs: deque[Job[Any]]) -> None:
        """Queue the first of some jobs, as many as there is room for, without waiting; take those from the left.

        Raises
        ------
        StoreClosed
            If the store was closed.
        """
        self._writer.offer(jobs)

    def write(self, fn: Callable[[Transaction], T], *, is_repeatable: bool = False) -> T:
        """Run a function in a write transaction and return its result once it is durable.

        It runs on the calling thread while nobody else writes, else on the writer's.

        Raises
        ------
        RuntimeError
            If called from inside a write: the writer would wait for itself.
        """
        return self._writer.run(fn, is_repeatable=is_repeatable)

    def follow(self) -> Follower:
        """Begin to watch for what anyone commits to the store, this process included; close it when done.

        A fork of this process closes it too; waiting then raises StoreClosed.

        Raises
        ------
        StoreClosed
            If the store was closed.
        """
        with self._gate:
            if self._is_closed:
                raise StoreClosed("The store was closed.")
            follower = self._backend.follow()
            self._followers.add(follower)
            return follower

    def wait_for_change(self, timeout_seconds: float) -> bool:
        """Wait for a commit of anyone; return whether there was one since the last call.

        The first call sees only what is committed while it waits. It has one memory for the whole store: who shares
        a store with other followers, or must miss nothing between a read and the wait, uses :meth:`follow`.
        """
        if self._follower is None:
            self._follower = self.follow()
        try:
            return self._follower.wait(timeout_seconds)
        except StoreClosed:
            if self._is_closed:
                raise
            # This process forked meanwhile, which closes every connection. What happened since is not known.
            self._follower = None
            return True

    def scrub(self) -> str | None:
        """Rewrite the database so that nothing of what was deleted stands in its files; return why not, if it cannot.

        Takes the time of writing the whole database once; others wait meanwhile.

        Raises
        ------
        DatabaseFailed
            If the database fails.
        """
        return self._backend.scrub(timeout_seconds=self._busy_timeout_seconds)

    def close(self) -> None:
        """Finish the writes that wait, then close all connections. Safe to call twice."""
        self._is_closed = True
        self._writer.close()
        self._writer_engine.dispose()
        self._reader.dispose()
        self._close_followers()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _close_followers(self) -> None:
        for follower in list(self._followers):
            follower.close()
        self._followers.clear()

    def _connect(self) -> None:
        timeout = self._busy_timeout_seconds
        self._reader = self._backend.reader_engine(busy_timeout_seconds=timeout)
        self._writer_engine = self._backend.writer_engine(busy_timeout_seconds=timeout)
        self._writer = self._make_writer()

    def _make_writer(self) -> Writer:
        return Writer(
            self._writer_engine,
            busy_timeout_seconds=self._busy_timeout_seconds,
            max_batch_jobs=self._backend.max_batch_jobs,
        )

    def _before_fork(self) -> None:
        self._is_clean_fork = self._writer.pause()
        self._gate.acquire()
        self._is_clean_fork = self._is_clean_fork and self._open_reads == 0
        self._reader.dispose()
        self._close_followers()

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
            self._writer = self._make_writer()
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
