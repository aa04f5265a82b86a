"""Waking among many sessions, a note as a whole process, and many agents that leave notes at once.

``python tests/benchmarks/lineage.py [wake|note|crowd ...]``; what is compared runs in turns, in one run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bridge.control.controller import Controller  # noqa: E402 - found by the line above
from bridge.control.lineage.notes import MAX_LIMIT, read_notes, write_note  # noqa: E402
from bridge.control.lineage.waking import wake  # noqa: E402
from bridge.control.standpoint import Standpoint  # noqa: E402
from bridge.conversations.models import NewSession  # noqa: E402
from bridge.foundation.clock import SystemClock  # noqa: E402
from bridge.foundation.config import load_settings  # noqa: E402
from tests.serving import MAIN, resident  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "15"))
AGENTS, NOTES = 8, 500


def _milliseconds(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return (time.perf_counter() - begun) * 1000


def _ratios(name: str, found: list[float], bare: list[float], unit: str = "ms") -> None:
    middle, beside = statistics.median(found), statistics.median(bare)
    ratio = statistics.median(one / other for one, other in zip(found, bare, strict=True))
    print(f"{name:40} {middle:8.1f} {unit}  beside {beside:8.1f}  {middle / beside:5.2f} ×  (of ratios {ratio:.2f})")


def _controller(home: Path, folder: Path) -> tuple[Controller, Standpoint]:
    environment = {**os.environ, "BRIDGE_HOME": str(home)}
    controller = Controller(load_settings(environment), clock=SystemClock(), environment=environment)
    return controller, Standpoint(directory=folder)


def waking(folder: Path) -> None:
    """A whole wake, stamp and divergence included, in stores with 10 and with 10,000 sessions of the workspace."""
    places = {}
    for count in (10, 10_000):
        controller, here = _controller(folder / str(count), folder / "repository")
        first = wake(controller, here).session
        made = [NewSession(workspace_id=first.workspace_id) for _ in range(count - 1)]
        for start in range(0, len(made), 1_000):
            batch = made[start : start + 1_000]
            controller.recorder.transact(
                lambda recording, batch=batch: [recording.create_session(one) for one in batch]
            )  # type: ignore[misc]
        write_note(controller, here, wake(controller, here).session.id, "go on")
        places[count] = (controller, here)
    times: dict[int, list[float]] = {count: [] for count in places}
    for _ in range(ROUNDS):
        for count, (controller, here) in places.items():
            times[count].append(_milliseconds(lambda: wake(controller, here)))  # noqa: B023 - run at once
    _ratios("wake, 10,000 sessions beside 10", times[10_000], times[10])
    for controller, _ in places.values():
        controller.close()


def noting(folder: Path, environment: Mapping[str, str]) -> None:
    """``bridge note`` as a whole process, answered by the controller that runs, beside a bare Python."""
    repository, own = folder / "repository", dict(environment)

    def bridge(*words: str) -> None:
        subprocess.run([sys.executable, "-c", MAIN, *words], env=own, cwd=repository, check=True, capture_output=True)

    with resident(environment):
        bridge("wake")
        bridge("note", "warm")
        times: dict[str, list[float]] = {"bare": [], "note": []}
        for _ in range(ROUNDS):
            bare = [sys.executable, "-c", "pass"]
            times["bare"].append(_milliseconds(lambda: subprocess.run(bare, env=own, check=True)))  # noqa: B023
            times["note"].append(_milliseconds(lambda: bridge("note", "remember")))
    _ratios("bridge note beside a bare Python", times["note"], times["bare"])


def crowd(folder: Path) -> None:
    """Agents that leave notes at once, each stamped with the state of the files, each in its own session."""
    controller, here = _controller(folder / "crowd", folder / "repository")
    sessions = [wake(controller, here).session.id for _ in range(AGENTS)]

    def leave(session_id: str) -> None:
        for number in range(NOTES):
            write_note(controller, here, session_id, str(number))

    threads = [threading.Thread(target=leave, args=(session_id,)) for session_id in sessions]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    lost = sum(
        [note.text for note in read_notes(controller, here, session_id, limit=MAX_LIMIT).notes]
        != [str(number) for number in range(NOTES - MAX_LIMIT, NOTES)]
        for session_id in sessions
    )
    with controller.store.read() as connection:
        query = "SELECT count(*) FROM session_entries WHERE kind = 'note'"
        count = connection.exec_driver_sql(query).scalar_one() - AGENTS
    print(f"{AGENTS} agents × {NOTES} notes: {count} kept, {lost} sessions out of order, {count / took:.0f} a second")
    controller.close()


def main() -> None:
    wanted = sys.argv[1:] or ["wake", "note", "crowd"]
    with tempfile.TemporaryDirectory(prefix="bridge-lineage-") as place:
        folder = Path(place)
        home = folder / "home"
        home.mkdir()
        environment = {**os.environ, "BRIDGE_HOME": str(home), "PYTHONPATH": str(ROOT), "BRIDGE_CONTROLLER": "required"}
        repository = folder / "repository"
        who = ["-c", "user.name=n", "-c", "user.email=e@example.invalid"]
        subprocess.run(["git", "init", "-q", str(repository)], check=True)
        (repository / "a.txt").write_text("a\n")
        subprocess.run(["git", "-C", str(repository), "add", "."], check=True)
        subprocess.run(["git", "-C", str(repository), *who, "commit", "-qm", "first"], check=True)
        if "wake" in wanted:
            waking(folder)
        if "note" in wanted:
            noting(folder, environment)
        if "crowd" in wanted:
            crowd(folder)


if __name__ == "__main__":
    main()
