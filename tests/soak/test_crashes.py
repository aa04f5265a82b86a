"""8 processes append 1,000 entries each and are killed 200 times, on each database."""

from __future__ import annotations

import pytest

from tests.integration.conversations.crashing import batter_and_check


@pytest.mark.timeout(3600)
def test_killed_writers_lose_nothing_that_was_acknowledged(database_url, tmp_path):
    batter_and_check(database_url, tmp_path, processes=8, appends=1000, kills=200)
