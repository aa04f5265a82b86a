"""Copying a whole store to another database, and proving that the copy is equal.

The source is read in one snapshot, so it may be in use. The target must hold no store yet, or an empty one; everything
goes into one transaction, so that it is complete or as it was. What is derived (the search index) is left out: it
comes back by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, Table, func, insert, select

from bridge.foundation.canonical import canonical_bytes
from bridge.storage.errors import CopyRefused
from bridge.storage.store import Store
from bridge.storage.tables import event_order, metadata
from bridge.storage.transaction import Transaction

#: Rows written at a time.
ROWS_AT_ONCE: Final = 500
#: Fewer where each may have megabytes.
_FEWER_AT_ONCE: Final = {"blobs": 8, "import_chunks": 8}
#: Tables that every store fills by itself: which schema it has, positions of events, and what is derived.
LEFT_OUT: Final = frozenset(
    {
        "schema_version",
        "recall_documents",
        "recall_marks",
        "recall_scopes",
        "recall_terms",
        "recall_state",
        "event_order",
        "log_leaves",
        "subtree_pages",
        "subtree_marks",
    }
)
#: Tables whose rows refer to others of the same table, and the columns by which what is referred to comes first.
_ORDERS: Final = {"session_entries": ("session_id", "sequence"), "agents": ("depth", "id")}

#: Called with a table's name and the number of rows copied so far.
CopyProgress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class TableDigest:
    """What a table holds: so many rows, and the digest of them all in the order of the key."""

    table: str
    rows: int
    digest: str


def copied_tables() -> list[Table]:
    """Return the tables that are copied; what is referred to comes before what refers to it."""
    return [table for table in metadata.sorted_tables if table.name not in LEFT_OUT]


def digest_table(connection: Connection, table: Table) -> TableDigest:
    """Return the digest of a table's rows: the same on every database that holds the same."""
    hasher, rows = sha256(), 0
    for row in _rows(connection, table, [column.name for column in table.primary_key.columns]):
        line = canonical_bytes([value.hex() if isinstance(value, bytes) else value for value in row])
        # With its length before it, so that no two sequences of rows have the same bytes.
        hasher.update(len(line).to_bytes(8) + line)
        rows += 1
    return TableDigest(table.name, rows, hasher.hexdigest())


def copy_store(
    source: Store, target: Store, *, progress: CopyProgress = lambda _table, _rows: None
) -> list[TableDigest]:
    """Copy all rows of one store into another, and return what both hold now.

    Raises
    ------
    CopyRefused
        If the target holds rows already, or the copy is not equal to the source; then it is undone.
    """
    with source.read() as connection:
        return target.write(lambda tx: _copy(connection, tx, progress))


def _copy(source: Connection, tx: Transaction, progress: CopyProgress) -> list[TableDigest]:
    target = tx.connection
    _require_empty(target)
    digests = []
    for table in copied_tables():
        columns = [column.name for column in table.columns]
        done = 0
        for rows in _chunks(_ordered(source, table), _at_once(table)):
            target.execute(insert(table), [dict(zip(columns, row, strict=True)) for row in rows])
            done += len(rows)
            progress(table.name, done)
    _copy_order(source, target)
    for table in copied_tables():
        digests.append(digest_table(source, table))
        if digest_table(target, table) != digests[-1]:
            raise CopyRefused(
                f"The copy of {table.name} is not equal to the original. Nothing was written.",
                details={"table": table.name},
            )
    return digests


def _copy_order(source: Connection, target: Connection) -> None:
    """Keep the order of the events, which decides the root of the log; the database counts the positions itself."""
    order = event_order.c
    query = select(order.chain_id, order.ordinal).order_by(order.position)
    for rows in _chunks(map(tuple, source.execute(query, execution_options={"yield_per": ROWS_AT_ONCE})), ROWS_AT_ONCE):
        target.execute(insert(event_order), [{"chain_id": row[0], "ordinal": row[1]} for row in rows])


def _require_empty(target: Connection) -> None:
    for table in copied_tables():
        # Whoever opens a store is noted in it.
        if table.name == "clients":
            continue
        if target.execute(select(func.count()).select_from(table)).scalar_one():
            raise CopyRefused(
                f"The target holds a store with rows in {table.name}. Nothing was written.",
                details={"table": table.name},
            )
    target.execute(metadata.tables["clients"].delete())


def _ordered(connection: Connection, table: Table) -> Iterable[tuple[Any, ...]]:
    if table.name == "workspaces":
        return _parents_first(connection, table)
    return _rows(connection, table, _ORDERS.get(table.name, [column.name for column in table.primary_key.columns]))


def _parents_first(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the workspace tree, which is small, level by level."""
    names = [column.name for column in table.columns]
    own, parent = names.index("id"), names.index("parent_id")
    waiting = list(_rows(connection, table, ("id",)))
    placed: set[Any] = {None}
    while waiting:
        level = [row for row in waiting if row[parent] in placed]
        # What refers to nothing that is there is for the target's foreign key to refuse.
        yield from level or waiting
        placed.update(row[own] for row in level)
        waiting = [row for row in waiting if row[parent] not in placed or row[own] not in placed] if level else []


def _rows(connection: Connection, table: Table, order: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    query = select(table).order_by(*[table.c[name] for name in order])
    for row in connection.execute(query, execution_options={"yield_per": _at_once(table)}):
        yield tuple(row)


def _at_once(table: Table) -> int:
    return _FEWER_AT_ONCE.get(table.name, ROWS_AT_ONCE)


def _chunks(rows: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, size)):
        yield chunk
