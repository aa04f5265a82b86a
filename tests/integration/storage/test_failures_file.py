"""The file fails under the store: typed errors, nothing half-written, and what can be read is read."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bridge.storage.errors import DatabaseBusy, DatabaseFailed, DatabaseMissing
from bridge.storage.store import Store
from tests.rows import Gate, insert_plan, plan_ids

pytestmark = pytest.mark.one_database("the file system is what fails")


@pytest.fixture
def store(url):
    with Store.open(url) as opened:
        yield opened


def test_a_full_disk_is_a_typed_error_nothing_is_half_written_and_the_store_goes_on(store):
    def shrink(tx):
        pages = tx.connection.exec_driver_sql("PRAGMA page_count").scalar()
        tx.connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")

    store.write(shrink)
    gate = Gate(store)
    small = store.submit(lambda tx: insert_plan(tx, "small"))
    large = store.submit(lambda tx: (insert_plan(tx, "x"), insert_plan(tx, "y" * 1_000_000)))
    after = store.submit(lambda tx: insert_plan(tx, "after"))
    gate.open.set()
    with pytest.raises(DatabaseFailed, match="full"):
        large.result(20)
    # SQLite undoes the whole transaction when the disk is full: then nobody in it may believe to be stored.
    outcomes = {name: future.exception(20) for name, future in (("small", small), ("after", after))}
    stored = plan_ids(store)
    assert stored == [name for name, error in outcomes.items() if error is None]
    assert all(isinstance(error, DatabaseFailed) for error in outcomes.values() if error is not None)
    assert "after" in stored


ROOT = Path(__file__).parents[3]
#: Writes until the file may not grow any more: then the writer fails by name, readers go on, and what was acknowledged
#: is there. A limit on the size of files is what a full disk looks like, without needing one.
FILLING = """
import resource, signal, sys
from bridge.storage.errors import DatabaseFailed
from bridge.storage.store import Store
from tests.rows import insert_plan, plan_ids

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Store.open(sys.argv[1]) as store:
    store.write(lambda tx: insert_plan(tx, "first"))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
    stored, failed = ["first"], 0
    for n in range(400):
        futures = [store.submit(lambda tx, k=k: insert_plan(tx, f"{n} {k} " + "x" * 2000)) for k in range(3)]
        for future in futures:
            try:
                stored.append(future.result())
            except DatabaseFailed as error:
                assert "Nothing was written" in error.message, error.message
                failed += 1
        if failed > 9:
            break
    assert failed, "the limit was never met"
    assert plan_ids(store) == stored
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.write(lambda tx: insert_plan(tx, "after"))
    assert plan_ids(store) == [*stored, "after"]
print(len(stored), failed)
"""


def test_a_disk_without_room_undoes_whole_writes_and_the_store_goes_on(url):
    command = [sys.executable, "-c", FILLING, url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    stored, failed = map(int, done.stdout.split())
    assert stored > 1
    assert failed > 0
    with Store.open(url) as store, store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"


def test_a_file_that_must_not_be_written_is_read_all_the_same(url, database):
    """As root no mode keeps one from writing, so SQLite is told to: the same error comes from a read-only mount."""
    with Store.open(url) as store:
        store.write(lambda tx: insert_plan(tx, "a"))
        store.write(lambda tx: tx.connection.exec_driver_sql("PRAGMA query_only=ON").close())
        with pytest.raises(DatabaseFailed, match=r"readonly.*Nothing was written") as caught:
            store.write(lambda tx: insert_plan(tx, "b"))
        assert caught.value.details["result"] == "SQLITE_READONLY"
        assert plan_ids(store) == ["a"]


def test_a_damaged_page_is_a_typed_error_and_what_lies_elsewhere_is_read(url, database):
    with Store.open(url) as store:
        for n in range(200):
            store.write(lambda tx, n=n: insert_plan(tx, f"{n} " + "x" * 3000))
    with closing(sqlite3.connect(database)) as connection:
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'plans'").fetchone()[0]
    with database.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    assert pages > 200
    with Store.open(url) as store:
        with pytest.raises(DatabaseFailed, match="malformed"):
            plan_ids(store)
        with pytest.raises(DatabaseFailed, match=r"malformed.*Nothing was written"):
            store.write(lambda tx: insert_plan(tx, "more"))
        with store.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM sessions").scalar() == 0


def test_a_directory_that_is_gone_is_a_typed_error(url, database):
    with Store.open(url) as store:
        store.write(lambda tx: insert_plan(tx, "a"))
        database.parent.rename(database.parent.with_name("elsewhere"))
        with pytest.raises(DatabaseFailed), store.read() as connection:
            connection.exec_driver_sql("SELECT 1").close()
    with pytest.raises(DatabaseMissing):
        Store.open(url, create=False)


def test_locks_that_fail_are_a_typed_error(url, database, monkeypatch):
    """On some network file systems every lock fails. WAL needs locks, so opening says so and leaves nothing behind."""
    with Store.open(url, busy_timeout_seconds=0.1) as store:
        blocker = sqlite3.connect(database, isolation_level=None)
        blocker.execute("PRAGMA locking_mode=EXCLUSIVE")
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy, match="Nothing was written"):
            store.write(lambda tx: insert_plan(tx, "a"))
        blocker.execute("ROLLBACK")
        blocker.close()
        assert store.write(lambda tx: insert_plan(tx, "b")) == "b"
        assert plan_ids(store) == ["b"]


def test_a_place_where_nothing_can_be_made_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((DatabaseFailed, OSError)):
        Store.open(f"sqlite:///{tmp_path}/file/below/bridge.db")
    assert os.listdir(tmp_path) == ["file"]
