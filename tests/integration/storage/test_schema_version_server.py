"""FC-62 on a server: only the version that this program understands is opened, and no row changes."""

from __future__ import annotations

import pytest

from bridge.storage.errors import DatabaseMissing, SchemaUpgradeNeeded, UnsupportedSchemaVersion
from bridge.storage.schema_version import SCHEMA_VERSION
from bridge.storage.store import Store
from tests.databases import raw_connection

ODD = [
    ("newer", f"UPDATE schema_version SET version_num = '{SCHEMA_VERSION + 1}'", SCHEMA_VERSION + 1),
    ("odd", "UPDATE schema_version SET version_num = '0'", "0"),
    ("odd", "UPDATE schema_version SET version_num = ' 7'", " 7"),
    ("odd", "UPDATE schema_version SET version_num = 'seven'", "seven"),
    ("doubled", "INSERT INTO schema_version VALUES ('8')", [str(SCHEMA_VERSION), "8"]),
    ("missing", "DELETE FROM schema_version", None),
    ("missing", "DROP TABLE schema_version", None),
    ("missing", "ALTER TABLE schema_version RENAME COLUMN version_num TO version", None),
]


@pytest.mark.parametrize(("relation", "statement", "found"), ODD)
def test_fc_62_another_version_is_refused(database_url, relation, statement, found):
    with Store.open(database_url) as store:
        url = store.url
    with raw_connection(url) as connection:
        connection.execute(statement)
        for create in (True, False):
            with pytest.raises(UnsupportedSchemaVersion, match="Nothing was touched") as caught:
                Store.open(database_url, create=create)
            assert caught.value.details["relation"] == relation
            assert caught.value.details["found"] == found
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


def test_fc_62_an_older_version_is_refused_with_the_command_to_run(database_url):
    with Store.open(database_url) as store:
        url = store.url
    with raw_connection(url) as connection:
        connection.execute(f"UPDATE schema_version SET version_num = '{SCHEMA_VERSION - 1}'")
    with pytest.raises(SchemaUpgradeNeeded) as caught:
        Store.open(database_url)
    assert "bridge db upgrade" in caught.value.hint


def test_nothing_is_made_where_it_must_not_be(empty_database_url):
    with pytest.raises(DatabaseMissing):
        Store.open(empty_database_url, create=False)
    with pytest.raises(DatabaseMissing):
        Store.open(empty_database_url, create=False)
