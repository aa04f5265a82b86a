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
from bridge.storage.prepared import driver_of
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
    """Runs jobs one transaction at a time, in the order of their arrival, on a thread of its own.

    Who waits for the result anyway may run a job on the calling thread while nobody else writes
    (:meth:`run`): two changes of thread cost as much as the write itself.

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
        # Jobs submitted and not yet done. Nobody writes past them: each caller's writes keep their order.
        self._unfinished = 0
        lock = threading.Lock()
        self._arrived = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._is_idle = False
        self._waiting_for_room = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None
        # Held while a transaction runs, by the writer's thread or by a caller's; guards the connection.
        self._turn = threading.Lock()
        self._turn_holder: int | None = None
        self._connection: Connection | None = None

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
            self._unfinished += 1
            if self._is_idle:
                self._is_idle = False
                self._arrived.notify()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="bridge-writer", daemon=True)
                self._thread.start()
        return job.future

    def run(self, fn: Callable[[Transaction], T]) -> T:
        """Run a job and return its result: on this thread if nobody else writes or waits to, else through the queue.

        Raises
        ------
        RuntimeError
            If called from inside a job, which would wait for itself.
        """
        if self.is_inside_job:
            raise RuntimeError("a write was started inside a write; use the open transaction")
        if self._unfinished or not self._turn.acquire(blocking=False):
            return self.submit(fn).result()
        try:
            if self._is_closed:
                raise StoreClosed("The store was closed. Nothing was written.")
            job = Job(fn)
            job.future.set_running_or_notify_cancel()
            self._run_in_turn([job])
        finally:
            self._turn.release()
        return job.future.result()

    def close(self) -> None:
        """Refuse new jobs, finish those that wait, end the thread. Safe to call twice."""
        with self._arrived:
            self._is_closed = True
            self._arrived.notify_all()
            self._room.notify_all()
            thread = self._thread
        if self.is_inside_job:
            return
        if thread is not None:
            thread.join()
        with self._turn:
            self._disconnect()

    def pause(self) -> bool:
        """Wait for a running transaction, close the connection, and hold back further ones until :meth:`go_on`.

        Returns false, and does nothing, inside a job: it would wait for itself.
        """
        if self.is_inside_job:
            return False
        self._turn.acquire()
        self._disconnect()
        return True

    def go_on(self) -> None:
        """End a pause."""
        self._turn.release()

    @property
    def is_inside_job(self) -> bool:
        """Whether the caller runs inside a job."""
        return self._turn_holder == threading.get_ident()

    def _wait_for_room(self) -> None:
        if self.is_inside_job:
            raise DatabaseBusy("The writer's queue is full, and a job asks for more. Nothing was queued.")
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
        while batch := self._next_batch():
            # A job whose future was cancelled while it waited never starts; from here on it cannot be.
            running = [job for job in batch if job.future.set_running_or_notify_cancel()]
            with self._turn:
                self._run_in_turn(running)
            with self._arrived:
                self._unfinished -= len(batch)

    def _run_in_turn(self, jobs: list[Job[Any]]) -> None:
        self._turn_holder = threading.get_ident()
        try:
            while jobs:
                connection = self._connect(jobs)
                if connection is None:
                    return
                jobs = run_batch(connection, jobs)
                if connection.invalidated or connection.in_transaction():
                    self._disconnect()
        except BaseException:
            # Ctrl-C between two jobs on the main thread: closing the connection undoes the transaction.
            self._disconnect()
            raise
        finally:
            self._turn_holder = None

    def _connect(self, jobs: list[Job[Any]]) -> Connection | None:
        if self._connection is None:
            try:
                self._connection = self._engine.connect()
            except Exception as error:  # noqa: BLE001 - handed to each caller through its future
                _fail(jobs, error)
        return self._connection

    def _disconnect(self) -> None:
        """Drop the connection; also one whose transaction could be neither committed nor rolled back."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if connection.in_transaction():
            with contextlib.suppress(Exception):
                connection.invalidate()
        with contextlib.suppress(Exception):
            connection.close()


def _fail(jobs: list[Job[Any]], error: BaseException) -> None:
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
    failed: list[tuple[Job[Any], BaseException]] = []
    rest: list[Job[Any]] = []
    # The transaction of a lone job is its savepoint.
    has_savepoints = len(batch) > 1
    transaction = Transaction(connection)
    driver = driver_of(connection)
    for index, job in enumerate(batch):
        try:
            if has_savepoints:
                driver.execute("SAVEPOINT job")
            result = job.fn(transaction)
            if has_savepoints:
                driver.execute("RELEASE job")
        except BaseException as error:  # noqa: BLE001 - handed to the caller through its future
            failed.append((job, error))
            transaction.memo.clear()
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
    driver = driver_of(connection)
    if isinstance(driver, sqlite3.Connection) and not driver.in_transaction:
        return False
    try:
        driver.execute("ROLLBACK TO job")
        driver.execute("RELEASE job")
    except Exception:  # noqa: BLE001 - the caller treats the transaction as lost; the job's own error is reported
        return False
    return True


def _finish(
    connection: Connection, done: list[tuple[Job[Any], Any]], failed: list[tuple[Job[Any], BaseException]]
) -> None:
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
