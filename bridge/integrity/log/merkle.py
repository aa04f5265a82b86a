"""The Merkle tree of RFC 9162 over a growing list of leaves: roots, inclusion and consistency proofs.

A perfect subtree is named by its level and its number at that level: it covers the leaves from ``number << level`` to
before ``(number + 1) << level``. Its hash never changes once its last leaf is there, so it is kept with that leaf, and
a proof reads a few such hashes and nothing else. Nothing here recurses: a log may be of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

#: Bytes of a hash.
HASH_BYTES: Final = 32
#: The root of a log without leaves.
EMPTY_ROOT: Final = sha256(b"").digest()

#: Returns the hash of the perfect subtree of a level and number.
NodeHash = Callable[[int, int], bytes]


def log_leaf(data: bytes) -> bytes:
    """Return ``sha256(0x00 ‖ data)``, the hash of a leaf."""
    return sha256(b"\x00" + data).digest()


def log_node(left: bytes, right: bytes) -> bytes:
    """Return ``sha256(0x01 ‖ left ‖ right)``, the hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


class Peaks:
    """The perfect subtrees that a log of some size consists of, the largest first: all that appending needs.

    Parameters
    ----------
    size
        Leaves so far.
    hashes
        The hashes of the perfect subtrees of that size, in the order of :func:`perfect_parts`.
    """

    __slots__ = ("_hashes", "size")

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        self.size = size
        self._hashes = list(hashes)
        if len(self._hashes) != size.bit_count():
            raise ValueError(f"a log of {size} leaves has {size.bit_count()} perfect subtrees")

    def add(self, leaf: bytes) -> bytes:
        """Add a leaf's hash; return it and the hashes of the perfect subtrees that it completes, one after another."""
        completed = [leaf]
        place = self.size
        while place & 1:
            completed.append(log_node(self._hashes.pop(), completed[-1]))
            place >>= 1
        self._hashes.append(completed[-1])
        self.size += 1
        return b"".join(completed)

    def root(self) -> bytes:
        """Return the root of the log as it is now."""
        return _folded(self._hashes)


def perfect_parts(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield level and number of the perfect subtrees that a range of leaves consists of, from left to right.

    ``start`` is where a subtree of the range's size may begin, which holds for every range that a proof needs.
    """
    while start < end:
        level = (end - start).bit_length() - 1
        yield level, start >> level
        start += 1 << level


def range_root(start: int, end: int, node: NodeHash) -> bytes:
    """Return the root over a range of leaves from the hashes of perfect subtrees."""
    return _folded([node(level, number) for level, number in perfect_parts(start, end)])


def inclusion_ranges(leaf: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges of leaves whose roots prove that a leaf is in a log of some size, in the order of the proof.

    Raises
    ------
    ValueError
        If there is no such leaf.
    """
    if not 0 <= leaf < size:
        raise ValueError(f"a log of {size} leaves has no leaf {leaf}")
    start, end = 0, size
    ranges: list[tuple[int, int]] = []
    while end - start > 1:
        middle = _split(start, end)
        if leaf < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    ranges.reverse()
    return ranges


def consistency_ranges(old: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges of leaves whose roots prove that a log extends its earlier self, in the order of the proof.

    Nothing has to be shown of a log without leaves, or of one that did not grow.

    Raises
    ------
    ValueError
        If the log was never that small.
    """
    if not 0 <= old <= size:
        raise ValueError(f"a log of {size} leaves never had {old}")
    if old in (0, size):
        return []
    start, end = 0, size
    ranges: list[tuple[int, int]] = []
    while old != end:
        middle = _split(start, end)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    # The old root itself is known to whoever checks, if it is the root of one subtree.
    if start:
        ranges.append((start, end))
    ranges.reverse()
    return ranges


def proves_inclusion(leaf_hash: bytes, leaf: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether a proof shows that a leaf stands at its place in the log with a root (RFC 9162, 2.1.3.2)."""
    if not 0 <= leaf < size:
        return False
    place, last, computed = leaf, size - 1, leaf_hash
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            computed = log_node(sibling, computed)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            computed = log_node(computed, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and computed == root


def proves_consistency(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether a proof shows that a log with one root extends the log with another (RFC 9162, 2.1.4.2)."""
    if not 0 <= old <= size:
        return False
    if old == size:
        return not proof and old_root == root
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    path = [old_root, *proof] if old.bit_count() == 1 else list(proof)
    if not path:
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            before, after = log_node(sibling, before), log_node(sibling, after)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            after = log_node(after, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and before == old_root and after == root


def _split(start: int, end: int) -> int:
    """Return where the left subtree of a range ends: at the largest power of two below its size."""
    return start + (1 << (end - start - 1).bit_length() - 1)


def _folded(hashes: Sequence[bytes]) -> bytes:
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = log_node(left, root)
    return root
