"""What a worker hands in, how it ends, and where its result goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.control.delegations import settlement
from bridge.control.delegations.concluding import Inspected, conclude
from bridge.control.delegations.evidence import resolve_evidence
from bridge.control.delegations.settlement import AttemptOutcome, GitFacts
from bridge.control.delegations.tasks import list_tasks
from bridge.control.errors import DuplicateTask, ReferenceInvalidResult
from bridge.conversations.models import EntryDraft
from bridge.process.identity import Marker, marked_processes

pytestmark = pytest.mark.usefixtures("database_url")

SCHEMA = {
    "type": "object",
    "required": ["count"],
    "additionalProperties": False,
    "properties": {"count": {"type": "integer"}},
}
INVALID = {
    "empty": "{}",
    "around": 'Here it is: {"status": "completed", "summary": "s", "data": {"count": 1}}',
    "types": '{"status": "completed", "summary": 7, "data": {"count": "one"}}',
    "schema": '{"status": "completed", "summary": "s", "data": {"count": "one"}}',
    "placeholder": '{"status": "completed", "summary": "s"}',
    "twice": '{"status": "completed", "summary": "s", "summary": "t", "data": {"count": 1}}',
    "nan": '{"status": "completed", "summary": "s", "data": {"count": NaN}}',
}
#: Writes the answer of this attempt, the last one again and again.
ANSWERS = """
answers = %r
text = answers[min(task["attempt"], len(answers)) - 1]
pathlib.Path(os.environ["BRIDGE_RESULT"]).write_text(text)
print(json.dumps(task["previous_errors"]))
"""
VALID = '{"status": "completed", "summary": "s", "data": {"count": 3}}'


def write(text: str) -> str:
    return f"pathlib.Path(os.environ['BRIDGE_RESULT']).write_text({text!r})"


@pytest.mark.parametrize("case", INVALID)
def test_fc_39_a_result_that_breaks_the_contract_is_kept_as_invalid(world: Any, case: str) -> None:
    world.run(world.worker("t1", write(INVALID[case]), output_schema=SCHEMA))
    task, result = world.task("t1"), world.result("t1")
    assert (task.status, result["status"], result["failure_class"]) == ("invalid", "invalid", "invalid_result")
    assert result["raw_text"] == INVALID[case]
    assert result["field_errors"]
    assert "data" not in result
    with world.controller.store.read() as connection, pytest.raises(ReferenceInvalidResult):
        resolve_evidence(connection, task.parent_session_id, task.result_entry_id)


def test_fc_39_attempts_are_counted_and_the_last_permitted_one_is_marked(world: Any) -> None:
    answers = [INVALID["empty"], INVALID["nan"], VALID]
    world.run(world.worker("t1", ANSWERS % answers, output_schema=SCHEMA, attempts=3))
    result, details = world.result("t1"), world.details("t1")
    assert (result["status"], result["attempt"], result["attempts_permitted"]) == ("completed", 3, 3)
    assert result["is_last_permitted_attempt"] is True
    assert [(attempt["number"], attempt["failure_class"]) for attempt in details["attempts"]] == [
        (1, "invalid_result"),
        (2, "invalid_result"),
        (3, None),
    ]
    folder = world.controller.settings.tasks / details["id"]
    told = [json.loads((folder / str(number) / "stdout.log").read_text()) for number in (1, 2, 3)]
    assert told[0] == []
    assert told[1]
    assert told[1] != told[2]


def test_fc_39_when_no_attempt_is_left_the_last_invalid_answer_is_the_result(world: Any) -> None:
    world.run(world.worker("t1", ANSWERS % [INVALID["empty"], INVALID["twice"]], output_schema=SCHEMA, attempts=2))
    result = world.result("t1")
    assert (result["status"], result["attempt"], result["raw_text"]) == ("invalid", 2, INVALID["twice"])


def test_an_answer_on_an_earlier_attempt_is_not_marked(world: Any) -> None:
    world.run(world.worker("t1", ANSWERS % [INVALID["empty"], VALID], output_schema=SCHEMA, attempts=3))
    result = world.result("t1")
    assert (result["status"], result["attempt"], result["is_last_permitted_attempt"]) == ("completed", 2, False)


def test_an_invalid_text_that_grows_in_json_is_cut_and_recorded(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "MAX_RAW_TEXT_BYTES", 600)
    world.run(world.worker("t1", write("\x01" * 101)))
    result = world.result("t1")
    assert (result["status"], result["is_raw_text_cut"], result["raw_text"]) == ("invalid", True, "\x01" * 100)
    world.run(world.worker("t1", write("\x01" * 99)))
    assert (world.result("t1")["is_raw_text_cut"], len(world.result("t1")["raw_text"])) == (False, 99)


def test_the_list_of_changed_files_is_bounded_and_says_so(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "MAX_FILES_CHANGED", 3)
    world.run(world.shell("t1", "touch f1 f2 f3") + world.shell("t2", "touch f1 f2 f3 f4"))
    assert (world.result("t1")["files_changed"], world.result("t1")["risks"]) == (["f1", "f2", "f3"], [])
    assert world.result("t2")["files_changed"] == ["f1", "f2", "f3"]
    assert world.result("t2")["risks"] == ["Only the first 3 of 4 changed paths are listed."]


def test_odd_names_under_an_owned_path_are_owned(world: Any) -> None:
    body = "os.mkdir('src'); open(b'src/\\xff', 'w').close(); open('src/new\\nline', 'w').close(); hand_in()"
    world.run(world.worker("t1", body, owned_paths=["src"]))
    assert world.result("t1")["status"] == "completed"
    assert world.result("t1")["files_changed"] == ['"src/new\\nline"', '"src/\\xff"']


@pytest.mark.parametrize(
    ("line", "failure", "status"),
    [
        ("exit 1", "exit_nonzero", 1),
        ("kill -SEGV $$", "signalled", -11),
    ],
)
def test_a_worker_that_fails_without_a_result_is_told_by_its_status(
    world: Any, line: str, failure: str, status: int
) -> None:
    world.run(world.shell("t1", f"echo last words >&2; {line}"))
    result = world.result("t1")
    assert (result["status"], result["failure_class"], result["exit_status"]) == ("failed", failure, status)
    assert result["source"] == "exit_status"
    assert "last words" in result["summary"]
    assert world.details("t1")["attempts"][0]["failure_class"] == failure


def test_a_report_of_failure_outweighs_the_exit_status_and_a_claim_of_success_does_not(world: Any) -> None:
    world.run(
        world.worker("t1", "hand_in('blocked by x', status='blocked'); sys.exit(3)")
        + world.worker("t2", "hand_in('all fine'); sys.exit(3)")
    )
    assert (world.result("t1")["status"], world.result("t1")["summary"]) == ("blocked", "blocked by x")
    assert (world.result("t2")["status"], world.result("t2")["failure_class"]) == ("failed", "exit_nonzero")


def test_a_worker_that_needs_help_says_so(world: Any) -> None:
    needed = {"objective": "ask somebody", "role": "research"}
    world.run(world.worker("t1", f"hand_in('stuck', status='needs_delegation', needs_delegation={needed!r})"))
    assert (world.task("t1").status, world.result("t1")["needs_delegation"]) == ("needs_delegation", needed)


def test_a_command_that_is_not_there_is_a_recorded_failure(world: Any) -> None:
    world.run(world.table("t1", command=["/nonexistent/worker"]))
    result = world.result("t1")
    assert (result["status"], result["failure_class"]) == ("failed", "spawn_failed")
    assert "/nonexistent/worker" in result["summary"]
    assert world.details("t1")["worktree_status"] == "removed"


def test_a_worker_past_its_time_limit_is_ended_and_its_work_kept(world: Any) -> None:
    world.run(world.shell("t1", "echo part > part.txt; sleep 60", timeout_seconds=3))
    result = world.result("t1")
    assert (result["status"], result["failure_class"]) == ("failed", "timed_out")
    assert result["files_changed"] == ["part.txt"]
    assert world.task("t1").adoption_status == "pending"


def test_a_worker_that_prints_too_much_is_ended(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge.adapters.base import TaskRequest

    original = TaskRequest.__init__

    def small(self: Any, **values: Any) -> None:
        original(self, **{"output_limit_bytes": 10_000, **values})

    monkeypatch.setattr(TaskRequest, "__init__", small)
    world.run(world.shell("t1", "yes", timeout_seconds=30))
    result = world.result("t1")
    assert (result["status"], result["failure_class"]) == ("failed", "output_limit")


def test_what_a_worker_leaves_running_is_ended_with_it(world: Any) -> None:
    world.run(world.shell("t1", "sleep 300 & setsid sleep 300 & echo done"))
    assert world.result("t1")["status"] == "completed"
    assert marked_processes(Marker(f"{world.task('t1').id}-1")) == []


def test_fc_38_a_result_attaches_once_after_a_compaction_and_a_restart(world: Any, another_controller: Any) -> None:
    session_id = world.session("begin")
    recorder = world.controller.recorder
    open_then: list[Any] = []

    class Compacting(list[Any]):
        """Compacts the parent's conversation while the worker is about to run, and looks what is open."""

        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_running":
                payload = {
                    "summary": "all so far",
                    "first_retained_entry_id": world.head(session_id),
                    "tokens_before": 9,
                    "reason": "manual",
                }
                recorder.append_now(session_id, EntryDraft(kind="compaction", payload=payload))
                open_then.extend(list_tasks(another_controller(), session_id=session_id, open_only=True))

    text = world.shell("t1", "true") + world.shell("t2", "true", needs=["t1"])
    world.run("max_parallel = 1\n" + text, session_id=session_id, reports=Compacting())
    # Asked for once as the first ran, and again as the second did.
    assert [task.name for task in open_then] == ["t1", "t2", "t2"]
    assert list_tasks(another_controller(), session_id=session_id, open_only=True) == []
    results = [entry for entry in world.path(session_id) if entry.kind == "worker.result"]
    assert [entry.id for entry in results] == [world.task(name).result_entry_id for name in ("t1", "t2")]
    assert world.kinds(session_id)[-2:] == ["compaction", "worker.result"]


