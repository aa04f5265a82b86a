"""Opening, reading, closing, forking: the same on both databases."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.storage.engine import MAX_READERS
from bridge.storage.errors import DatabaseBusy, DatabaseFailed, StoreClosed
from bridge.storage.schema_version import SCHEMA_VERSION
from bridge.storage.store import Store
from tests.rows import insert_plan, plan_ids

ROOT = Path(__file__).parents[3]


def test_what_was_written_is_there_after_reopening(empty_database_url):
    with Store.open(empty_database_url) as store:
        assert store.write(lambda tx: insert_plan(tx, "p1")) == "p1"
    with Store.open(empty_database_url) as store:
        assert plan_ids(store) == ["p1"]


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.write(lambda tx: None)
    with pytest.raises(StoreClosed), store.read():
        pass


def test_readers_cannot_write(store):
    with pytest.raises(DatabaseFailed, match=r"read-?only"), store.read() as connection:
        connection.exec_driver_sql("DELETE FROM plans")


def test_a_reader_is_a_snapshot_that_the_writer_does_not_block(store):
    store.write(lambda tx: insert_plan(tx, "p1"))
    inside, go_on = threading.Event(), threading.Event()

    def slow(tx):
        insert_plan(tx, "p2")
        inside.set()
        assert go_on.wait(20)

    future = store.submit(slow)
    assert inside.wait(20)
    with store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM plans").scalar() == 1
        go_on.set()
        future.result()
        assert connection.exec_driver_sql("SELECT count(*) FROM plans").scalar() == 1
    assert plan_ids(store) == ["p1", "p2"]


def test_the_number_of_open_snapshots_at_its_edge(database_url):
    with Store.open(database_url, busy_timeout_seconds=0.2) as store, ExitStack() as stack:
        for _ in range(MAX_READERS):
            stack.enter_context(store.read())
        with pytest.raises(DatabaseBusy), store.read():
            pass


def test_errors_of_the_reader_are_not_disguised(store):
    with pytest.raises(KeyError), store.read():
        raise KeyError("mine")


def test_many_processes_may_make_the_same_store_at_once(empty_database_url):
    url = empty_database_url
    script = f"from bridge.storage.store import Store\nwith Store.open({url!r}) as s:\n    print(s.write(lambda tx: 1))"
    children = [
        subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    done = [child.communicate(timeout=100) for child in children]
    assert [out for out, _ in done] == [b"1\n"] * 4, done
    with Store.open(url, create=False) as store, store.read() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM schema_version").all() == [(str(SCHEMA_VERSION),)]


FORKING = """
import os, sys
from bridge.storage.errors import StoreClosed
from bridge.storage.store import Store

def insert(name):
    statement = ("INSERT INTO plans (id, session_id, status, created_at, updated_at, text)"
                 " VALUES ('%s', 's', 'new', 't', 't', '')")
    return lambda tx: tx.connection.exec_driver_sql(statement % name).rowcount

def use(name):
    store.write(insert(name))
    store.submit(insert(name + " queued")).result()
    with store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM plans").scalar() >= 3

store = Store.open(sys.argv[1])
store.submit(insert("before")).result()
with store.read() as connection:
    connection.exec_driver_sql("SELECT 1")
    amid = os.fork()
    if not amid:
        try:
            store.write(insert("amid"))
        except StoreClosed:
            os._exit(0)
        os._exit(1)
assert os.waitpid(amid, 0)[1] == 0
child = os.fork()
use("parent" if child else "child")
store.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""


@pytest.mark.parametrize("attempt", range(3))
def test_a_store_may_be_used_on_both_sides_of_a_fork(database_kind, database_url, attempt):
    """SQLite's own locks do not survive a fork; without care the child's acknowledged writes are lost."""
    subprocess.run([sys.executable, "-c", FORKING, database_url], cwd=ROOT, check=True, timeout=100)
    with Store.open(database_url) as store:
        assert sorted(plan_ids(store)) == ["before", "child", "child queued", "parent", "parent queued"]
        if database_kind == "sqlite":
            with store.read() as connection:
                assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
