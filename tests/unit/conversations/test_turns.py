"""Which pairs of stamps are windows of a running turn."""

from __future__ import annotations

import pytest

from bridge.conversations.turns import StampedNode, turns_of


def conversation(*kinds, parents=None):
    """Return entries ``e1``, ``e2``, …, each under the one before, observed a second apart.

    A kind may carry a turn id (``turn.started:t1``), and a question mark for an unknown stamp.
    """
    nodes = []
    for number, told in enumerate(kinds, 1):
        kind, _, turn = told.rstrip("?").partition(":")
        parent = (parents or {}).get(number, number - 1)
        nodes.append(
            StampedNode(
                id=f"e{number}",
                session_id="s",
                parent_entry_id=f"e{parent}",
                kind=kind,
                turn_payload='{"turn_id":"%s"}' % turn if turn else None,  # noqa: UP031  # braces are plain here
                state_digest=None if told.endswith("?") else f"d{number}",
                observed_at=f"2026-01-01T00:00:{number:02d}.000000Z",
            )
        )
    return nodes


def windows(*kinds, **options):
    found = turns_of(conversation(*kinds, **options)).windows
    return [(window.after_entry_id, window.entry_id) for window in found]


def running(*kinds):
    found = turns_of(conversation(*kinds)).running
    return None if found is None else found.after_entry_id


TOOL = ("tool.started", "tool.completed")


def test_nothing_was_said():
    assert turns_of([]) == turns_of(conversation("note", "checkpoint"))
    assert turns_of([]).windows == ()


def test_a_turn_goes_from_its_message_to_its_end():
    kinds = ("user.message", "turn.started:1", *TOOL, "assistant.message", "turn.completed:1", "note")
    assert windows(*kinds) == [("e1", "e2"), ("e2", "e3"), ("e3", "e4"), ("e4", "e5"), ("e5", "e6")]


def test_message_and_start_come_in_either_order():
    assert windows("turn.started:1", "user.message", "turn.completed:1") == [("e1", "e2"), ("e2", "e3")]
    assert windows("turn.started:1", "user.message", "assistant.message") == [("e1", "e2"), ("e2", "e3")]
    assert windows("user.message", "turn.started:1", "assistant.message") == [("e1", "e2"), ("e2", "e3")]


def test_between_two_turns_is_no_window():
    one = ("user.message", "assistant.message")
    assert windows(*one, *one) == [("e1", "e2"), ("e3", "e4")]
    closed = ("turn.started:1", "turn.completed:1", "turn.started:2", "turn.completed:2")
    assert windows(*closed) == [("e1", "e2"), ("e3", "e4")]


def test_a_message_into_a_running_turn_is_a_word_of_it_once_its_end_is_known():
    kinds = ("turn.started:1", "tool.completed", "user.message", "tool.completed")
    assert windows(*kinds) == [("e1", "e2"), ("e3", "e4")]
    assert windows(*kinds, "turn.completed:1") == [("e1", "e2"), ("e2", "e3"), ("e3", "e4"), ("e4", "e5")]


def test_a_turn_that_was_broken_off_ends_at_its_last_word():
    assert windows("turn.started:1", "tool.completed", "turn.started:2", "turn.completed:2") == [
        ("e1", "e2"),
        ("e3", "e4"),
    ]
    # The end of another turn is no end of this one.
    assert windows("turn.started:1", "turn.completed:2", "tool.completed") == [("e1", "e2")]


@pytest.mark.parametrize("kind", ["note", "checkpoint", "delegation.requested", "worker.result", "session.status"])
def test_what_a_person_may_write_later_is_no_word_of_an_open_turn(kind):
    assert windows("user.message", "assistant.message", kind) == [("e1", "e2")]
    assert windows("user.message", kind, "assistant.message") == [("e1", "e3")]
    assert windows("turn.started:1", kind, "turn.completed:1") == [("e1", "e2"), ("e2", "e3")]


def test_an_unknown_stamp_joins_its_windows():
    assert windows("user.message", "tool.completed?", "assistant.message") == [("e1", "e3")]
    assert windows("user.message?", "tool.completed", "assistant.message") == [("e2", "e3")]
    assert windows("user.message", "assistant.message?") == []


def test_every_branch_has_its_own_windows():
    # e4 goes on from e1: a second answer to one question.
    found = windows("user.message", "tool.completed", "assistant.message", "assistant.message", parents={4: 1})
    assert found == [("e1", "e2"), ("e2", "e3"), ("e1", "e4")]


def test_a_late_result_of_a_closed_turn_is_in_it():
    found = windows("turn.started:1", "tool.started", "note", "turn.completed:1", parents={3: 1, 4: 2})
    assert found == [("e1", "e2"), ("e2", "e4")]


def test_a_clock_that_was_set_back_gives_no_window():
    nodes = conversation("user.message", "tool.completed", "assistant.message")
    late = [*nodes[:1], nodes[1].__class__(**{**fields(nodes[1]), "observed_at": "2025-01-01T00:00:00.000000Z"})]
    assert turns_of([*late, nodes[2]]).windows[0].entry_id == "e3"
    assert len(turns_of([*late, nodes[2]]).windows) == 1


def fields(node):
    return {name: getattr(node, name) for name in node.__slots__}


def test_entries_whose_beginning_is_missing_are_in_no_turn():
    nodes = conversation("turn.started:1", "tool.completed", "tool.completed", "turn.completed:1")
    assert turns_of(nodes[1:]).windows == ()


def test_which_turn_is_running():
    assert running() is None
    assert running("user.message") == "e1"
    assert running("user.message", "tool.completed", "note") == "e2"
    assert running("user.message", "assistant.message") is None
    assert running("turn.started:1", "assistant.message", "tool.started") == "e3"
    assert running("turn.started:1", "turn.completed:1") is None
    assert running("turn.started:1", "tool.completed", "turn.completed:1", "note") is None
    assert running("user.message?") is None


@pytest.mark.parametrize("payload", ["", "[]", "{}", '{"turn_id":1}', '{"turn_id":"1"'])
def test_an_end_that_names_no_turn_ends_the_open_one(payload):
    nodes = conversation("turn.started:1", "turn.completed:1", "tool.completed")
    nodes[1] = nodes[1].__class__(**{**fields(nodes[1]), "turn_payload": payload})
    assert [(window.after_entry_id, window.entry_id) for window in turns_of(nodes).windows] == [("e1", "e2")]
