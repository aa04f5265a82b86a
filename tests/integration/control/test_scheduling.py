"""Which workers run when: side by side, within the limits, after what they need; and how a run is stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.agents.policy import select_runnable
from bridge.agents.policy_input import replay
from bridge.agents.policy_model import PolicyFacts
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.orchestrating import Start, begin
from bridge.control.delegations.requesting import ask, policy_request
from bridge.control.delegations.tasks import request_cancel
from bridge.control.errors import TaskAlreadyEnded
from bridge.control.plans.scheduling import run_plan
from bridge.process.identity import Marker, marked_processes


def meeting(folder: Path, own: str, other: str) -> str:
    """Return a line of shell that ends well only if two workers run at the same time."""
    return f"touch {folder}/{own}; for i in $(seq 1200); do [ -e {folder}/{other} ] && exit 0; sleep 0.05; done; exit 1"


def statuses(outcome: Any) -> list[str]:
    return [str(task.status) for task in outcome.delegations]


def intervals(log: Path) -> list[tuple[str, str]]:
    return [tuple(line.split()) for line in log.read_text().splitlines()]  # type: ignore[misc]


def test_two_workers_run_at_the_same_time(world: Any, tmp_path: Path) -> None:
    outcome = world.run(world.shell("a", meeting(tmp_path, "a", "b")) + world.shell("b", meeting(tmp_path, "b", "a")))
    assert statuses(outcome) == ["completed", "completed"]


@pytest.mark.parametrize("case", ["max_parallel", "owned_paths", "shared"])
def test_what_may_not_run_at_once_runs_one_after_the_other(world: Any, tmp_path: Path, case: str) -> None:
    log = tmp_path / "log"
    line = f"echo $0 begin >> {log}; sleep 0.2; echo $0 end >> {log}"
    keys: dict[str, Any] = {}
    if case == "owned_paths":
        keys = {"owned_paths": ["src"]}
    elif case == "shared":
        keys = {"write": "shared"}
    text = "max_parallel = 1\n" if case == "max_parallel" else ""
    for name in ("a", "b", "c"):
        text += world.table(name, command=["/bin/sh", "-c", line, name], **keys)
    assert statuses(world.run(text)) == ["completed"] * 3
    events = intervals(log)
    assert [event for _, event in events] == ["begin", "end"] * 3
    assert all(events[number][0] == events[number + 1][0] for number in (0, 2, 4))


def test_what_is_blocked_does_not_hold_up_what_comes_after_it(world: Any, tmp_path: Path) -> None:
    """The second owns what the first owns and waits for it; the third does not, and the first waits for the third."""
    text = world.shell("a", meeting(tmp_path, "a", "c"), owned_paths=["src"])
    text += world.shell("b", "true", owned_paths=["src/x"])
    text += world.shell("c", meeting(tmp_path, "c", "a"), owned_paths=["docs"])
    assert statuses(world.run(text)) == ["completed"] * 3


def test_what_needs_a_failed_worker_is_rejected_with_the_reason(world: Any) -> None:
    text = world.shell("a", "exit 1") + world.shell("b", "true", needs=["a"]) + world.shell("c", "true", needs=["b"])
    outcome = world.run(text + world.shell("d", "true"))
    assert statuses(outcome) == ["failed", "rejected", "rejected", "completed"]
    assert outcome.plan.status == "incomplete"
    for name in ("b", "c"):
        details = world.details(name)
        assert details["decision"]["reason"] == "need_failed"
        assert details["attempts"] == []
        rejected = [
            entry
            for entry in world.path(outcome.plan.session_id)
            if entry.kind == "delegation.rejected" and entry.payload["delegation_id"] == details["id"]
        ]
        assert len(rejected) == 1
        assert "did not succeed" in rejected[0].payload["reason"]


def test_a_decision_can_be_replayed_from_its_entry(world: Any) -> None:
    outcome = world.run(world.shell("a", "true", owned_paths=["src"]))
    [approved] = [entry for entry in world.path(outcome.plan.session_id) if entry.kind == "delegation.approved"]
    decision = approved.payload["decision"]
    again = replay(json.dumps(decision["input"]))
    assert again.to_json() == {key: decision[key] for key in ("outcome", "reason", "explanation")}


def test_a_cancelled_worker_gets_a_moment_to_stop(world: Any, another_controller: Any) -> None:
    body = """
def stop(*_):
    pathlib.Path("stopped.txt").write_text("in order")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
