"""Many scripted workers at once in one controller: for a benchmark, and for ``make soak``."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bridge.control.controller import Controller
from bridge.control.delegations.delegating import Wanted, delegator_of, end_delegations
from bridge.control.delegations.model import Delegation, Request
from bridge.control.delegations.tasks import task_details
from bridge.control.sessions import initialise
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import NewSession


@dataclass(frozen=True)
class Many:
    """What came of them: each with its result's payload, and what they took."""

    ended: list[tuple[Delegation, dict[str, Any]]]
    seconds: float
    peak_bytes: int
    peak_agent_bytes: int


def policy_table(workers: int) -> str:
    """Return what a checkout's bridge.toml says so that so many may run at once."""
    keys = ("max_running", "max_running_in_workspace", "max_workers", "max_worktrees")
    return "[policy]\n" + "".join(f"{key} = {workers}\n" for key in keys)


async def run_many(controller: Controller, checkout: Path, workers: int, *, hold_seconds: float = 1.0) -> Many:
    """Ask for so many delegations at once and return when the last has ended; each writes a file and hands in a number.

    The checkout's policy must let them.
    """
    workspace = initialise(controller, checkout).registration.workspace
    session = controller.recorder.create_session(NewSession(harness="test", workspace_id=workspace.id)).id
    delegator, here = delegator_of(controller), Standpoint(directory=checkout)
    own = psutil.Process()
    at_first = peak = own.memory_info().rss
    agents = 0
    began = time.perf_counter()
    asked = [
        await delegator.request(here, Wanted(request=_request(number, hold_seconds), session=session))
        for number in range(workers)
    ]
    waits = asyncio.gather(*(delegator.wait(one.id) for one in asked))
    while not waits.done():
        peak = max(peak, own.memory_info().rss)
        agents = max(agents, *(_memory(child) for child in own.children()), 0)
        await asyncio.sleep(0.2)
    ended = await waits
    seconds = time.perf_counter() - began
    await end_delegations(controller)
    results = [task_details(controller, one).to_json()["result"] for one in ended]
    return Many(list(zip(ended, results, strict=True)), seconds, peak - at_first, agents)


def _request(number: int, hold_seconds: float) -> Request:
    result = json.dumps({"status": "completed", "summary": f"number {number}", "data": {"number": number}})
    lines = [f"!sleep {hold_seconds}", f"!write own-{number}.txt {number}", f"!result {result}"]
    return Request(name=f"t{number}", objective="\n".join(lines), harness="scripted", timeout_seconds=600.0)


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def environment() -> dict[str, str]:
    """Return what the scripted agent needs to be found from any folder."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