def test_fc_38_a_result_is_recorded_once(world: Any) -> None:
    world.run(world.shell("t1", "true"))
    task = world.task("t1")
    head, entries = world.head(task.parent_session_id), world.count("session_entries")
    again = AttemptOutcome(1, 1, "controller", None, failure_class="late", failure_detail="late")
    inspected = Inspected(GitFacts(task.base_commit, None), None, world.controller.observer.observe(None))
    with pytest.raises(DuplicateTask):
        conclude(world.controller, task, again, inspected)
    assert (world.head(task.parent_session_id), world.count("session_entries")) == (head, entries)


def test_fc_40_a_late_result_lands_on_the_branch_that_asked_for_it(
    world: Any, tmp_path: Path, another_controller: Any
) -> None:
    session_id = world.session("u1")
    start = world.head(session_id)
    seen: dict[str, Any] = {}

    class Leaving(list[Any]):
        """Leaves the branch while the worker runs, and goes on elsewhere."""

        def append(self, report: Any) -> None:
            super().append(report)
            if report.event == "task_running":
                world.controller.recorder.move_head(session_id, start)
                seen["u2"] = world.say(session_id, "u2")
                seen["open"] = list_tasks(world.controller, session_id=session_id, open_only=True)
                (tmp_path / "go").touch()

    world.run(
        world.worker("t1", f"wait_for({str(tmp_path / 'go')!r}); hand_in('late')"),
        session_id=session_id,
        reports=Leaving(),
    )
    result = world.task("t1").result_entry_id
    for controller in (world.controller, another_controller()):
        assert seen["open"] == list_tasks(controller, session_id=session_id) == []
        assert [entry.payload.get("text") for entry in world.path(session_id, controller)] == ["u1", "u2"]
        assert world.head(session_id) == seen["u2"]
        world.controller.recorder.move_head(session_id, result)
        assert [task.name for task in list_tasks(controller, session_id=session_id)] == ["t1"]
        assert world.path(session_id, controller)[-1].id == result
        world.controller.recorder.move_head(session_id, seen["u2"])


