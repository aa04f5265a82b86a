"""Restoring agents: what they know against where the conversation stands, and what is recorded of how it was done."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from bridge.control.contexts import nativesessions
from bridge.control.contexts.compacting import Compaction, record_compaction
from bridge.control.contexts.matching import Relation, context_matches
from bridge.control.contexts.restoration import Facts, Mode, Reason, gather_facts, restore
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.errors import BridgeError

HARNESS = "scripted"


class ResumeRefused(BridgeError):
    """Raised when the agent program knows no such session."""


ResumeRefused.code = "resume_refused"


def append(world: Any, session_id: str, kind: str, **payload: Any) -> str:
    return world.controller.recorder.append_now(session_id, EntryDraft(kind=kind, payload=payload)).id


def turn(world: Any, session_id: str, text: str, native: str | None = None) -> str:
    """Record a turn of an agent; return its last word."""
    world.say(session_id, text)
    named = {} if native is None else {"native_session_id": native}
    append(world, session_id, "turn.started", turn_id=text, **named)
    said = append(world, session_id, "assistant.message", text=f"answer to {text}")
    append(world, session_id, "turn.completed", turn_id=text, **named)
    return said


def go(world: Any, session_id: str, *, resume: Any = None, **facts: Any) -> Any:
    """Restore an agent as the facts allow; return what came of it and which ways were tried."""
    tried: list[Any] = []

    async def take_up(native: str) -> str:
        tried.append(("resume", native))
        if resume is not None:
            raise resume
        return native

    async def start(mode: Mode) -> str:
        tried.append(("start", mode))
        return "n-new"

    found = gather_facts(world.controller, session_id, harness=HARNESS, **facts)

    async def main() -> Any:
        return await restore(
            world.controller,
            session_id,
            found,
            harness=HARNESS,
            resume=take_up,
            start=start,
            native_session_of=lambda agent: agent,
        )

    return anyio.run(main), tried


def recorded(world: Any, session_id: str) -> dict[str, Any]:
    return world.path(session_id)[-1].payload["restoration"]


def test_a_new_conversation_begins_fresh_and_its_session_is_taken_up_later(world: Any) -> None:
    session_id = world.session()
    done, tried = go(world, session_id, can_resume=True)
    assert (done.decision.mode, tried) == (Mode.FRESH, [("start", Mode.FRESH)])
    assert recorded(world, session_id) == {
        "mode": "fresh",
        "reason": "nothing_better",
        "passed_over": [
            {"mode": "hot", "reason": "not_running"},
            {"mode": "native_resume", "reason": "no_native_session"},
            {"mode": "checkpoint_restored", "reason": "no_checkpoint"},
        ],
        "harness": HARNESS,
        "native_session_id": "n-new",
        "leaf_entry_id": f"{session_id}-000000",
    }
    turn(world, session_id, "u1", "n-new")
    done, tried = go(world, session_id, can_resume=True)
    assert (done.decision.mode, tried) == (Mode.NATIVE_RESUME, [("resume", "n-new")])
    assert recorded(world, session_id)["native_session_id"] == "n-new"


def test_a_hot_agent_goes_on_only_where_it_knows_the_conversation(world: Any) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=False)
    first = turn(world, session_id, "u1")
    last = turn(world, session_id, "u2")
    done, tried = go(world, session_id, can_resume=False, is_running=True, agent_leaf_entry_id=last)
    assert (done.decision.mode, done.agent, tried) == (Mode.HOT, None, [])
    world.controller.recorder.move_head(session_id, first)
    match = context_matches(world.controller, session_id, last)
    assert (match.relation, match.common_entry_id, match.unseen, match.abandoned) == (Relation.AHEAD, first, 0, 4)
    assert "went back to" in match.text()
    done, tried = go(world, session_id, can_resume=False, is_running=True, agent_leaf_entry_id=last)
    assert (done.decision.mode, tried) == (Mode.FRESH, [("start", Mode.FRESH)])
    assert done.decision.passed_over[0] == (Mode.HOT, Reason.CONTEXT_ELSEWHERE)


def test_what_no_agent_is_told_makes_no_difference_to_a_hot_one(world: Any) -> None:
    session_id = world.session()
    last = turn(world, session_id, "u1")
    world.controller.recorder.append_now(
        session_id,
        EntryDraft(kind="user.message", payload={"text": "hidden"}, context_visibility="hidden"),
    )
    append(world, session_id, "model.changed", model="m")
    assert context_matches(world.controller, session_id, last).matches
    assert context_matches(world.controller, session_id, world.head(session_id)).matches
    said = world.say(session_id, "told by somebody else")
    match = context_matches(world.controller, session_id, last)
    assert (match.relation, match.head_entry_id, match.unseen) == (Relation.BEHIND, said, 4)
    assert context_matches(world.controller, session_id, None).relation is Relation.BEHIND
    assert context_matches(world.controller, world.session(), None).matches


def test_late_words_of_a_turn_stay_on_its_branch_and_the_hot_agent_is_told_so(world: Any) -> None:
    session_id = world.session("u1")
    start = world.head(session_id)
    recorder = world.controller.recorder
    recorder.transact(lambda recording: recording.open_cursor(session_id, "turn:t1"))
    recorder.append_now(session_id, EntryDraft(kind="turn.started", payload={"turn_id": "t1"}, cursor="turn:t1"))
    # The person goes elsewhere while the turn runs.
    recorder.move_head(session_id, f"{session_id}-000000")
    elsewhere = world.say(session_id, "another beginning")
    late = recorder.append_now(
        session_id, EntryDraft(kind="assistant.message", payload={"text": "late"}, cursor="turn:t1")
    )
    assert world.head(session_id) == elsewhere
    match = context_matches(world.controller, session_id, late.id)
    assert (match.relation, match.common_entry_id, match.unseen, match.abandoned) == (Relation.ELSEWHERE, None, 1, 3)
    facts = gather_facts(
        world.controller,
        session_id,
        harness=HARNESS,
        can_resume=False,
        is_running=True,
        agent_leaf_entry_id=late.id,
    )
    assert not facts.knows_the_head
    recorder.move_head(session_id, start)
    assert context_matches(world.controller, session_id, start).matches


def test_a_native_session_that_went_on_elsewhere_is_not_taken_up(world: Any) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=True)
    first = turn(world, session_id, "u1", "n-new")
    ended = world.head(session_id)
    turn(world, session_id, "u2", "n-new")
    # Where the first turn ended, the native session holds more than that; where its answer stands, perhaps as well.
    for entry_id in (ended, first):
        world.controller.recorder.move_head(session_id, entry_id)
        facts = gather_facts(world.controller, session_id, harness=HARNESS, can_resume=True)
        assert (facts.native_session_id, facts.native_session_ends_here) == ("n-new", False)
    done, tried = go(world, session_id, can_resume=True)
    assert (done.decision.mode, tried) == (Mode.FRESH, [("start", Mode.FRESH)])
    assert done.decision.passed_over[1] == (Mode.NATIVE_RESUME, Reason.NATIVE_SESSION_ELSEWHERE)


def test_a_native_session_that_lacks_what_was_said_since_is_not_taken_up(world: Any) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=True)
    turn(world, session_id, "u1", "n-new")
    world.say(session_id, "said by somebody else")
    facts = gather_facts(world.controller, session_id, harness=HARNESS, can_resume=True)
    assert (facts.native_session_id, facts.native_session_ends_here) == ("n-new", False)


def test_a_native_session_from_before_a_compaction_is_not_taken_up_and_one_from_after_it_is(world: Any) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=True)
    first = turn(world, session_id, "u1", "n-new")
    ended = world.head(session_id)
    record_compaction(
        world.controller, session_id, Compaction(summary="short", first_retained_entry_id=first, reason="manual")
    )
    done, tried = go(world, session_id, can_resume=True)
    assert (done.decision.mode, tried) == (Mode.CHECKPOINT_RESTORED, [("start", Mode.CHECKPOINT_RESTORED)])
    assert done.decision.passed_over[1] == (Mode.NATIVE_RESUME, Reason.COMPACTED_SINCE)
    # The session that begins after it holds what the conversation says.
    assert gather_facts(world.controller, session_id, harness=HARNESS, can_resume=True).is_compacted_since is False
    turn(world, session_id, "u2", "n-new")
    done, tried = go(world, session_id, can_resume=True)
    assert (done.decision.mode, tried) == (Mode.NATIVE_RESUME, [("resume", "n-new")])
    # Before the compaction nothing was to be left out; but that session went on elsewhere.
    world.controller.recorder.move_head(session_id, ended)
    facts = gather_facts(world.controller, session_id, harness=HARNESS, can_resume=True)
    assert (facts.is_compacted_since, facts.native_session_ends_here) == (False, False)


def test_the_session_of_another_agent_program_or_of_the_origin_is_none_of_this_one(world: Any) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=True)
    turn(world, session_id, "u1", "n-new")
    other = gather_facts(world.controller, session_id, harness="another", can_resume=True)
    assert other.native_session_id is None
    fork = world.controller.recorder.fork(world.head(session_id), NewSession()).id
    assert gather_facts(world.controller, fork, harness=HARNESS, can_resume=True).native_session_id is None


def test_a_failed_resume_is_recorded_before_the_fall_back_which_bears_its_own_name(world: Any) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=True)
    turn(world, session_id, "u1", "n-new")
    payload = {"summary": "s", "decisions": [], "files_touched": [], "open_work": []}
    checkpoint = append(world, session_id, "checkpoint", **payload)
    done, tried = go(world, session_id, resume=ResumeRefused("It knows no such session."), can_resume=True)
    assert tried == [("resume", "n-new"), ("start", Mode.CHECKPOINT_RESTORED)]
    failed, restored = world.path(session_id)[-2:]
    assert (failed.kind, failed.payload) == (
        "session.resume_failed",
        {
            "reason": "resume_refused",
            "harness": HARNESS,
            "message": "It knows no such session.",
            "native_session_id": "n-new",
        },
    )
    restoration = restored.payload["restoration"]
    assert (restoration["mode"], restoration["checkpoint_entry_id"]) == ("checkpoint_restored", checkpoint)
    assert {"mode": "native_resume", "reason": "resume_failed"} in restoration["passed_over"]
    assert done.decision.mode is Mode.CHECKPOINT_RESTORED


def test_nothing_is_recorded_as_restored_that_was_not(world: Any) -> None:
    session_id = world.session("u1")

    async def fail(_: Any) -> str:
        raise ResumeRefused("It does not start.")

    async def main() -> None:
        await restore(world.controller, session_id, Facts(), harness=HARNESS, resume=fail, start=fail)

    with pytest.raises(ResumeRefused):
        anyio.run(main)
    assert world.kinds(session_id) == ["user.message"]


@pytest.mark.parametrize(("limit", "is_found"), [(4, True), (3, False)])
def test_a_native_session_is_looked_for_in_so_many_entries(
    world: Any, monkeypatch: pytest.MonkeyPatch, limit: int, is_found: bool
) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=True)
    for number in range(3):
        append(world, session_id, "usage.updated", tokens={"total": number})
    monkeypatch.setattr(nativesessions, "MAX_LOOKED_AT", limit)
    facts = gather_facts(world.controller, session_id, harness=HARNESS, can_resume=True)
    assert (facts.native_session_id == "n-new") is is_found


def test_too_much_recorded_since_counts_as_elsewhere(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = world.session()
    go(world, session_id, can_resume=True)
    restored = world.head(session_id)
    for number in range(3):
        append(world, session_id, "usage.updated", tokens={"total": number})
    world.controller.recorder.move_head(session_id, restored)
    for limit, ends_here in ((3, True), (2, False)):
        monkeypatch.setattr(nativesessions, "MAX_LOOKED_AT", limit)
        facts = gather_facts(world.controller, session_id, harness=HARNESS, can_resume=True)
        assert (facts.native_session_id, facts.native_session_ends_here) == ("n-new", ends_here)
