"""The kernel itself says no: locks, writes and flushes that fail as on a broken network file system or a full disk.

Each case is a process of its own, since what fails cannot be mended again there (see ``tests/failing_calls.py``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bridge.storage.store import Store
from tests.rows import insert_plan, plan_ids

pytestmark = pytest.mark.one_database("the file system is what fails")

ROOT = Path(__file__).parents[3]
PRELUDE = """
import errno, json, os, sys, threading
from bridge.foundation.errors import BridgeError
from bridge.storage.store import Store
from tests.failing_calls import fail
from tests.rows import insert_plan, plan_ids

def told(do):
    try:
        do()
    except BridgeError as error:
        return [error.code, error.details.get("result"), error.message]
    return None

def elsewhere(do):
    # What fails, fails for this thread alone; who writes while nobody else does, writes on the own thread.
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()

url, number = sys.argv[1], int(sys.argv[2])
"""


def run(body: str, *arguments: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + body, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def number_of(name: str) -> str:
    import errno

    return str(getattr(errno, name))


WRITER = """
found = {}
with Store.open(url, busy_timeout_seconds=0.3) as store:
    store.write(lambda tx: insert_plan(tx, "first"))
    def write():
        fail(*sys.argv[3:], error=number)
        found["writer"] = told(lambda: store.write(lambda tx: insert_plan(tx, "lost")))
    elsewhere(write)
    found["reader"] = plan_ids(store)
    store.write(lambda tx: insert_plan(tx, "after"))
    found["after"] = plan_ids(store)
print(json.dumps(found))
"""
#: What the kernel answers to which calls, and what a writer is told. Whatever keeps it from locking is, in WAL mode, a
#: protocol that does not work out.
CASES = [
    ("ENOLCK", ["fcntl"], "SQLITE_PROTOCOL"),
    ("EIO", ["fcntl"], "SQLITE_PROTOCOL"),
    ("EPERM", ["fcntl"], "SQLITE_PROTOCOL"),
    ("ENOSPC", ["pwrite64"], "SQLITE_FULL"),
    ("EIO", ["pwrite64"], "SQLITE_IOERR_WRITE"),
    ("EIO", ["fsync", "fdatasync"], "SQLITE_IOERR_FSYNC"),
]


@pytest.mark.parametrize(("error", "calls", "result"), CASES)
def test_a_writer_is_told_nothing_is_half_written_and_readers_go_on(url, error, calls, result):
    found = run(WRITER, url, number_of(error), *calls)
    assert found["writer"][:2] == ["database_failed", result]
    assert "Nothing was written" in found["writer"][2]
    assert found["reader"] == ["first"]
    assert found["after"] == ["first", "after"]
    with Store.open(url) as store, store.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    with Store.open(url) as store:
        assert plan_ids(store) == ["first", "after"]


SNAPSHOT = """
found = {}
with Store.open(url, busy_timeout_seconds=0.3) as store:
    store.write(lambda tx: insert_plan(tx, "first"))
    with store.read() as connection:
        count = lambda: connection.exec_driver_sql("SELECT count(*) FROM plans").scalar()
        found["before"] = count()
        fail("fcntl", error=number)
        found["within"] = count()
        found["another"] = told(lambda: plan_ids(store))
        found["writer"] = told(lambda: store.write(lambda tx: insert_plan(tx, "lost")))
    print(json.dumps(found), flush=True)
    os._exit(0)  # closing takes locks, too
"""


def test_a_snapshot_outlives_the_locks_and_the_next_process_finds_the_store_whole(url):
    found = run(SNAPSHOT, url, number_of("EIO"))
    assert (found["before"], found["within"]) == (1, 1)
    # The process holds what all its readers need; a writer needs more.
    assert found["another"] is None
    assert found["writer"][0] in ("database_failed", "database_busy")
    with Store.open(url) as store:
        assert plan_ids(store) == ["first"]
        store.write(lambda tx: insert_plan(tx, "second"))


OPENING = """
fail("fcntl", "flock", error=number)
def opened():
    with Store.open(url, busy_timeout_seconds=0.3) as store:
        plan_ids(store)
print(json.dumps(told(opened)))
"""


@pytest.mark.parametrize(("error", "code"), [("ENOLCK", "database_busy"), ("EIO", "database_failed")])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_store_is_not_opened_where_no_lock_can_be_had(url, error, code, is_new):
    if not is_new:
        with Store.open(url) as store:
            store.write(lambda tx: insert_plan(tx, "first"))
    assert run(OPENING, url, number_of(error))[0] == code
    with Store.open(url) as store:
        assert plan_ids(store) == ([] if is_new else ["first"])


UPGRADING = """
from bridge.storage.backend import backend_for
fail("flock", error=number)
print(json.dumps(told(lambda: backend_for(url).upgrade(moment="2026-01-02T03:04:05.000000Z", timeout_seconds=0.3))))
"""


def test_a_store_is_not_upgraded_where_it_cannot_be_had_alone(url, database):
    import sqlite3
    from contextlib import closing

    database.parent.mkdir()
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((Path(__file__).parent / "legacy" / "v5.sql").read_text(encoding="utf-8"))
    before = database.read_bytes()
    found = run(UPGRADING, url, number_of("ENOLCK"))
    assert found[0] == "database_failed"
    assert database.read_bytes() == before
    assert sorted(path.name for path in database.parent.iterdir()) == ["bridge.db", "bridge.db.lock"]


READ_ONLY = """
with Store.open(url) as store:  # imports all that a store needs, while everything may be read
    store.write(lambda tx: insert_plan(tx, "first"))
folder = os.path.dirname(url.removeprefix("sqlite:///"))
for name in os.listdir(folder):
    os.chmod(os.path.join(folder, name), 0o444)
os.chmod(folder, 0o555)
if os.getuid() == 0:
    os.setuid(65534)
found = {}
with Store.open(url, create=False) as store:
    found["reader"] = plan_ids(store)
    found["writer"] = told(lambda: store.write(lambda tx: insert_plan(tx, "lost")))
    found["after"] = plan_ids(store)
print(json.dumps(found))
"""


def test_a_file_that_may_only_be_read_is_read():
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        folder = Path(place) / "state"
        try:
            found = run(READ_ONLY, f"sqlite:///{folder}/bridge.db", "0")
        finally:
            folder.chmod(0o755)
    assert (found["reader"], found["after"]) == (["first"], ["first"])
    assert found["writer"][0] == "database_failed"
    assert found["writer"][1] in ("SQLITE_READONLY", "SQLITE_READONLY_DIRECTORY", "SQLITE_CANTOPEN")
    assert "Nothing was written" in found["writer"][2]
