"""The one writing thread: a bounded queue of jobs, many jobs to a transaction, one fsync for all of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Engine

from bridge.foundation.errors import BridgeError
from bridge.storage.errors import DatabaseBusy, DatabaseFailed, StoreClosed
from bridge.storage.prepared import DriverConnection, count_changes, in_transaction
from bridge.storage.transaction import NOTHING, UNKNOWN, Transaction, is_collision, typed_error
from bridge.storage.writing import WriterConnection

#: Sessions and chains whose last entries are remembered from one transaction to the next.
MAX_REMEMBERED = 10_000
#: Jobs that may wait for the writer; a further caller waits for room (back-pressure).
MAX_QUEUED_JOBS = 4096

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Answer(Protocol[T_contra]):
    """Where a job's outcome goes: what of a future the writer uses."""

    def set_running_or_notify_cancel(self) -> bool: ...

    def set_result(self, result: T_contra) -> None: ...

    def set_exception(self, exception: BaseException | None) -> None: ...


class Mailbox(Protocol):
    """Takes the answers of a whole batch at once."""

    def deliver(self, answers: list[Any], /) -> None: ...


class Job(Generic[T]):
    """A function to run inside a write transaction, and where its outcome goes.

    Parameters
    ----------
    is_repeatable
        Whether it may run again after what it did was undone: it does nothing but read and write through its
        transaction.
    mailbox
        Who is told of the answer once it has its outcome, together with others of the same transaction; called on the
        writer's thread.
    """

    __slots__ = ("answer", "fn", "is_repeatable", "mailbox")

    def __init__(
        self, fn: Callable[[Transaction], T], answer: Answer[T], *, is_repeatable: bool, mailbox: Mailbox | None = None
    ) -> None:
        self.fn = fn
        self.answer = answer
        self.is_repeatable = is_repeatable
        self.mailbox = mailbox


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
    max_batch_jobs
        Jobs that share one transaction and its fsync.
    max_queued_jobs
        Jobs that may wait at the same time.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        busy_timeout_seconds: float,
        max_batch_jobs: int,
        max_queued_jobs: int = MAX_QUEUED_JOBS,
    ) -> None:
        self._engine = engine
        self._max_batch_jobs = max_batch_jobs
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
        self._connection: WriterConnection | None = None
        self._memory = Memory()

    def submit(self, fn: Callable[[Transaction], T], *, is_repeatable: bool = False) -> Future[T]:
        """Queue a job.

        Raises
        ------
        StoreClosed
            If the writer was closed.
        DatabaseBusy
            If the queue stayed full for ``busy_timeout_seconds``.
        """
        future: Future[T] = Future()
        with self._arrived:
            if len(self._jobs) >= self._max_queued_jobs:
                self._wait_for_room()
            self._require_open()
            self._jobs.append(Job(fn, future, is_repeatable=is_repeatable))
            self._unfinished += 1
            self._wake()
        return future

    def offer(self, jobs: deque[Job[Any]]) -> None:
        """Queue the first of some jobs, as many as there is room for, without waiting; take those from the left.

        Raises
        ------
        StoreClosed
            If the writer was closed.
        """
        with self._arrived:
            self._require_open()
            for _ in range(min(len(jobs), self._max_queued_jobs - len(self._jobs))):
                self._jobs.append(jobs.popleft())
                self._unfinished += 1
            self._wake()

    def run(self, fn: Callable[[Transaction], T], *, is_repeatable: bool = False) -> T:
        """Run a job and return its result: on this thread if nobody else writes or waits to, else through the queue.

        Raises
        ------
        RuntimeError
            If called from inside a job, which would wait for itself.
        """
        if self.is_inside_job:
            raise RuntimeError("a write was started inside a write; use the open transaction")
        if self._unfinished or not self._turn.acquire(blocking=False):
            return self.submit(fn, is_repeatable=is_repeatable).result()
        outcome: _Outcome[T] = _Outcome()
        try:
            self._require_open()
            self._run_in_turn([Job(fn, outcome, is_repeatable=is_repeatable)])
        finally:
            self._turn.release()
        return outcome.take()

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

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("The store was closed. Nothing was written.")

    def _wake(self) -> None:
        """Have the thread look at the queue; with the lock held."""
        if self._is_idle:
            self._is_idle = False
            self._arrived.notify()
        elif self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="bridge-writer", daemon=True)
            self._thread.start()

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
            batch = [self._jobs.popleft() for _ in range(min(len(self._jobs), self._max_batch_jobs))]
            if self._waiting_for_room:
                self._room.notify(len(batch))
            return batch

    def _serve(self) -> None:
        while batch := self._next_batch():
            # A job whose future was cancelled while it waited never starts; from here on it cannot be.
            running = [job for job in batch if job.answer.set_running_or_notify_cancel()]
            with self._turn:
                self._run_in_turn(running)
            with self._arrived:
                self._unfinished -= len(batch)
            _deliver(running)

    def _run_in_turn(self, jobs: list[Job[Any]]) -> None:
        self._turn_holder = threading.get_ident()
        try:
            with_savepoints = False
            while jobs:
                connection = self._begin(jobs)
                if connection is None:
                    return
                jobs = run_batch(connection, jobs, self._memory, with_savepoints=with_savepoints)
                # What is left was run once and undone, or did not get its turn: now each on its own.
                with_savepoints = True
                if not connection.is_clean:
                    self._disconnect()
        except BaseException:
            # Ctrl-C between two jobs on the main thread: closing the connection undoes the transaction.
            self._disconnect()
            raise
        finally:
            self._turn_holder = None

    def _begin(self, jobs: list[Job[Any]]) -> WriterConnection | None:
        """Return the connection with a transaction begun; None if that failed, which the jobs then know."""
        while True:
            is_fresh = self._connection is None
            try:
                if self._connection is None:
                    self._connection = WriterConnection(self._engine)
                self._connection.begin()
            except Exception as error:  # noqa: BLE001 - handed to each caller through its future
                # Nothing ran yet. A connection that the server closed while nobody used it is replaced, once.
                is_lost = self._connection is not None and self._connection.is_lost
                self._disconnect()
                if is_lost and not is_fresh:
                    continue
                _fail(jobs, error)
                return None
            else:
                return self._connection

    def _disconnect(self) -> None:
        """Drop the connection; also one whose transaction could be neither committed nor rolled back."""
        connection, self._connection = self._connection, None
        self._memory.forget()
        if connection is not None:
            connection.close()


