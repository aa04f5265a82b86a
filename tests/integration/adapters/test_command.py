"""The command harness with real programs: what they are given, what they hand in, how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.adapters.base import Evidence, FailureClass, SubmissionSource, TaskRequest
from bridge.adapters.command import MAX_SUMMARY_LINES, CommandHarness
from bridge.adapters.errors import EvidenceMismatch, TaskFolderUnusable
from bridge.adapters.events import AdapterEvent
from bridge.adapters.taskfolder import MAX_INLINE_EVIDENCE_BYTES
from bridge.foundation.canonical import canonical_bytes
from bridge.process.identity import Marker, ProcessIdentity, is_running, marked_processes
from bridge.semantics.results import MAX_RESULT_BYTES, validate_result
from bridge.semantics.schemas import field_errors, validator
from bridge.semantics.validation import validate


class Recorder:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.identity: ProcessIdentity | None = None
        self.events: list[AdapterEvent] = []
        self.has_started = anyio.Event()

    async def started(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self.has_started.set()

    async def event(self, event: AdapterEvent) -> None:
        validate(event.kind, dict(event.payload))
        self.events.append(event)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


Make = Callable[..., TaskRequest]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def task(*command: str, **options: Any) -> TaskRequest:
        worktree = tmp_path / "worktree"
        worktree.mkdir(exist_ok=True)
        settings: dict[str, Any] = {
            "delegation_id": "d1",
            "objective": "do it",
            "worktree": worktree,
            "folder": tmp_path / "task",
            "marker": str(tmp_path),
            "command": command,
            "environment": {"PATH": os.environ["PATH"], "BRIDGE_TOKEN": "secret", "GIT_DIR": "/elsewhere"},
            "timeout_seconds": 20,
            "grace_seconds": 0.3,
        }
        return TaskRequest(**(settings | options))

    return task


def shell(script: str) -> tuple[str, str, str]:
    return ("/bin/sh", "-c", script)


def evidence(reference: str, payload: bytes) -> Evidence:
    return Evidence(reference, payload, sha256(payload).hexdigest())


async def test_result_file_comes_back_byte_for_byte(make: Make) -> None:
    sink = Recorder()
    raw = '{ "status":"completed",\n "summary" : "caf\\u00e9" }\n\n'
    outcome = await CommandHarness().run(make(*shell(f"printf '%s' '{raw}' > \"$BRIDGE_RESULT\"")), sink)
    assert outcome.submission == raw.encode()
    assert (outcome.source, outcome.failure, outcome.exit_status) == (SubmissionSource.RESULT_FILE, None, 0)
    assert sink.kinds == ["turn.started", "turn.completed"]
    assert sink.events[-1].payload["status"] == "completed"
    assert sink.identity is not None


async def test_request_tells_everything_and_keeps_its_published_contract(make: Make, tmp_path: Path) -> None:
    payload = canonical_bytes({"status": "completed", "summary": "x", "data": {"n": 1}})
    task = make(
        *shell('cp "$BRIDGE_TASK" seen.json; pwd -P; env > env.txt'),
        role="verification",
        acceptance_criteria=("tests pass",),
        write_mode="shared",
        owned_paths=("src",),
        base_commit="a" * 40,
        evidence=(evidence("20260102-030405-9f3a-000007", payload),),
        output_schema={"type": "object"},
        additions={"PLAN_SAYS": "so"},
        attempt=2,
        previous_errors=({"path": "/data/n", "message": "must be an integer"},),
    )
    outcome = await CommandHarness().run(task, Recorder())
    assert outcome.failure is None
    request = json.loads((task.worktree / "seen.json").read_bytes())
    assert field_errors(validator("task-request/v1"), request) == []
    assert request["objective"] == "do it"
    assert request["acceptance_criteria"] == ["tests pass"]
    assert (request["write"], request["owned_paths"], request["base_commit"]) == ("shared", ["src"], "a" * 40)
    assert (request["role"], request["attempt"], request["output_schema"]) == ("verification", 2, {"type": "object"})
    assert request["previous_errors"] == [{"path": "/data/n", "message": "must be an integer"}]
    assert request["evidence"][0]["payload"] == json.loads(payload)
    assert outcome.stdout_path.read_text().strip() == str(task.worktree.resolve())
    names = {line.partition("=")[0] for line in (task.worktree / "env.txt").read_text().splitlines()}
    assert {"BRIDGE_TASK", "BRIDGE_RESULT", "BRIDGE_CHILD", "PLAN_SAYS", "PATH"} <= names
    assert not names & {"BRIDGE_TOKEN", "GIT_DIR"}


async def test_evidence_is_there_in_the_exact_stored_bytes(make: Make) -> None:
    # Float digits and escapes as first written: a parse and print would not keep them.
    payload = b'{"data":{"a":1.0,"b":1e0,"c":"\\u00e9"},"status":"completed","summary":"s"}'
    script = (
        'import hashlib, json, os; task = json.load(open(os.environ["BRIDGE_TASK"])); item = task["evidence"][0]; '
        'content = open(item["path"], "rb").read(); print(hashlib.sha256(content).hexdigest() == item["digest"], '
        'content in open(os.environ["BRIDGE_TASK"], "rb").read(), content == bytes.fromhex(os.sys.argv[1]))'
    )
    task = make(sys.executable, "-c", script, payload.hex(), evidence=(evidence("9f3a.7", payload),))
    outcome = await CommandHarness().run(task, Recorder())
    assert outcome.stdout_path.read_text() == "True True True\n"


@pytest.mark.parametrize("extra", [0, 1])
async def test_large_evidence_travels_as_a_file_alone(make: Make, extra: int) -> None:
    payload = b'"' + b"x" * (MAX_INLINE_EVIDENCE_BYTES - 2 + extra) + b'"'
    task = make("true", evidence=(evidence("r1", payload), evidence("r2", b"{}")))
    await CommandHarness().run(task, Recorder())
    first, second = json.loads((task.folder / "task.json").read_bytes())["evidence"]
    assert ("payload" in first) == (extra == 0)
    assert second["payload"] == {}
    assert Path(first["path"]).read_bytes() == payload
    assert Path(first["path"]).stat().st_mode & 0o777 == 0o400


async def test_changed_evidence_starts_nothing(make: Make, tmp_path: Path) -> None:
    task = make("touch", "ran", evidence=(Evidence("r1", b"{}", "0" * 64),))
    sink = Recorder()
    with pytest.raises(EvidenceMismatch):
        await CommandHarness().run(task, sink)
    assert not (task.worktree / "ran").exists()
    assert sink.identity is None


async def test_unusable_task_folder_starts_nothing(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TaskFolderUnusable):
        await CommandHarness().run(make("true", folder=tmp_path / "file" / "task"), Recorder())


async def test_success_without_a_result_is_a_completed_submission(make: Make) -> None:
    outcome = await CommandHarness().run(
        make(*shell("echo working; printf '\\033[32mall done\\033[0m\\007\\n'")), Recorder()
    )
    assert json.loads(outcome.submission) == {"status": "completed", "summary": "working\nall done"}
    assert (outcome.source, outcome.failure) == (SubmissionSource.EXIT_STATUS, None)
    assert validate_result(outcome.submission).valid


async def test_silent_success_has_a_summary(make: Make) -> None:
    outcome = await CommandHarness().run(make("true"), Recorder())
    check = validate_result(outcome.submission)
    assert check.valid
    assert check.value is not None
    assert "printed nothing" in check.value["summary"]


async def test_summary_is_the_end_of_a_long_output(make: Make) -> None:
    outcome = await CommandHarness().run(
        make(*shell("i=0; while [ $i -lt 3000 ]; do echo line$i; i=$((i+1)); done")), Recorder()
    )
    lines = json.loads(outcome.submission)["summary"].splitlines()
    assert lines == [f"line{number}" for number in range(3000 - MAX_SUMMARY_LINES, 3000)]


async def test_failure_status_without_a_result_is_a_failed_submission(make: Make) -> None:
    sink = Recorder()
    outcome = await CommandHarness().run(make(*shell("echo fine; echo broken >&2; exit 3")), sink)
    assert (outcome.failure, outcome.exit_status) == (FailureClass.EXIT_NONZERO, 3)
    submission = json.loads(outcome.submission)
    assert submission["status"] == "failed"
    assert submission["summary"].splitlines() == ["The command ended with exit status 3.", "broken"]
    assert sink.kinds == ["turn.started", "error", "turn.completed"]
    assert sink.events[1].payload["code"] == "exit_nonzero"


async def test_a_claim_of_success_does_not_hide_the_exit_status(make: Make) -> None:
    script = 'echo \'{"status":"completed","summary":"ok"}\' > "$BRIDGE_RESULT"; exit 1'
    outcome = await CommandHarness().run(make(*shell(script)), Recorder())
    assert (outcome.source, outcome.failure) == (SubmissionSource.RESULT_FILE, FailureClass.EXIT_NONZERO)


async def test_foreign_signal_is_a_failure_class_of_its_own(make: Make) -> None:
    outcome = await CommandHarness().run(make(*shell("kill -9 $$")), Recorder())
    assert (outcome.failure, outcome.exit_status, outcome.signal) == (FailureClass.SIGNALLED, None, 9)


async def test_time_limit(make: Make) -> None:
    sink = Recorder()
    outcome = await CommandHarness().run(make(*shell("sleep 20 & sleep 20"), timeout_seconds=0.2), sink)
    assert (outcome.failure, outcome.source) == (FailureClass.TIMED_OUT, SubmissionSource.CONTROLLER)
    assert json.loads(outcome.submission)["status"] == "failed"
    assert marked_processes(Marker(make().marker)) == []
    assert sink.events[-1].payload["status"] == "failed"


async def test_output_limit(make: Make) -> None:
    outcome = await CommandHarness().run(
        make(*shell("while :; do echo more; done"), output_limit_bytes=10_000), Recorder()
    )
    assert outcome.failure is FailureClass.OUTPUT_LIMIT
    assert outcome.stdout_path.stat().st_size == 10_000
    assert outcome.output_bytes > 10_000


async def test_cancel_ends_the_run_with_an_outcome(make: Make) -> None:
    sink, cancel, outcomes = Recorder(), anyio.Event(), []

    async def run() -> None:
        outcomes.append(await CommandHarness().run(make(*shell("sleep 20 & sleep 20")), sink, cancel=cancel))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await sink.has_started.wait()
        cancel.set()
    assert outcomes[0].failure is FailureClass.CANCELLED
    assert json.loads(outcomes[0].submission)["status"] == "cancelled"
    assert sink.events[-1].payload["status"] == "cancelled"
    assert marked_processes(Marker(make().marker)) == []


async def test_an_event_that_is_never_set_changes_nothing(make: Make) -> None:
    outcome = await CommandHarness().run(make("true"), Recorder(), cancel=anyio.Event())
    assert outcome.failure is None


async def test_cancelling_the_caller_leaves_no_process(make: Make) -> None:
    sink = Recorder()
    async with anyio.create_task_group() as group:
        group.start_soon(CommandHarness().run, make(*shell("sleep 20 & sleep 20")), sink)
        await sink.has_started.wait()
        group.cancel_scope.cancel()
    assert sink.identity is not None
    assert not is_running(sink.identity)
    assert marked_processes(Marker(make().marker)) == []


async def test_a_child_that_cannot_be_recorded_does_not_go_on(make: Make) -> None:
    class Forgetful(Recorder):
        async def started(self, identity: ProcessIdentity) -> None:
            await super().started(identity)
            raise OSError("the store is gone")

    sink = Forgetful()
    with pytest.raises(OSError, match="the store is gone"):
        await CommandHarness().run(make(*shell("sleep 20")), sink)
    assert sink.identity is not None
    assert not is_running(sink.identity)


async def test_a_command_that_cannot_start_is_an_outcome(make: Make) -> None:
    sink = Recorder()
    outcome = await CommandHarness().run(make("no-such-program-anywhere"), sink)
    assert (outcome.failure, outcome.error_code) == (FailureClass.SPAWN_FAILED, "program_not_found")
    assert json.loads(outcome.submission)["status"] == "failed"
    assert sink.kinds == ["error"]
    gone = replace(make("true"), worktree=make().worktree / "gone")
    assert (await CommandHarness().run(gone, Recorder())).error_code == "working_directory_missing"


async def test_result_of_an_earlier_run_is_not_taken_again(make: Make) -> None:
    task = make(*shell("true"))
    task.folder.mkdir()
    (task.folder / "result.json").write_text('{"status":"completed","summary":"old"}')
    outcome = await CommandHarness().run(task, Recorder())
    assert outcome.source is SubmissionSource.EXIT_STATUS


@pytest.mark.parametrize(
    "script",
    ['mkdir "$BRIDGE_RESULT"', 'mkfifo "$BRIDGE_RESULT"', 'ln -s /etc/passwd "$BRIDGE_RESULT"'],
    ids=["folder", "pipe", "link"],
)
async def test_only_a_regular_file_is_a_result(make: Make, script: str) -> None:
    outcome = await CommandHarness().run(make(*shell(script)), Recorder())
    assert outcome.failure is FailureClass.RESULT_UNREADABLE
    assert json.loads(outcome.submission)["status"] == "failed"


async def test_an_empty_result_file_is_carried_as_it_is(make: Make) -> None:
    outcome = await CommandHarness().run(make(*shell(': > "$BRIDGE_RESULT"')), Recorder())
    assert (outcome.submission, outcome.source) == (b"", SubmissionSource.RESULT_FILE)


@pytest.mark.parametrize(("size", "carried"), [(0, 0), (1, 1), (5000, 1)])
async def test_result_larger_than_permitted_is_carried_to_one_byte_beyond(make: Make, size: int, carried: int) -> None:
    script = f'head -c {MAX_RESULT_BYTES + size} /dev/zero | tr "\\0" " " > "$BRIDGE_RESULT"'
    outcome = await CommandHarness().run(make(*shell(script)), Recorder())
    assert len(outcome.submission) == MAX_RESULT_BYTES + carried


async def test_what_the_command_left_running_is_ended_and_counted(make: Make) -> None:
    outcome = await CommandHarness().run(make(*shell("sleep 20 & sleep 20 & exit 0")), Recorder())
    assert (outcome.failure, outcome.leftover_processes, outcome.survivors) == (None, 2, ())
    assert marked_processes(Marker(make().marker)) == []


def test_a_status_that_the_system_throws_away_is_no_success(tmp_path: Path) -> None:
    # A supervisor may start the controller with SIGCHLD ignored; subprocess then reports status 0 for every child.
    code = f"""
import anyio, signal, sys
from pathlib import Path
from bridge.adapters.base import TaskRequest
from bridge.adapters.command import CommandHarness
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
class Sink:
    async def started(self, identity): pass
    async def event(self, event): pass
here = Path({str(tmp_path)!r})
task = TaskRequest(delegation_id="d", objective="o", worktree=here, folder=here / "task", marker=str(here),
                   command=("/bin/sh", "-c", "sleep 0.3; exit 3"), environment={{"PATH": "/bin:/usr/bin"}})
outcome = anyio.run(CommandHarness().run, task, Sink())
print(outcome.failure, outcome.exit_status, outcome.signal)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True, text=True)
    assert done.stdout == "exit_unknown None None\n"
    assert done.stderr == ""
