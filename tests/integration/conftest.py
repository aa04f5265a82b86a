"""What the tests with real databases share."""

from __future__ import annotations

import pytest

from tests.databases import copied_stores


@pytest.fixture(autouse=True)
def stores_are_copied(fresh_store: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the stores of this process by copying; where that is the matter itself, a conftest has another fixture."""
    copied_stores(fresh_store, monkeypatch)
