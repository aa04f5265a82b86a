"""What an entry is to an onlooker: turn, facet, problem."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.conversations.facets import (
    OUTSIDE,
    RULES,
    UNREADABLE,
    Facet,
    TurnIndex,
    TurnPlace,
    annotate,
    facet_of,
    kinds_of,
    problem_of,
)
from bridge.conversations.models import FORKED_FROM, PreparedEntry
from bridge.foundation.canonical import canonical_text
from bridge.foundation.ids import entry_id
from bridge.semantics.kinds import KINDS
from bridge.semantics.stamps import UNSTAMPED

ROOT = "session.root"


def entry(kind, sequence=1, *, parent=None, session="s", payload=None, text=None, version=2):
    stored = canonical_text(payload or {}) if text is None else text
    prepared = PreparedEntry(
        kind=kind,
        payload_text=stored,
        payload_hash="0" * 64,
        context_visibility="eligible",
        stamp=UNSTAMPED,
        created_at="2026-01-01T00:00:00.000000Z",
        semantic_schema_version=version,
    )
    above = None if sequence == 0 else (entry_id(session, sequence - 1 if parent is None else parent), "0" * 64)
    return prepared.seal(session, sequence, above)


def turns(*kinds):
    """Return the sequence of the beginning of each entry's turn, the kinds being a chain below the root."""
    entries = [entry(ROOT, 0)] + [entry(kind, number) for number, kind in enumerate(kinds, 1)]
    found = [annotation.turn for annotation in annotate(entries)][1:]
    return [None if turn is None else int(turn.rpartition("-")[2]) for turn in found]


def test_every_kind_has_a_rule():
    assert RULES.keys() == KINDS.keys()


def test_every_facet_has_kinds_and_no_kind_has_two():
    assert sum(len(kinds_of(facet)) for facet in Facet) == len([rule for rule in RULES.values() if rule.facet])
    assert all(kinds_of(facet) for facet in Facet)


def test_a_kind_that_is_not_known_has_no_facet():
    assert facet_of("telepathy.received") is None


@pytest.mark.parametrize(
    ("kind", "payload", "problem"),
    [
        ("tool.completed", {"tool_call_id": "c", "name": "bash", "status": "failed"}, "tool_failed"),
        ("tool.completed", {"tool_call_id": "c", "name": "bash", "status": "denied"}, "tool_failed"),
        ("tool.completed", {"tool_call_id": "c", "name": "bash", "status": "Failed"}, "tool_failed"),
        ("tool.completed", {"tool_call_id": "c", "name": "bash", "status": "completed"}, None),
        ("tool.completed", {"tool_call_id": "c", "name": "bash", "status": "cancelled"}, None),
        ("tool.completed", {"tool_call_id": "c", "name": "bash"}, None),
        ("turn.completed", {"turn_id": "t", "status": "failed"}, "turn_failed"),
        ("turn.completed", {"turn_id": "t", "status": "completed"}, None),
        ("approval.resolved", {"approval_id": "a", "decision": "denied"}, "approval_denied"),
        ("approval.resolved", {"approval_id": "a", "decision": "Reject_once"}, "approval_denied"),
        ("approval.resolved", {"approval_id": "a", "decision": "expired"}, "approval_expired"),
        ("approval.resolved", {"approval_id": "a", "decision": "timed_out"}, "approval_expired"),
        ("approval.resolved", {"approval_id": "a", "decision": "approved"}, None),
        ("delegation.rejected", {"delegation_id": "d"}, "delegation_rejected"),
        ("worker.result", {"delegation_id": "d", "status": "invalid", "summary": "s"}, "result_not_completed"),
        ("worker.result", {"delegation_id": "d", "status": "blocked", "summary": "s"}, "result_not_completed"),
        ("worker.result", {"delegation_id": "d", "status": "completed", "summary": "s"}, None),
        ("session.resume_failed", {"reason": "gone"}, "resume_failed"),
        ("compaction.failed", {"reason": "gone"}, "compaction_failed"),
        ("error", {"message": "no"}, "error"),
        ("user.message", {"text": "error"}, None),
        ("telepathy.failed", {}, None),
    ],
)
def test_problems(kind, payload, problem):
    assert problem_of(entry(kind, payload=payload)) == problem


def test_an_older_entry_is_read_by_what_it_means_today():
    old = entry("worker.result", payload={"requestId": "d", "status": "protocol_invalid", "summary": "s"}, version=1)
    assert problem_of(old) == "result_not_completed"


