"""A store of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.storage.store import Store
from tests.databases import raw_connection
from tests.entries import seed


@pytest.fixture(autouse=True)
def stores_are_copied() -> None:
    """Make each store as the program does: these tests are about that."""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A place for a store on SQLite; nothing is there."""
    return tmp_path / "state" / "bridge.db"


@pytest.fixture
def url(database: Path) -> str:
    return f"sqlite:///{database}"


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def raw(store: Store) -> Iterator[Any]:
    """A connection without Bridge's own settings, as other programs have: to a store with a few rows."""
    with raw_connection(store.url) as connection:
        seed(connection)
        yield connection
