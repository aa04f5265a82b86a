"""A controller over a real store and a real repository, and plans written as people write them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.control.controller import Controller
from bridge.control.planfile import load_plan
from bridge.control.plans import PlanOutcome, request_of, run_plan
from bridge.control.progress import Progress
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.repository import discover
from bridge.workspaces.models import Workspace
from bridge.workspaces.registration import register


@pytest.fixture
def controller(bridge_home: Path) -> Iterator[Controller]:
    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
def workspace(controller: Controller, repository: Any) -> Workspace:
    location = discover(repository.path)
    return controller.recorder.transact(
        lambda recording: register(recording.tx, location, moment=recording.moment)
    ).workspace


def script(body: str) -> list[str]:
    """Return a command that runs some Python with ``task`` (the request) and ``hand_in`` at hand."""
    head = (
        "import json, os, pathlib, sys, time, hashlib, subprocess\n"
        "task = json.loads(pathlib.Path(os.environ['BRIDGE_TASK']).read_bytes())\n"
        "def hand_in(**result):\n"
        "    pathlib.Path(os.environ['BRIDGE_RESULT']).write_text(json.dumps({'status': 'completed', **result}))\n"
    )
    return [sys.executable, "-c", head + body]


def toml_worker(name: str, body: str, **keys: Any) -> str:
    import json

    lines = ["[[worker]]", f"id = {json.dumps(name)}", f"command = {json.dumps(script(body))}"]
    lines += [f"objective = {json.dumps(keys.pop('objective', 'do ' + name))}"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items() if key != "output_schema"]
    if "output_schema" in keys:
        lines += ["[worker.output_schema]"]
        lines += [f"{key} = {value}" for key, value in keys["output_schema"].items()]
    return "\n".join(lines) + "\n"


RunPlan = Callable[..., PlanOutcome]


@pytest.fixture
def run(controller: Controller, workspace: Workspace, repository: Any, tmp_path: Path) -> RunPlan:
    """Return a function that runs a plan's text to its end; ``reports`` collects the progress."""

    def go(text: str, *, session_id: str | None = None, reports: list[Progress] | None = None) -> PlanOutcome:
        plan = load_plan(text, path=tmp_path / "plan.toml", repository_root=repository.path)
        collected = reports if reports is not None else []

        async def main() -> PlanOutcome:
            return await run_plan(
                controller, workspace, request_of(plan, session_id=session_id), progress=collected.append
            )

        return anyio.run(main)

    return go