pathlib.Path("ready").touch()
time.sleep(60)
"""
    cancel_when_ready(world, another_controller(), world.worker("a", body))
    result = world.result("a")
    assert (result["status"], result["failure_class"]) == ("cancelled", "cancelled")
    assert result["files_changed"] == ["ready", "stopped.txt"]
    with pytest.raises(TaskAlreadyEnded):
        request_cancel(world.controller, world.task("a"))


def test_a_cancelled_worker_that_will_not_stop_is_killed(
    world: Any, another_controller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bridge.adapters.base import TaskRequest

    original = TaskRequest.__init__

    def impatient(self: Any, **values: Any) -> None:
        original(self, **{"grace_seconds": 0.3, **values})

    monkeypatch.setattr(TaskRequest, "__init__", impatient)
    body = "signal.signal(signal.SIGTERM, signal.SIG_IGN); pathlib.Path('ready').touch(); time.sleep(60)"
    cancel_when_ready(world, another_controller(), world.worker("a", body))
    assert (world.result("a")["status"], world.result("a")["exit_status"]) == ("cancelled", -9)
    assert marked_processes(Marker(f"{world.task('a').id}-1")) == []


def cancel_when_ready(world: Any, canceller: Any, text: str) -> None:
    """Run a plan of one worker, and cancel it through another connection once it has made the file ``ready``."""

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run_plan, world.controller, world.workspace, world.plan(text))
            await anyio.to_thread.run_sync(world.eventually, is_ready)
            await anyio.to_thread.run_sync(request_cancel, canceller, world.task("a"))

    def is_ready() -> bool:
        tasks = world.open_tasks()
        return any(
            (Path(path) / "ready").exists()
            for task in tasks
            for path in [world.details(task.id)["worktree"]]
            if path is not None
        )

    anyio.run(main)


def test_a_task_cancelled_before_its_turn_never_starts(world: Any, another_controller: Any) -> None:
    canceller = another_controller()

    class Cancelling(list[Any]):
        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_running" and report.task == "a":
                assert request_cancel(canceller, world.task("b")).status == "cancelled"

    text = "max_parallel = 1\n" + world.shell("a", "true") + world.shell("b", "true")
    outcome = world.run(text + world.shell("c", "true", needs=["b"]), reports=Cancelling())
    assert statuses(outcome) == ["completed", "cancelled", "rejected"]
    details = world.details("b")
    assert (details["attempts"], details["request_entry_id"], details["worker_session_id"]) == ([], None, None)


def test_a_task_cancelled_while_its_worktree_is_made_never_starts(world: Any, another_controller: Any) -> None:
    canceller = another_controller()

    class Cancelling(list[Any]):
        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_preparing":
                request_cancel(canceller, world.task("a"))

    world.run(world.shell("a", "touch started"), reports=Cancelling())
    assert world.result("a")["status"] == "cancelled"
    assert world.details("a")["attempts"] == []
    assert world.details("a")["worktree_status"] == "removed"


def interrupt(world: Any, text: str, when: Callable[[], bool]) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(run_plan, world.controller, world.workspace, world.plan(text))
            await anyio.to_thread.run_sync(world.eventually, when)
            group.cancel_scope.cancel()

    anyio.run(main)


def test_an_interrupted_run_ends_its_workers_and_records_their_results(world: Any, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    text = "max_parallel = 1\n" + world.shell("a", f"echo part > part.txt; touch {ready}; sleep 60")
    text += world.shell("b", "true")
    interrupt(world, text, ready.exists)
    a, b = world.details("a"), world.details("b")
    assert (a["status"], b["status"]) == ("cancelled", "cancelled")
    assert world.result("a")["files_changed"] == ["part.txt"]
    assert (a["adoption_status"], b["request_entry_id"]) == ("pending", None)
    assert [attempt["status"] for attempt in a["attempts"]] == ["ended"]
    assert marked_processes(Marker(f"{a['id']}-1")) == []
    with world.controller.store.read() as connection:
        plan = connection.exec_driver_sql("SELECT status, finished_at IS NOT NULL FROM plans").one()
        assert tuple(plan) == ("interrupted", 1)
        assert connection.exec_driver_sql("SELECT count(*) FROM branch_cursors").scalar_one() == 0


def test_a_run_interrupted_at_any_report_leaves_nothing_open(world: Any) -> None:
    for event in ("plan_started", "task_preparing", "task_running", "task_settling", "task_finished"):

        class Stopping(list[Any]):
            scope: anyio.CancelScope
            event: str

            def append(self, report: Any) -> None:
                super().append(report)
                if report.event == self.event:
                    self.scope.cancel()

        reports = Stopping()
        reports.event = event

        async def main(reports: Any = reports) -> None:
            with anyio.CancelScope() as reports.scope:
                plan = world.plan(world.shell("a", "true") + world.shell("b", "true", needs=["a"]))
                await run_plan(world.controller, world.workspace, plan, progress=reports.append)

        anyio.run(main)
        assert world.open_tasks() == [], event
        assert world.count("branch_cursors") == 0, event
        expected = "completed" if event in {"task_settling", "task_finished"} else "cancelled"
        assert world.task("a").status == expected, event
        assert world.task("b").status == "cancelled", event
    assert world.repo.git("worktree", "list").count("\n") == 1


def test_a_fault_of_bridge_itself_is_recorded_and_raised(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> Any:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("bridge.control.delegations.working.validate_result", fail)
    with pytest.raises(ZeroDivisionError):
        world.run(world.shell("a", "true"))
    assert (world.result("a")["status"], world.result("a")["failure_class"]) == ("failed", "internal_error")
    assert world.open_tasks() == []


def test_an_adapter_that_cannot_begin_fails_one_task_and_not_the_run(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = world.controller.settings.tasks
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("no folder\n")
    outcome = world.run(world.shell("a", "true") + world.shell("b", "true"))
    assert statuses(outcome) == ["failed", "failed"]
    assert world.result("a")["failure_class"] == "task_folder_unusable"


def test_git_variables_of_the_caller_reach_neither_git_nor_workers(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = type(world.repo)(tmp_path / "other")
    other.path.mkdir()
    other.git("init", "-q")
    other.commit("theirs", x_txt="x\n")
    before = other.path.joinpath(".git/index").read_bytes()
    for name, value in {
        "GIT_DIR": other.path / ".git",
        "GIT_WORK_TREE": other.path,
        "GIT_INDEX_FILE": other.path / ".git/index",
        "GIT_OBJECT_DIRECTORY": other.path / ".git/objects",
    }.items():
        monkeypatch.setenv(name, str(value))
        world.controller.environment[name] = str(value)
    monkeypatch.setenv("BRIDGE_TOKEN", "secret")
    world.controller.environment["BRIDGE_TOKEN"] = "secret"
    world.run(world.shell("a", "echo more >> a.txt; git commit -qam own; env | grep -c -e ^GIT_DIR -e BRIDGE_TOKEN"))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.delenv(name)
    assert world.result("a")["files_changed"] == ["a.txt"]
    # grep counted none, and so ended with status 1
    assert (world.result("a")["summary"].splitlines()[-1], world.result("a")["exit_status"]) == ("0", 1)
    assert other.path.joinpath(".git/index").read_bytes() == before
    assert other.git("log", "--format=%s").split() == ["theirs"]


def test_a_secret_reaches_the_worker_and_not_the_store(world: Any) -> None:
    secret = "ghp_" + "A1b2C3d4E5f6" * 3
    line = 'test "$TOKEN" = "$0" && echo same'
    text = world.table("a", command=["/bin/sh", "-c", line, secret], environment={"TOKEN": secret})
    assert world.run(text).is_completed
    assert world.result("a")["summary"] == "same"
    home = world.controller.settings.home
    world.controller.close()
    stored = b"".join(file.read_bytes() for file in home.glob("bridge.db*"))
    assert stored
    assert secret.encode() not in stored


def test_a_worker_does_not_delegate(world: Any) -> None:
    world.run(world.shell("a", "true"))
    outcome = world.run(world.shell("b", "touch started"), session_id=world.task("a").worker_session_id)
    assert statuses(outcome) == ["rejected"]
    assert world.details("b")["decision"]["reason"] == "depth_exceeded"


def test_fc_38_a_task_is_asked_for_once(world: Any) -> None:
    outcome = world.run(world.shell("a", "true"))
    task, head = world.task("a"), world.head(outcome.plan.session_id)
    start = Start(workspace=world.workspace, session_id=outcome.plan.session_id, label=None, dirty=DirtyMode.REFUSE)
    orchestration = begin(world.controller, start)
    [considered] = select_runnable([policy_request(orchestration, task, ())], PolicyFacts(), orchestration.limits)
    assert ask(orchestration, task, considered, ()) == task
    assert world.head(outcome.plan.session_id) == head


def test_nothing_blocks_the_event_loop(world: Any) -> None:
    blockbuster = pytest.importorskip("blockbuster")
    text = world.worker("a", "hand_in()", output_schema={"type": "object"}) + world.shell("b", "true", needs=["a"])
    plan = world.plan(text)

    async def main() -> Any:
        with blockbuster.blockbuster_ctx():
            return await run_plan(world.controller, world.workspace, plan)

    outcome = anyio.run(main)
    assert [str(task.status) for task in outcome.delegations] == ["invalid", "rejected"]