def test_fc_42_every_round_of_a_task_keeps_its_own_result(world: Any) -> None:
    session_id = world.session("begin")
    rounds = []
    for word in ("ONE", "TWO", "THREE"):
        world.run(world.worker("t1", f"hand_in({word!r})"), session_id=session_id)
        entry = world.entry(world.task("t1").result_entry_id)
        rounds.append((entry.id, entry.entry_hash, entry.payload["delegation_id"], word))
    read = [world.entry(entry_id) for entry_id, *_ in rounds]
    assert [
        (entry.id, entry.entry_hash, entry.payload["delegation_id"], entry.payload["summary"]) for entry in read
    ] == (rounds)
    assert len({delegation_id for *_, delegation_id, _ in rounds}) == 3
    on_path = [entry.payload["summary"] for entry in world.path(session_id) if entry.kind == "worker.result"]
    assert on_path == ["ONE", "TWO", "THREE"]


def test_fc_50_results_with_equal_names_and_other_bytes_are_other_states(world: Any) -> None:
    world.run(world.shell("t1", "echo one > new.txt") + world.shell("t2", "echo two > new.txt"))
    first, second = world.result("t1"), world.result("t2")
    assert first["files_changed"] == second["files_changed"] == ["new.txt"]
    assert first["stamp"]["state_digest"] != second["stamp"]["state_digest"]
    assert first["result_commit"] != second["result_commit"]


def test_a_result_has_its_twin_in_the_workers_own_session(world: Any) -> None:
    world.run(world.shell("t1", "true"))
    task = world.task("t1")
    own = world.path(task.worker_session_id)
    assert [entry.kind for entry in own] == ["handoff.brief", "turn.started", "turn.completed", "worker.result"]
    assert own[-1].payload_text == world.entry(task.result_entry_id).payload_text
    assert world.result("t1")["worker_session_id"] == task.worker_session_id
