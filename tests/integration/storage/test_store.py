"""Opening, reading, closing; what happens where the file is not as it should be."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.foundation.errors import InvalidConfiguration
from bridge.storage.engine import MAX_READERS
from bridge.storage.errors import DatabaseBusy, DatabaseFailed, DatabaseMissing, StoreClosed
from bridge.storage.store import Store
from bridge.storage.tables import metadata
from bridge.storage.tables.recall import RECALL_INDEX

ROOT = Path(__file__).parents[3]


def insert_plan(tx, identity):
    tx.connection.exec_driver_sql(
        "INSERT INTO plans (id, session_id, status, created_at, updated_at, text) VALUES (?, 's', 'new', 't', 't', '')",
        (identity,),
    )
    return identity


def plan_ids(store):
    with store.read() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT id FROM plans ORDER BY rowid")]


def test_a_new_store_is_private_and_complete(store, database):
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    with store.read() as connection:
        tables = {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert connection.exec_driver_sql("SELECT version_num FROM schema_version").all() == [("7",)]
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    # A full-text index keeps itself in tables of its own.
    assert {name for name in tables if not name.startswith(RECALL_INDEX)} == set(metadata.tables)
    assert RECALL_INDEX in tables


def test_missing_parents_are_private_too_and_existing_ones_keep_their_mode(tmp_path):
    (tmp_path / "there").mkdir(mode=0o755)
    Store.open(f"sqlite:///{tmp_path}/there/a/b/bridge.db").close()
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("there", "there/a", "there/a/b")] == [
        0o755,
        0o700,
        0o700,
    ]


def test_what_was_written_is_there_after_reopening(url):
    with Store.open(url) as store:
        assert store.write(lambda tx: insert_plan(tx, "p1")) == "p1"
    with Store.open(url) as store:
        assert plan_ids(store) == ["p1"]


def test_a_path_with_odd_characters(tmp_path):
    path = tmp_path / "a b?c#d%20 ü" / "bridge.db"
    with Store.open(f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F').replace('#', '%23')}") as store:
        store.write(lambda tx: insert_plan(tx, "p1"))
        assert plan_ids(store) == ["p1"]


def test_create_false_makes_nothing(url, database):
    with pytest.raises(DatabaseMissing):
        Store.open(url, create=False)
    assert not database.parent.exists()


@pytest.mark.parametrize("url", ["nonsense", "sqlite://", "sqlite:///:memory:", "mysql://host/db"])
def test_a_url_that_cannot_be_used(url):
    with pytest.raises(InvalidConfiguration):
        Store.open(url)


def test_what_is_not_a_database_is_refused_and_left_alone(url, database):
    database.parent.mkdir()
    database.write_bytes(b"not a database" * 1000)
    before = database.read_bytes()
    with pytest.raises(DatabaseFailed, match="Nothing was touched"):
        Store.open(url)
    assert database.read_bytes() == before
    assert os.listdir(database.parent) == ["bridge.db"]


def test_a_truncated_database_is_refused(url, database):
    Store.open(url).close()
    database.write_bytes(database.read_bytes()[:5000])
    with pytest.raises(DatabaseFailed):
        Store.open(url)


def test_a_file_that_vanished_does_not_become_an_empty_store(store, database):
    for path in database.parent.iterdir():
        path.unlink()
    with pytest.raises(DatabaseFailed), store.read():
        pass
    assert not database.exists()


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.write(lambda tx: None)
    with pytest.raises(StoreClosed), store.read():
        pass


def test_readers_cannot_write(store):
    with pytest.raises(DatabaseFailed, match="readonly"), store.read() as connection:
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


def test_the_number_of_open_snapshots_at_its_edge(url):
    with Store.open(url, busy_timeout_seconds=0.2) as store, ExitStack() as stack:
        for _ in range(MAX_READERS):
            stack.enter_context(store.read())
        with pytest.raises(DatabaseBusy), store.read():
            pass


def test_errors_of_the_reader_are_not_disguised(store):
    with pytest.raises(KeyError), store.read():
        raise KeyError("mine")


def test_many_processes_may_make_the_same_store_at_once(tmp_path):
    url = f"sqlite:///{tmp_path}/state/bridge.db"
    script = f"from bridge.storage.store import Store\nwith Store.open({url!r}) as s:\n    print(s.write(lambda tx: 1))"
    children = [
        subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    done = [child.communicate(timeout=100) for child in children]
    assert [out for out, _ in done] == [b"1\n"] * 4, done
    with sqlite3.connect(tmp_path / "state" / "bridge.db") as connection:
        assert connection.execute("SELECT version_num FROM schema_version").fetchall() == [("7",)]
    connection.close()


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
def test_a_store_may_be_used_on_both_sides_of_a_fork(url, attempt):
    """SQLite's own locks do not survive a fork; without care the child's acknowledged writes are lost."""
    subprocess.run([sys.executable, "-c", FORKING, url], cwd=ROOT, check=True, timeout=100)
    with Store.open(url) as store:
        assert sorted(plan_ids(store)) == ["before", "child", "child queued", "parent", "parent queued"]
        with store.read() as connection:
            assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
