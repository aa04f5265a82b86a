"""Workers that are the scripted agent, and a delegator to run them in."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import anyio
import pytest

from bridge.control.controller import Controller
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.delegating import Wanted, delegator_of, end_delegations
from bridge.control.delegations.model import Request
from bridge.control.standpoint import Standpoint
from bridge.foundation.clock import SystemClock
from tests.conftest import settings_here
from tests.integration.control import conftest as control

world, another_controller = control.world, control.another_controller

#: No step of a test takes this long; a bound, not an expectation.
BOUND_SECONDS = 100
ROOT = Path(__file__).parents[4]


@pytest.fixture
def controller(bridge_home, monkeypatch):
    # The scripted agent is a module of this checkout, wherever the suite was started.
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with Controller(settings_here(), clock=SystemClock(), environment=os.environ) as opened:
        yield opened


class Steered:
    """One session, and workers in it."""

    def __init__(self, world, delegator):
        self.world = world
        self.delegator = delegator
        self.session = world.session()
        self.standpoint = Standpoint(directory=world.repo.path)

    async def ask(self, name, objective="do it", **more):
        """Ask for a worker; with ``command`` it is that, else the scripted agent with the objective's directives."""
        harness = "command" if more.get("command") else "scripted"
        request = Request(name=name, objective=objective, **{"harness": harness, "timeout_seconds": 60.0, **more})
        wanted = Wanted(request=request, session=self.session, dirty=DirtyMode.REFUSE)
        return await self.delegator.request(self.standpoint, wanted)

    async def ended(self, delegation):
        with anyio.fail_after(BOUND_SECONDS):
            return await self.delegator.wait(delegation.id)

    async def until(self, condition):
        """Wait until something holds, and return what it gave."""
        with anyio.fail_after(BOUND_SECONDS):
            while True:
                found = await asyncio.to_thread(condition)
                if found:
                    return found
                await asyncio.sleep(0.02)

    def entries(self, name):
        """Return kind and payload of each entry of a worker's session."""
        session_id = self.world.task(name).worker_session_id
        return [(entry.kind, entry.payload) for entry in self.world.path(session_id)]

    def configure(self, text):
        """Have the project say something of its workers."""
        self.world.repo.commit("policy", **{"bridge.toml": text})


def result(summary="done", **more):
    """Return the directive with which a scripted worker hands in a result."""
    return "!result " + json.dumps({"status": "completed", "summary": summary, **more})


@pytest.fixture
async def steered(world):
    yield Steered(world, delegator_of(world.controller))
    await end_delegations(world.controller)