class _Outcome(Generic[T]):
    """Keeps the outcome of a job for the very thread that runs it: a future without its locks."""

    __slots__ = ("_error", "_result")
    _result: T

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def set_running_or_notify_cancel(self) -> bool:
        return True

    def set_result(self, result: T) -> None:
        self._result = result

    def set_exception(self, exception: BaseException | None) -> None:
        self._error = exception

    def take(self) -> T:
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            # The traceback holds this frame, and this frame would hold the traceback.
            self._error = None


def _deliver(jobs: list[Job[Any]]) -> None:
    mail: dict[Mailbox, list[Any]] = {}
    for job in jobs:
        if job.mailbox is not None:
            mail.setdefault(job.mailbox, []).append(job.answer)
    for mailbox, answers in mail.items():
        mailbox.deliver(answers)


def _fail(jobs: Iterable[Job[Any]], error: BaseException, outcome: str = NOTHING) -> None:
    for job in jobs:
        told = typed_error(error, outcome=outcome)
        if told is not error:
            told.__cause__ = error
        job.answer.set_exception(told)


class Memory:
    """What transactions of appends wrote last, kept from one to the next as long as nobody else wrote to the database.

    Two look-ups per session, of its head and of the end of its chain, are a quarter of what a lone append costs. SQLite
    counts what other connections commit (``PRAGMA data_version``); what other jobs of this one do, who knows, so a
    transaction with any but repeatable jobs ends it as well.
    """

    def __init__(self) -> None:
        self._memo: dict[tuple[str, str], Any] = {}
        self._version: int | None = None

    def recall(self, connection: WriterConnection) -> dict[tuple[str, str], Any]:
        """Return what is still so, in the open transaction; keeping it needs :meth:`keep`."""
        memo, self._memo = self._memo, {}
        if not connection.is_sqlite:
            return memo
        row = connection.driver.execute("PRAGMA data_version").fetchone()
        version = None if row is None else row[0]
        if version != self._version or len(memo) > MAX_REMEMBERED:
            memo.clear()
        self._version = version
        return memo

    def keep(self, memo: dict[tuple[str, str], Any]) -> None:
        """Keep what a transaction that was committed wrote last."""
        if self._version is not None:
            self._memo = memo

    def forget(self) -> None:
        self._memo = {}
        self._version = None


