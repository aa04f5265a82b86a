"""What SQLite, its driver and Alembic do behind one's back during a migration, each shown and each guarded against."""

from __future__ import annotations

import ast
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

import bridge
from bridge.storage.errors import UpgradeFailed
from bridge.storage.migrations import legacy, running
from bridge.storage.prepared import driver_of
from bridge.storage.upgrading import upgrade

pytestmark = pytest.mark.one_database("no older schema was ever on PostgreSQL")

LEGACY = Path(__file__).with_name("legacy")
MOMENT = "2026-01-02T03:04:05.000000Z"


@pytest.fixture
def lay(database):
    def make(version: int) -> Path:
        database.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript((LEGACY / f"v{version}.sql").read_text(encoding="utf-8"))
        return database

    return make


@pytest.fixture
def engine(lay):
    made = running.migration_engine(f"sqlite:///{lay(4)}")
    yield made
    made.dispose()


def query(database: Path, sql: str):
    with closing(sqlite3.connect(database)) as connection:
        connection.text_factory = bytes
        found = connection.execute(sql).fetchall()
    return [
        tuple(value.decode(errors="replace") if isinstance(value, bytes) else value for value in row) for row in found
    ]


# Transactions


def test_ddl_is_undone_with_its_transaction(engine, database):
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE made (x)")
        connection.exec_driver_sql("INSERT INTO made VALUES (1)")
        connection.exec_driver_sql("CREATE INDEX ix_made ON made (x)")
        connection.rollback()
    assert query(database, "SELECT * FROM sqlite_master WHERE name LIKE '%made%'") == []


def test_the_drivers_own_transactions_would_leave_it_there(lay):
    """The trap: the standard library commits nothing and begins nothing before DDL."""
    database = lay(4)
    engine = create_engine(f"sqlite:///{database}")
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE made (x)")
        connection.rollback()
    engine.dispose()
    assert query(database, "SELECT name FROM sqlite_master WHERE name LIKE '%made%'") == [("made",)]


def test_a_transaction_begins_with_the_write_lock(engine, database):
    with engine.begin() as connection:
        assert driver_of(connection).isolation_level is None
        assert driver_of(connection).in_transaction
        other = sqlite3.connect(database, timeout=0, isolation_level=None)
        with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")


def test_each_revision_is_a_transaction_of_its_own(lay, monkeypatch):
    """Step 6 fails at its end: steps 2 to 5 stand, of step 6 there is nothing, and the next run goes on."""
    database = lay(1)
    events = query(database, "SELECT * FROM agent_events")

    def fail(_move):
        raise ValueError("made to fail")

    with monkeypatch.context() as patched:
        patched.setattr(legacy.Move, "run", fail)
        with pytest.raises(UpgradeFailed) as caught:
            upgrade(database, moment=MOMENT, timeout_seconds=1)
    assert caught.value.details == {"reason": "step_failed", "version": 5, "step": 6}
    assert "made to fail" in caught.value.message
    assert "whole at schema 5" in caught.value.message
    assert query(database, "SELECT version_num FROM schema_version") == [("5",)]
    assert query(database, "SELECT session, ordinal, type, json, created_at FROM agent_events") == events
    assert query(database, "SELECT name FROM sqlite_master WHERE name LIKE 'session%'") == []
    assert upgrade(database, moment=MOMENT, timeout_seconds=1).found == 5
    assert query(database, "SELECT version_num FROM schema_version") == [("7",)]


def test_a_script_would_commit_the_open_transaction(tmp_path):
    """The trap; and that nothing in Bridge runs one."""
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE made (x)")
        connection.executescript("SELECT 1;")
        assert not connection.in_transaction
    for path in Path(bridge.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Attribute) and node.attr == "executescript"), path


# Foreign keys


def test_dropping_a_table_with_foreign_keys_on_would_empty_those_that_refer_to_it(lay):
    """The trap: no error, no trigger."""
    database = lay(4)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("DROP TABLE agent_sessions")
        assert connection.execute("SELECT count(*) FROM agent_events WHERE session IS NOT NULL").fetchone() == (0,)


