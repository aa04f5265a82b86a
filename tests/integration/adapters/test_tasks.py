"""Tasks for agents that are talked to, with the scripted agent and with programs that misbehave."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from bridge.adapters.acp.harness import AcpHarness
from bridge.adapters.base import Evidence, FailureClass, Handing, Outcome, SubmissionSource, TaskRequest
from bridge.adapters.conversation import Limits
from bridge.adapters.events import AdapterEvent
from bridge.adapters.tasks.harness import TalkingHarness
from bridge.process.identity import Marker, ProcessIdentity, marked_processes
from bridge.semantics.results import validate_result
from bridge.semantics.validation import validate

ROOT = Path(__file__).resolve().parents[3]
LIMITS = Limits(start_seconds=60, cancel_seconds=0.5, grace_seconds=0.3)
RESULT = {"status": "completed", "summary": "done"}
pytestmark = pytest.mark.anyio


class Recorder:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[AdapterEvent] = []
        self.identity: ProcessIdentity | None = None
        self.has_begun = anyio.Event()

    async def started(self, identity: ProcessIdentity) -> None:
        self.identity = identity

    async def event(self, event: AdapterEvent) -> None:
        validate(event.kind, dict(event.payload))
        self.events.append(event)
        if event.kind == "turn.started":
            self.has_begun.set()

    @property
    def prompts(self) -> list[str]:
        return [event.payload["text"] for event in self.events if event.kind == "user.message"]

    @property
    def faults(self) -> list[str]:
        return [event.payload["code"] for event in self.events if event.kind == "error"]


class Counter:
    """A desk with three tries; the contract is what it checks."""

    def __init__(self, permitted: int = 3, schema: dict[str, Any] | None = None) -> None:
        self.permitted = permitted
        self.schema = schema
        self.taken: list[bytes] = []
        self._latest: Handing | None = None

    async def hand_in(self, raw: bytes) -> Handing:
        self.taken.append(raw)
        check = validate_result(raw, self.schema)
        self._latest = Handing(
            is_accepted=check.valid,
            number=len(self.taken),
            permitted=self.permitted,
            errors=tuple(dict(error) for error in check.fields),
        )
        return self._latest

    async def latest(self) -> Handing | None:
        return self._latest


Make = Callable[..., TaskRequest]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def task(objective: str, **options: Any) -> TaskRequest:
        worktree = tmp_path / "worktree"
        worktree.mkdir(exist_ok=True)
        settings: dict[str, Any] = {
            "delegation_id": "d1",
            "objective": objective,
            "worktree": worktree,
            "folder": tmp_path / "task",
            "marker": str(tmp_path),
            "environment": {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "BRIDGE_TOKEN": "secret"},
            "timeout_seconds": 60,
            "grace_seconds": 0.3,
            "desk": Counter(),
        }
        return TaskRequest(**(settings | options))

    return task


def scripted(*words: str, limits: Limits = LIMITS) -> TalkingHarness:
    command = (sys.executable, "-m", "bridge.adapters.scripted", *words)
    return TalkingHarness(AcpHarness("scripted", command, allowed=frozenset({"fs", "mcp"})), limits)


async def run(
    harness: TalkingHarness, task: TaskRequest, cancel: anyio.Event | None = None
) -> tuple[Outcome, Recorder, Any]:
    sink = Recorder()
    with anyio.fail_after(90):
        outcome = await harness.run(task, sink, cancel=cancel)
    assert marked_processes(Marker(task.marker)) == [], "a process was left"
    return outcome, sink, task.desk


def result(**more: Any) -> str:
    return f"!result {json.dumps({**RESULT, **more})}"


async def test_a_worker_edits_files_and_hands_in_a_block(make, tmp_path):
    outcome, sink, desk = await run(scripted(), make(f"!write a.txt hello\n!usage 3 4\n{result()}"))
    assert outcome.failure is None
    assert outcome.source is SubmissionSource.MESSAGE
    assert [json.loads(raw) for raw in desk.taken] == [RESULT]
    assert (tmp_path / "worktree" / "a.txt").read_text() == "hello\n"
    kinds = [event.kind for event in sink.events]
    assert kinds[:2] == ["user.message", "turn.started"]
    assert "usage.updated" in kinds
    assert kinds[-1] == "turn.completed"
    assert outcome.stdout_path.read_text().strip().endswith("```")


async def test_the_token_reaches_the_server_and_not_the_agent(make):
    task = make(
        "!run env",
        mcp_command=(sys.executable, "-c", "pass"),
        mcp_environment={"BRIDGE_TOKEN": "t0ken"},
        additions={"COLOUR": "blue"},
        desk=Counter(permitted=1),
    )
    _, sink, _ = await run(scripted(), task)
    said = json.dumps([dict(event.payload) for event in sink.events])
    assert "COLOUR=blue" in said
    assert "t0ken" not in said
    assert "secret" not in said
    assert "t0ken" not in repr(task)


async def test_without_a_desk_the_block_is_the_submission(make):
    outcome, _, _ = await run(scripted(), make(result(), desk=None))
    assert (outcome.failure, outcome.source) == (None, SubmissionSource.MESSAGE)
    assert json.loads(outcome.submission) == RESULT
    outcome, _, _ = await run(scripted(), make("!say done", desk=None))
    assert outcome.failure is FailureClass.AGENT_ERROR


async def test_fc_39_every_kind_of_bad_block_is_told_with_its_fields_and_the_last_try_is_named(make, tmp_path):
    bad = ["{}", '{"status": "completed"}', '{"status": 1, "summary": "x"}', '{"summary": "x", "summary": "y"}']
    bad += ['{"status": "completed", "summary": "x", "data": NaN}', "{status: done}"]
    script = tmp_path / "script.json"
    turns = [{"step": [{"say": f"Here:\n```json\n{text}\n```\n"}]} for text in bad]
    script.write_text(json.dumps({"turn": [*turns, {"step": [{"result": RESULT}]}]}))
    outcome, sink, desk = await run(scripted("--script", str(script)), make("do it", desk=Counter(permitted=7)))
    assert outcome.failure is None
    assert [raw.decode() for raw in desk.taken[:-1]] == bad
    assert json.loads(desk.taken[-1]) == RESULT
    repairs = sink.prompts[1:]
    assert len(repairs) == len(bad)
    assert "status" in repairs[0]
    assert "- /status" in repairs[2]
    assert all(f"This is try {number} of 7" in text for number, text in enumerate(repairs, start=2))
    assert [text.endswith("the last.") for text in repairs] == [False] * 5 + [True]


async def test_rubbish_is_tried_again_until_no_try_is_left(make):
    outcome, sink, desk = await run(scripted(), make("!say I would rather talk about the weather."))
    assert outcome.failure is None
    assert len(desk.taken) == len(sink.prompts) == 3
    assert desk.taken[0] == b"I would rather talk about the weather."


async def test_what_the_agent_handed_in_itself_ends_the_attempt(make):
    class Elsewhere(Counter):
        async def latest(self) -> Handing | None:
            return Handing(is_accepted=True, number=1, permitted=3)

    outcome, _, desk = await run(scripted(), make("!say handed in", desk=Elsewhere()))
    assert (outcome.failure, outcome.source) == (None, SubmissionSource.STRUCTURED_OUTPUT)
    assert desk.taken == []


async def test_one_that_handed_in_something_bad_and_stopped_is_told_to_mend_it(make):
    class Refusing(Counter):
        async def latest(self) -> Handing | None:
            own = Handing(is_accepted=False, number=1, permitted=3, errors=({"path": "/x", "message": "is wrong"},))
            return self._latest or own

    _, sink, desk = await run(scripted(), make("!say stopped", desk=Refusing()))
    assert "- /x: is wrong" in sink.prompts[1]
    assert len(desk.taken) == 3


async def test_evidence_is_in_the_prompt_and_in_files(make):
    payload = b'{"summary":"\xc3\xa9 \\" \\\\ "}'
    item = Evidence("20260101-000000-abcd-000001", payload, sha256(payload).hexdigest())
    task = make(result(), evidence=(item,))
    _, sink, _ = await run(scripted(), task)
    assert payload in sink.prompts[0].encode()
    (file,) = (task.folder / "evidence").iterdir()
    assert file.read_bytes() == payload
    assert str(file) in sink.prompts[0]


@pytest.mark.parametrize(
    ("objective", "options", "failure"),
    [
        ("!stall", {"silence_seconds": 0.5}, FailureClass.STALLED),
        ("!stubborn\n!stall", {"silence_seconds": 0.5}, FailureClass.STALLED),
        ("!crash 3", {}, FailureClass.CRASHED),
        ("!crash SIGKILL", {}, FailureClass.CRASHED),
        ("!fail no credit", {}, FailureClass.AGENT_ERROR),
        ("!stop refusal", {}, FailureClass.AGENT_ERROR),
        ("!huge 3000000", {"output_limit_bytes": 2_000_000}, FailureClass.OUTPUT_LIMIT),
        ("!huge 100000000", {}, FailureClass.PROTOCOL_BROKEN),
        ("\n".join(["!rubbish x"] * 20), {}, FailureClass.PROTOCOL_BROKEN),
        ("!leave 60\n!stubborn\n!stall", {"timeout_seconds": 3}, FailureClass.TIMED_OUT),
    ],
)
async def test_each_way_to_fail_is_typed_and_leaves_no_process(make, objective, options, failure):
    outcome, sink, desk = await run(scripted(), make(objective, **options))
    assert outcome.failure is failure, outcome.detail
    assert outcome.detail
    assert desk.taken == []
    assert validate_result(outcome.submission).value["status"] == "failed"
    if objective != "!stop refusal" and failure is not FailureClass.TIMED_OUT:
        assert str(failure) in sink.faults


async def test_a_cancelled_worker_ends_as_cancelled(make):
    cancel = anyio.Event()
    task, sink = make("!sleep 60"), Recorder()
    outcomes: list[Outcome] = []

    async def work() -> None:
        outcomes.append(await scripted().run(task, sink, cancel=cancel))

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await sink.has_begun.wait()
        cancel.set()
    assert outcomes[0].failure is FailureClass.CANCELLED
    assert validate_result(outcomes[0].submission).value["status"] == "cancelled"
    assert marked_processes(Marker(task.marker)) == []


async def test_one_that_is_cancelled_before_it_answers_is_not_waited_for(make, tmp_path):
    cancel = anyio.Event()
    cancel.set()
    outcome, _, _ = await run(odd(tmp_path, "import time\ntime.sleep(60)"), make("x"), cancel=cancel)
    assert outcome.failure is FailureClass.CANCELLED


def odd(tmp_path: Path, source: str) -> TalkingHarness:
    path = tmp_path / "agent.py"
    path.write_text(textwrap.dedent(source))
    limits = Limits(start_seconds=2, cancel_seconds=0.5, grace_seconds=0.3)
    return TalkingHarness(AcpHarness("odd", (sys.executable, str(path))), limits)


@pytest.mark.parametrize(
    ("source", "failure", "code"),
    [
        ("import time; time.sleep(60)", FailureClass.START_FAILED, "harness_start_failed"),
        ("raise SystemExit('no key')", FailureClass.START_FAILED, "harness_start_failed"),
        ("while True: print('x')", FailureClass.PROTOCOL_BROKEN, "harness_protocol_broken"),
    ],
)
async def test_a_program_that_comes_to_no_session_is_a_typed_outcome(make, tmp_path, source, failure, code):
    outcome, sink, _ = await run(odd(tmp_path, source), make("x"))
    assert (outcome.failure, outcome.error_code) == (failure, code)
    assert sink.identity is not None
    assert sink.faults == [str(failure)]


async def test_a_program_that_is_not_there_is_a_spawn_failure(make):
    missing = TalkingHarness(AcpHarness("gone", ("no-such-agent-anywhere",)))
    outcome, sink, _ = await run(missing, make("x"))
    assert (outcome.failure, outcome.error_code) == (FailureClass.SPAWN_FAILED, "program_not_found")
    assert sink.identity is None


async def test_one_whose_process_is_gone_has_crashed_though_its_pipe_is_held_open(make, tmp_path):
    source = """
        import json, subprocess, sys
        def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
        def read(): return json.loads(sys.stdin.readline())
        say(id=read()["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        say(id=read()["id"], result={"sessionId": "s1"})
        read()
        subprocess.Popen(["sleep", "60"])
        sys.exit(9)
    """
    outcome, _, _ = await run(odd(tmp_path, source), make("x"))
    assert outcome.failure is FailureClass.CRASHED
    assert outcome.exit_status == 9


async def test_what_the_sink_raises_ends_the_run_and_is_raised(make):
    class Failing(Recorder):
        async def event(self, event: AdapterEvent) -> None:
            raise RuntimeError("no room")

    task = make("!sleep 60")
    with pytest.raises(RuntimeError, match="no room"):
        await scripted().run(task, Failing())
    assert marked_processes(Marker(task.marker)) == []


async def test_a_worker_that_asks_is_allowed_by_the_policy(make):
    _, sink, _ = await run(scripted(), make(f"!ask rm\n{result()}"))
    (answered,) = [event.payload for event in sink.events if event.kind == "approval.resolved"]
    assert (answered["decision"], answered["decided_by"]) == ("allow_once", "policy")


async def test_a_turn_that_uses_more_than_it_may_is_ended_where_it_is(make, tmp_path):
    task = make(f"!write a.txt hello\n!usage 80 40\n!sleep 60\n{result()}", tokens=79)
    outcome, sink, desk = await run(scripted(), task)
    assert outcome.failure is FailureClass.TOKENS_EXHAUSTED
    assert outcome.detail == "The agent used 80 tokens, and had 79. It was ended."
    assert desk.taken == []
    assert (tmp_path / "worktree" / "a.txt").exists()
    ended = sink.events[-1]
    assert (ended.kind, ended.payload["status"]) == ("turn.completed", "cancelled")


async def test_a_result_handed_in_by_the_turn_that_used_too_much_stands(make):
    outcome, _, desk = await run(scripted(), make(f"!usage 3 40\n{result()}", tokens=42))
    assert (outcome.failure, outcome.tokens_used) == (None, 43)
    assert [json.loads(raw) for raw in desk.taken] == [RESULT]


async def test_no_further_turn_begins_once_the_tokens_are_used(make):
    # The first answer is no result, and mending it would be another turn.
    outcome, _, desk = await run(scripted(), make("!usage 3 40\n!say nothing of use", tokens=42))
    assert (outcome.failure, outcome.tokens_used) == (FailureClass.TOKENS_EXHAUSTED, 43)
    assert len(desk.taken) == 1


async def test_exactly_what_it_may_is_not_too_much(make):
    outcome, _, _ = await run(scripted(), make(f"!usage 3 39\n{result()}", tokens=42))
    assert (outcome.failure, outcome.tokens_used) == (None, 42)


async def test_who_reports_nothing_is_not_counted(make):
    outcome, _, _ = await run(scripted(), make(result(), tokens=1))
    assert (outcome.failure, outcome.tokens_used) == (None, None)
