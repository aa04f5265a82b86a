"""Real agents, installed once and run where only the loopback interface exists (see ``make e2e``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agents import Installed, install, wanted
from tests.e2e.modelserver import ModelServer
from tests.e2e.namespace import INSIDE
from tests.e2e.stage import Stage


@pytest.fixture(scope="session", autouse=True)
def inside() -> None:
    """Refuse to run real agents where they might reach the world."""
    if INSIDE not in os.environ:
        pytest.fail("run these with make e2e: agents must not reach a network")


@pytest.fixture(scope="session")
def installed() -> dict[str, Installed]:
    """The agents asked for; installing needs the network, and has happened before."""
    return install(wanted())


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as found:
        yield found


@pytest.fixture
def stage(tmp_path: Path, server: ModelServer) -> Stage:
    return Stage(tmp_path, server)
