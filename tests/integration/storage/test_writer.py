"""The writer thread: one transaction for many, each job on its own, nothing acknowledged before COMMIT."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError

import pytest

from bridge.storage.errors import DatabaseBusy, RowRefused, StoreClosed
from bridge.storage.store import Store
from tests.databases import holding, raw_connection
from tests.rows import Gate, insert_plan, plan_ids


def test_waiting_jobs_share_a_transaction_in_the_order_of_arrival(store):
    gate = Gate(store)
    seen = []
    futures = [store.submit(lambda tx, n=n: (seen.append(id(tx)), insert_plan(tx, f"p{n}"))[1]) for n in range(20)]
    gate.open.set()
    assert [future.result() for future in futures] == [f"p{n}" for n in range(20)]
    assert len(set(seen)) == 1
    assert plan_ids(store) == [f"p{n}" for n in range(20)]


def test_a_failing_job_undoes_itself_and_nobody_else(store):
    gate = Gate(store)

    def fail(tx):
        insert_plan(tx, "half")
        raise LookupError("mine")

    good, bad, after = (
        store.submit(lambda tx: insert_plan(tx, "a")),
        store.submit(fail),
        store.submit(lambda tx: insert_plan(tx, "b")),
    )
    gate.open.set()
    with pytest.raises(LookupError, match="mine"):
        bad.result()
    assert (good.result(), after.result()) == ("a", "b")
    assert plan_ids(store) == ["a", "b"]


def test_a_lone_failing_job_leaves_nothing(store):
    def fail(tx):
        insert_plan(tx, "half")
        raise LookupError("mine")

    with pytest.raises(LookupError):
        store.write(fail)
    assert plan_ids(store) == []
    assert store.write(lambda tx: insert_plan(tx, "next")) == "next"


def test_a_refused_row_is_a_typed_error(store):
    store.write(lambda tx: insert_plan(tx, "a"))
    with pytest.raises(RowRefused) as caught:
        store.write(lambda tx: insert_plan(tx, "a"))
    assert "plans" in caught.value.details["reason"]
    assert isinstance(caught.value.__cause__, Exception)


def test_a_future_resolves_only_after_commit(store):
    def visible_to_others():
        with raw_connection(store.url) as other:
            return [row[0] for row in other.execute("SELECT id FROM plans")]

    seen_inside = []

    def job(tx):
        insert_plan(tx, "a")
        seen_inside.extend(visible_to_others())

    future = store.submit(job)
    future.result()
    assert seen_inside == []
    assert visible_to_others() == ["a"]


def test_a_job_cancelled_in_the_queue_never_runs(store):
    gate = Gate(store)
    ran = []
    future = store.submit(lambda tx: ran.append(insert_plan(tx, "a")))
    other = store.submit(lambda tx: insert_plan(tx, "b"))
    assert future.cancel()
    gate.open.set()
    assert other.result() == "b"
    with pytest.raises(CancelledError):
        future.result()
    assert ran == []
    assert plan_ids(store) == ["b"]


def test_a_running_job_cannot_be_cancelled(store):
    gate = Gate(store)
    assert not gate.future.cancel()
    gate.open.set()
    gate.future.result()


def test_close_finishes_what_waits_and_refuses_what_comes(database_url):
    store = Store.open(database_url)
    gate = Gate(store)
    futures = [store.submit(lambda tx, n=n: insert_plan(tx, f"p{n}")) for n in range(600)]
    closing = threading.Thread(target=store.close)
    closing.start()
    gate.open.set()
    closing.join(60)
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(StoreClosed):
        store.submit(lambda tx: None)
    with Store.open(database_url) as again:
        assert len(plan_ids(again)) == 600


def test_a_write_inside_a_write_is_refused_rather_than_waiting_for_itself(store):
    with pytest.raises(RuntimeError, match="inside a write"):
        store.write(lambda tx: store.write(lambda inner: None))


def test_a_full_queue_holds_callers_back_and_then_says_so(database_url):
    with Store.open(database_url, busy_timeout_seconds=0.2) as store:
        store._writer._max_queued_jobs = 3
        gate = Gate(store)
        futures = [store.submit(lambda tx, n=n: insert_plan(tx, f"p{n}")) for n in range(3)]
        with pytest.raises(DatabaseBusy, match="3 writes"):
            store.submit(lambda tx: insert_plan(tx, "too many"))
        waiting = threading.Thread(target=lambda: futures.append(store.submit(lambda tx: insert_plan(tx, "waited"))))
        store._writer._busy_timeout_seconds = 30
        waiting.start()
        gate.open.set()
        waiting.join(30)
        assert [future.result() for future in futures] == ["p0", "p1", "p2", "waited"]


def test_fc_19_a_locked_database_is_waited_for(store):
    with holding(store.url) as let_go:
        future = store.submit(lambda tx: insert_plan(tx, "a"))
        time.sleep(0.3)
        assert not future.done()
        assert plan_ids(store) == []  # readers are not held up
        let_go()
        assert future.result(20) == "a"


def test_fc_19_a_database_locked_for_too_long_is_a_typed_error_and_nothing_is_written(database_url):
    with Store.open(database_url, busy_timeout_seconds=0.2) as store:
        with holding(store.url):
            futures = [store.submit(lambda tx, n=n: insert_plan(tx, f"p{n}")) for n in range(3)]
            for future in futures:
                with pytest.raises(DatabaseBusy, match="Nothing was written"):
                    future.result(20)
        assert store.write(lambda tx: insert_plan(tx, "a")) == "a"
        assert plan_ids(store) == ["a"]


def test_a_callers_writes_keep_their_order_whichever_way_they_go(store):
    for n in range(40):
        store.submit(lambda tx, n=n: insert_plan(tx, f"queued {n}"))
        store.write(lambda tx, n=n: insert_plan(tx, f"direct {n}"))
    assert plan_ids(store) == [f"{way} {n}" for n in range(40) for way in ("queued", "direct")]


def test_a_lone_caller_writes_on_its_own_thread_and_others_wait(store):
    assert store.write(lambda tx: threading.current_thread()) is threading.current_thread()
    gate = Gate(store)
    others = []
    waiting = threading.Thread(target=lambda: others.append(store.write(lambda tx: threading.current_thread().name)))
    waiting.start()
    gate.open.set()
    waiting.join(20)
    assert others == ["bridge-writer"]


def test_an_interrupt_in_a_job_undoes_it_and_the_store_goes_on(store):
    def interrupted(tx):
        insert_plan(tx, "half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.write(interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.submit(interrupted).result(20)
    assert store.write(lambda tx: insert_plan(tx, "next")) == "next"
    assert plan_ids(store) == ["next"]
