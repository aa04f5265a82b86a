"""Appends of an event loop: one batch for all that wait, one call for all answers, and no half of anything."""

from __future__ import annotations

import asyncio
import threading

import pytest

from bridge.control import appending
from bridge.control.recording import Recorder
from bridge.conversations import paths
from bridge.conversations import store as rows
from bridge.conversations.errors import HeadMoved
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.integrity.verify import verify_session
from bridge.semantics.errors import TransientKind
from bridge.storage.errors import DatabaseBusy, RowRefused, StoreClosed
from bridge.storage.store import Store
from tests.rows import Gate


@pytest.fixture
def opened(database_url):
    with Store.open(database_url) as store:
        yield store


@pytest.fixture
def recorder(opened):
    return Recorder(opened, SystemClock())


@pytest.fixture
def session(recorder):
    return recorder.create_session(NewSession()).id


def draft(text="x", **options):
    return EntryDraft(kind="user.message", payload={"text": text}, **options)


def texts(store, session):
    with store.read() as connection:
        assert verify_session(connection, session).is_valid
        return [entry.payload["text"] for entry in paths.active_path(connection, session)]


def sequences(store, session):
    with store.read() as connection:
        return [node.sequence for node in rows.list_nodes(connection, session)]


def test_many_tasks_append_at_once(opened, recorder, session):
    async def main():
        async def caller(name):
            return [(await recorder.append_async(session, draft(f"{name} {n}"))).entry.sequence for n in range(10)]

        return await asyncio.gather(*(caller(name) for name in range(40)))

    found = asyncio.run(main())
    assert all(each == sorted(each) for each in found)
    assert sorted(number for each in found for number in each) == list(range(1, 401))
    assert sorted(texts(opened, session)) == sorted(f"{name} {n}" for name in range(40) for n in range(10))


def test_what_waits_becomes_one_batch(opened, recorder, session, monkeypatch):
    batches = []
    real = opened._writer._run_in_turn

    def run(jobs):
        batches.append(len(jobs))
        real(jobs)

    monkeypatch.setattr(opened._writer, "_run_in_turn", run)

    async def main():
        await asyncio.gather(*(recorder.append_async(session, draft()) for _ in range(50)))

    asyncio.run(main())
    assert batches == [50] or opened.database == "postgresql"
    assert max(batches) >= 40


def test_a_failing_append_takes_nobody_along(opened, recorder, session):
    async def main():
        return await asyncio.gather(
            recorder.append_async(session, draft("a")),
            recorder.append_async(session, draft("b", expected_head=f"{session}-999999")),
            recorder.append_async(session, draft("c")),
            recorder.append_async(session, EntryDraft(kind="text.delta", payload={})),
            return_exceptions=True,
        )

    a, b, c, transient = asyncio.run(main())
    assert isinstance(b, HeadMoved)
    assert isinstance(transient, TransientKind)
    assert (a.entry.sequence, c.entry.sequence) == (1, 2)
    assert texts(opened, session) == ["a", "c"]


def test_one_that_fails_after_it_wrote_is_undone_and_the_others_run_again(opened, recorder, session):
    """A repeatable job has no savepoint at first: all of the batch is undone, and each runs with one of its own."""
    ran = []

    def spoil(recording):
        ran.append("spoil")
        recording.tx.connection.exec_driver_sql("INSERT INTO sessions SELECT * FROM sessions")

    async def main():
        return await asyncio.gather(
            recorder.append_async(session, draft("a"), first=lambda _: ran.append("a")),
            recorder.append_async(session, draft("b"), first=spoil),
            recorder.append_async(session, draft("c")),
            return_exceptions=True,
        )

    a, b, c = asyncio.run(main())
    assert isinstance(b, RowRefused)
    assert (a.entry.sequence, c.entry.sequence) == (1, 2)
    assert texts(opened, session) == ["a", "c"]
    assert ran == ["a", "spoil", "a", "spoil"]


def test_cancelled_before_its_turn_nothing_is_written_and_later_all_of_it(opened, recorder, session):
    gate = Gate(opened)

    async def main():
        tasks = [asyncio.create_task(recorder.append_async(session, draft(name))) for name in "abc"]
        await asyncio.sleep(0.05)
        tasks[1].cancel()
        await asyncio.sleep(0)
        gate.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    a, b, c = asyncio.run(main())
    assert isinstance(b, asyncio.CancelledError)
    assert (a.entry.sequence, c.entry.sequence) == (1, 2)
    assert texts(opened, session) == ["a", "c"]


def test_a_loop_that_ends_leaves_whole_entries(opened, recorder, session):
    async def main():
        tasks = [asyncio.create_task(recorder.append_async(session, draft(str(n)))) for n in range(100)]
        await asyncio.sleep(0.01)
        return len(tasks)

    asyncio.run(main())
    opened.write(lambda tx: None)  # what ran when the loop ended has ended, too
    written = len(texts(opened, session))
    assert sequences(opened, session) == list(range(written + 1))


def test_two_loops_share_a_recorder(opened, recorder, session):
    def run(name):
        async def main():
            for n in range(20):
                await asyncio.gather(*(recorder.append_async(session, draft(f"{name} {n} {k}")) for k in range(3)))

        asyncio.run(main())

    threads = [threading.Thread(target=run, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sequences(opened, session) == list(range(121))


def test_a_closed_store_says_so(opened, recorder, session):
    async def main():
        await recorder.append_async(session, draft("a"))
        opened.close()
        with pytest.raises(StoreClosed):
            await recorder.append_async(session, draft("b"))

    asyncio.run(main())


def test_a_full_queue_holds_tasks_back_and_then_says_so(opened, recorder, session, monkeypatch):
    monkeypatch.setattr(appending, "MAX_WAITING", 3)
    monkeypatch.setattr(appending, "ROOM_TIMEOUT_SECONDS", 0.1)
    opened._writer._max_queued_jobs = 2
    gate = Gate(opened)

    async def main():
        tasks = [asyncio.create_task(recorder.append_async(session, draft(str(n)))) for n in range(3)]
        await asyncio.sleep(0.02)
        tasks += [asyncio.create_task(recorder.append_async(session, draft(str(n)))) for n in range(3, 8)]
        await asyncio.sleep(0.3)
        gate.open.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(main())
    refused = [each for each in found if isinstance(each, DatabaseBusy)]
    assert refused
    assert all("3 writes" in each.message for each in refused)
    assert len(texts(opened, session)) == 8 - len(refused)
