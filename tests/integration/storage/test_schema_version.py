"""FC-62: only the version that this program understands is opened, and the others are not touched."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bridge.storage.errors import SchemaUpgradeNeeded, UnsupportedSchemaVersion
from bridge.storage.schema_version import SCHEMA_VERSION
from bridge.storage.store import Store

pytestmark = pytest.mark.one_database("compares the bytes of the files")

LEGACY = Path(__file__).with_name("legacy")

ODD_VERSIONS = [
    ("newer", f"UPDATE schema_version SET version_num = '{SCHEMA_VERSION + 1}'", SCHEMA_VERSION + 1),
    ("newer", "UPDATE schema_version SET version_num = '999'", 999),
    ("odd", "UPDATE schema_version SET version_num = '0'", "0"),
    ("odd", "UPDATE schema_version SET version_num = '-7'", "-7"),
    ("odd", "UPDATE schema_version SET version_num = '07'", "07"),
    ("odd", "UPDATE schema_version SET version_num = ' 7'", " 7"),
    ("odd", "UPDATE schema_version SET version_num = '7.0'", "7.0"),
    ("odd", "UPDATE schema_version SET version_num = '٧'", "٧"),
    ("odd", "UPDATE schema_version SET version_num = 'seven'", "seven"),
    ("odd", "UPDATE schema_version SET version_num = ''", ""),
    ("odd", f"UPDATE schema_version SET version_num = '{'9' * 5000}'", "9" * 5000),
    ("doubled", "INSERT INTO schema_version VALUES ('7')", ["7", "7"]),
    ("doubled", "INSERT INTO schema_version VALUES ('8')", ["7", "8"]),
    ("missing", "DELETE FROM schema_version", None),
    ("missing", "DROP TABLE schema_version", None),
    ("missing", "ALTER TABLE schema_version RENAME COLUMN version_num TO version", None),
]


def lay(database: Path, version: int) -> None:
    """Make a store of an older schema from its literal SQL."""
    database.parent.mkdir(parents=True)
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((LEGACY / f"v{version}.sql").read_text(encoding="utf-8"))


def digests(directory: Path) -> dict[str, str]:
    """Digests of all files but the lock file and the shared memory, which is SQLite's own."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.iterdir()
        if not path.name.endswith(("-shm", ".lock"))
    }


def refuse(url: str, relation: str, found: object) -> None:
    for create in (True, False):
        with pytest.raises(UnsupportedSchemaVersion) as caught:
            Store.open(url, create=create)
        error = caught.value
        assert error.details == {
            "found": found,
            "supported": [SCHEMA_VERSION, SCHEMA_VERSION],
            "relation": relation,
        }
        assert f"schema {SCHEMA_VERSION}" in error.message
        assert "Nothing was touched" in error.message


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_fc_62_an_older_store_is_refused_with_the_command_to_run_and_no_byte_changes(url, database, version):
    lay(database, version)
    before = digests(database.parent)
    for create in (True, False):
        with pytest.raises(SchemaUpgradeNeeded) as caught:
            Store.open(url, create=create)
        assert f"schema {version}" in caught.value.message
        assert "Nothing was touched" in caught.value.message
        assert "bridge db upgrade" in caught.value.hint
        assert caught.value.details == {
            "found": version,
            "supported": [SCHEMA_VERSION, SCHEMA_VERSION],
            "relation": "older",
        }
    assert digests(database.parent) == before


@pytest.mark.parametrize(("relation", "statement", "found"), ODD_VERSIONS)
def test_fc_62_another_version_is_refused_and_no_byte_changes(url, database, relation, statement, found):
    Store.open(url).close()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement)
        connection.commit()
    before = digests(database.parent)
    assert list(before) == ["bridge.db"]
    refuse(url, relation, found)
    assert digests(database.parent) == before


@pytest.mark.parametrize(("relation", "statement", "found"), [ODD_VERSIONS[0], ODD_VERSIONS[-2]])
def test_fc_62_a_version_that_only_the_wal_holds_is_seen_and_the_wal_stays(url, database, relation, statement, found):
    """Another program still has the store open: what it wrote last is in the WAL, not yet in the file."""
    Store.open(url).close()
    with closing(sqlite3.connect(database)) as other:
        other.execute(statement)
        other.commit()
        before = digests(database.parent)
        assert set(before) == {"bridge.db", "bridge.db-wal"}
        refuse(url, relation, found)
        assert digests(database.parent) == before


def test_fc_62_a_wal_left_by_a_killed_program_stays(url, database, tmp_path):
    Store.open(url).close()
    with closing(sqlite3.connect(database)) as other:
        other.execute("UPDATE schema_version SET version_num = '8'")
        other.commit()
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("bridge.db", "bridge.db-wal"):
            (copy / name).write_bytes((database.parent / name).read_bytes())
    before = digests(copy)
    refuse(f"sqlite:///{copy}/bridge.db", "newer", 8)
    assert digests(copy) == before


def test_a_foreign_database_is_refused(url, database):
    database.parent.mkdir()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE something (x)")
        connection.commit()
    refuse(url, "missing", None)


def test_an_empty_file_becomes_a_store(url, database):
    database.parent.mkdir()
    database.touch()
    Store.open(url).close()
    Store.open(url, create=False).close()


@pytest.mark.parametrize(("version", "is_touched"), [("5", True), ("8", False)])
def test_what_a_killed_writer_of_an_old_store_did_not_commit_is_taken_back(url, database, version, is_touched):
    """Outside WAL mode that stays in the file until somebody who may write reads it."""
    lay(database, 5)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE schema_version SET version_num = ?", (version,))
        connection.commit()
    script = (
        "import os, signal, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA cache_size=2')\n"
        "c.execute('BEGIN IMMEDIATE')\n"
        "for i in range(500):\n"
        "    c.execute('INSERT INTO agent_events (ordinal, json) VALUES (?, ?)', (i, 'x' * 500))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(database)], check=False)
    assert database.with_name("bridge.db-journal").stat().st_size > 0
    before = digests(database.parent)
    with pytest.raises(SchemaUpgradeNeeded if is_touched else UnsupportedSchemaVersion):
        Store.open(url)
    assert (digests(database.parent) != before) == is_touched
    if is_touched:
        with closing(sqlite3.connect(database)) as connection:
            assert connection.execute("SELECT count(*) FROM agent_events").fetchone() == (5,)