def test_a_rebuilt_table_keeps_what_refers_to_it(lay):
    database = lay(4)
    events = query(database, "SELECT * FROM agent_events")
    running.run_revisions(f"sqlite:///{database}", 5, moment=MOMENT, progress=lambda *_: None)
    assert query(database, "SELECT * FROM agent_events") == events
    assert query(database, "PRAGMA foreign_key_check") == []


def test_foreign_keys_are_off_before_a_transaction_begins(engine):
    with engine.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 0
        # Too late in here, whoever asks: the pragma has no effect inside a transaction.
        connection.exec_driver_sql("PRAGMA foreign_keys=ON")
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 0


def test_a_step_that_leaves_a_dangling_row_is_undone(lay, monkeypatch):
    database = lay(5)
    run = legacy.Move.run

    def leave_one(move):
        run(move)
        move._driver.execute("INSERT INTO session_heads VALUES ('nobody', 'nobody-000001', 2, 'x')")

    monkeypatch.setattr(legacy.Move, "run", leave_one)
    with pytest.raises(UpgradeFailed) as caught:
        upgrade(database, moment=MOMENT, timeout_seconds=1)
    assert caught.value.details == {"reason": "foreign_keys", "version": 5, "step": 6}
    assert query(database, "SELECT version_num FROM schema_version") == [("5",)]
    assert query(database, "SELECT count(*) FROM agent_events") == [(5,)]


def test_a_step_that_changes_an_event_is_undone(lay, monkeypatch):
    """A copy that loses a row, a digit or an order does not pass."""
    database = lay(3)
    from alembic import op

    execute = op.execute

    def meddle(statement, **options):
        if isinstance(statement, str) and statement.startswith("DROP TABLE agent_events"):
            execute("UPDATE agent_events_new SET json = json || ' ' WHERE ordinal = 2")
        return execute(statement, **options)

    monkeypatch.setattr(op, "execute", meddle)
    with pytest.raises(UpgradeFailed) as caught:
        upgrade(database, moment=MOMENT, timeout_seconds=1)
    assert caught.value.details == {"reason": "digest", "version": 3, "step": 4}
    assert query(database, "SELECT version_num FROM schema_version") == [("3",)]


def test_a_move_that_loses_an_event_is_undone(lay, monkeypatch):
    database = lay(5)
    write = legacy.Move.write

    def lose(move, entry, audit, original):
        if entry[3] != 2:
            write(move, entry, audit, original)

    monkeypatch.setattr(legacy.Move, "write", lose)
    with pytest.raises(UpgradeFailed) as caught:
        upgrade(database, moment=MOMENT, timeout_seconds=1)
    assert caught.value.details["reason"] == "step_failed"
    assert "digest" in caught.value.message
    assert query(database, "SELECT count(*) FROM agent_events") == [(5,)]


# Triggers


def test_triggers_are_there_after_their_table_was_rebuilt(lay):
    database = lay(3)
    running.run_revisions(f"sqlite:///{database}", 5, moment=MOMENT, progress=lambda *_: None)
    with closing(sqlite3.connect(database)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("UPDATE agent_events SET json = ''")
        with pytest.raises(sqlite3.IntegrityError, match="are kept"):
            connection.execute("DELETE FROM agent_sessions")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO session_entries SELECT * FROM session_entries",
        "INSERT OR REPLACE INTO legacy_events SELECT * FROM legacy_events",
        "INSERT OR REPLACE INTO audit_events SELECT * FROM audit_events",
        "UPDATE session_entries SET payload = ''",
        "DELETE FROM session_entries",
        "UPDATE legacy_events SET original = '{}'",
        "DELETE FROM legacy_events",
    ],
)
def test_moved_rows_are_immutable(lay, statement):
    database = lay(1)
    upgrade(database, moment=MOMENT, timeout_seconds=1)
    with closing(sqlite3.connect(database)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
