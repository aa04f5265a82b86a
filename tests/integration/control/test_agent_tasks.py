"""Delegations to agents that are talked to: from a plan to the recorded result, with the scripted agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bridge.adapters.errors import CommandMissing, UnknownHarness
from bridge.control.delegations import store as rows
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.choosing import choose_harness
from bridge.control.delegations.model import MAX_SUBMISSIONS, Request
from bridge.control.delegations.orchestrating import Start, begin
from bridge.control.standpoint import Standpoint

ROOT = Path(__file__).resolve().parents[3]
RESULT = {"status": "completed", "summary": "done"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let agents that run in a worktree find the package of this checkout; before the controller is opened."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def rehearsal(bridge_home: Path, tmp_path: Path) -> None:
    """A harness of the configuration that hands in three rounds, of which the last one fits."""
    script = tmp_path / "script.json"
    data = ({}, {"n": "2"}, {"n": 3})
    turns = [
        {"step": [{"result": {**RESULT, "summary": word, "data": value}}]}
        for word, value in zip(("ONE", "TWO", "THREE"), data, strict=True)
    ]
    script.write_text(json.dumps({"turn": turns}))
    command = [sys.executable, "-m", "bridge.adapters.scripted", "--script", str(script)]
    bridge_home.mkdir(exist_ok=True)
    (bridge_home / "config.toml").write_text(f"[harness.rehearsal]\ncommand = {json.dumps(command)}\n")


def result(**more: Any) -> str:
    return f"!result {json.dumps({**RESULT, **more})}"


def payloads(world, session_id, kind):
    return [entry.payload for entry in world.path(session_id) if entry.kind == kind]


def test_agents_work_and_a_later_one_is_given_the_exact_bytes(world):
    first = world.table("first", harness="scripted", objective=f"!write a.txt one\n{result(data={'n': 1})}")
    second = world.table("second", harness="scripted", objective=result(), needs=["first"])
    world.run(first + second)
    assert [str(world.task(name).status) for name in ("first", "second")] == ["completed", "completed"]
    found = world.result("first")
    assert (found["source"], found["files_changed"], found["data"]) == ("message", ["a.txt"], {"n": 1})
    task = world.task("second")
    (prompt,) = payloads(world, task.worker_session_id, "user.message")
    assert prompt["author"] == "bridge"
    stored = world.entry(world.task("first").result_entry_id).payload_text
    assert stored in prompt["text"]


def test_fc_39_a_block_that_breaks_the_schema_is_never_a_result(world):
    bad = world.table("bad", harness="scripted", objective=result(data={"n": "x"}), output_schema=SCHEMA, attempts=2)
    world.run(bad)
    task, found = world.task("bad"), world.result("bad")
    assert str(task.status) == "invalid"
    assert (found["source"], found["attempt"], found["attempts_permitted"]) == ("message", 2, 2)
    assert found["failure_class"] == "invalid_result"
    prompts = [payload["text"] for payload in payloads(world, task.worker_session_id, "user.message")]
    assert len(prompts) == 2 * MAX_SUBMISSIONS
    assert "/data/n" in prompts[1]
    assert "This is attempt 2 of 2, the last." in prompts[MAX_SUBMISSIONS]
    assert world.count("submissions") == 2 * MAX_SUBMISSIONS


def test_fc_42_each_try_of_a_worker_is_kept_as_it_was(rehearsal, world):
    world.run(world.table("third", harness="rehearsal", objective="x", output_schema=SCHEMA))
    task = world.task("third")
    assert world.result("third")["data"] == {"n": 3}
    with world.controller.store.read() as connection:
        kept = rows.list_submissions(connection, task.id, 1)
    assert [json.loads(one.text)["summary"] for one in kept] == ["ONE", "TWO", "THREE"]
    assert [one.is_accepted for one in kept] == [False, False, True]
    said = [payload["text"] for payload in payloads(world, task.worker_session_id, "assistant.message")]
    assert [text.count(word) for text, word in zip(said, ("ONE", "TWO", "THREE"), strict=True)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("objective", "failure"),
    [("!crash 3", "crashed"), ("!fail no credit", "agent_error"), ("!huge 100000000", "protocol_broken")],
)
def test_a_fault_of_an_agent_is_a_typed_result(world, objective, failure):
    world.run(world.table("bad", harness="scripted", objective=objective))
    found = world.result("bad")
    assert (found["status"], found["failure_class"]) == ("failed", failure)


def test_a_worker_that_writes_elsewhere_is_blocked(world):
    objective = f"!write out.txt x\n{result()}"
    world.run(world.table("stray", harness="scripted", objective=objective, owned_paths=["src"]))
    found = world.result("stray")
    assert (found["status"], found["failure_class"]) == ("blocked", "outside_owned_paths")


def test_a_harness_is_chosen_for_who_names_none(world):
    session = world.session("hello")
    here = Standpoint(directory=world.repo.path)

    def chosen(**options: Any) -> str:
        return choose_harness(world.controller, here, session=session, **{"named": "", "has_command": False, **options})

    assert chosen() == "command"  # the session was held with none that runs tasks
    assert chosen(has_command=True) == "command"
    assert chosen(named="codex", has_command=True) == "codex"


def test_a_task_that_nobody_could_do_is_refused_before_anything_is_recorded(world):
    for harness, error in (("command", CommandMissing), ("opencod", UnknownHarness)):
        start = Start(
            workspace=world.workspace,
            session_id=None,
            label=None,
            dirty=DirtyMode.IGNORE,
            requests=(Request(name="x", objective="x", harness=harness),),
        )
        with pytest.raises(error):
            begin(world.controller, start)
    assert world.open_tasks() == []
