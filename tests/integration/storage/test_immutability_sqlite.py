"""SQLite's INSERT OR REPLACE and its kin write over a row without firing the triggers that one would think of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bridge.storage.store import Store
from tests.databases import raw_connection
from tests.entries import OVER, REFUSED, SEEDS, entry, rows, seed

pytestmark = pytest.mark.one_database("the conflict clause of INSERT is SQLite's own")


@pytest.fixture
def raw(url: str) -> Iterator[Any]:
    with Store.open(url) as store, raw_connection(store.url) as connection:
        seed(connection)
        yield connection


@pytest.mark.parametrize("recursive_triggers", ["OFF", "ON"])
@pytest.mark.parametrize("conflict", ["", "OR REPLACE", "OR ABORT", "OR FAIL"])
@pytest.mark.parametrize("table", list(SEEDS))
def test_rows_refuse_an_insert_over_them(raw, table, conflict, recursive_triggers):
    raw.execute(f"PRAGMA recursive_triggers={recursive_triggers}")
    before = rows(raw, table)
    with pytest.raises(REFUSED):
        raw.execute(SEEDS[table].format(conflict=conflict))
    assert rows(raw, table) == before


@pytest.mark.parametrize("conflict", ["", "OR REPLACE"])
@pytest.mark.parametrize("values", OVER)
def test_entries_refuse_an_insert_over_them(raw, conflict, values):
    before = rows(raw, "session_entries")
    with pytest.raises(REFUSED):
        raw.execute(*entry(**values, payload='{"b":2}', conflict=conflict))
    assert rows(raw, "session_entries") == before