def test_what_cannot_be_read_is_a_problem():
    assert problem_of(entry("user.message", payload={"text": "x"}, version=3)) == UNREADABLE
    assert problem_of(entry("user.message", text="{")) == UNREADABLE
    assert problem_of(entry("tool.completed", text="{")) == UNREADABLE


def test_turns_by_messages_alone():
    assert turns("note", "user.message", "tool.started", "note", "user.message", "assistant.message") == [
        None,
        2,
        2,
        2,
        5,
        5,
    ]


def test_turns_by_their_events():
    kinds = ("user.message", "turn.started", "assistant.message", "turn.completed", "note", "user.message")
    assert turns(*kinds) == [1, 1, 1, 1, None, 6]
    assert turns("turn.started", "user.message", "assistant.message", "turn.completed") == [1, 1, 1, 1]
    assert turns("turn.started", "tool.started", "turn.completed", "turn.started") == [1, 1, 1, 4]


def test_a_turn_that_was_broken_off_ends_where_the_next_begins():
    kinds = ("user.message", "turn.started", "tool.started", "user.message", "turn.started", "assistant.message")
    assert turns(*kinds) == [1, 1, 1, 4, 4, 4]


def test_last_words_belong_to_the_turn_that_has_ended():
    kinds = ("turn.started", "turn.completed", "tool.completed", "usage.updated", "checkpoint", "usage.updated")
    assert turns(*kinds) == [1, 1, 1, 1, None, 1]


def test_two_messages_in_a_row_are_two_turns():
    assert turns("user.message", "user.message", "turn.started", "turn.started") == [1, 2, 2, 4]


def test_each_branch_goes_on_from_where_it_left():
    entries = [entry(ROOT, 0), entry("user.message", 1), entry("assistant.message", 2), entry("user.message", 3)]
    entries += [entry("note", 4, parent=2), entry("note", 5, parent=3), entry("note", 6, parent=0)]
    assert [a.turn for a in annotate(entries)] == [None, *(entry_id("s", n) for n in (1, 1, 3, 1, 3)), None]


@pytest.mark.parametrize("with_roots", [True, False])
def test_a_fork_goes_on_within_the_turn_it_left(with_roots):
    origin = [entry(ROOT, 0), entry("user.message", 1), entry("assistant.message", 2)]
    fork = [entry(ROOT, 0, session="f", payload={FORKED_FROM: {"entry_id": entry_id("s", 2)}})]
    fork += [entry("note", 1, session="f"), entry("user.message", 2, session="f")]
    fork += [entry("note", 3, session="f", parent=0)]
    path = [*origin, *fork] if with_roots else [*origin[1:], *fork[1:]]
    found = {e.id: a.turn for e, a in zip(path, annotate(path), strict=True)}
    assert found[entry_id("f", 1)] == found[entry_id("f", 3)] == entry_id("s", 1)
    assert found[entry_id("f", 2)] == entry_id("f", 2)


def test_an_index_tells_what_it_knows():
    index = TurnIndex()
    assert index.place_at("s", "s-000001") is None
    index.seed("s", "s-000001", OUTSIDE)
    assert index.place_at("s", "s-000001") == OUTSIDE
    assert index.place_at("s", "s-000000") is None


def test_an_index_knows_entries_however_far_apart_they_are():
    index = TurnIndex()
    began = entry("user.message", 500)
    places = {}
    for number in (1_000_000, 1_000_001, 1_000_060, 1_000_010, 3, 4, 2_000_000, 1_000_010):
        places[number] = TurnPlace(f"turn {number}")
        index.seed("s", entry_id("s", number), places[number])
    index.turn_of(began)
    for number, place in places.items():
        assert index.place_at("s", entry_id("s", number)) == place
    assert index.place_at("s", began.id).turn == began.id
    assert index.place_at("s", entry_id("s", 1_000_059)) is None


@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 4)), max_size=30))
def test_the_turn_of_an_entry_depends_on_its_path_alone(steps):
    entries = [entry(ROOT, 0)]
    for number, (kind, up) in enumerate(steps, 1):
        entries.append(entry(kind, number, parent=max(0, number - up)))
    by_id = {e.id: e for e in entries}
    whole = {e.id: a.turn for e, a in zip(entries, annotate(entries), strict=True)}
    for leaf in entries:
        path, at = [], leaf
        while at is not None:
            path.append(at)
            at = by_id.get(at.parent_entry_id)
        path.reverse()
        assert [a.turn for a in annotate(path)] == [whole[e.id] for e in path]
        assert whole[leaf.id] is None or whole[leaf.id] in {e.id for e in path}
