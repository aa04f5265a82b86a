"""What Bridge adds to a delegation, against the same worktree and the same child without it; and many at once.

``python tests/benchmarks/delegation.py [overhead|many ...]``. ``overhead`` runs one delegation after the other in
one controller, and in turns ``git worktree add`` with the same spawn and wait; both confined alike. Counted for Bridge
is the time from the request to the child's start, and from its end to the recorded result; giving up the worktree,
which comes after that, is told beside it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bridge.adapters import command as command_harness  # noqa: E402 - found by the line above
from bridge.agents.policy import PolicyLimits  # noqa: E402
from bridge.control.controller import Controller  # noqa: E402
from bridge.control.delegations import carrying, delegating  # noqa: E402
from bridge.control.delegations.delegating import Wanted, delegator_of, end_delegations  # noqa: E402
from bridge.control.delegations.model import Delegation, DelegationStatus, Request  # noqa: E402
from bridge.control.sessions import initialise  # noqa: E402
from bridge.control.standpoint import Standpoint  # noqa: E402
from bridge.conversations.models import NewSession  # noqa: E402
from bridge.foundation.clock import SystemClock  # noqa: E402
from bridge.foundation.config import load_settings  # noqa: E402
from bridge.process import children  # noqa: E402
from bridge.process.children import spawn  # noqa: E402
from bridge.process.confinement import Confinement, available  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "15"))
WORKERS = int(os.environ.get("WORKERS", "50"))
FILES = [int(number) for number in os.environ.get("FILES", "200 5000").split()]
IS_CONFINED = os.environ.get("BRIDGE_CONFINEMENT", "auto") != "off" and available() is None
CHILD = ("/bin/true",)


def repository(folder: Path, files: int) -> Path:
    path = folder / "repository"
    for number in range(files):
        file = path / f"d{number // 100}" / f"f{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n" * 20)
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=path, check=True)
    return path


async def bare(path: Path, folder: Path) -> float:
    """Return the seconds that a worktree, the spawn of the same child and the wait for it take without Bridge."""
    target = folder / "bare" / secrets.token_hex(6)
    logs = folder / "logs" / target.name
    logs.mkdir(parents=True)
    began = time.perf_counter()
    done = await asyncio.create_subprocess_exec(
        "git", "worktree", "add", "-q", "--detach", str(target), "HEAD", cwd=path
    )
    await done.wait()
    child = await spawn(
        CHILD,
        cwd=target,
        environment=dict(os.environ),
        stdout_path=logs / "out",
        stderr_path=logs / "err",
        confinement=Confinement((target,)) if IS_CONFINED else None,
    )
    await child.wait(60)
    return time.perf_counter() - began


class Marks:
    """When the child of a delegation was started and when its end was noticed, by its worktree."""

    def __init__(self) -> None:
        self.started: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.recorded: dict[str, float] = {}
        conclude = carrying.conclude

        def concluded(controller: Controller, delegation: Delegation, *words: Any) -> Delegation:
            done = conclude(controller, delegation, *words)
            self.recorded[delegation.id] = time.perf_counter()
            return done

        carrying.conclude = concluded
        original = command_harness.spawn

        async def marked(*words: Any, **keys: Any) -> children.Child:
            child = await original(*words, **keys)
            name = Path(keys["cwd"]).name
            self.started[name] = time.perf_counter()
            wait = child.wait

            async def waited(*inner: Any, **more: Any) -> children.ChildExit:
                ended = await wait(*inner, **more)
                self.ended[name] = time.perf_counter()
                return ended

            child.wait = waited  # type: ignore[method-assign]
            return child

        command_harness.spawn = marked  # type: ignore[assignment]


async def overhead(files: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = repository(folder, files)
        settings = load_settings({"BRIDGE_HOME": str(folder / "home")})
        with Controller(settings, clock=SystemClock(), environment=dict(os.environ)) as controller:
            workspace = initialise(controller, path).registration.workspace
            session = controller.recorder.create_session(NewSession(harness="benchmark", workspace_id=workspace.id)).id
            delegator, marks = delegator_of(controller), Marks()
            before, after, release, without = [], [], [], []
            for number in range(ROUNDS + 2):
                request = Request(name=f"t{number}", objective="x", command=CHILD, timeout_seconds=60.0)
                began = time.perf_counter()
                asked = await delegator.request(Standpoint(directory=path), Wanted(request=request, session=session))
                found = await delegator.wait(asked.id)
                done = time.perf_counter()
                if found.status is not DelegationStatus.COMPLETED:
                    raise AssertionError(found)
                bare_seconds = await bare(path, folder)
                if number >= 2:  # the first ones import what is needed
                    before.append(marks.started[asked.id] - began)
                    after.append(marks.recorded[asked.id] - marks.ended[asked.id])
                    release.append(done - marks.recorded[asked.id])
                    without.append(bare_seconds)
            await end_delegations(controller)
    request_to_start, end_to_recorded, releasing, reference = map(statistics.median, (before, after, release, without))
    return {
        "files": files,
        "request_to_start_ms": round(request_to_start * 1e3, 1),
        "end_to_recorded_ms": round(end_to_recorded * 1e3, 1),
        "released_ms": round(releasing * 1e3, 1),
        "worktree_and_spawn_ms": round(reference * 1e3, 1),
        "ratio": round((request_to_start + end_to_recorded) / reference, 2),
    }


async def many() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = repository(folder, 200)
        settings = load_settings({"BRIDGE_HOME": str(folder / "home")})
        # Policy lets a few run at once unless somebody says otherwise.
        original = delegating.PolicyLimits
        delegating.PolicyLimits = lambda: PolicyLimits(max_running=WORKERS, max_workers=WORKERS, max_worktrees=WORKERS)  # type: ignore[assignment,misc]
        try:
            with Controller(settings, clock=SystemClock(), environment=dict(os.environ)) as controller:
                session = controller.recorder.create_session(NewSession(harness="benchmark")).id
                delegator = delegator_of(controller)
                before = psutil.Process().memory_info().rss
                began = time.perf_counter()
                asked = []
                for number in range(WORKERS):
                    words = ("/bin/sh", "-c", f"sleep 2; echo {number} > own-{number}.txt; echo result {number}")
                    request = Request(name=f"t{number}", objective="x", command=words, timeout_seconds=300.0)
                    wanted = Wanted(request=request, session=session)
                    asked.append(await delegator.request(Standpoint(directory=path), wanted))
                peak = before
                waits = asyncio.gather(*(delegator.wait(one.id) for one in asked))
                while not waits.done():
                    peak = max(peak, psutil.Process().memory_info().rss)
                    await asyncio.sleep(0.05)
                ended = await waits
                took = time.perf_counter() - began
                await end_delegations(controller)
        finally:
            delegating.PolicyLimits = original  # type: ignore[misc]
    lost = [one.name for one in ended if one.status is not DelegationStatus.COMPLETED or not one.result_entry_id]
    return {
        "workers": WORKERS,
        "seconds": round(took, 1),
        "per_worker_ms": round((took - 2) / WORKERS * 1e3, 1),
        "lost": lost,
        "memory_per_worker_kib": round((peak - before) / WORKERS / 1024),
    }


def main() -> None:
    wanted = sys.argv[1:] or ["overhead", "many"]
    if "overhead" in wanted:
        for files in FILES:
            print(json.dumps(asyncio.run(overhead(files))))
    if "many" in wanted:
        print(json.dumps(asyncio.run(many())))


if __name__ == "__main__":
    main()
