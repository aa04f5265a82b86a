"""Opening where the store is a file: its place, its mode, and what happens where it is not as it should be."""

from __future__ import annotations

import os
import stat

import pytest

from bridge.foundation.errors import InvalidConfiguration
from bridge.storage.errors import DatabaseFailed, DatabaseMissing
from bridge.storage.fulltext import INDEXES
from bridge.storage.store import Store
from bridge.storage.tables import metadata
from tests.rows import insert_plan, plan_ids

pytestmark = pytest.mark.one_database("looks at the file itself")


@pytest.fixture
def store(url):
    with Store.open(url) as opened:
        yield opened


def test_a_new_store_is_private_and_complete(store, database):
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    with store.read() as connection:
        tables = {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert connection.exec_driver_sql("SELECT version_num FROM schema_version").all() == [("7",)]
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    # A full-text index keeps itself in tables of its own.
    assert {name for name in tables if not name.startswith(INDEXES)} == set(metadata.tables)
    assert tables.issuperset(INDEXES)


def test_missing_parents_are_private_too_and_existing_ones_keep_their_mode(tmp_path):
    (tmp_path / "there").mkdir(mode=0o755)
    Store.open(f"sqlite:///{tmp_path}/there/a/b/bridge.db").close()
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("there", "there/a", "there/a/b")] == [
        0o755,
        0o700,
        0o700,
    ]


def test_a_path_with_odd_characters(tmp_path):
    path = tmp_path / "a b?c#d%20 ü" / "bridge.db"
    with Store.open(f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F').replace('#', '%23')}") as store:
        store.write(lambda tx: insert_plan(tx, "p1"))
        assert plan_ids(store) == ["p1"]


def test_create_false_makes_nothing(url, database):
    with pytest.raises(DatabaseMissing):
        Store.open(url, create=False)
    assert not database.parent.exists()


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


@pytest.mark.parametrize("url", ["nonsense", "sqlite://", "sqlite:///:memory:", "mysql://host/db"])
def test_a_url_that_cannot_be_used(url):
    with pytest.raises(InvalidConfiguration):
        Store.open(url)
