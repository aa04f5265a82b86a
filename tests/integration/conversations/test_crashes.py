"""Processes that append are killed at random: no gap, no duplicate, nothing acknowledged is lost, all verifies.

The numbers here are small; ``make soak`` has 8 processes with 1,000 appends each, and 200 kills.
"""

from __future__ import annotations

import pytest

from tests.integration.conversations.crashing import batter_and_check


@pytest.mark.timeout(300)
def test_killed_writers_lose_nothing_that_was_acknowledged(database_url, tmp_path):
    batter_and_check(database_url, tmp_path, processes=4, appends=30, kills=8)
