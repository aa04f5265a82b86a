"""An upgrade as a whole: alone, with a backup, resumable; backups and their way back."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from bridge.storage import backup, upgrading
from bridge.storage.backup import back_up, restore
from bridge.storage.clients import Visit
from bridge.storage.errors import (
    BackupRefused,
    DatabaseBusy,
    DatabaseFailed,
    DatabaseMissing,
    NotEnoughSpace,
    SchemaUpgradeNeeded,
    UnsupportedSchemaVersion,
    UpgradeFailed,
)
from bridge.storage.locking import StoreLock
from bridge.storage.migrations import running
from bridge.storage.store import Store
from bridge.storage.upgrading import Client, interrupted, plan, upgrade

pytestmark = pytest.mark.one_database("no older schema was ever on PostgreSQL")


@pytest.fixture
def store(url):
    with Store.open(url) as opened:
        yield opened


LEGACY = Path(__file__).with_name("legacy")
ROOT = Path(__file__).parents[3]
MOMENT = "2026-01-02T03:04:05.000000Z"
LATER = "2026-01-02T04:04:05.000000Z"
VISIT = Visit("desk", "0.1.0", MOMENT)


@pytest.fixture
def lay(database):
    def make(version: int) -> Path:
        database.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript((LEGACY / f"v{version}.sql").read_text(encoding="utf-8"))
        return database

    return make


def go(database, **options):
    return upgrade(database, moment=MOMENT, timeout_seconds=options.pop("timeout_seconds", 1), **options)


def rows(database: Path, sql: str):
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(sql).fetchall()


def files(database: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in database.parent.iterdir()
        if not path.name.endswith(("-shm", ".lock"))
    }


def say(store: Store, session_id: str, sequence: int) -> None:
    """Add an entry by plain SQL: what is compared here are rows, not what makes them."""
    identity = f"{session_id}-{sequence:06d}"
    parent = f"{session_id}-{sequence - 1:06d}" if sequence else None

    def write(tx):
        if sequence == 0:
            tx.connection.exec_driver_sql(
                "INSERT INTO sessions (id, kind, status, created_at, updated_at) VALUES (?, 'chat', 'open', '', '')",
                (session_id,),
            )
        tx.connection.exec_driver_sql(
            "INSERT INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
            " context_visibility, unknown_reason, created_at, payload_hash, entry_hash, payload)"
            " VALUES (?, ?, ?, ?, 2, 'note', 'hidden', 'unstamped', ?, ?, ?, '{}')",
            (session_id, identity, parent, sequence, LATER, "0" * 64, "0" * 64),
        )

    store.write(write)


# The backup


def test_the_backup_holds_what_the_store_held(lay):
    database = lay(5)
    before = rows(database, "SELECT * FROM agent_events")
    done = go(database)
    assert done.backup == database.with_name("bridge.db.schema-5-20260102T030405000000Z.backup")
    assert stat.S_IMODE(done.backup.stat().st_mode) == 0o600
    assert rows(done.backup, "SELECT * FROM agent_events") == before
    assert rows(done.backup, "SELECT version_num FROM schema_version") == [("5",)]
    assert rows(done.backup, "PRAGMA journal_mode") == [("delete",)]
    assert sorted(files(database)) == ["bridge.db", done.backup.name]


def test_the_backup_holds_what_only_the_wal_holds(lay):
    database = lay(2)
    rows(database, "PRAGMA journal_mode=WAL")
    other = sqlite3.connect(database)
    other.execute("INSERT INTO agent_events VALUES ('s', 1, 'note', '{}', NULL)")
    other.commit()
    assert database.with_name("bridge.db-wal").stat().st_size > 0
    done = go(database)
    other.close()
    assert rows(done.backup, "SELECT json FROM agent_events WHERE session = 's'") == [("{}",)]
    assert rows(database, "SELECT payload FROM session_entries WHERE session_id = 's' AND sequence = 1") == [("{}",)]


def test_an_upgrade_that_does_not_fit_on_the_disk_touches_nothing(lay, monkeypatch):
    database = lay(5)
    before = files(database)
    needed = plan(database, moment=MOMENT, timeout_seconds=1).needed_bytes
    monkeypatch.setattr(upgrading.os, "statvfs", lambda _path: SimpleNamespace(f_bavail=needed - 1, f_frsize=1))
    with pytest.raises(NotEnoughSpace) as caught:
        go(database)
    assert caught.value.details == {"free_bytes": needed - 1, "needed_bytes": needed}
    assert files(database) == before
    monkeypatch.setattr(upgrading.os, "statvfs", lambda _path: SimpleNamespace(f_bavail=needed, f_frsize=1))
    assert go(database).target == 7


# Alone


def test_two_upgrades_at_once_and_the_second_waits(lay):
    database = lay(5)
    under_way, go_on = threading.Event(), threading.Event()

    def hold(what, *_):
        if what == "step" and not under_way.is_set():
            under_way.set()
            assert go_on.wait(30)

    first, second = [], []
    one = threading.Thread(target=lambda: first.append(go(database, progress=hold)))
    one.start()
    assert under_way.wait(30)
    with pytest.raises(DatabaseBusy) as caught:
        go(database, timeout_seconds=0.1)
    assert "Nothing was touched" in caught.value.message
    with pytest.raises(DatabaseBusy):
        Store.open(f"sqlite:///{database}", busy_timeout_seconds=0.1, visit=VISIT, auto_upgrade=True)
    two = threading.Thread(target=lambda: second.append(go(database, timeout_seconds=30)))
    two.start()
    go_on.set()
    one.join(30)
    two.join(30)
    assert [(done.found, done.target, done.backup is None) for done in first + second] == [
        (5, 7, False),
        (7, 7, True),
    ]


def test_two_upgrades_in_two_processes(lay):
    database = lay(5)
    script = (
        "import sys; from pathlib import Path; from bridge.storage.upgrading import upgrade;"
        f"print(upgrade(Path(sys.argv[1]), moment={MOMENT!r}, timeout_seconds=60).found)"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(database)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
        )
        for _ in range(2)
    ]
    assert sorted(child.communicate(timeout=60)[0] for child in children) == [b"5\n", b"7\n"]
    assert [child.returncode for child in children] == [0, 0]


def test_a_store_that_is_open_is_not_replaced(url, database, store, tmp_path):
    target = tmp_path / "copy.backup"
    back_up(database, target, timeout_seconds=1)
    with pytest.raises(DatabaseBusy):
        restore(database, target, moment=MOMENT, timeout_seconds=0.1)
    store.close()
    restore(database, target, moment=MOMENT, timeout_seconds=0.1)


def test_who_opens_a_store_waits_for_its_upgrade(url, database):
    Store.open(url).close()
    with StoreLock.take(database, timeout_seconds=0), pytest.raises(DatabaseBusy):
        Store.open(url, busy_timeout_seconds=0.1)
    Store.open(url).close()


def test_a_directory_that_cannot_be_written_to_needs_no_lock(url, database, monkeypatch):
    Store.open(url).close()

    def refuse(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("bridge.storage.locking._open", refuse)
    Store.open(url).close()
    with pytest.raises(DatabaseFailed, match="cannot be locked"):
        StoreLock.take(database, timeout_seconds=0)


# Resuming, rehearsing, refusing


def test_an_interrupted_upgrade_goes_on_with_the_same_backup(lay, monkeypatch):
    database = lay(3)

    def stop(what, step, *_):
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(database, progress=stop)
    assert rows(database, "SELECT version_num FROM schema_version") == [("4",)]
    assert interrupted(database)
    planned = plan(database, moment=LATER, timeout_seconds=1)
    assert (planned.found, planned.resumes) == (4, True)
    assert [version for version, _ in planned.steps] == [5, 6, 7]
    done = upgrade(database, moment=LATER, timeout_seconds=1)
    assert done.backup.name == "bridge.db.schema-3-20260102T030405000000Z.backup"
    assert rows(done.backup, "SELECT version_num FROM schema_version") == [("3",)]
    assert sorted(files(database)) == ["bridge.db", done.backup.name]


def test_an_upgrade_that_ended_before_it_tidied_up_is_tidied_up(lay):
    database = lay(6)
    done = go(database)
    note = database.with_name("bridge.db.upgrade")
    note.write_text(json.dumps({"found": 6, "backup": done.backup.name}))
    database.with_name("bridge.db.x.partial").touch()
    assert go(database).backup is None
    assert sorted(files(database)) == ["bridge.db", done.backup.name]


def test_an_unreadable_note_is_not_guessed_at(lay):
    database = lay(6)
    database.with_name("bridge.db.upgrade").write_text("{")
    with pytest.raises(DatabaseFailed, match="cannot be read"):
        go(database)


def test_a_rehearsal_runs_every_step_and_leaves_nothing(lay):
    database = lay(1)
    before = files(database)
    seen = []
    done = go(database, rehearse=True, progress=lambda what, step, *_: seen.append((what, step)))
    assert (done.found, done.target, done.backup, done.was_rehearsal) == (1, 7, None, True)
    assert {step for what, step in seen if what == "step"} == {2, 3, 4, 5, 6, 7}
    assert files(database) == before


def test_an_altered_revision_is_refused(lay, monkeypatch, tmp_path):
    database = lay(5)
    before = files(database)
    pinned = running.current_digests() | {"versions/v7.sql": "0" * 64}
    altered = tmp_path / "digests.json"
    altered.write_text(json.dumps(pinned))
    monkeypatch.setattr(running, "DIGESTS", altered)
    for rehearse in (True, False):
        with pytest.raises(UpgradeFailed) as caught:
            go(database, rehearse=rehearse)
        assert caught.value.details == {"reason": "altered_revision", "files": ["versions/v7.sql"]}
    assert files(database) == before


def test_a_store_that_is_up_to_date_is_left_alone(url, database):
    Store.open(url).close()
    before = files(database)
    done = go(database)
    assert (done.found, done.target, done.backup) == (7, 7, None)
    assert files(database) == before


def test_there_is_nothing_to_upgrade_where_there_is_no_store(database):
    with pytest.raises(DatabaseMissing):
        go(database)
    assert not database.parent.exists()


def test_a_newer_store_is_not_upgraded(url, database):
    Store.open(url).close()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE schema_version SET version_num = '8'")
        connection.commit()
    before = files(database)
    with pytest.raises(UnsupportedSchemaVersion):
        go(database)
    assert files(database) == before


# Opening


def test_an_older_store_upgrades_itself_where_it_may(lay, url):
    database = lay(5)
    with Store.open(url, visit=VISIT, auto_upgrade=True) as store:
        assert store.upgraded is not None
        assert (store.upgraded.found, store.upgraded.target) == (5, 7)
        assert store.upgraded.clients[0] == Client(
            "laptop", "0.0.5", "2025-05-02T09:00:00.000000Z", "2025-06-03T09:00:00.000000Z"
        )
    assert rows(database, "SELECT host FROM clients ORDER BY host, version") == [("desk",), ("desk",), ("laptop",)]
    with Store.open(url, visit=VISIT, auto_upgrade=True) as store:
        assert store.upgraded is None


def test_where_the_backup_does_not_fit_the_command_is_named(lay, url, monkeypatch):
    database = lay(5)
    before = files(database)
    monkeypatch.setattr(upgrading.os, "statvfs", lambda _path: SimpleNamespace(f_bavail=0, f_frsize=1))
    with pytest.raises(SchemaUpgradeNeeded) as caught:
        Store.open(url, visit=VISIT, auto_upgrade=True)
    assert caught.value.details["found"] == 5
    assert caught.value.details["free_bytes"] == 0
    assert "Free some space" in caught.value.hint
    assert files(database) == before


def test_ordinary_opening_imports_no_migrations(url):
    script = (
        "import sys; from bridge.storage.store import Store; Store.open(sys.argv[1]).close();"
        "print([n for n in ('alembic', 'mako', 'sqlalchemy.orm', 'pydantic', 'bridge.storage.migrations')"
        " if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, url], capture_output=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=True
    )
    assert done.stdout == b"[]\n"


def test_a_client_is_written_down_once_an_hour(url, database):
    for moment in (MOMENT, "2026-01-02T03:59:59.999999Z", LATER):
        Store.open(url, visit=Visit("desk", "0.1.0", moment)).close()
    Store.open(url, visit=Visit("desk", "0.2.0", LATER)).close()
    Store.open(url).close()
    assert rows(database, "SELECT * FROM clients ORDER BY version") == [
        ("desk", "0.1.0", MOMENT, LATER),
        ("desk", "0.2.0", LATER, LATER),
    ]
    Store.open(url, visit=Visit("desk", "0.1.0", "2026-01-02T04:30:00.000000Z")).close()
    assert rows(database, "SELECT last_used_at FROM clients WHERE version = '0.1.0'") == [(LATER,)]


# Backup and restore


def test_a_backup_is_made_while_the_store_is_used(store, database, tmp_path):
    say(store, "s", 0)
    target = tmp_path / "mine.backup"
    assert back_up(database, target, timeout_seconds=1) == 7
    say(store, "s", 1)
    assert rows(target, "SELECT id FROM session_entries") == [("s-000000",)]
    with pytest.raises(BackupRefused, match="exists already"):
        back_up(database, target, timeout_seconds=1)
    with pytest.raises(BackupRefused, match="no directory"):
        back_up(database, tmp_path / "no" / "x", timeout_seconds=1)


def test_a_backup_that_does_not_fit_is_not_begun(store, database, tmp_path, monkeypatch):
    monkeypatch.setattr(backup.shutil, "disk_usage", lambda _path: SimpleNamespace(free=1000))
    with pytest.raises(NotEnoughSpace):
        back_up(database, tmp_path / "x.backup", timeout_seconds=1)
    assert not (tmp_path / "x.backup").exists()


def test_restore_goes_back_and_says_what_is_lost(store, url, database, tmp_path):
    say(store, "s", 0)
    target = tmp_path / "mine.backup"
    back_up(database, target, timeout_seconds=1)
    say(store, "s", 1)
    say(store, "t", 0)
    say(store, "t", 1)
    store.close()
    before = files(database)
    planned = restore(database, target, moment=MOMENT, timeout_seconds=1, dry_run=True)
    assert files(database) == before
    done = restore(database, target, moment=MOMENT, timeout_seconds=1)
    assert done == planned
    assert (done.version, done.loss.entries, done.loss.sessions) == (7, 3, 1)
    assert done.loss.entry_ids == ("s-000001", "t-000000", "t-000001")
    assert rows(database, "SELECT id FROM session_entries") == [("s-000000",)]
    assert done.replaced == database.with_name("bridge.db.replaced-20260102T030405000000Z")
    assert rows(done.replaced, "SELECT count(*) FROM session_entries") == [(4,)]
    with Store.open(url) as again:
        say(again, "s", 1)
    # And forward again: what was replaced is a store like any other.
    assert restore(database, done.replaced, moment=LATER, timeout_seconds=1).loss.entries == 0


def test_restore_before_an_upgrade_counts_what_was_said_since(lay, url, database):
    lay(5)
    done = go(database)
    with Store.open(url) as store:
        say(store, "new", 0)
        say(store, "new", 1)
        say(store, "20250601-090000-0001", 4)
    back = restore(database, done.backup, moment=MOMENT, timeout_seconds=1)
    assert (back.version, back.loss.entries, back.loss.sessions) == (5, 3, 1)
    assert rows(database, "SELECT version_num FROM schema_version") == [("5",)]
    with pytest.raises(SchemaUpgradeNeeded):
        Store.open(url)
    assert go(database).target == 7


def test_a_damaged_store_is_replaced_and_kept(url, database, tmp_path):
    Store.open(url).close()
    target = tmp_path / "mine.backup"
    back_up(database, target, timeout_seconds=1)
    database.write_bytes(b"not a database at all" * 1000)
    done = restore(database, target, moment=MOMENT, timeout_seconds=1)
    assert done.loss.entries is None
    assert done.replaced.read_bytes().startswith(b"not a database")
    Store.open(url, create=False).close()


def test_a_missing_store_is_restored(url, database, tmp_path):
    Store.open(url).close()
    target = tmp_path / "mine.backup"
    back_up(database, target, timeout_seconds=1)
    database.unlink()
    done = restore(database, target, moment=MOMENT, timeout_seconds=1)
    assert (done.replaced, done.loss.entries) == (None, 0)
    Store.open(url, create=False).close()


@pytest.mark.parametrize("content", [None, b"", b"rubbish" * 500, "newer", "foreign", "damaged"])
def test_what_is_no_backup_is_refused_and_the_store_stays(store, database, tmp_path, content):
    store.close()
    target = tmp_path / "mine.backup"
    if isinstance(content, bytes):
        target.write_bytes(content)
    elif content == "foreign":
        rows(target, "CREATE TABLE x (y)")
    elif content is not None:
        back_up(database, target, timeout_seconds=1)
        if content == "newer":
            with closing(sqlite3.connect(target)) as connection:
                connection.execute("UPDATE schema_version SET version_num = '8'")
                connection.commit()
        else:
            raw = bytearray(target.read_bytes())
            raw[4096 * 2 : 4096 * 12] = os.urandom(4096 * 10)
            target.write_bytes(raw)
    before = files(database)
    with pytest.raises(BackupRefused):
        restore(database, target, moment=MOMENT, timeout_seconds=1)
    assert files(database) == before
