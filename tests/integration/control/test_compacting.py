"""Compactions against the branch they stand on, what is noted of a harness's own, and that nothing is rewritten."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.control.contexts.compacting import (
    Compaction,
    first_to_retain,
    note_compacted_by_harness,
    projection_at,
    record_compaction,
    record_compaction_failure,
    request_compaction,
)
from bridge.conversations.errors import HeadMoved, InvalidBoundary
from bridge.conversations.models import EntryDraft


def shown(world: Any, session_id: str) -> list[str]:
    return [
        message.payload.get("text") or message.payload.get("summary")
        for message in projection_at(world.controller, session_id).messages
    ]


def test_a_compaction_stands_for_the_beginning_of_its_branch(world: Any) -> None:
    session_id = world.session("u1", "u2", "u3")
    retained = world.path(session_id)[1].id
    appended = record_compaction(
        world.controller, session_id, Compaction(summary="so far", first_retained_entry_id=retained, reason="manual")
    )
    assert appended.is_head
    payload = appended.entry.payload
    assert payload["tokens_before"] > 0
    assert appended.entry.stamp.state_digest is not None
    assert shown(world, session_id) == ["so far", "u2", "u3"]


def test_a_boundary_that_is_not_on_the_branch_is_refused_and_nothing_is_written(world: Any) -> None:
    session_id = world.session("u1", "u2")
    first, second = world.path(session_id)
    world.controller.recorder.move_head(session_id, first.id)
    world.say(session_id, "other way")
    before = world.count("session_entries")
    for retained in (second.id, "nonsense", world.session("elsewhere")):
        compaction = Compaction(summary="s", first_retained_entry_id=retained, reason="manual")
        with pytest.raises(InvalidBoundary) as caught:
            record_compaction(world.controller, session_id, compaction)
        assert caught.value.details["first_retained_entry_id"] == retained
    with pytest.raises(InvalidBoundary):
        record_compaction(
            world.controller, session_id, Compaction(summary=" ", first_retained_entry_id=first.id, reason="manual")
        )
    with pytest.raises(HeadMoved):
        record_compaction(
            world.controller,
            session_id,
            Compaction(summary="s", first_retained_entry_id=first.id, reason="manual"),
            expected_head=first.id,
        )
    # The other session and its one entry are all that was added.
    assert world.count("session_entries") == before + 2


def test_fc_08_a_newer_compaction_rewrites_nothing_and_going_between_the_two_finds_the_older_whole(world: Any) -> None:
    session_id = world.session("m1", "m2", "m3", "m4")
    entries = world.path(session_id)
    first = record_compaction(
        world.controller,
        session_id,
        Compaction(summary="k1 in full", first_retained_entry_id=entries[3].id, reason="manual"),
    ).entry
    fifth = world.say(session_id, "m5")
    hashes = {entry.id: (entry.entry_hash, entry.payload_text) for entry in world.path(session_id)}
    second = record_compaction(
        world.controller, session_id, Compaction(summary="k2", first_retained_entry_id=fifth, reason="manual")
    ).entry
    assert shown(world, session_id) == ["k2", "m5"]
    # Back to where m5 was said, and on from there.
    world.controller.recorder.move_head(session_id, first.id)
    world.say(session_id, "another m5")
    assert shown(world, session_id) == ["k1 in full", "m4", "another m5"]
    # Onto and before each of the two.
    for target, expected in (
        (second.id, ["k2", "m5"]),
        (fifth, ["k1 in full", "m4", "m5"]),
        (first.id, ["k1 in full", "m4"]),
        (entries[3].id, ["m1", "m2", "m3", "m4"]),
        (entries[0].id, ["m1"]),
    ):
        world.controller.recorder.move_head(session_id, target)
        assert shown(world, session_id) == expected
    for identity, recorded in hashes.items():
        entry = world.entry(identity)
        assert (entry.entry_hash, entry.payload_text) == recorded


def test_what_a_harness_does_to_its_window_is_noted_and_changes_nothing(world: Any) -> None:
    session_id = world.session("u1")
    before = projection_at(world.controller, session_id).text()
    noted = note_compacted_by_harness(
        world.controller, session_id, "codex", reason="auto", tokens_before=90_000, tokens_after=9_000
    ).entry
    request_compaction(world.controller, session_id, "pressure", tokens_before=90_000)
    record_compaction_failure(world.controller, session_id, "agent_gone", "It ended.", kept={"exit": 1})
    assert noted.payload == {"harness": "codex", "reason": "auto", "tokens_before": 90_000, "tokens_after": 9_000}
    assert world.kinds(session_id)[1:] == ["context.compacted", "compaction.requested", "compaction.failed"]
    after = projection_at(world.controller, session_id)
    # The first lines say up to which entry it goes.
    assert after.text().split("\n\n")[1:] == before.split("\n\n")[1:]


def test_what_to_retain_is_the_newest_that_fits(world: Any) -> None:
    session_id = world.session(*(f"m{number} " + "x" * 600 for number in range(6)))
    entries = world.path(session_id)
    assert first_to_retain(world.controller, session_id, 100_000) == entries[0].id
    assert first_to_retain(world.controller, session_id, 1) == entries[-1].id
    assert first_to_retain(world.controller, session_id, 1_000) == entries[3].id
    empty = world.session()
    assert first_to_retain(world.controller, empty, 10) == world.head(empty)


def test_fc_38_an_open_request_stays_in_the_branch_over_a_compaction(world: Any) -> None:
    session_id = world.session("u1")
    request = EntryDraft(
        kind="delegation.requested", payload={"delegation_id": "t1", "request": {"objective": "do it"}}
    )
    asked = world.controller.recorder.append_now(session_id, request)
    retained = world.say(session_id, "u2")
    record_compaction(
        world.controller, session_id, Compaction(summary="s", first_retained_entry_id=retained, reason="manual")
    )
    payload = {"delegation_id": "t1", "status": "completed", "summary": "late", "decisions": ["keep it"]}
    world.controller.recorder.append_now(session_id, EntryDraft(kind="worker.result", payload=payload))
    projection = projection_at(world.controller, session_id)
    assert [message.kind for message in projection.messages] == ["compaction", "user.message", "worker.result"]
    assert projection.decisions == ("keep it",)
    assert asked.id in [entry.id for entry in world.path(session_id)]


def test_fc_42_the_rounds_of_a_worker_stand_side_by_side_in_the_context(world: Any) -> None:
    session_id = world.session("u1")
    results = []
    for attempt, answer in enumerate(("ONE", "TWO", "THREE"), 1):
        payload = {"delegation_id": "t1", "status": "completed", "summary": answer, "attempt": attempt}
        results.append(
            world.controller.recorder.append_now(session_id, EntryDraft(kind="worker.result", payload=payload))
        )
        world.say(session_id, f"after {answer}")
    told = [
        message for message in projection_at(world.controller, session_id).messages if message.kind == "worker.result"
    ]
    assert [(message.entry_id, message.payload["summary"], message.payload["attempt"]) for message in told] == [
        (results[0].id, "ONE", 1),
        (results[1].id, "TWO", 2),
        (results[2].id, "THREE", 3),
    ]
    assert [world.entry(entry.id).entry_hash for entry in results] == [entry.entry_hash for entry in results]
