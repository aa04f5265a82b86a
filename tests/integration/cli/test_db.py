"""``bridge db``, and what ``doctor`` and ordinary commands say of a store of another schema."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridge.storage import upgrading

LEGACY = Path(__file__).parents[1] / "storage" / "legacy"


@pytest.fixture
def database(bridge_home) -> Path:
    bridge_home.mkdir(mode=0o700)
    return bridge_home / "bridge.db"


@pytest.fixture
def old(database) -> Path:
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((LEGACY / "v5.sql").read_text(encoding="utf-8"))
    return database


def statement(database: Path, sql: str) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(sql)
        connection.commit()


def test_status_without_a_store(bridge, bridge_home):
    found = bridge.json("db", "status")
    assert (found["relation"], found["found"], found["clients"]) == ("absent", None, [])
    assert not bridge_home.exists()


def test_status_of_an_old_store(bridge, old):
    before = old.read_bytes()
    found = bridge.json("db", "status")
    assert (found["relation"], found["found"], found["supported"]) == ("older", 5, 7)
    assert [client["host"] for client in found["clients"]] == ["laptop", "desk"]
    assert "bridge db upgrade" in bridge("db", "status").ok().stdout
    assert old.read_bytes() == before


def test_an_ordinary_command_upgrades_and_says_so(bridge, old):
    shown = bridge("session", "list", "--all").ok()
    assert "upgraded the store from schema 5 to 7; backup: " in shown.stderr
    assert "named" in shown.stdout
    assert bridge("session", "list", "--all").ok().stderr == ""
    assert "two, again" in bridge("log", "named").ok().stdout


def test_an_ordinary_command_names_the_command_where_it_may_not(bridge, old, bridge_home):
    (bridge_home / "config.toml").write_text("auto_upgrade = false\n")
    before = old.read_bytes()
    refused = bridge("session", "list", "--json")
    assert (refused.status, refused.error()["code"]) == (22, "schema_upgrade_needed")
    assert "bridge db upgrade" in refused.error()["hint"]
    assert old.read_bytes() == before
    checks = {check["name"]: check for check in bridge.json("doctor")["checks"]}
    assert checks["store"]["status"] == "warning"
    assert checks["store"]["hint"] == "Run: bridge db upgrade"


def test_upgrade_with_a_rehearsal_first(bridge, old):
    before = old.read_bytes()
    rehearsed = bridge("db", "upgrade", "--dry-run", "--json").ok()
    assert rehearsed.json()["schema_version"] == 5
    assert [step["schema_version"] for step in rehearsed.json()["steps"]] == [6, 7]
    assert "used by Bridge 0.0.5 on laptop" in bridge("db", "upgrade", "--dry-run").ok().stderr
    assert old.read_bytes() == before
    done = bridge.json("db", "upgrade")
    assert (done["found"], done["schema_version"], done["dry_run"]) == (5, 7, False)
    assert Path(done["backup"]).exists()
    assert bridge.json("db", "upgrade")["backup"] is None
    assert bridge("db", "upgrade").ok().stdout == "the store has schema 7 already\n"


def test_upgrade_reports_its_progress_as_lines(bridge, old):
    shown = bridge("db", "upgrade", "--json-lines").ok()
    records = [json.loads(line) for line in shown.stderr.splitlines()]
    assert {"event": "step", "schema_version": 6, "done": 5, "total": 5} in records
    assert json.loads(shown.stdout)["schema_version"] == 7


def test_upgrade_where_the_backup_does_not_fit(bridge, old, monkeypatch):
    monkeypatch.setattr(upgrading, "SPARE_BYTES", 2**62)
    refused = bridge("db", "upgrade", "--json")
    assert refused.error()["code"] == "not_enough_space"
    assert bridge("session", "list", "--json").error()["code"] == "schema_upgrade_needed"


def test_upgrade_without_a_store(bridge):
    assert bridge("db", "upgrade", "--json").error()["code"] == "database_missing"


@pytest.mark.parametrize(
    ("sql", "relation"),
    [
        ("UPDATE schema_version SET version_num = '8'", "newer"),
        ("UPDATE schema_version SET version_num = 'x'", "odd"),
        ("DELETE FROM schema_version", "missing"),
        ("INSERT INTO schema_version VALUES ('7')", "doubled"),
    ],
)
def test_fc_62_another_version_is_named_by_every_command(bridge, database, sql, relation):
    bridge("session", "new").ok()
    statement(database, sql)
    before = database.read_bytes()
    for words in (["session", "list"], ["db", "upgrade"], ["db", "upgrade", "--dry-run"], ["db", "check"]):
        refused = bridge(*words, "--json").error()
        assert (refused["code"], refused["details"]["relation"]) == ("unsupported_schema_version", relation)
    assert bridge("db", "backup", "--json").error()["code"] == "backup_refused"
    assert bridge.json("db", "status")["relation"] == relation
    report = bridge("doctor", "--json")
    assert report.status == 1
    (check,) = [check for check in report.json()["checks"] if check["name"] == "store"]
    assert (check["status"], relation in check["detail"]) == ("failed", True)
    assert database.read_bytes() == before


def test_backup_and_restore(bridge, database, tmp_path):
    session = bridge.json("session", "new")["id"]
    made = bridge.json("db", "backup", tmp_path / "mine.backup")
    assert (made["backup"], made["schema_version"]) == (str(tmp_path / "mine.backup"), 7)
    assert bridge("db", "backup", tmp_path / "mine.backup", "--json").error()["code"] == "backup_refused"
    bridge("append", session, "--kind", "note", "--text", "later").ok()
    planned = bridge.json("db", "restore", tmp_path / "mine.backup", "--dry-run")
    assert planned["lost"] == {"entries": 1, "sessions": 0, "entry_ids": [f"{session}-000001"]}
    assert "later" in bridge("log", session).ok().stdout
    shown = bridge("db", "restore", tmp_path / "mine.backup").ok().stdout
    assert "1 entries are not in the backup" in shown
    assert f"{session}-000001" in shown
    assert "later" not in bridge("log", session).ok().stdout
    kept = Path(bridge.json("db", "status")["backups"][0])
    assert ".replaced-" in kept.name
    assert bridge.json("db", "restore", kept)["lost"]["entries"] == 0
    assert "later" in bridge("log", session).ok().stdout


def test_backup_has_a_name_of_its_own(bridge, database):
    bridge("session", "new").ok()
    made = Path(bridge("db", "backup").ok().stdout.strip())
    assert made.parent == database.parent
    assert str(made) in bridge("db", "status").ok().stdout
    assert bridge("db", "restore", "nowhere.backup", "--json").error()["code"] == "backup_refused"


def test_check_finds_sets_aside_and_releases(bridge, database):
    session, sibling = bridge.json("session", "new")["id"], bridge.json("session", "new")["id"]
    assert bridge("db", "check").ok().stdout == "sound\n"
    statement(database, f"UPDATE session_heads SET next_sequence = 9 WHERE session_id = '{session}'")
    assert bridge.json("db", "check")["sound"]
    statement(database, f"UPDATE session_heads SET active_entry_id = 'gone' WHERE session_id = '{session}'")
    found = bridge("db", "check", "--json")
    assert found.status == 1
    assert found.json()["quarantined"] == [session]
    assert f"set aside: {session}" in bridge("db", "check").stdout
    assert bridge("log", session, "--json").error()["code"] == "session_quarantined"
    bridge("log", sibling).ok()
    assert bridge.json("db", "status")["unreadable"] == [{"session_id": session, "reason": "bad_head", "entries": None}]
    checks = {check["name"]: check for check in bridge.json("doctor")["checks"]}
    assert f"{session} (bad_head)" in checks["unreadable_sessions"]["detail"]
    statement(database, f"UPDATE session_heads SET active_entry_id = '{session}-000000' WHERE session_id = '{session}'")
    assert bridge.json("db", "check")["released"] == [session]
    bridge("log", session).ok()
