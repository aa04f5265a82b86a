"""The one writing thread: a bounded queue of jobs, many jobs to a transaction, one fsync for all of them."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine

from bridge.storage.errors import DatabaseBusy, DatabaseFailed, StoreClosed
from bridge.storage.transaction import Transaction, typed_error

#: Jobs that may wait for the writer; a further caller waits for room (back-pressure).
MAX_QUEUED_JOBS = 4096
#: Jobs that share one transaction and its fsync.
MAX_BATCH_JOBS = 256

T = TypeVar("T")


class Job(Generic[T]):
    """A function to run inside a write transaction, and the future of what it returns."""

    __slots__ = ("fn", "future")

    def __init__(self, fn: Callable[[Transaction], T]) -> None:
        self.fn = fn
        self.future: Future[T] = Future()


class Writer:
    """Runs jobs on a thread of its own, in the order of their arrival.

    Parameters
    ----------
    engine
        Engine whose transactions begin with the write lock.
    busy_timeout_seconds
        How long a caller waits for room in the queue.
    max_queued_jobs
        Jobs that may wait at the same time.
    """

    def __init__(self, engine: Engine, *, busy_timeout_seconds: float, max_queued_jobs: int = MAX_QUEUED_JOBS) -> None:
        self._engine = engine
        self._busy_timeout_seconds = busy_timeout_seconds
        self._max_queued_jobs = max_queued_jobs
        self._jobs: deque[Job[Any]] = deque()
        lock = threading.Lock()
        self._arrived = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._is_idle = False
        self._waiting_for_room = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[[Transaction], T]) -> Future[T]:
        """Queue a job.

        Raises
        ------
        StoreClosed
            If the writer was closed.
        DatabaseBusy
            If the queue stayed full for ``busy_timeout_seconds``.
        """
        job = Job(fn)
        with self._arrived:
            if len(self._jobs) >= self._max_queued_jobs:
                self._wait_for_room()
            if self._is_closed:
                raise StoreClosed("The store was closed. Nothing was written.")
            self._jobs.append(job)
            if self._is_idle:
                self._is_idle = False
                self._arrived.notify()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="bridge-writer", daemon=True)
                self._thread.start()
        return job.future

    def close(self) -> None:
        """Refuse new jobs, finish those that wait, end the thread. Safe to call twice."""
        with self._arrived:
            self._is_closed = True
            self._arrived.notify_all()
            self._room.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller runs on the writer's own thread, that is inside a job."""
        return self._thread is threading.current_thread()

    def _wait_for_room(self) -> None:
        if self.is_current_thread:
            raise DatabaseBusy("The writer's queue is full, and a job in it asks for more. Nothing was queued.")
        self._waiting_for_room += 1
        try:
            has_room = self._room.wait_for(
                lambda: self._is_closed or len(self._jobs) < self._max_queued_jobs, self._busy_timeout_seconds
            )
        finally:
            self._waiting_for_room -= 1
        if not has_room:
            raise DatabaseBusy(f"{self._max_queued_jobs} writes are waiting already. Nothing was written.")

    def _next_batch(self) -> list[Job[Any]]:
        """Return what waits, at most a batch; an empty list once closed and drained."""
        with self._arrived:
            while not self._jobs and not self._is_closed:
                self._is_idle = True
                self._arrived.wait()
            self._is_idle = False
            batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), MAX_BATCH_JOBS))]
            if self._waiting_for_room:
                self._room.notify(len(batch))
            return batch

    def _serve(self) -> None:
        connection: Connection | None = None
        try:
            while batch := self._next_batch():
                # A job whose future was cancelled while it waited never starts; from here on it cannot be.
                batch = [job for job in batch if job.future.set_running_or_notify_cancel()]
                while batch:
                    if connection is None:
                        connection = self._connect(batch)
                        if connection is None:
                            break
                    batch = run_batch(connection, batch)
                    if connection.invalidated or connection.in_transaction():
                        _discard(connection)
                        connection = None
        finally:
            if connection is not None:
                connection.close()

    def _connect(self, batch: list[Job[Any]]) -> Connection | None:
        try:
            return self._engine.connect()
        except Exception as error:  # noqa: BLE001 - handed to each caller through its future
            _fail(batch, error)
            return None


def _discard(connection: Connection) -> None:
    """Drop a connection whose transaction could be neither committed nor rolled back."""
    with contextlib.suppress(Exception):
        connection.invalidate()
    with contextlib.suppress(Exception):
        connection.close()


def _fail(jobs: list[Job[Any]], error: Exception) -> None:
    for job in jobs:
        told = typed_error(error)
        if told is not error:
            told.__cause__ = error
        job.future.set_exception(told)


def run_batch(connection: Connection, batch: list[Job[Any]]) -> list[Job[Any]]:
    """Run jobs in one transaction, each in a savepoint of its own, and resolve their futures after COMMIT.

    Returns
    -------
    list[Job]
        Jobs that did not run, because the database rolled the whole transaction back under an earlier one
        (disk full, I/O error); they go into a transaction of their own.
    """
    try:
        connection.begin()
    except Exception as error:  # noqa: BLE001 - handed to each caller through its future
        _fail(batch, error)
        return []
    done: list[tuple[Job[Any], Any]] = []
    failed: list[tuple[Job[Any], Exception]] = []
    rest: list[Job[Any]] = []
    # The transaction of a lone job is its savepoint.
    has_savepoints = len(batch) > 1
    transaction = Transaction(connection)
    for index, job in enumerate(batch):
        try:
            if has_savepoints:
                connection.exec_driver_sql("SAVEPOINT job")
            result = job.fn(transaction)
            if has_savepoints:
                connection.exec_driver_sql("RELEASE job")
        except Exception as error:  # noqa: BLE001 - handed to the caller through its future
            failed.append((job, error))
            if not _undo_job(connection, has_savepoints=has_savepoints):
                rest = batch[index + 1 :]
                lost = DatabaseFailed("The database undid the transaction of several writes. Nothing was written.")
                failed.extend((earlier, lost) for earlier, _ in done)
                done.clear()
                break
        else:
            done.append((job, result))
    _finish(connection, done, failed)
    return rest


def _undo_job(connection: Connection, *, has_savepoints: bool) -> bool:
    """Undo what a failed job did; return whether the rest of the transaction still stands."""
    if not has_savepoints:
        return False
    raw = connection.connection.driver_connection
    if isinstance(raw, sqlite3.Connection) and not raw.in_transaction:
        return False
    try:
        connection.exec_driver_sql("ROLLBACK TO job")
        connection.exec_driver_sql("RELEASE job")
    except Exception:  # noqa: BLE001 - the caller treats the transaction as lost; the job's own error is reported
        return False
    return True


def _finish(connection: Connection, done: list[tuple[Job[Any], Any]], failed: list[tuple[Job[Any], Exception]]) -> None:
    try:
        if done:
            connection.commit()
        else:
            connection.rollback()
    except Exception as error:  # noqa: BLE001 - handed to each caller through its future
        with contextlib.suppress(Exception):
            connection.rollback()
        _fail([job for job, _ in done], error)
        done = []
    for job, reason in failed:
        _fail([job], reason)
    for job, result in done:
        job.future.set_result(result)
