"""Waiting for what others commit: nothing is missed, nobody is woken for nothing."""

from __future__ import annotations

import os
import threading
import time

import pytest

from bridge.storage.errors import StoreClosed
from bridge.storage.store import Store
from tests.rows import insert_plan


@pytest.fixture
def follow(store):
    made = []

    def follow():
        made.append(store.follow())
        return made[-1]

    yield follow
    for follower in made:
        follower.close()


def test_a_commit_of_ones_own_is_noticed_once(store, follow):
    follower = follow()
    assert not follower.wait(0.05)
    store.write(lambda tx: insert_plan(tx, "a"))
    assert follower.wait(10)
    assert not follower.wait(0.05)


def test_a_commit_of_another_store_is_noticed(store, follow):
    follower = follow()
    with Store.open(store.url.render_as_string(hide_password=False)) as other:
        other.submit(lambda tx: insert_plan(tx, "a")).result()
        assert follower.wait(10)


def test_what_was_committed_before_the_wait_is_not_missed(store, follow):
    follower = follow()
    for n in range(3):
        store.write(lambda tx, n=n: insert_plan(tx, str(n)))
    assert follower.wait(10)


def test_what_was_undone_wakes_nobody(store, follow):
    follower = follow()

    def fail(tx):
        insert_plan(tx, "a")
        raise LookupError

    with pytest.raises(LookupError):
        store.write(fail)
    assert not follower.wait(0.1)


def test_waiting_ends_when_the_commit_comes(store, follow):
    follower = follow()
    timer = threading.Timer(0.2, lambda: store.write(lambda tx: insert_plan(tx, "a")))
    timer.start()
    started = time.monotonic()
    assert follower.wait(60)
    assert time.monotonic() - started < 30
    timer.join()


def test_the_stores_own_memory(store):
    assert not store.wait_for_change(0.02)
    store.write(lambda tx: insert_plan(tx, "a"))
    assert store.wait_for_change(10)
    assert not store.wait_for_change(0.02)


def test_several_followers_do_not_take_from_each_other(store, follow):
    followers = [follow() for _ in range(3)]
    store.write(lambda tx: insert_plan(tx, "a"))
    assert all(follower.wait(10) for follower in followers)


def test_a_closed_store_closes_its_followers(store, follow):
    follower = follow()
    store.close()
    with pytest.raises(StoreClosed):
        follower.wait(0.1)
    with pytest.raises(StoreClosed):
        store.follow()
    with pytest.raises(StoreClosed):
        store.wait_for_change(0.1)


def test_closing_ends_a_wait_in_another_thread(store, follow):
    follower = follow()
    seen = []

    def wait():
        try:
            seen.append(follower.wait(60))
        except StoreClosed as error:
            seen.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    store.close()
    waiting.join(30)
    assert [type(each) for each in seen] == [StoreClosed]


def test_a_fork_closes_followers_and_the_store_follows_anew(store):
    assert not store.wait_for_change(0.02)
    child = os.fork()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    # What happened meanwhile is not known, so something may have.
    assert store.wait_for_change(0.02)
    assert not store.wait_for_change(0.02)
    store.write(lambda tx: insert_plan(tx, "a"))
    assert store.wait_for_change(10)