def run_batch(
    connection: WriterConnection, batch: list[Job[Any]], memory: Memory, *, with_savepoints: bool
) -> list[Job[Any]]:
    """Run jobs in the transaction that was begun, and tell their outcomes after COMMIT.

    The transaction of a lone job is its savepoint; several get one each. But not at first where all are repeatable:
    most that fail do so before they write, and for one that does not, all of the transaction is undone and the caller
    runs it again with savepoints.

    Returns
    -------
    list[Job]
        Jobs to run in a further transaction with savepoints: because this one was undone, or because the database
        rolled it back under an earlier job (disk full, I/O error) before they ran.
    """
    if not with_savepoints and all(job.is_repeatable for job in batch):
        return _run_together(connection, batch, memory)
    memory.forget()
    return _run_apart(connection, batch)


def _run_together(connection: WriterConnection, batch: list[Job[Any]], memory: Memory) -> list[Job[Any]]:
    """Run repeatable jobs without savepoints; return all of them where one failed after something was written."""
    done: list[tuple[Job[Any], Any]] = []
    failed: list[tuple[Job[Any], BaseException]] = []
    driver = connection.driver
    try:
        transaction = Transaction(connection.sqlalchemy, driver, memory.recall(connection))
        for job in batch:
            before = count_changes(driver), transaction.queued
            try:
                done.append((job, job.fn(transaction)))
            except BaseException as error:
                is_unchanged = before[0] is not None and before == (count_changes(driver), transaction.queued)
                if not is_unchanged or not in_transaction(driver):
                    raise
                failed.append((job, error))
        transaction.flush()
    except BaseException as error:  # noqa: BLE001 - handed to the caller through its future, or met again
        connection.roll_back()
        if len(batch) > 1 or is_collision(error):
            return batch
        _fail(batch, error)
        return []
    if _finish(connection, done, failed):
        memory.keep(transaction.memo)
    return []


def _run_apart(connection: WriterConnection, batch: list[Job[Any]]) -> list[Job[Any]]:
    """Run jobs with a savepoint each; return those that had no turn, because the transaction was lost."""
    done: list[tuple[Job[Any], Any]] = []
    failed: list[tuple[Job[Any], BaseException]] = []
    rest: list[Job[Any]] = []
    has_savepoints = len(batch) > 1
    driver = connection.driver
    transaction = Transaction(connection.sqlalchemy, driver)
    for index, job in enumerate(batch):
        try:
            if has_savepoints:
                driver.execute("SAVEPOINT job")
            result = job.fn(transaction)
            transaction.flush()
            if has_savepoints:
                driver.execute("RELEASE SAVEPOINT job")
        except BaseException as error:  # noqa: BLE001 - handed to the caller through its future
            failed.append((job, error))
            transaction.forget()
            if not (has_savepoints and _undo_job(driver)):
                rest = batch[index + 1 :]
                lost: BridgeError = DatabaseFailed(f"The database undid the transaction of several writes. {NOTHING}")
                if is_collision(error):
                    lost = DatabaseBusy(f"Another process's write collided with several writes. {NOTHING}")
                failed.extend((earlier, lost) for earlier, _ in done)
                done.clear()
                break
        else:
            done.append((job, result))
    _finish(connection, done, failed)
    return rest


def _undo_job(driver: DriverConnection) -> bool:
    """Undo what a failed job did; return whether the rest of the transaction still stands."""
    if not in_transaction(driver):
        return False
    try:
        driver.execute("ROLLBACK TO SAVEPOINT job")
        driver.execute("RELEASE SAVEPOINT job")
    except Exception:  # noqa: BLE001 - the caller treats the transaction as lost; the job's own error is reported
        return False
    return True


def _finish(
    connection: WriterConnection, done: list[tuple[Job[Any], Any]], failed: list[tuple[Job[Any], BaseException]]
) -> bool:
    """Commit what was done, or roll back if nothing was; tell everybody; return whether it was committed."""
    committed = bool(done)
    if done:
        try:
            connection.commit()
        except Exception as error:  # noqa: BLE001 - handed to each caller through its future
            # A server that is gone in this very moment may have committed, and cannot be asked.
            outcome = UNKNOWN if connection.is_lost else NOTHING
            connection.roll_back()
            _fail([job for job, _ in done], error, outcome)
            committed, done = False, []
    else:
        connection.roll_back()
    for job, reason in failed:
        _fail([job], reason)
    for job, result in done:
        job.answer.set_result(result)
    return committed
