"""What the tests with real databases share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.control.controller import Controller
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from tests.databases import copied_stores


@pytest.fixture(autouse=True)
def stores_are_copied(fresh_store: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the stores of this process by copying; where that is the matter itself, a conftest has another fixture."""
    copied_stores(fresh_store, monkeypatch)


@pytest.fixture
def controller(bridge_home: Path, database_url: str) -> Iterator[Controller]:
    """A controller over a store of either kind."""
    settings = load_settings({"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": database_url})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened
