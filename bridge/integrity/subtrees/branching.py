"""The branch points of a session that lie above what is new: what whoever holds the rest has to combine anew."""

from __future__ import annotations

from typing import Any, NamedTuple

from bridge.integrity.store import has_branches, iterate_tree
from bridge.integrity.tree import TreeNode, raw_hash, subtree_hash
from bridge.storage.transaction import Connection


class BranchPoint(NamedTuple):
    """An entry with two or more children, and the hash of all that hangs on it."""

    entry_id: str
    subtree_hash: str
    children: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"entry_id": self.entry_id, "subtree_hash": self.subtree_hash, "children": list(self.children)}


def changed_branch_points(connection: Connection, session_id: str, after: int) -> list[BranchPoint]:
    """Return the branch points of a session with an entry of a higher sequence below them, the first recorded first.

    A session without branches is not gone through.

    Raises
    ------
    TreeUnsound
        If an entry's hash is none, or two siblings have the same.
    """
    if not has_branches(connection, session_id):
        return []
    waiting: dict[str, list[tuple[bytes, str, bool]]] = {}
    found: list[BranchPoint] = []
    for row in iterate_tree(connection, session_id):
        node = TreeNode(*row)
        children = waiting.pop(node.id, [])
        own = subtree_hash(raw_hash(node), [one for one, _, _ in children], node)
        is_changed = node.sequence > after or any(changed for _, _, changed in children)
        if is_changed and len(children) > 1:
            found.append(BranchPoint(node.id, own.hex(), tuple(sorted(child for _, child, _ in children))))
        if node.parent_entry_id is not None:
            waiting.setdefault(node.parent_entry_id, []).append((own, node.id, is_changed))
    found.reverse()
    return found
