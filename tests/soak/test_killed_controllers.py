"""Controllers are killed 100 times amid the calls of eight clients; what was acknowledged is there and sound."""

from __future__ import annotations

import os

import pytest

from tests.crashing_clients import batter
from tests.serving import ROOT


@pytest.mark.timeout(3600)
def test_killed_controllers_lose_nothing_that_was_acknowledged(bridge_home, repository):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert batter(environment, repository.path, rounds=100, clients=8, calls=1000, seed=1) > 1000
