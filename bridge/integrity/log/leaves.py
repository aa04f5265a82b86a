"""Keeping the log's leaves up to date, and the roots and proofs that are read from them.

Appending does nothing for the log. Before a root or a proof is read, the events that have no leaf yet get theirs, in
the order of their commits and without a gap. So what is read is exact; after a crash in between, the next reader goes
on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.integrity.errors import LogUnsound
from bridge.integrity.log import store
from bridge.integrity.log.merkle import (
    Peaks,
    consistency_ranges,
    inclusion_ranges,
    log_leaf,
    perfect_parts,
    range_root,
)
from bridge.integrity.log.store import Leaf
from bridge.storage.transaction import Connection, Transaction

#: Events that get their leaves in one transaction; other writers take their turn in between.
LEAVES_AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class LogRoot:
    """The root of the log and how many leaves it covers; ``root`` is hexadecimal."""

    size: int
    root: str

    def __str__(self) -> str:
        return f"{self.root}/{self.size}"


def catch_up(tx: Transaction, limit: int = LEAVES_AT_ONCE) -> bool:
    """Give the next events without a leaf theirs; return whether none is left.

    Raises
    ------
    LogUnsound
        If an event that has a place in the order is not there, or the stored leaves do not lead on.
    """
    connection = tx.connection
    size, position = store.last_leaf(connection)
    peaks = _peaks(connection, size)
    leaves: list[Leaf] = []
    for event in store.ordered_events(connection, position, limit):
        number = peaks.size
        hashes = peaks.add(log_leaf(_raw(event.event_hash, event.chain_id, event.ordinal)))
        leaves.append(Leaf(number, event.chain_id, event.ordinal, event.position, hashes))
    store.add_leaves(tx, leaves)
    return len(leaves) < limit


def current_root(connection: Connection) -> LogRoot:
    """Return the root over the leaves that there are; :func:`catch_up` comes first.

    Raises
    ------
    LogUnsound
        If a stored hash is missing.
    """
    size, _ = store.last_leaf(connection)
    return LogRoot(size, _peaks(connection, size).root().hex())


def root_at(connection: Connection, size: int) -> LogRoot:
    """Return the root that the log had when it was some size.

    Raises
    ------
    LogUnsound
        If the log is not that large, or a stored hash is missing.
    """
    if size > store.last_leaf(connection)[0]:
        raise LogUnsound(f"The log never had {size} events.", details={"size": size})
    return LogRoot(size, _peaks(connection, size).root().hex())


def inclusion_proof(connection: Connection, leaf: int, size: int) -> list[bytes]:
    """Return the proof that a leaf is in the log of some size, smallest subtree first.

    Raises
    ------
    ValueError
        If there is no such leaf in a log of that size.
    LogUnsound
        If a stored hash is missing.
    """
    return _range_roots(connection, inclusion_ranges(leaf, size))


def consistency_proof(connection: Connection, old: int, size: int) -> list[bytes]:
    """Return the proof that the log of one size extends the log of a smaller one.

    Raises
    ------
    ValueError
        If the sizes are the wrong way round.
    LogUnsound
        If a stored hash is missing.
    """
    return _range_roots(connection, consistency_ranges(old, size))


def _peaks(connection: Connection, size: int) -> Peaks:
    parts = list(perfect_parts(0, size))
    found = _nodes(connection, parts)
    return Peaks(size, [found[part] for part in parts])


def _range_roots(connection: Connection, ranges: list[tuple[int, int]]) -> list[bytes]:
    found = _nodes(connection, [part for start, end in ranges for part in perfect_parts(start, end)])
    return [range_root(start, end, lambda level, number: found[level, number]) for start, end in ranges]


def _nodes(connection: Connection, parts: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    wanted = set(parts)
    found = store.nodes_at(connection, wanted)
    for level, number in sorted(wanted - found.keys()):
        leaf = ((number + 1) << level) - 1
        raise LogUnsound(f"The log has no hash for the subtree that leaf {leaf} completes.", details={"leaf": leaf})
    return found


def _raw(event_hash: str | None, chain_id: str, ordinal: int) -> bytes:
    try:
        raw = b"" if event_hash is None else bytes.fromhex(event_hash)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise LogUnsound(
            f"Event {chain_id}#{ordinal} has a place in the log, but no hash that could stand there.",
            details={"chain_id": chain_id, "ordinal": ordinal},
        )
    return raw
