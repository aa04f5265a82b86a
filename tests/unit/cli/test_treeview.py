"""The drawn tree."""

from __future__ import annotations

from dataclasses import replace

from bridge.cli.rendering import text_width
from bridge.cli.treeview import ASCII, MAX_INDENT, UNICODE, glyphs_for, tree_lines
from bridge.control.reading.outline import active_ids, children_of, side_ways, telling_ids
from bridge.control.reading.trees import TreeNode
from bridge.conversations.models import Node
from bridge.foundation.ids import entry_id


def tree(
    *parents: int,
    head: int,
    kind: str = "user.message",
    labels: dict[int, str] | None = None,
    cursors: dict[int, str] | None = None,
    everything: bool = False,
    limit: int | None = None,
) -> list[TreeNode]:
    """A session's nodes 1, 2, … from their parents' sequences."""
    labels, cursors = labels or {}, cursors or {}
    nodes = [Node("s-000000", "s", None, 0, 2, "session.root", "hidden", "")]
    for number, parent in enumerate(parents, 1):
        nodes.append(Node(entry_id("s", number), "s", entry_id("s", parent), number, 2, kind, "eligible", ""))
    head_id = entry_id("s", head)
    path, children = active_ids(nodes, head_id), children_of(nodes)
    marked = {head_id, *(entry_id("s", number) for number in (*labels, *cursors))}
    sides = side_ways(nodes, children, path)
    shown = telling_ids(nodes, children, marked, sides, everything=everything, limit=limit)
    return [
        TreeNode(
            node,
            tuple(filter(None, (labels.get(node.sequence),))),
            tuple(filter(None, (cursors.get(node.sequence),))),
            (),
            f"text {node.sequence}",
            len(children.get(node.id, ())),
            is_active=node.id in path,
            is_head=node.id == head_id,
            is_readable=True,
            is_shown=node.id in shown,
        )
        for node in nodes[1:]
    ]


def drawn(nodes, *, glyphs=ASCII, width=80) -> list[str]:
    return [line.split("  ")[0] for line in tree_lines(nodes, glyphs=glyphs, width=width)]


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
    chain = {"head": 5, "kind": "turn.started", "labels": {4: "here"}}
    nodes = tree(0, 1, 2, 3, 4, **chain)
    assert drawn(nodes) == [": 3 more", "* s.4", "* s.5"]
    assert drawn(tree(0, 1, 2, 3, 4, everything=True, **chain)) == ["* s.1", "* s.2", "* s.3", "* s.4", "* s.5"]
    (line,) = tree_lines(nodes, glyphs=ASCII, width=80)[1:2]
    assert line == "* s.4  turn.started  [here] text 4"


def test_a_limit_shows_the_last_ones_and_what_is_marked():
    nodes = tree(0, 1, 2, 3, 4, 5, head=2, limit=2, cursors={3: "turn t1"})
    assert tree_lines(nodes, glyphs=ASCII, width=80) == [
        ": 1 more",
        "* s.2  user.message  text 2  <- head",
        "o s.3  user.message  text 3  <- cursor turn t1",
        ": 1 more",
        "o s.5  user.message  text 5",
        "o s.6  user.message  text 6",
    ]


def test_ways_are_drawn_further_in_only_so_far():
    deep = []
    for number in range(200):
        deep += [max(0, 2 * number - 1), max(0, 2 * number - 1)]
    nodes = tree(*deep, head=2)
    lines = tree_lines(nodes, glyphs=ASCII, width=40)
    assert max(len(line) - len(line.lstrip("|- ")) for line in lines) <= 2 * MAX_INDENT
    assert len(lines) == len(nodes)


def test_ten_thousand_ways_within_ways_are_drawn():
    # Every odd entry begins a way beside the one that an even entry, recorded later, goes on with.
    parents = [0]
    for number in range(10_000):
        parents += [max(1, 2 * number), max(1, 2 * number)]
    lines = tree_lines(tree(*parents, head=1), glyphs=ASCII, width=100)
    assert len(lines) == len(parents)
    assert max(map(len, lines)) <= 100


def test_a_narrow_terminal_cuts_the_text_and_keeps_the_mark():
    (node,) = tree(0, head=1)
    for text in ("long " * 40, "长文本" * 40, "e\u0301" * 100):
        (line,) = tree_lines([replace(node, summary=text)], glyphs=ASCII, width=70)
        assert text_width(line) in {69, 70}
        assert line.endswith("…  <- head")


def test_a_very_narrow_terminal_shortens_the_kind():
    (line,) = tree_lines(tree(0, head=1, kind="assistant.message"), glyphs=ASCII, width=40)
    assert line == "* s.1  assistant  text 1  <- head"


def test_an_empty_session_has_no_lines():
    assert tree_lines([], glyphs=ASCII, width=80) == []


def test_glyphs_follow_the_encoding():
    assert glyphs_for("UTF-8") is UNICODE
    assert glyphs_for("ascii") is ASCII
    assert glyphs_for(None) is ASCII
