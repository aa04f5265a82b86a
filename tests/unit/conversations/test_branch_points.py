"""Branch points among nodes, checked against a plain recursive definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.conversations.models import Node
from bridge.conversations.paths import branch_points

CONVERSATIONAL, OTHER = "user.message", "turn.started"


@st.composite
def trees(draw):
    size = draw(st.integers(1, 25))
    nodes = [Node("0", "s", None, 0, 2, "session.root", "hidden", "t")]
    for sequence in range(1, size):
        parent = str(draw(st.integers(max(0, sequence - 6), sequence - 1)))
        kind = draw(st.sampled_from([CONVERSATIONAL, OTHER]))
        nodes.append(Node(str(sequence), "s", parent, sequence, 2, kind, "eligible", "t"))
    return nodes, str(draw(st.integers(0, size - 1)))


def plain(nodes, head, include_all):
    children = {node.id: [child for child in nodes if child.parent_entry_id == node.id] for node in nodes}
    by_id = {node.id: node for node in nodes}

    def below(node):
        return [node] + [lower for child in children[node.id] for lower in below(child)]

    active, at = set(), head
    while at is not None:
        active.add(at)
        at = by_id[at].parent_entry_id
    found = []
    for node in nodes:
        ways = [
            child
            for child in children[node.id]
            if include_all or any(lower.kind == CONVERSATIONAL for lower in below(child))
        ]
        if len(ways) < 2:
            continue
        found.append(
            (
                node.id,
                [
                    (
                        way.id,
                        max((n for n in below(way)), key=lambda n: n.sequence).id,
                        sum(not children[n.id] for n in below(way)),
                        len(below(way)),
                        way.id in active,
                    )
                    for way in ways
                ],
            )
        )
    return found


@given(trees(), st.booleans())
def test_branch_points_are_what_the_definition_says(tree, include_all):
    nodes, head = tree
    points = branch_points(nodes, head, include_all=include_all)
    assert [
        (
            point.entry_id,
            [(b.first_entry_id, b.leaf_entry_id, b.leaves, b.entries, b.is_active) for b in point.branches],
        )
        for point in points
    ] == plain(nodes, head, include_all)
