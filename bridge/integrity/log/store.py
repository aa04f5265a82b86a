"""Queries of the log's leaves, and of the order of events that they follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sqlalchemy import Connection, and_, delete, func, insert, select

from bridge.integrity.log.merkle import HASH_BYTES
from bridge.storage.tables import audit_events, event_order, log_leaves
from bridge.storage.transaction import Transaction

_A, _L, _O = audit_events.c, log_leaves.c, event_order.c
_IS_PLACED = and_(_A.chain_id == _O.chain_id, _A.ordinal == _O.ordinal)
_PAGE: Final = 1000


class Leaf(NamedTuple):
    """A leaf as stored: its number, its event and where that stands, and the hashes of what it completes."""

    leaf: int
    chain_id: str
    ordinal: int
    position: int
    hashes: bytes


class OrderedEvent(NamedTuple):
    """An event in the order of the log; ``event_hash`` is None if it is placed but not there."""

    position: int
    chain_id: str
    ordinal: int
    event_hash: str | None


def last_leaf(connection: Connection) -> tuple[int, int]:
    """Return how many leaves there are, and the position up to which events have one."""
    row = connection.execute(select(_L.leaf, _L.position).order_by(_L.leaf.desc()).limit(1)).first()
    return (0, 0) if row is None else (row[0] + 1, row[1])


def ordered_events(connection: Connection, position: int, limit: int | None = None) -> Iterator[OrderedEvent]:
    """Yield the events behind a position in the order of the log, without loading them at once."""
    query = (
        select(_O.position, _O.chain_id, _O.ordinal, _A.event_hash)
        .outerjoin(audit_events, _IS_PLACED)
        .where(_O.position > position)
        .order_by(_O.position)
        .limit(limit)
    )
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as rows:
        for row in rows:
            yield OrderedEvent(*row)


def iterate_leaves(connection: Connection) -> Iterator[Leaf]:
    """Yield all leaves in order, without loading them at once."""
    query = select(_L.leaf, _L.chain_id, _L.ordinal, _L.position, _L.hashes).order_by(_L.leaf)
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as rows:
        for row in rows:
            yield Leaf(*row)


def add_leaves(tx: Transaction, leaves: Iterable[Leaf]) -> None:
    rows = [leaf._asdict() for leaf in leaves]
    if rows:
        tx.execute(insert(log_leaves), rows)


def clear_leaves(tx: Transaction) -> None:
    tx.execute(delete(log_leaves))


def nodes_at(connection: Connection, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """Return the hashes of perfect subtrees, given as level and number; those that are not stored are left out."""
    nodes = set(wanted)
    if not nodes:
        return {}
    by_leaf: dict[int, list[int]] = {}
    for level, number in nodes:
        by_leaf.setdefault(((number + 1) << level) - 1, []).append(level)
    query = select(_L.leaf, _L.hashes).where(_L.leaf.in_(sorted(by_leaf)))
    found = {}
    for leaf, hashes in connection.execute(query):
        for level in by_leaf[leaf]:
            piece = bytes(hashes[level * HASH_BYTES : (level + 1) * HASH_BYTES])
            if len(piece) == HASH_BYTES:
                found[level, leaf >> level] = piece
    return found


def leaf_of(connection: Connection, chain_id: str, ordinal: int) -> int | None:
    """Return the number of an event's leaf; None if it has none."""
    query = select(_L.leaf).where(_L.chain_id == chain_id, _L.ordinal == ordinal)
    found: int | None = connection.execute(query).scalar()
    return found


def first_event_hash(connection: Connection) -> str | None:
    """Return the hash of the first event of all; None if there is none."""
    first = next(ordered_events(connection, 0, 1), None)
    return None if first is None else first.event_hash


def count_unplaced(connection: Connection) -> int:
    """Return how many events have no place in the order; none has but where somebody else wrote."""
    events = connection.execute(select(func.count()).select_from(audit_events)).scalar_one()
    placed = connection.execute(select(func.count()).select_from(event_order)).scalar_one()
    # Placed twice, or placed and gone, is found while the log is recomputed; here the numbers are enough.
    return int(events) - int(placed)
