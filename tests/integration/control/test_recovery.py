"""After a controller was killed: its workers are ended, its tasks closed, and what was left is told, exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy.engine import URL

from bridge.control.controller import Controller
from bridge.control.delegations import recovery
from bridge.control.delegations import store as rows
from bridge.control.delegations.recovery import recover
from bridge.control.delegations.tasks import request_cancel
from bridge.integrity.chain import verify_chain
from bridge.process.confinement import available
from bridge.process.environment import child_environment
from bridge.process.identity import Marker, marked_processes
from tests.databases import raw_connection

pytestmark = pytest.mark.usefixtures("database_url")

ROOT = Path(__file__).parents[3]
#: Runs a plan as another process would; ``stop_at`` names a step before which it waits to be killed.
RUNNER = """
import os, sys, time
from functools import partial
from pathlib import Path
import anyio
from bridge.control.delegations import carrying, requesting, working
from bridge.control.controller import Controller
from bridge.control.plans.file import load_plan
from bridge.control.plans.scheduling import request_of, run_plan
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.repository import discover
from bridge.workspaces import checkouts
from bridge.workspaces.registration import register

plan_path, repository, stop_at, mark = sys.argv[1:]

def hang(*_args, **_kwargs):
    Path(mark).touch()
    time.sleep(600)

async def hang_async(*_args, **_kwargs):
    Path(mark).touch()
    await anyio.sleep(600)

match stop_at:
    case "before_worktree":
        checkouts.create = hang
    case "after_worktree":
        checkouts.activate = hang
    case "before_session":
        carrying.NewSession = hang
    case "before_pid":
        working._Sink.started = hang_async
    case "before_result":
        carrying._end = hang
    case "before_taking_back":
        from bridge.control.delegations import preparing
        preparing.take_back = hang
    case "before_plan_end":
        from bridge.control.plans import scheduling
        scheduling._finish = hang

controller = Controller(load_settings(os.environ), clock=SystemClock(), environment=os.environ)
location = discover(Path(repository))
workspace = controller.recorder.transact(lambda r: register(r.tx, location, moment=r.moment)).workspace
plan = load_plan(Path(plan_path).read_text(), path=Path(plan_path), repository_root=Path(repository))
anyio.run(partial(run_plan, controller, workspace, request_of(plan)))
"""


@pytest.fixture
def killed_run(world: Any, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return a function that runs a plan in another process, kills that once a file is there, and returns then."""
    started: list[subprocess.Popen[bytes]] = []
    url = world.controller.store.url
    world.controller.close()

    def run(text: str, *, stop_at: str = "-", when: Path | None = None) -> None:
        mark = tmp_path / "mark"
        (tmp_path / "plan.toml").write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, tmp_path / "plan.toml", world.repo.path, stop_at, mark],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
        )
        started.append(process)
        awaited = when or mark

        def is_there() -> bool:
            assert process.poll() is None, "the run ended before it could be killed"
            return awaited.exists() and (when is None or is_pid_noted(url))

        world.eventually(is_there, 60)
        process.send_signal(signal.SIGKILL)
        process.wait()

    yield run
    for process in started:
        process.kill()
        process.wait()


def is_pid_noted(url: URL) -> bool:
    with raw_connection(url) as database:
        return bool(database.execute("SELECT count(*) FROM attempts WHERE pid IS NOT NULL").fetchone()[0])


@pytest.fixture
def recoverer(world: Any, another_controller: Any) -> Callable[[], Controller]:
    def open_another() -> Controller:
        world.controller = another_controller()
        return world.controller  # type: ignore[no-any-return]

    return open_another


def long_worker(world: Any, tmp_path: Path) -> str:
    ready = tmp_path / "ready"
    return world.shell("a", f"echo part > part.txt; sleep 300 & touch {ready}; sleep 300")  # type: ignore[no-any-return]


def running(task: Any) -> list[Any]:
    return marked_processes(Marker(f"{task.id}-1"))


def require_closed(world: Any) -> None:
    """Nothing is open, no cursor is held, and every chain agrees with what it records."""
    assert world.open_tasks() == []
    assert world.count("branch_cursors") == 0
    with world.controller.store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM plans WHERE finished_at IS NULL").scalar_one() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM attempts WHERE finished_at IS NULL").scalar_one() == 0
        for (chain_id,) in connection.exec_driver_sql("SELECT DISTINCT chain_id FROM audit_events").all():
            assert verify_chain(connection, chain_id).is_valid


