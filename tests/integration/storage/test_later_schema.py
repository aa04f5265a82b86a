"""The way from today's schema to a later one, on both databases, proved with a step that no Bridge ships.

Stores on PostgreSQL begin at schema 7, so nothing older exists there to be upgraded. What will be done to a store of
today is tried all the same: by a made-up Bridge of schema 8, in a process of its own (``later/bridge_8.py``).
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from bridge.storage.errors import DatabaseBusy, SchemaUpgradeNeeded, UnsupportedSchemaVersion
from bridge.storage.store import Store
from tests.databases import raw_connection
from tests.entries import seed
from tests.rows import insert_plan, plan_ids
from tests.structures import structure

PROGRAM = Path(__file__).parent / "later" / "bridge_8.py"
ROOT = Path(__file__).parents[3]


class Later:
    """Runs the made-up Bridge."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder

    def command(self, *words: str) -> list[str]:
        return [sys.executable, str(PROGRAM), str(self._folder), *words]

    def start(self, *words: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(*words), cwd=ROOT, env=self._environment(), stdin=-1, stdout=-1, stderr=-1, text=True
        )

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            self.command(*words),
            cwd=ROOT,
            env=self._environment() | environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def __call__(self, *words: str) -> dict:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @staticmethod
    def _environment() -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}


@pytest.fixture
def later(tmp_path) -> Later:
    return Later(tmp_path / "bridge-8")


@pytest.fixture
def today(database_url) -> str:
    """The URL of a store of today's schema with a few rows, which nobody has open."""
    with Store.open(database_url) as store:
        url = store.url
    with raw_connection(url) as connection:
        seed(connection)
    return database_url


def entries(url: str) -> list:
    with raw_connection(make_url(url)) as connection:
        return connection.execute("SELECT * FROM session_entries ORDER BY id").fetchall()


def query(url: str, statement: str) -> list:
    with raw_connection(make_url(url)) as connection:
        return connection.execute(statement).fetchall()


