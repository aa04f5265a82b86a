"""The hash of a whole conversation: one value that fixes every entry of a session and how they hang together.

A child is recorded after its parent, so one scan from the last entry to the first meets every subtree complete:
no recursion, and no entry is looked at twice. Siblings are combined in the order of their hashes, so the order
in which they were recorded plays no part.

A subtree hash by itself does not fix the shape: for given entry hashes, one child with another below it can
combine to the same value as something else. The entry hash pins its parent's, so whoever verifies a root
recomputes the entry hashes as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from bridge.foundation.hashing import hash_combine, leaf_hash
from bridge.integrity.errors import TreeUnsound


class TreeNode(NamedTuple):
    """What of an entry enters the tree; ``entry_hash`` is hexadecimal."""

    id: str
    parent_entry_id: str | None
    sequence: int
    entry_hash: str


def session_root(nodes: Iterable[TreeNode]) -> str:
    """Return the root of a session, in hexadecimal.

    Parameters
    ----------
    nodes
        All entries of one session, the last recorded first.

    Raises
    ------
    TreeUnsound
        If the entries are not one tree whose parents come before their children, or two siblings have the same
        hash. ``details`` names the entry.
    """
    #: Subtree hashes of the children seen so far, by their parent's id.
    waiting: dict[str, list[bytes]] = {}
    root: bytes | None = None
    previous: int | None = None
    for node in nodes:
        if previous is not None and node.sequence >= previous:
            raise _unsound(node, "is not in descending order of sequence")
        previous = node.sequence
        if root is not None:
            raise _unsound(node, "was recorded before the root")
        own = sha256(b"\x00" + raw_hash(node)).digest()
        children = waiting.pop(node.id, None)
        if children is not None:
            # Of most entries there is one child, which needs no combining.
            below = children[0] if len(children) == 1 else children_root(children, node)
            own = sha256(b"\x03" + own + below).digest()
        parent = node.parent_entry_id
        if parent is None:
            root = own
        elif parent in waiting:
            waiting[parent].append(own)
        else:
            waiting[parent] = [own]
    if root is None:
        raise TreeUnsound("The session has no root entry.")
    if waiting:
        missing = min(waiting)
        raise TreeUnsound(f"{missing} is named as a parent, but is not there.", details={"entry_id": missing})
    return root.hex()


def subtree_hash(entry_hash: bytes, children: Sequence[bytes], node: TreeNode | None = None) -> bytes:
    """Return the hash of an entry with all that lies below it, from its children's subtree hashes in any order.

    Raises
    ------
    TreeUnsound
        If two children have the same hash.
    """
    own = leaf_hash(entry_hash)
    return hash_combine(own, children_root(children, node)) if children else own


def children_root(children: Sequence[bytes], node: TreeNode | None = None) -> bytes:
    """Combine the subtree hashes of one or more children, sorted, bottom-up; an odd last one with itself.

    A single child's hash is the result as it is.

    Raises
    ------
    TreeUnsound
        If two children have the same hash.
    """
    level = sorted(children)
    if any(left == right for left, right in pairwise(level)):
        raise TreeUnsound(
            "Two entries under one parent have the same hash.", details={"entry_id": None if node is None else node.id}
        )
    while len(level) > 1:
        if len(level) % 2:
            level.append(level[-1])
        level = [hash_combine(level[index], level[index + 1]) for index in range(0, len(level), 2)]
    return level[0]


def raw_hash(node: TreeNode) -> bytes:
    """Return the hash of an entry as bytes.

    Raises
    ------
    TreeUnsound
        If it has none of 32 bytes.
    """
    try:
        raw = bytes.fromhex(node.entry_hash)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise _unsound(node, "has no hash of 32 bytes")
    return raw


def _unsound(node: TreeNode, reason: str) -> TreeUnsound:
    return TreeUnsound(f"{node.id} {reason}.", details={"entry_id": node.id})
