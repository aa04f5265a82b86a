"""FC-62: only the version that this program understands is opened, and the others are not touched."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridge.storage.errors import UnsupportedSchemaVersion
from bridge.storage.schema_version import SCHEMA_VERSION
from bridge.storage.store import Store

pytestmark = pytest.mark.one_database("compares the bytes of the files")

ODD_VERSIONS = [
    ("newer", f"UPDATE schema_version SET version_num = '{SCHEMA_VERSION + 1}'", SCHEMA_VERSION + 1),
    ("newer", "UPDATE schema_version SET version_num = '999'", 999),
    ("older", f"UPDATE schema_version SET version_num = '{SCHEMA_VERSION - 1}'", SCHEMA_VERSION - 1),
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


def digests(directory: Path) -> dict[str, str]:
    """Digests of all files but the shared memory, which is SQLite's own."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.iterdir()
        if not path.name.endswith("-shm")
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


@pytest.mark.parametrize(("relation", "statement", "found"), ODD_VERSIONS)
def test_fc_62_another_version_is_refused_and_no_byte_changes(url, file, relation, statement, found):
    Store.open(url).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()
    before = digests(file.parent)
    assert list(before) == ["bridge.db"]
    refuse(url, relation, found)
    assert digests(file.parent) == before


@pytest.mark.parametrize(("relation", "statement", "found"), [ODD_VERSIONS[0], ODD_VERSIONS[-2]])
def test_fc_62_a_version_that_only_the_wal_holds_is_seen_and_the_wal_stays(url, file, relation, statement, found):
    """Another program still has the store open: what it wrote last is in the WAL, not yet in the file."""
    Store.open(url).close()
    with closing(sqlite3.connect(file)) as other:
        other.execute(statement)
        other.commit()
        before = digests(file.parent)
        assert set(before) == {"bridge.db", "bridge.db-wal"}
        refuse(url, relation, found)
        assert digests(file.parent) == before


def test_fc_62_a_wal_left_by_a_killed_program_stays(url, file, tmp_path):
    Store.open(url).close()
    with closing(sqlite3.connect(file)) as other:
        other.execute("UPDATE schema_version SET version_num = '8'")
        other.commit()
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("bridge.db", "bridge.db-wal"):
            (copy / name).write_bytes((file.parent / name).read_bytes())
    before = digests(copy)
    refuse(f"sqlite:///{copy}/bridge.db", "newer", 8)
    assert digests(copy) == before


def test_a_foreign_database_is_refused(url, file):
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE something (x)")
        connection.commit()
    refuse(url, "missing", None)


def test_an_empty_file_becomes_a_store(url, file):
    file.parent.mkdir()
    file.touch()
    Store.open(url).close()
    Store.open(url, create=False).close()
