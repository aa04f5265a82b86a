"""The shape of a session."""

from __future__ import annotations

import pytest

from bridge.control.reading.outline import active_ids, branch_tips
from bridge.conversations.models import Node
from bridge.foundation.ids import entry_id


def nodes(*parents: tuple[int, str]) -> list[Node]:
    """Nodes 1, 2, … from their parents' sequences and kinds, below a root."""

    def node(sequence: int, parent: int | None, kind: str) -> Node:
        above = None if parent is None else entry_id("s", parent)
        return Node(entry_id("s", sequence), "s", above, sequence, 2, kind, "eligible", "2026-01-01T00:00:00.000000Z")

    return [
        node(0, None, "session.root"),
        *(node(number, parent, kind) for number, (parent, kind) in enumerate(parents, 1)),
    ]


def told(found) -> list[tuple[str, str, str | None, int, bool]]:
    def short(text: str | None) -> str | None:
        return None if text is None else text.rpartition("-")[2].lstrip("0") or "0"

    return [
        (
            short(tip.leaf_entry_id),
            short(tip.first_entry_id),
            short(tip.branch_point_entry_id),
            tip.entries,
            tip.is_active,
        )
        for tip in found
    ]


SAID, DONE = "user.message", "tool.completed"


@pytest.mark.parametrize(
    ("parents", "head", "expected"),
    [
        ([], 0, []),
        ([(0, SAID)], 1, [("1", "1", None, 1, True)]),
        ([(0, SAID), (1, SAID), (2, DONE)], 3, [("3", "1", None, 3, True)]),
        ([(0, SAID), (1, SAID), (1, SAID)], 3, [("2", "2", "1", 1, False), ("3", "3", "1", 1, True)]),
        # On what they have in common, no branch is active.
        ([(0, SAID), (1, SAID), (1, SAID)], 1, [("2", "2", "1", 1, False), ("3", "3", "1", 1, False)]),
        # Bookkeeping at the side is no branch, but belongs to the end of one.
        ([(0, SAID), (1, DONE), (1, SAID), (3, DONE)], 4, [("4", "1", None, 3, True)]),
        ([(0, SAID), (1, DONE), (2, DONE), (1, DONE)], 1, [("4", "1", None, 2, True)]),
        # Two ways from the start; a branch within a branch.
        ([(0, SAID), (0, SAID)], 0, [("1", "1", "0", 1, False), ("2", "2", "0", 1, False)]),
        (
            [(0, SAID), (1, SAID), (2, SAID), (2, SAID), (1, SAID)],
            4,
            [("3", "3", "2", 1, False), ("4", "4", "2", 1, True), ("5", "5", "1", 1, False)],
        ),
        # Nothing was said at all.
        ([(0, DONE), (1, DONE), (1, DONE)], 2, [("3", "1", None, 2, True)]),
    ],
)
def test_branches_end_where_the_conversation_did(parents, head, expected):
    assert told(branch_tips(nodes(*parents), entry_id("s", head))) == expected


def test_every_leaf_is_a_branch_if_all_are_asked_for():
    shape = nodes((0, SAID), (1, DONE), (1, SAID))
    assert told(branch_tips(shape, entry_id("s", 3), include_all=True)) == [
        ("2", "2", "1", 1, False),
        ("3", "3", "1", 1, True),
    ]


def test_a_branch_is_about_the_first_that_was_said_on_it():
    shape = nodes((0, SAID), (1, DONE), (2, SAID), (1, SAID))
    assert [tip.spoken_entry_id for tip in branch_tips(shape, entry_id("s", 4))] == [entry_id("s", 3), entry_id("s", 4)]


def test_a_long_conversation_needs_no_recursion():
    shape = nodes(*((number, SAID) for number in range(5_000)))
    assert told(branch_tips(shape, entry_id("s", 5_000))) == [("5000", "1", None, 5_000, True)]
    assert len(active_ids(shape, entry_id("s", 5_000))) == 5_001
