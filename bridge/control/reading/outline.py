"""The shape of one session: its active path, where it forks, how its branches end, which entries tell of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.conversations.models import Node
from bridge.semantics.kinds import CONVERSATIONAL_KINDS, READABLE_VERSIONS

#: Kinds shown beside the conversational ones in an outline.
TELLING_KINDS: Final = CONVERSATIONAL_KINDS | {
    "note",
    "handoff.brief",
    "error",
    "artifact.created",
    "delegation.requested",
}


@dataclass(frozen=True, slots=True)
class BranchTip:
    """One way in which a conversation went.

    Parameters
    ----------
    leaf_entry_id
        Its last entry.
    first_entry_id
        Its first entry that no other branch has.
    branch_point_entry_id
        The entry it left the others at; None for the only branch of a session.
    entries
        How many entries it has from its first to its last.
    spoken_entry_id
        Its first conversational entry, else its first: what it is about.
    is_active
        Whether the head lies on it. None is active while the head is on what branches have in common.
    cursor_leaves
        The entries of it that cursors stand at, first to last.
    """

    leaf_entry_id: str
    first_entry_id: str
    branch_point_entry_id: str | None
    entries: int
    spoken_entry_id: str
    is_active: bool
    cursor_leaves: tuple[str, ...] = ()


def active_ids(nodes: Sequence[Node], head_entry_id: str) -> frozenset[str]:
    """Return the ids of the head and its ancestors among the nodes of one session, in the order of sequence."""
    parents = {node.id: node.parent_entry_id for node in nodes}
    found = set()
    current: str | None = head_entry_id
    while current is not None and current in parents and current not in found:
        found.add(current)
        current = parents[current]
    return frozenset(found)


def children_of(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """Return the children of every node that has some, in the order of sequence."""
    children: dict[str, list[Node]] = {}
    for node in nodes:
        if node.parent_entry_id is not None:
            children.setdefault(node.parent_entry_id, []).append(node)
    return children


def side_ways(nodes: Sequence[Node], children: Mapping[str, Sequence[Node]], path: Collection[str]) -> frozenset[str]:
    """Return the first entries of ways that leave the main one: the active way, else the one recorded on last."""
    latest = {node.id: node.sequence for node in nodes}
    for node in reversed(nodes):
        parent = node.parent_entry_id
        if parent is not None and latest[parent] < latest[node.id]:
            latest[parent] = latest[node.id]
    sides: set[str] = set()
    for ways in children.values():
        if len(ways) > 1:
            main = max(ways, key=lambda way: (way.id in path, latest[way.id]))
            sides.update(way.id for way in ways if way.id != main.id)
    return frozenset(sides)


def telling_ids(
    nodes: Sequence[Node],
    children: Mapping[str, Sequence[Node]],
    marked: Collection[str],
    sides: Collection[str],
    *,
    everything: bool,
    limit: int | None,
) -> set[str]:
    """Return which entries an outline of a session shows; the root is none of them.

    Those are what was said, where ways begin, part and end, what cannot be read, and what is marked.

    Parameters
    ----------
    children
        As :func:`children_of` returns them.
    marked
        Ids that are always shown: the head, what has a label or a cursor.
    sides
        As :func:`side_ways` returns them.
    everything
        Whether to show all others as well.
    limit
        At most so many beside the marked ones, the last recorded ones.
    """
    shown: set[str] = set()
    for node in reversed(nodes):
        if limit is not None and len(shown) >= limit:
            break
        if node.parent_entry_id is None:
            continue
        if everything or node.kind in TELLING_KINDS or node.semantic_schema_version not in READABLE_VERSIONS:
            shown.add(node.id)
            continue
        if node.id in sides or len(children.get(node.id, ())) != 1:
            shown.add(node.id)
    return shown.union(marked)


def branch_tips(
    nodes: Sequence[Node], head_entry_id: str, *, include_all: bool = False, cursor_leaves: Collection[str] = ()
) -> list[BranchTip]:
    """Return how the branches of a session end, in the order of their last entries.

    A branch is a way that leads to conversational entries, up to the entry recorded last on it; bookkeeping that
    hangs off the side is no branch of its own. With ``include_all`` every leaf is one.

    Parameters
    ----------
    nodes
        All nodes of one session, root first, in the order of sequence.
    cursor_leaves
        The entries that cursors stand at.
    """
    if len(nodes) < 2:
        return []
    by_id = {node.id: node for node in nodes}
    children = children_of(nodes)
    latest, speaks = _look_below(nodes, children)
    path = active_ids(nodes, head_entry_id)
    tips = []
    pending: list[tuple[Node, str | None]] = [(nodes[0], None)]
    while pending:
        node, branch_point = pending.pop()
        ways = [child for child in children.get(node.id, ()) if include_all or child.id in speaks]
        if not ways:
            tips.append(_tip(by_id, latest[node.id], branch_point, path, cursor_leaves))
        elif len(ways) == 1:
            pending.append((ways[0], branch_point))
        else:
            pending.extend((child, node.id) for child in ways)
    return sorted(tips, key=lambda tip: by_id[tip.leaf_entry_id].sequence)


def _look_below(nodes: Sequence[Node], children: dict[str, list[Node]]) -> tuple[dict[str, Node], set[str]]:
    """Return for each entry the leaf recorded last below it, and which lead to conversational entries."""
    latest: dict[str, Node] = {}
    speaks: set[str] = set()
    for node in reversed(nodes):
        below = children.get(node.id, ())
        latest[node.id] = max((latest[child.id] for child in below), key=lambda leaf: leaf.sequence, default=node)
        if node.kind in CONVERSATIONAL_KINDS or any(child.id in speaks for child in below):
            speaks.add(node.id)
    return latest, speaks


def _tip(
    by_id: dict[str, Node],
    leaf: Node,
    branch_point: str | None,
    path: frozenset[str],
    cursor_leaves: Collection[str],
) -> BranchTip:
    segment = [leaf]
    while segment[-1].parent_entry_id not in {None, branch_point}:
        above = by_id[str(segment[-1].parent_entry_id)]
        if above.parent_entry_id is None:
            break
        segment.append(above)
    first = segment[-1]
    spoken = next((node for node in reversed(segment) if node.kind in CONVERSATIONAL_KINDS), first)
    is_active = any(node.id in path for node in segment)
    standing = tuple(node.id for node in reversed(segment) if node.id in cursor_leaves)
    return BranchTip(leaf.id, first.id, branch_point, len(segment), spoken.id, is_active, standing)
