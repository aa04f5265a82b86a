"""A recorder on a store of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.control.recording import Recorder
from bridge.foundation.clock import SystemClock
from bridge.storage.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/state/bridge.db") as opened:
        yield opened


@pytest.fixture
def recorder(store: Store) -> Recorder:
    return Recorder(store, SystemClock())
