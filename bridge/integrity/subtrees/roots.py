"""The root of a session as it is now: computed from its entries, or from what is kept of a large one.

Below :data:`KEPT_FROM` entries nothing is kept: one scan of the entries costs about as much as hashing them. Above,
packed pages hold every subtree hash, exact up to a marked sequence. A root is then told from the pages, after the
entries behind the mark and those above them were hashed anew. Appending does nothing; what was read is kept afterwards,
pages and mark in one transaction, so that a crash in between leaves the older of the two exact states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Final

from bridge.foundation.ids import entry_id as entry_id_of
from bridge.integrity.errors import TreeUnsound
from bridge.integrity.store import iterate_tree
from bridge.integrity.subtrees import store
from bridge.integrity.subtrees.pages import NO_ENTRY, NO_PARENT, Pages, PagesDamaged, Slot
from bridge.integrity.tree import TreeNode, children_root, raw_hash, session_root, subtree_hash
from bridge.storage.transaction import Connection, Transaction

#: Entries from which on subtree hashes are kept.
KEPT_FROM: Final = 20_000
#: New entries from which on a whole scan is cheaper than going up from each.
SCANNED_FROM: Final = 50_000


@dataclass(frozen=True, slots=True)
class Reading:
    """A root, and what keeping it takes.

    Parameters
    ----------
    root
        In hexadecimal.
    exact_through
        The last sequence that it covers.
    base
        Up to where the pages were exact that it was told from; None if there were none to tell it from.
    pages
        The pages that changed, by number.
    hashed
        How many entries were hashed.
    """

    session_id: str
    root: str
    exact_through: int
    base: int | None = None
    pages: dict[int, bytes] = field(default_factory=dict)
    hashed: int = 0


def read(connection: Connection, session_id: str, *, kept_from: int = KEPT_FROM) -> Reading:
    """Return the root of a session in the snapshot of a connection. Writes nothing: :func:`keep` does.

    Raises
    ------
    TreeUnsound
        If its entries do not form one tree.
    """
    first, last = store.bounds(connection, session_id)
    if last - first + 1 < kept_from:
        root = session_root(map(TreeNode._make, iterate_tree(connection, session_id)))
        return Reading(session_id, root, last, hashed=last - first + 1)
    mark = store.mark_of(connection, session_id)
    if mark is not None and mark <= last and last - mark < SCANNED_FROM:
        with suppress(PagesDamaged):  # they are derived: the scan makes them anew
            return _extended(connection, session_id, first, mark, last)
    return scanned(connection, session_id, last, base=mark)


def keep(tx: Transaction, reading: Reading) -> bool:
    """Keep what was read, unless somebody did meanwhile; return whether it was kept."""
    if not reading.pages or store.mark_of(tx.connection, reading.session_id) != reading.base:
        return False
    store.put_pages(tx, reading.session_id, reading.pages, reading.exact_through)
    return True


def scanned(connection: Connection, session_id: str, through: int, *, base: int | None = None) -> Reading:
    """Return the root up to a sequence, and all its pages, from one scan of the entries.

    Raises
    ------
    TreeUnsound
        If the entries do not form one tree.
    """
    pages = Pages(lambda _number: None)
    waiting: dict[int, list[bytes]] = {}
    root: bytes | None = None
    count = 0
    for row in iterate_tree(connection, session_id):
        node = TreeNode._make(row)
        if node.sequence > through:
            continue
        count += 1
        if root is not None:
            raise _unsound(node, "was recorded before the root")
        children = waiting.pop(node.sequence, [])
        hashed = raw_hash(node)
        own = subtree_hash(hashed, children, node)
        parent = _parent_of(session_id, node)
        pages.put(node.sequence, Slot(parent, len(children), hashed, own))
        if parent == NO_PARENT:
            root = own
        else:
            waiting.setdefault(parent, []).append(own)
    if root is None:
        raise TreeUnsound("The session has no root entry.")
    if waiting:
        missing = entry_id_of(session_id, min(waiting))
        raise TreeUnsound(f"{missing} is named as a parent, but is not there.", details={"entry_id": missing})
    return Reading(session_id, root.hex(), through, base, pages.changed(), count)


def differing_pages(connection: Connection, session_id: str) -> list[int]:
    """Return the numbers of the kept pages that are not what a scan of the entries makes.

    Raises
    ------
    TreeUnsound
        If the entries do not form one tree.
    """
    mark = store.mark_of(connection, session_id)
    if mark is None:
        return store.page_numbers(connection, session_id)
    made = scanned(connection, session_id, mark).pages
    numbers = sorted({*made, *store.page_numbers(connection, session_id)})
    return [number for number in numbers if store.page_of(connection, session_id, number) != made.get(number)]


#: What is known of an entry while a root is told: the fields of its slot.
_Known = dict[int, tuple[int, int, bytes, bytes]]


def _extended(connection: Connection, session_id: str, first: int, mark: int, last: int) -> Reading:
    pages = Pages(partial(store.page_of, connection, session_id))
    changed: _Known = {}
    for row in store.entries_after(connection, session_id, mark):
        _take_in(pages, session_id, TreeNode(*row), changed)
    children = _children_beside(connection, session_id, pages, changed)
    for sequence in sorted(changed, reverse=True):
        parent, count, hashed, _ = changed[sequence]
        below = children.pop(sequence, [])
        if len(below) != count:
            identity = entry_id_of(session_id, sequence)
            raise PagesDamaged(f"{identity} has {len(below)} children, not {count}")
        own = sha256(b"\x00" + hashed).digest()
        if count:
            own = sha256(b"\x03" + own + (below[0] if count == 1 else _combined(session_id, sequence, below))).digest()
        pages.put(sequence, (parent, count, hashed, own))
        if parent != NO_PARENT:
            beside = children.get(parent)
            if beside is None:
                children[parent] = [own]
            else:
                beside.append(own)
    root = pages.slot(first)
    if root.parent != NO_PARENT:
        raise PagesDamaged(f"sequence {first} is no root")
    return Reading(session_id, root.subtree_hash.hex(), last, mark, pages.changed(), len(changed))


def _combined(session_id: str, sequence: int, below: Sequence[bytes]) -> bytes:
    return children_root(below, TreeNode(entry_id_of(session_id, sequence), None, sequence, ""))


def _take_in(pages: Pages, session_id: str, node: TreeNode, changed: _Known) -> None:
    """Add an entry to the pages, and it and all that is above it to what changed."""
    parent = _parent_of(session_id, node)
    if parent == NO_PARENT:
        raise _unsound(node, "is a second root")
    above = changed.get(parent) or pages.fields(parent)
    if above[0] == NO_ENTRY:
        raise _unsound(node, "has a parent that is not there")
    changed[node.sequence] = (parent, 0, raw_hash(node), bytes(32))
    is_known = parent in changed
    changed[parent] = (above[0], above[1] + 1, above[2], above[3])
    if is_known:
        return
    sequence, parent = parent, above[0]
    while parent != NO_PARENT and parent not in changed:
        if not NO_PARENT < parent < sequence:
            raise PagesDamaged(f"sequence {sequence} has the parent {parent}")
        changed[parent] = found = pages.fields(parent)
        sequence, parent = parent, found[0]


def _children_beside(connection: Connection, session_id: str, pages: Pages, changed: _Known) -> dict[int, list[bytes]]:
    """Return the subtree hashes of the children that did not change, by the sequence of a parent that did."""
    counted: dict[int, int] = {}
    for parent, _, _, _ in changed.values():
        counted[parent] = counted.get(parent, 0) + 1
    # Of most entries all children changed: along a path there is only one.
    asked = [sequence for sequence, known in changed.items() if known[1] != counted.get(sequence, 0)]
    found: dict[int, list[bytes]] = {}
    parents: Iterable[str] = (entry_id_of(session_id, sequence) for sequence in sorted(asked))
    for parent_id, sequence in store.children_of(connection, session_id, parents):
        if sequence not in changed:
            found.setdefault(_sequence_of(parent_id), []).append(pages.slot(sequence).subtree_hash)
    return found


def _parent_of(session_id: str, node: TreeNode) -> int:
    if node.parent_entry_id is None:
        return NO_PARENT
    parent = _sequence_of(node.parent_entry_id)
    if not 0 <= parent < node.sequence or node.parent_entry_id != entry_id_of(session_id, parent):
        raise _unsound(node, "has a parent that is no earlier entry of its session")
    return parent


def _sequence_of(identity: str) -> int:
    tail = identity.rpartition("-")[2]
    return int(tail) if tail.isascii() and tail.isdigit() else NO_ENTRY


def _unsound(node: TreeNode, reason: str) -> TreeUnsound:
    return TreeUnsound(f"{node.id} {reason}.", details={"entry_id": node.id})
