"""The shape of one session: which entries are on the active path, where it forks, how its branches end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.conversations.models import Node
from bridge.semantics.kinds import CONVERSATIONAL_KINDS


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
    """

    leaf_entry_id: str
    first_entry_id: str
    branch_point_entry_id: str | None
    entries: int
    spoken_entry_id: str
    is_active: bool


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


def branch_tips(nodes: Sequence[Node], head_entry_id: str, *, include_all: bool = False) -> list[BranchTip]:
    """Return how the branches of a session end, in the order of their last entries.

    A branch is a way that leads to conversational entries, up to the entry recorded last on it; bookkeeping that
    hangs off the side is no branch of its own. With ``include_all`` every leaf is one.

    Parameters
    ----------
    nodes
        All nodes of one session, root first, in the order of sequence.
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
            tips.append(_tip(by_id, latest[node.id], branch_point, path))
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


def _tip(by_id: dict[str, Node], leaf: Node, branch_point: str | None, path: frozenset[str]) -> BranchTip:
    segment = [leaf]
    while segment[-1].parent_entry_id not in {None, branch_point}:
        above = by_id[str(segment[-1].parent_entry_id)]
        if above.parent_entry_id is None:
            break
        segment.append(above)
    first = segment[-1]
    spoken = next((node for node in reversed(segment) if node.kind in CONVERSATIONAL_KINDS), first)
    is_active = any(node.id in path for node in segment)
    return BranchTip(leaf.id, first.id, branch_point, len(segment), spoken.id, is_active)
