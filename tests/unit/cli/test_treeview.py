"""The drawn tree."""

from __future__ import annotations

from bridge.cli.treeview import ASCII, UNICODE, glyphs_for, tree_lines
from bridge.control.reading import TreeNode
from bridge.conversations.models import Node
from bridge.foundation.ids import entry_id


def tree(*parents: int, head: int, kind: str = "user.message", labels: dict[int, str] | None = None) -> list[TreeNode]:
    """A session's nodes 1, 2, … from their parents' sequences."""
    active = {head}
    for number in range(len(parents), 0, -1):
        if number in active:
            active.add(parents[number - 1])
    found = []
    for number, parent in enumerate(parents, 1):
        node = Node(entry_id("s", number), "s", entry_id("s", parent), number, 2, kind, "eligible", "")
        names = ((labels or {}).get(number, ""),) if number in (labels or {}) else ()
        found.append(
            TreeNode(
                node, names, f"text {number}", parents.count(number), number in active, number == head, is_readable=True
            )
        )
    return found


def drawn(nodes, *, show_all: bool = False, glyphs=ASCII) -> list[str]:
    return [line.split("  ")[0] for line in tree_lines(nodes, glyphs=glyphs, width=80, show_all=show_all)]


def test_a_linear_session_is_a_straight_line():
    assert drawn(tree(0, 1, 2, head=3)) == ["* s.1", "* s.2", "* s.3"]


def test_side_branches_stand_before_the_way_that_goes_on():
    assert drawn(tree(0, 1, 2, 1, 4, head=5)) == ["* s.1", "|-o s.2", "| o s.3", "* s.4", "* s.5"]
    assert drawn(tree(0, 1, 2, 1, 4, head=3)) == ["* s.1", "|-o s.4", "| o s.5", "* s.2", "* s.3"]


def test_without_an_active_way_the_one_touched_last_goes_on():
    assert drawn(tree(0, 1, 1, 2, head=1)) == ["* s.1", "|-o s.3", "o s.2", "o s.4"]


def test_several_beginnings_and_branches_of_branches():
    assert drawn(tree(0, 1, 1, 0, 2, 2, head=4)) == ["|-o s.1", "| |-o s.3", "| o s.2", "| |-o s.5", "| o s.6", "* s.4"]


def test_many_forks_never_move_the_conversation_to_the_right():
    parents = [0]
    for number in range(1, 400, 2):
        parents += [number, number]
    lines = drawn(tree(*parents, head=len(parents)))
    assert max(map(len, lines)) <= len("|-o s.401")


def test_what_says_nothing_is_counted():
    nodes = tree(0, 1, 2, 3, 4, head=5, kind="turn.started", labels={4: "here"})
    assert drawn(nodes) == [": 3 more", "* s.4", "* s.5"]
    assert drawn(nodes, show_all=True) == ["* s.1", "* s.2", "* s.3", "* s.4", "* s.5"]
    (line,) = tree_lines(nodes, glyphs=ASCII, width=80, show_all=False)[1:2]
    assert line == "* s.4  turn.started  [here] text 4"


def test_a_narrow_terminal_cuts_the_text_and_keeps_the_mark():
    nodes = tree(0, head=1)
    nodes = [TreeNode(nodes[0].node, (), "long " * 40, 0, is_active=True, is_head=True, is_readable=True)]
    (line,) = tree_lines(nodes, glyphs=ASCII, width=60, show_all=False)
    assert len(line) == 60
    assert line.endswith("…  <- head")


def test_an_empty_session_has_no_lines():
    assert tree_lines([], glyphs=ASCII, width=80, show_all=True) == []


def test_glyphs_follow_the_encoding():
    assert glyphs_for("UTF-8") is UNICODE
    assert glyphs_for("ascii") is ASCII
    assert glyphs_for(None) is ASCII
