"""Checkpoints from real answers: fences, omissions, repair, failure, and a conversation that moves meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from bridge.control.contexts import checkpointevidence
from bridge.control.contexts.building import build_context
from bridge.control.contexts.checkpoints import (
    MAX_KEPT_CHARACTERS,
    Checkpoint,
    accept_checkpoint,
    evidence_at,
    request_checkpoint,
    request_compacting,
    request_text,
)
from bridge.control.contexts.compacting import projection_at
from bridge.control.errors import CheckpointFailed, CheckpointInvalid
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft
from bridge.foundation.errors import BridgeError
from bridge.semantics.stamps import Stamp
from bridge.workspaces.store import save_state

ANSWER = {"summary": "It adds up.", "decisions": ["use tabs"], "files_touched": ["a.txt"], "open_work": ["test it"]}


class Agent:
    """Gives its answers in order, and remembers what it was asked."""

    def __init__(self, *answers: Any, meanwhile: Callable[[], Any] | None = None) -> None:
        self.answers = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
        self.asked: list[str] = []
        self.meanwhile = meanwhile

    async def __call__(self, text: str) -> str:
        self.asked.append(text)
        if self.meanwhile is not None:
            await anyio.to_thread.run_sync(self.meanwhile)
        return self.answers.pop(0)


def ask(world: Any, session_id: str, agent: Any, **options: Any) -> Checkpoint:
    async def main() -> Checkpoint:
        return await request_checkpoint(world.controller, session_id, agent, reason="manual", **options)

    return anyio.run(main)


def tool(world: Any, session_id: str, *written: str, call: str = "c") -> str:
    payload = {"tool_call_id": call, "name": "edit", "status": "completed", "paths_written": list(written)}
    return world.controller.recorder.append_now(session_id, EntryDraft(kind="tool.completed", payload=payload)).id


def result(world: Any, session_id: str, **fields: Any) -> str:
    payload = {"delegation_id": "d", "status": "completed", "summary": "done", **fields}
    return world.controller.recorder.append_now(session_id, EntryDraft(kind="worker.result", payload=payload)).id


def test_the_host_fills_in_ids_counts_and_the_reason(world: Any) -> None:
    session_id = world.session("u1", "u2")
    leaf = world.head(session_id)
    agent = Agent("Here it is:\n```json\n" + json.dumps({**ANSWER, "entries": 99}) + "\n```")
    checkpoint = ask(world, session_id, agent, model="m1")
    payload = checkpoint.entry.payload
    tokens = payload.pop("tokens_before")
    assert payload == {
        **ANSWER,
        "reason": "manual",
        "model": "m1",
        "through_entry_id": leaf,
        "entries": 2,
        "provider_meta": {"ignored_fields": ["entries"]},
    }
    assert tokens > 0
    assert (agent.asked, checkpoint.was_repaired, checkpoint.appended.is_head) == ([request_text()], False, True)
    assert checkpoint.entry.stamp.state_digest is not None


def test_what_the_evidence_shows_and_the_agent_left_out_is_added_and_marked(world: Any) -> None:
    session_id = world.session("u1")
    edited = tool(world, session_id, "a.txt", str(world.repo.path / "src" / "b.py"), "/elsewhere/c")
    tool(world, session_id, "./src/b.py", call="again")
    found = result(world, session_id, decisions=["Use  Tabs.", "keep the port"], files_changed=["d.txt"])
    result(world, session_id, status="invalid", decisions=["never"])
    checkpoint = ask(world, session_id, Agent(ANSWER))
    payload = checkpoint.entry.payload
    assert payload["decisions"] == ["use tabs", "keep the port"]
    assert payload["files_touched"] == ["a.txt", "src/b.py", "/elsewhere/c", "d.txt"]
    assert checkpoint.added == {
        "decisions": [{"decision": "keep the port", "entry_id": found}],
        "files_touched": [
            {"path": "src/b.py", "entry_id": edited},
            {"path": "/elsewhere/c", "entry_id": edited},
            {"path": "d.txt", "entry_id": found},
        ],
    }


def test_paths_that_changed_inside_a_turn_are_evidence_even_if_no_tool_says_so(world: Any) -> None:
    session_id = world.session()

    def stamped(kind: str, **payload: Any) -> str:
        observation = world.controller.observer.observe(world.repo.path)
        draft = EntryDraft(kind=kind, payload=payload)

        def keep(recording: Any) -> None:
            save_state(recording.tx, observation, recording.moment)

        stamp: Stamp = observation.stamp
        return world.controller.recorder.append_now(session_id, draft, stamp, first=keep).id

    stamped("user.message", text="make it")
    (world.repo.path / "by shell.txt").write_text("made by a shell command")
    done = stamped("turn.completed", turn_id="t")
    (world.repo.path / "by hand.txt").write_text("made by a person, between the turns")
    payload = ask(world, session_id, Agent({**ANSWER, "files_touched": []})).entry.payload
    assert payload["files_touched"] == ["by shell.txt"]
    assert payload["added"] == {"files_touched": [{"path": "by shell.txt", "entry_id": done}]}


def test_a_later_checkpoint_carries_on_what_the_one_before_says(world: Any) -> None:
    session_id = world.session("u1")
    tool(world, session_id, "old.txt")
    first = ask(world, session_id, Agent(ANSWER)).entry.id
    new = tool(world, session_id, "new.txt")
    second = ask(world, session_id, Agent({**ANSWER, "decisions": [], "files_touched": []}))
    assert second.entry.payload["files_touched"] == ["a.txt", "old.txt", "new.txt"]
    assert second.added == {
        "decisions": [{"decision": "use tabs", "entry_id": first}],
        "files_touched": [
            {"path": "a.txt", "entry_id": first},
            {"path": "old.txt", "entry_id": first},
            {"path": "new.txt", "entry_id": new},
        ],
    }


def test_an_unusable_answer_is_handed_back_once_with_what_is_wrong(world: Any) -> None:
    session_id = world.session("u1")
    agent = Agent({**ANSWER, "decisions": "none"}, ANSWER)
    checkpoint = ask(world, session_id, agent)
    assert checkpoint.was_repaired
    assert len(agent.asked) == 2
    assert "- decisions " in agent.asked[1]
    assert world.kinds(session_id) == ["user.message", "checkpoint"]


def test_after_two_unusable_answers_the_failure_is_recorded_and_typed(world: Any) -> None:
    session_id = world.session("u1")
    with pytest.raises(CheckpointFailed) as caught:
        ask(world, session_id, Agent("no", "No. " + "x" * MAX_KEPT_CHARACTERS))
    failure = world.path(session_id)[-1]
    assert (failure.kind, failure.id) == ("compaction.failed", caught.value.details["entry_id"])
    assert failure.payload["reason"] == "checkpoint_failed"
    assert "holds no JSON object" in failure.payload["message"]
    assert len(failure.payload["provider_meta"]["raw_text"]) == MAX_KEPT_CHARACTERS
    # Nothing of it reaches an agent.
    assert [message.kind for message in projection_at(world.controller, session_id).messages] == ["user.message"]


def test_an_agent_that_fails_is_recorded_under_its_own_code(world: Any) -> None:
    class Gone(BridgeError):
        """Raised when it is gone."""

    Gone.code = ""

    async def gone(_: str) -> str:
        error = Gone("It is gone.")
        error.code = "agent_gone"  # type: ignore[misc]
        raise error

    session_id = world.session("u1")
    with pytest.raises(Gone):
        ask(world, session_id, gone)
    assert world.path(session_id)[-1].payload == {"reason": "agent_gone", "message": "It is gone."}


def test_accepting_refuses_without_recording(world: Any) -> None:
    session_id = world.session("u1")
    evidence = evidence_at(world.controller, session_id)
    with pytest.raises(CheckpointInvalid) as caught:
        accept_checkpoint(world.controller, evidence, '{"summary": "x"}', reason="manual")
    assert {field["path"] for field in caught.value.details["fields"]} == {
        "/decisions",
        "/files_touched",
        "/open_work",
    }
    assert world.kinds(session_id) == ["user.message"]


def test_what_is_said_while_the_agent_writes_is_told_after_the_checkpoint(world: Any) -> None:
    session_id = world.session("u1", "u2")
    checkpoint = ask(world, session_id, Agent(ANSWER, meanwhile=lambda: world.say(session_id, "meanwhile")))
    assert checkpoint.appended.is_head
    told = build_context(world.controller, Standpoint(), session_id).projection
    assert [message.payload.get("text") for message in told.messages] == [None, "meanwhile"]
    assert [omission.entries for omission in told.omissions] == [2]


def test_a_checkpoint_of_a_branch_that_was_left_lands_there(world: Any) -> None:
    session_id = world.session("u1", "u2")
    first, leaf = (entry.id for entry in world.path(session_id))

    def leave() -> None:
        world.controller.recorder.move_head(session_id, first)
        world.say(session_id, "other way")

    checkpoint = ask(world, session_id, Agent(ANSWER, meanwhile=leave))
    assert (checkpoint.entry.parent_entry_id, checkpoint.appended.is_head) == (leaf, False)
    assert [message.payload.get("text") for message in projection_at(world.controller, session_id).messages] == [
        "u1",
        "other way",
    ]


def test_compacting_keeps_the_newest_part_as_it_is(world: Any) -> None:
    session_id = world.session(*(f"m{number} " + "x" * 600 for number in range(6)))
    entries = world.path(session_id)

    async def main() -> Any:
        return await request_compacting(world.controller, session_id, Agent(ANSWER), reason="manual", keep_tokens=1_000)

    checkpoint, compaction = anyio.run(main)
    assert world.kinds(session_id)[6:] == ["compaction.requested", "checkpoint", "compaction"]
    payload = compaction.entry.payload
    assert payload["checkpoint_entry_id"] == checkpoint.entry.id
    assert payload["first_retained_entry_id"] == entries[3].id
    told = projection_at(world.controller, session_id)
    assert [message.entry_id for message in told.messages] == [
        compaction.entry.id,
        *(entry.id for entry in entries[3:]),
    ]
    assert told.decisions == ("use tabs",)
    # A cold start begins at the same place: the compaction is the newer of the two.
    cold = build_context(world.controller, Standpoint(), session_id).projection
    assert cold.boundary_entry_id == compaction.entry.id


def test_compacting_a_branch_that_was_left_touches_no_other(world: Any) -> None:
    session_id = world.session("u1", "u2")
    first = world.path(session_id)[0].id

    def leave() -> None:
        world.controller.recorder.move_head(session_id, first)
        world.say(session_id, "other way")

    async def main() -> Any:
        return await request_compacting(world.controller, session_id, Agent(ANSWER, meanwhile=leave), reason="manual")

    checkpoint, compaction = anyio.run(main)
    assert compaction.entry.parent_entry_id == checkpoint.entry.id
    assert world.kinds(session_id) == ["user.message", "user.message"]


def test_a_secret_in_an_answer_is_masked_before_it_is_recorded(world: Any) -> None:
    session_id = world.session("u1")
    secret = "ghp_" + "a1B2" * 9
    payload = ask(world, session_id, Agent({**ANSWER, "summary": f"The token is {secret}."})).entry.payload
    assert secret not in payload["summary"]


def test_evidence_is_bounded_to_the_newest(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointevidence, "MAX_ADDED_DECISIONS", 2)
    monkeypatch.setattr(checkpointevidence, "MAX_ADDED_FILES", 2)
    session_id = world.session("u1")
    result(world, session_id, decisions=["d1", "d2"], files_changed=["f1", "f2"])
    assert list(evidence_at(world.controller, session_id).decisions) == ["d1", "d2"]
    result(world, session_id, decisions=["d3"], files_changed=["f3"])
    evidence = evidence_at(world.controller, session_id)
    assert (list(evidence.decisions), list(evidence.files)) == (["d2", "d3"], ["f2", "f3"])