def test_a_killed_controllers_worker_is_ended_and_its_task_closed(
    world: Any, tmp_path: Path, killed_run: Any, recoverer: Any
) -> None:
    killed_run(long_worker(world, tmp_path) + world.shell("b", "true", needs=["a"]), when=tmp_path / "ready")
    controller = recoverer()
    task = world.task("a")
    assert task.status == "running"
    world.eventually(lambda: len(running(task)) == 3)
    closed = recover(controller)
    assert sorted((one.name, str(one.status)) for one in closed) == [("a", "failed"), ("b", "cancelled")]
    assert running(task) == []
    result, details = world.result("a"), world.details("a")
    assert (result["status"], result["failure_class"], result["source"]) == ("failed", "controller_lost", "controller")
    assert result["files_changed"] == ["part.txt"]
    for told in ("3 of its processes were ended", details["worktree"], details["result_ref"], "possibly in part"):
        assert told in result["summary"]
    assert world.repo.git("show", f"{details['result_ref']}:part.txt") == "part\n"
    assert details["adoption_status"] == "pending"
    assert details["attempts"][0]["failure_class"] == "controller_lost"
    with controller.store.read() as connection:
        assert connection.exec_driver_sql("SELECT status FROM plans").scalar_one() == "interrupted"
    require_closed(world)
    assert recover(controller) == []


@pytest.mark.one_database("what is brought over are files of git")
@pytest.mark.skipif(available() is not None, reason="this kernel has no Landlock")
@pytest.mark.parametrize("stop_at", ["-", "before_result", "before_taking_back"])
def test_what_a_confined_workers_git_wrote_is_brought_over_after_its_controller_was_killed(
    confined: None, world: Any, tmp_path: Path, killed_run: Any, recoverer: Any, stop_at: str
) -> None:
    signs = tmp_path / "signs"
    signs.mkdir()
    world.repo.commit("signs", bridge_toml=f'[worker]\nwritable = ["{signs}"]\n')
    line = "echo part > part.txt && git add part.txt && git commit -qm part"
    if stop_at == "-":
        killed_run(world.shell("a", f"{line}; touch {signs}/ready; sleep 300"), when=signs / "ready")
    else:
        killed_run(world.shell("a", line), stop_at=stop_at)
    lent = list((world.controller.settings.home / "lent").iterdir())
    assert len(lent) == (0 if stop_at == "before_result" else 1)
    world.repo.git("fsck", "--strict", "--no-dangling")
    recover(recoverer())
    result = world.result("a")
    assert (result["failure_class"], result["files_changed"]) == ("controller_lost", ["part.txt"])
    assert list((world.controller.settings.home / "lent").iterdir()) == []
    assert not (world.repo.path / ".git/objects/info/alternates").exists()
    assert world.repo.git("log", "-1", "--format=%s", result["result_commit"]).strip() == "part"
    world.repo.git("fsck", "--strict")
    require_closed(world)


def test_two_recoveries_at_once_close_each_task_once(
    world: Any, tmp_path: Path, killed_run: Any, recoverer: Any, another_controller: Any
) -> None:
    killed_run(long_worker(world, tmp_path), when=tmp_path / "ready")
    controllers = [recoverer(), another_controller()]
    closed: list[Any] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for controller in controllers:
                group.start_soon(anyio.to_thread.run_sync, lambda one=controller: closed.extend(recover(one)))

    anyio.run(main)
    assert [task.name for task in closed] == ["a"]
    results = [kind for kind in world.kinds(closed[0].parent_session_id) if kind == "worker.result"]
    assert len(results) == 1
    assert world.result("a")["files_changed"] == ["part.txt"]
    # Whoever closed it did so before the other could finish the plan.
    recover(controllers[0])
    require_closed(world)


@pytest.mark.parametrize(
    ("stop_at", "is_worktree_left"),
    [("before_worktree", False), ("after_worktree", True), ("before_session", True)],
)
def test_a_controller_killed_while_preparing_leaves_no_forgotten_worktree(
    world: Any, killed_run: Any, recoverer: Any, stop_at: str, is_worktree_left: bool
) -> None:
    killed_run(world.shell("a", "touch started"), stop_at=stop_at)
    controller = recoverer()
    assert (world.repo.git("worktree", "list").count("\n") == 2) is is_worktree_left
    assert world.task("a").workspace_id is not None
    recover(controller)
    result, details = world.result("a"), world.details("a")
    assert (result["status"], result["failure_class"]) == ("failed", "controller_lost")
    assert "had not been started" in result["summary"]
    assert (details["worktree_status"], details["adoption_status"], details["attempts"]) == ("removed", "empty", [])
    assert world.repo.git("worktree", "list").count("\n") == 1
    assert not Path(details["worktree"]).exists()
    require_closed(world)
    assert world.run(world.shell("a", "true"), controller=controller).is_completed


def test_a_worker_whose_pid_was_never_noted_is_found_by_its_marker(
    world: Any, tmp_path: Path, killed_run: Any, recoverer: Any
) -> None:
    killed_run(long_worker(world, tmp_path), stop_at="before_pid")
    controller = recoverer()
    world.eventually((tmp_path / "ready").exists)
    task = world.task("a")
    assert (task.status, world.details("a")["attempts"][0]["pid"]) == ("preparing", None)
    world.eventually(lambda: running(task))
    recover(controller)
    assert running(task) == []
    assert world.result("a")["files_changed"] == ["part.txt"]
    require_closed(world)


