"""A recorder on a store of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge.control.recording import Recorder
from bridge.foundation.clock import SystemClock
from bridge.storage.store import Store


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def recorder(store: Store) -> Recorder:
    return Recorder(store, SystemClock())