def sibling(url: str, name: str) -> str:
    """The URL of another, empty database of the same kind."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return f"sqlite:///{Path(str(parsed.database)).with_name(name)}.db"
    return parsed.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def fresh(today, later, request):
    """A store that the made-up Bridge made by itself."""
    if make_url(today).get_backend_name() == "sqlite":
        url = sibling(today, "fresh")
        later("fresh", url)
        yield url
        return
    with request.getfixturevalue("postgresql_server").database("template0") as url:
        later("fresh", url)
        yield url


def test_the_upgraded_schema_is_the_fresh_one_and_what_was_recorded_is_what_it_was(today, fresh, later):
    before = entries(today)
    assert later("upgrade", today) == {"found": 7, "target": 8, "rehearsed": False}
    expected, found = structure(fresh), structure(today)
    assert {name: value for name, value in found.items() if expected.get(name) != value} == {}
    assert found.keys() == expected.keys()
    assert entries(today) == before
    assert query(today, "SELECT word FROM moods") == [("calm",)] * len(before)
    assert later("upgrade", today) == {"found": 8, "target": 8, "rehearsed": False}


def test_the_bridge_of_today_refuses_what_was_upgraded(today, later):
    later("upgrade", today)
    before = structure(today)
    with pytest.raises(UnsupportedSchemaVersion, match="Nothing was touched") as caught:
        Store.open(today)
    assert caught.value.details == {"found": 8, "supported": [7, 7], "relation": "newer"}
    assert structure(today) == before


def test_a_rehearsal_runs_the_step_and_leaves_nothing(today, later):
    before, rows = structure(today), entries(today)
    assert later("upgrade", today, "rehearse") == {"found": 7, "target": 8, "rehearsed": True}
    assert (structure(today), entries(today)) == (before, rows)
    with Store.open(today) as store:
        assert store.write(lambda tx: insert_plan(tx, "a")) == "a"


@pytest.mark.parametrize("rehearse", [(), ("rehearse",)])
def test_a_step_that_changes_what_was_recorded_is_undone(today, later, rehearse):
    before, rows = structure(today), entries(today)
    refused = later("upgrade", today, "fail", *rehearse)
    assert refused["code"] == "upgrade_failed"
    assert refused["details"] == {"reason": "digest", "version": 7, "step": 8}
    assert "the content of session_entries would not be what it was" in refused["message"]
    assert (structure(today), entries(today)) == (before, rows)
    assert later("upgrade", today)["target"] == 8


def test_two_upgrades_at_once_and_the_second_finds_nothing_to_do(today, later):
    first = later.start("wait", today)
    assert first.stdout.readline() == "inside\n"
    second = later.start("upgrade", today)
    time.sleep(1.0)  # the second would be done by now if it did not wait
    assert second.poll() is None
    done, _ = first.communicate("", timeout=60)
    assert json.loads(done) == {"found": 7, "target": 8, "rehearsed": False}
    done, _ = second.communicate(timeout=60)
    assert json.loads(done) == {"found": 8, "target": 8, "rehearsed": False}
    assert query(today, "SELECT version_num FROM schema_version") == [("8",)]


def test_who_opens_a_store_while_it_is_upgraded_waits_and_is_told(today, later):
    upgrade = later.start("wait", today)
    assert upgrade.stdout.readline() == "inside\n"
    with pytest.raises(DatabaseBusy, match="being upgraded"), Store.open(today, busy_timeout_seconds=0.1) as store:
        plan_ids(store)
    upgrade.communicate("", timeout=60)
    with pytest.raises(UnsupportedSchemaVersion):
        Store.open(today)


def test_a_store_that_somebody_uses_is_not_upgraded(today, later):
    with Store.open(today) as store:
        store.write(lambda tx: insert_plan(tx, "a"))
        refused = later("upgrade", today)
        assert refused["code"] == "database_busy"
        assert "Nothing was" in refused["message"]
        assert plan_ids(store) == ["a"]
    assert later("upgrade", today)["target"] == 8


@pytest.mark.one_database("a file stays locked while it is open; a server's connections come and go")
def test_a_store_that_stayed_open_over_an_upgrade_reads_and_writes_nothing(postgresql_server, later):
    from tests.databases import TEMPLATE

    with postgresql_server.database(TEMPLATE) as url, Store.open(url) as store:
        store.write(lambda tx: insert_plan(tx, "a"))
        # All its connections are lost while nobody uses it: then there is nothing that an upgrade could wait for.
        query(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'bridge' AND datname = current_database()",
        )
        assert later("upgrade", url)["target"] == 8
        with pytest.raises(UnsupportedSchemaVersion):
            plan_ids(store)
        with pytest.raises(UnsupportedSchemaVersion):
            store.write(lambda tx: insert_plan(tx, "b"))
        assert query(url, "SELECT id FROM plans") == [("a",)]


def test_an_altered_step_is_refused(today, later, tmp_path):
    later("upgrade", today, "rehearse")
    with (tmp_path / "bridge-8" / "migrations" / "versions" / "v8.py").open("a") as file:
        file.write("# one more line\n")
    refused = later("upgrade", today)
    assert (refused["code"], refused["details"]["reason"]) == ("upgrade_failed", "altered_revision")
    assert query(today, "SELECT version_num FROM schema_version") == [("7",)]


def test_older_stores_are_named_with_the_command_to_run(today, later, bridge_home):
    bridge_home.mkdir(mode=0o700)
    (bridge_home / "config.toml").write_text("auto_upgrade = false\n")
    environment = {"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": today}
    refused = later.run("cli", "session", "list", "--json", **environment)
    assert json.loads(refused.stderr)["error"]["code"] == "schema_upgrade_needed"
    assert "bridge db upgrade" in json.loads(refused.stderr)["error"]["hint"]
    doctor = json.loads(later.run("cli", "doctor", "--json", **environment).stdout)
    store = next(check for check in doctor["checks"] if check["name"] == "store")
    assert (store["status"], store["hint"]) == ("warning", "Run: bridge db upgrade")


# PostgreSQL alone


@pytest.fixture
def server_store(postgresql_server, request):
    from tests.databases import TEMPLATE

    with postgresql_server.database(TEMPLATE) as url:
        with raw_connection(make_url(url)) as connection:
            seed(connection)
            connection.execute("INSERT INTO clients VALUES ('desk', '0.1.0', '2026-01-01', '2026-01-02')")
        yield url


@pytest.mark.one_database("of a store in a file the upgrade makes the backup itself")
def test_the_command_wants_to_know_about_the_backup(server_store, later, bridge_home):
    environment = {"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": server_store}

    def upgrade(*words):
        return later.run("cli", "db", "upgrade", *words, **environment)

    status = json.loads(later.run("cli", "db", "status", "--json", **environment).stdout)
    assert (status["relation"], status["found"], status["supported"]) == ("older", 7, 8)
    assert [client["host"] for client in status["clients"]] == ["desk"]
    refused = upgrade("--json")
    error = json.loads(refused.stderr.splitlines()[-1])["error"]
    assert error["code"] == "backup_unconfirmed"
    for word in ("pg_dump", "bridge db copy", "--backup-done"):
        assert word in error["hint"]
    assert "Nothing was touched" in error["message"]
    assert upgrade("--backup-done", "--without-backup").returncode == 2
    rehearsed = upgrade("--dry-run")
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert "every step ran in a transaction that was undone" in rehearsed.stdout
    assert "used by Bridge 0.1.0 on desk" in rehearsed.stderr
    done = upgrade("--backup-done", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == [
        {
            "schema_version": 8,
            "summary": "A mood for each session, and the moods of entries: a step that no Bridge ships.",
        }
    ]
    assert "the store has schema 8 already" in upgrade().stdout
    assert json.loads(later.run("cli", "db", "status", "--json", **environment).stdout)["relation"] == "same"


@pytest.mark.one_database("a file has no owner in the database")
def test_a_login_that_does_not_own_the_tables_is_told_so(server_store, later):
    url = make_url(server_store)
    query(server_store, "SELECT 1")
    with raw_connection(url) as connection:
        connection.execute(f"CREATE ROLE member_{os.getpid()} LOGIN")
        try:
            connection.execute(f"GRANT bridge_app TO member_{os.getpid()}")
            login = url.set(username=f"member_{os.getpid()}").render_as_string(hide_password=False)
            refused = later("upgrade", login)
        finally:
            connection.execute(f"DROP ROLE member_{os.getpid()}")
    assert (refused["code"], refused["details"]["reason"]) == ("upgrade_failed", "not_owner")
    assert query(server_store, "SELECT version_num FROM schema_version") == [("7",)]


@pytest.mark.one_database("stores in files have steps from schema 1 on")
def test_a_schema_that_was_never_on_a_server_is_refused_with_what_to_do(server_store):
    from bridge.storage.backend import backend_for
    from bridge.storage.errors import UpgradeFailed

    query_ = "UPDATE schema_version SET version_num = '6'"
    with raw_connection(make_url(server_store)) as connection:
        connection.execute(query_)
    with pytest.raises(SchemaUpgradeNeeded):
        Store.open(server_store)
    with pytest.raises(UpgradeFailed, match="begin at schema 7") as caught:
        backend_for(server_store).upgrade(moment="2026-01-02T03:04:05.000000Z", timeout_seconds=1, is_backed_up=True)
    assert caught.value.details == {"reason": "no_steps", "version": 6}


# Killed


#: More than the statements of one upgrade on either database.
MOST_STATEMENTS = 160


@contextmanager
def copies_of(store: str, request, tmp_path):
    """A function that makes copies of a store."""
    parsed = make_url(store)
    with ExitStack() as stack:

        def another() -> str:
            if parsed.get_backend_name() == "postgresql":
                server = request.getfixturevalue("postgresql_server")
                return stack.enter_context(server.database(parsed.database))
            home = Path(tempfile.mkdtemp(dir=tmp_path))
            with closing(sqlite3.connect(str(parsed.database))) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            shutil.copyfile(str(parsed.database), home / "bridge.db")
            return f"sqlite:///{home}/bridge.db"

        yield another


@pytest.mark.timeout(600)
def test_killed_at_every_statement_it_is_one_schema_or_the_other(today, later, request, tmp_path):
    is_server = make_url(today).get_backend_name() == "postgresql"
    before = structure(today)
    left = []
    with copies_of(today, request, tmp_path) as another, later.start("kill") as killing:
        url, status = another(), None
        while status != 0:
            print(url, file=killing.stdin, flush=True)
            status = json.loads(killing.stdout.readline())["status"]
            assert status in (-9, 0), killing.communicate()
            found = structure(url)
            left.append((url, found))
            # A file keeps traces of a transaction that was not finished; on a server there is then none.
            if not is_server or found != before:
                url = another()
            assert len(left) < MOST_STATEMENTS
        killing.communicate()
        *killed, (_, after) = left
        assert len(killed) > 30
        assert after["version"] == [("8",)]
        assert all(found in (before, after) for _, found in killed)
        assert any(found == before for _, found in killed)
        # The next run brings each of them up to date; some will do, each is a process of its own.
        for url in dict.fromkeys(url for url, _ in (killed[7::30])):
            assert later("upgrade", url)["target"] == 8
            assert structure(url) == after