def test_a_controller_killed_before_the_result_leaves_a_failed_task_with_all_its_work(
    world: Any, killed_run: Any, recoverer: Any
) -> None:
    killed_run(world.shell("a", "echo whole > whole.txt"), stop_at="before_result")
    controller = recoverer()
    assert world.task("a").status == "settling"
    recover(controller)
    result = world.result("a")
    assert (result["status"], result["failure_class"]) == ("failed", "controller_lost")
    assert result["files_changed"] == ["whole.txt"]
    require_closed(world)


def test_cancelling_a_task_of_a_killed_controller_closes_it(
    world: Any, tmp_path: Path, killed_run: Any, recoverer: Any
) -> None:
    killed_run(long_worker(world, tmp_path), when=tmp_path / "ready")
    task = request_cancel(recoverer(), world.task("a"))
    assert (task.status, world.result("a")["failure_class"]) == ("failed", "controller_lost")
    assert running(task) == []
    require_closed(world)


def test_a_plan_whose_end_was_never_recorded_is_finished(world: Any, killed_run: Any, recoverer: Any) -> None:
    killed_run(world.shell("a", "true"), stop_at="before_plan_end")
    controller = recoverer()
    assert world.task("a").status == "completed"
    assert recover(controller) == []
    with controller.store.read() as connection:
        assert connection.exec_driver_sql("SELECT status FROM plans").scalar_one() == "completed"
    require_closed(world)


def test_a_shared_writers_work_stays_in_the_checkout(
    world: Any, tmp_path: Path, killed_run: Any, recoverer: Any
) -> None:
    ready = tmp_path / "ready"
    killed_run(world.shell("a", f"echo part > part.txt; touch {ready}; sleep 300", write="shared"), when=ready)
    recover(recoverer())
    assert world.result("a")["files_changed"] == ["part.txt"]
    assert (world.repo.path / "part.txt").read_text() == "part\n"
    assert world.task("a").adoption_status == "empty"
    require_closed(world)


def test_what_a_living_controller_runs_is_left_alone(world: Any, tmp_path: Path, another_controller: Any) -> None:
    found: list[Any] = []

    class Recovering(list[Any]):
        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_running":
                found.append(recover(another_controller()))

    assert world.run(world.shell("a", "true"), reports=Recovering()).is_completed
    assert found == [[]]


def test_a_stranger_under_a_recorded_pid_is_not_touched(
    world: Any, tmp_path: Path, killed_run: Any, recoverer: Any
) -> None:
    """The number of the dead worker belongs to another process by now: here, to one of the test's."""
    killed_run(long_worker(world, tmp_path), when=tmp_path / "ready")
    controller = recoverer()
    task = world.task("a")
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True, env=child_environment(os.environ, {}))
    try:
        controller.store.write(
            lambda tx: rows.update_attempt(tx.connection, task.id, 1, pid=stranger.pid, process_start_time=0.5)
        )
        recover(controller)
        assert stranger.poll() is None
        # Found by their marker all the same.
        assert running(task) == []
    finally:
        stranger.kill()
        stranger.wait()


def test_a_task_that_cannot_be_closed_does_not_keep_others_open(
    world: Any,
    tmp_path: Path,
    killed_run: Any,
    recoverer: Any,
    monkeypatch: pytest.MonkeyPatch,
    another_controller: Any,
) -> None:
    text = long_worker(world, tmp_path) + world.shell("b", "true", needs=["a"])
    killed_run(text, when=tmp_path / "ready")
    controller = recoverer()
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "inspect", _refuse)
        assert [task.name for task in recover(controller)] == ["b"]
    assert [task.name for task in world.open_tasks()] == ["a"]
    controller.close()
    world.controller = another_controller()
    assert [task.name for task in recover(world.controller)] == ["a"]
    require_closed(world)


def _refuse(*_args: Any, **_kwargs: Any) -> Any:
    raise PermissionError("no")


def test_every_step_of_a_task_has_its_event(world: Any) -> None:
    world.run(world.shell("a", "echo 1 >> a.txt"))
    task = world.task("a")
    told = [
        kind.removeprefix("delegation.")
        for kind, body in world.events(task.parent_session_id)
        if body.get("delegation_id") == task.id
    ]
    assert told == [
        "decided",
        "worktree_reserved",
        "assigned",
        "attempt_started",
        "running",
        "attempt_ended",
        "settling",
        "ended",
        "worktree_kept",
    ]
    assert [kind for kind, _ in world.events(f"workspace:{task.workspace_id}")] == [
        "worktree.reserved",
        "worktree.created",
        "worktree.kept",
    ]
    statuses = [body["status"] for kind, body in world.events(task.parent_session_id) if "status" in body]
    assert statuses == ["preparing", "running", "settling", "completed", "completed"]
