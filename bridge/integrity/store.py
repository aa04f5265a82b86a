"""Queries of the audit chains, and of the rows that a verification recomputes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, bindparam, func, insert, or_, select, text

from bridge.foundation.texts import is_storable
from bridge.storage.prepared import Prepared
from bridge.storage.tables import (
    audit_events,
    branch_cursors,
    entry_labels,
    event_order,
    quarantined_sessions,
    session_entries,
    session_heads,
    sessions,
    workspace_links,
)
from bridge.storage.tables.conversations import WAYMARK_CONDITION
from bridge.storage.transaction import Transaction

_A, _E, _H, _O, _S = audit_events.c, session_entries.c, session_heads.c, event_order.c, sessions.c
_C, _L, _Q = branch_cursors.c, entry_labels.c, quarantined_sessions.c
_IS_PLACED = and_(_A.chain_id == _O.chain_id, _A.ordinal == _O.ordinal)
_PAGE = 500
#: The chain of what happens to a workspace's worktree; its registration is in the chain of its id.
WORKSPACE_CHAIN = "workspace:{workspace_id}"

_LAST = Prepared(
    select(_A.ordinal, _A.event_hash).where(_A.chain_id == bindparam("chain")).order_by(_A.ordinal.desc()).limit(1),
    "chain",
)


class StoredEvent(NamedTuple):
    """One event as stored; the fields are the columns."""

    chain_id: str
    ordinal: int
    event_type: str
    created_at: str
    event_hash: str
    body: str


_INSERT = Prepared(insert(audit_events), *StoredEvent._fields)
# Inline: nobody asks for the position that the database gives.
_PLACE = Prepared(
    insert(event_order).inline().values(chain_id=bindparam("chain_id"), ordinal=bindparam("ordinal")),
    "chain_id",
    "ordinal",
)


class StoredEntry(NamedTuple):
    """What of an entry is verified, as stored; the fields are columns."""

    id: str
    parent_entry_id: str | None
    sequence: int
    semantic_schema_version: int
    kind: str
    context_visibility: str
    state_digest: str | None
    unknown_reason: str | None
    external_id: str | None
    created_at: str
    payload_hash: str
    entry_hash: str
    # What no entry hash covers.
    observed_at: str | None
    unknown_path: str | None
    unknown_detail: str | None
    external_source: str | None
    # Of a long text: its size, what its row has of it, and its digest; such a row has no payload.
    payload_bytes: int | None = None
    payload_outline: str | None = None
    blob_digest: str | None = None
    payload: str | None = None


_OF_SESSION = (_E.session_id == bindparam("session"),)
_BARE = [_E[name] for name in StoredEntry._fields[:-4]]
_ENTRIES = Prepared(
    select(*[_E[name] for name in StoredEntry._fields]).where(*_OF_SESSION).order_by(_E.sequence), "session"
)
_BARE_ENTRIES = Prepared(select(*_BARE).where(*_OF_SESSION).order_by(_E.sequence), "session")
_EVENTS = Prepared(
    select(*[_A[name] for name in StoredEvent._fields]).where(_A.chain_id == bindparam("chain")).order_by(_A.ordinal),
    "chain",
)


def last_event(tx: Transaction, chain_id: str) -> tuple[int, str] | None:
    """Return ordinal and hash of a chain's last event."""
    known: tuple[int, str] | None = tx.memo.get(("chain", chain_id))
    if known is not None:
        return known
    row = tx.run(_LAST, chain_id).fetchone()
    return None if row is None else (row[0], row[1])


def insert_event(tx: Transaction, event: StoredEvent) -> None:
    tx.queue_row(_INSERT, event)
    tx.queue_row(_PLACE, event[:2])
    tx.memo["chain", event.chain_id] = event.ordinal, event.event_hash


@dataclass(frozen=True, slots=True)
class PlacedEvent:
    """An event with its place among those of all chains, and the workspace of its session if it is a session's."""

    position: int
    event: StoredEvent
    is_of_session: bool
    workspace_id: str | None


def last_position(connection: Connection) -> int:
    """Return the position of the event committed last, 0 if there is none."""
    found: int | None = connection.execute(select(func.max(_O.position))).scalar()
    return found or 0


def event_hash_at(connection: Connection, position: int) -> str | None:
    """Return the hash of the event at a position; None if there is none."""
    query = select(_A.event_hash).join(event_order, _IS_PLACED).where(_O.position == position)
    found: str | None = connection.execute(query).scalar()
    return found


def events_after(
    connection: Connection,
    position: int,
    *,
    limit: int,
    chain_id: str | None = None,
    workspace_id: str | None = None,
) -> list[PlacedEvent]:
    """Return the events committed after one, in the order of their commits.

    Parameters
    ----------
    chain_id
        Only those of one chain.
    workspace_id
        Only those of one workspace: of its sessions and of its own chains.
    """
    query = (
        select(
            _O.position,
            _S.id.is_not(None),
            _S.workspace_id,
            _A.chain_id,
            _A.ordinal,
            _A.event_type,
            _A.created_at,
            _A.event_hash,
            _A.body,
        )
        .join(audit_events, _IS_PLACED)
        .outerjoin(sessions, _S.id == _O.chain_id)
        .where(_O.position > position)
    )
    if chain_id is not None:
        query = query.where(_O.chain_id == chain_id)
    if workspace_id is not None:
        own = (workspace_id, WORKSPACE_CHAIN.format(workspace_id=workspace_id))
        query = query.where(or_(_S.workspace_id == workspace_id, _O.chain_id.in_(own)))
    rows = connection.execute(query.order_by(_O.position).limit(limit))
    return [PlacedEvent(row[0], StoredEvent(*row[3:]), bool(row[1]), row[2]) for row in rows]


def kinds_of(connection: Connection, entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the kinds of entries, given as session and id, by id."""
    pairs = set(entries)
    if not pairs:
        return {}
    # Of a session's entries only these: the key begins with the session, so both conditions use it.
    query = select(_E.id, _E.kind).where(
        _E.session_id.in_(sorted({session for session, _ in pairs})), _E.id.in_(sorted({key for _, key in pairs}))
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def iterate_events(connection: Connection, chain_id: str) -> Iterator[StoredEvent]:
    """Yield a chain's events in order, without loading them at once."""
    return map(StoredEvent._make, _EVENTS.stream(connection, chain_id))


def iterate_entries(connection: Connection, session_id: str, *, with_payload: bool = True) -> Iterator[StoredEntry]:
    """Yield a session's entries in the order of their sequence, without loading them at once.

    Parameters
    ----------
    with_payload
        Whether the payload is read, with what is said of it where it is kept elsewhere.
    """
    query = _ENTRIES if with_payload else _BARE_ENTRIES
    return starmap(StoredEntry, query.stream(connection, session_id))


class StoredHead(NamedTuple):
    """Where a session stands; the fields are columns."""

    active_entry_id: str
    next_sequence: int
    updated_at: str


def session_head(connection: Connection, session_id: str) -> StoredHead | None:
    """Return a session's active entry, next sequence and time."""
    query = select(_H.active_entry_id, _H.next_sequence, _H.updated_at).where(_H.session_id == session_id)
    row = connection.execute(query).first()
    return None if row is None else StoredHead(*row)


def label_rows(connection: Connection, session_id: str) -> dict[str, tuple[str, str]]:
    """Return what each label of a session stands for, and since when."""
    query = select(_L.name, _L.entry_id, _L.created_at).where(_L.session_id == session_id)
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def cursor_rows(connection: Connection, session_id: str) -> dict[str, tuple[str, str]]:
    """Return the leaf of each cursor of a session by its owner, and since when there is one."""
    query = select(_C.owner, _C.leaf_entry_id, _C.created_at).where(_C.session_id == session_id)
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def is_quarantined(connection: Connection, session_id: str) -> bool:
    """Return whether a session is set aside."""
    query = select(_Q.session_id).where(_Q.session_id == session_id)
    return connection.execute(query).first() is not None


_TREE = Prepared(
    select(_E.id, _E.parent_entry_id, _E.sequence, _E.entry_hash).where(*_OF_SESSION).order_by(_E.sequence.desc()),
    "session",
)


def iterate_tree(connection: Connection, session_id: str) -> Iterator[tuple[Any, ...]]:
    """Yield id, parent, sequence and hash of a session's entries, the last recorded first."""
    return _TREE.stream(connection, session_id)


def last_sequence(connection: Connection, session_id: str) -> int:
    """Return the highest sequence among a session's entries, -1 if it has none."""
    found: int | None = connection.execute(select(func.max(_E.sequence)).where(_E.session_id == session_id)).scalar()
    return -1 if found is None else found


def session_row(connection: Connection, session_id: str) -> dict[str, str | None] | None:
    """Return the columns of a session's row by name; None if there is none."""
    row = connection.execute(select(sessions).where(_S.id == session_id)).first()
    return None if row is None else dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's documented name of it


def session_ids(connection: Connection) -> list[str]:
    """Return the ids of all sessions, and of rows that are left of one, oldest first by id."""
    found = select(_S.id).union(
        *(select(table.session_id).distinct() for table in (_E, _H, _C, _L, _Q)),
    )
    return sorted(str(identity) for identity in connection.execute(found).scalars())


def chain_ids(connection: Connection) -> list[str]:
    """Return the ids of all audit chains."""
    found: list[str] = []
    # Each is looked up behind the one before: a chain may have any number of events.
    following = select(func.min(_A.chain_id))
    identity = connection.execute(following).scalar()
    while identity is not None:
        found.append(identity)
        if not is_storable(identity):
            # Damaged: it cannot be asked for again, so the others are listed the long way.
            return list(connection.execute(select(_A.chain_id).distinct().order_by(_A.chain_id)).scalars())
        identity = connection.execute(following.where(_A.chain_id > identity)).scalar()
    return found


#: Columns of a workspace's relinking, which its event records.
LINK_COLUMNS: Final = tuple(column.name for column in workspace_links.columns)


def linked_workspaces(connection: Connection) -> set[str]:
    """Return the ids of the workspaces that were relinked."""
    return set(connection.execute(select(workspace_links.c.workspace_id).distinct()).scalars())


def link_rows(connection: Connection, workspace_id: str) -> list[dict[str, Any]]:
    """Return the relinkings of a workspace as stored, oldest first."""
    query = select(*workspace_links.columns).where(workspace_links.c.workspace_id == workspace_id)
    rows = connection.execute(query.order_by(workspace_links.c.number))
    return [dict(zip(LINK_COLUMNS, row, strict=True)) for row in rows]


def first_event_type(connection: Connection, chain_id: str) -> str | None:
    """Return the type of a chain's first event that is there."""
    query = select(_A.event_type).where(_A.chain_id == chain_id).order_by(_A.ordinal).limit(1)
    found: str | None = connection.execute(query).scalar()
    return found


def last_event_type(connection: Connection, chain_id: str, *, beside: str) -> str | None:
    """Return the type of a chain's last event of any type but one; None if there is none."""
    query = select(_A.event_type).where(_A.chain_id == chain_id, _A.event_type != beside)
    found: str | None = connection.execute(query.order_by(_A.ordinal.desc()).limit(1)).scalar()
    return found


def last_event_of_type(connection: Connection, chain_id: str, event_type: str) -> str | None:
    """Return the text of a chain's last event of a type; None if it has none."""
    query = select(_A.body).where(_A.chain_id == chain_id, _A.event_type == event_type)
    found: str | None = connection.execute(query.order_by(_A.ordinal.desc()).limit(1)).scalar()
    return found


def events_since(connection: Connection, chain_id: str, ordinal: int, event_types: Sequence[str]) -> list[str]:
    """Return the texts of a chain's events of some types from an ordinal on, in their order."""
    query = select(_A.body).where(_A.chain_id == chain_id, _A.ordinal >= ordinal, _A.event_type.in_(event_types))
    return list(connection.execute(query.order_by(_A.ordinal)).scalars())


def event_count(connection: Connection, chain_id: str) -> int:
    """Return how many events a chain has, told from the last."""
    last: int | None = connection.execute(select(func.max(_A.ordinal)).where(_A.chain_id == chain_id)).scalar()
    return 0 if last is None else last + 1


def has_branches(connection: Connection, session_id: str) -> bool:
    """Return whether an entry of a session has another parent than the one recorded before it, or may have."""
    query = select(_E.parent_entry_id, _E.sequence).where(
        _E.session_id == session_id, _E.sequence > 0, text(WAYMARK_CONDITION)
    )
    with connection.execute(query, execution_options={"yield_per": _PAGE}) as rows:
        return any(int(row[0].rpartition("-")[2]) != row[1] - 1 for row in rows)


def last_event_of(connection: Connection, chain_id: str) -> tuple[str, str]:
    """Return hash and time of a chain's last event; empty if it has none."""
    query = select(_A.event_hash, _A.created_at).where(_A.chain_id == chain_id).order_by(_A.ordinal.desc()).limit(1)
    row = connection.execute(query).first()
    return ("", "") if row is None else (row[0], row[1])


def entry_hash_anywhere(connection: Connection, entry_id: str) -> str | None:
    """Return the stored hash of an entry of whatever session; None if there is none."""
    # The session is a prefix of the id, which spares an index over ids alone.
    session_id = entry_id.rpartition("-")[0]
    query = select(_E.entry_hash).where(_E.session_id == session_id, _E.id == entry_id)
    found: str | None = connection.execute(query).scalar()
    return found


def state_digests(connection: Connection, session_id: str) -> list[tuple[str, str]]:
    """Return each repository state that a session's entries name, with the first entry that does."""
    query = select(_E.state_digest, func.min(_E.id)).where(_E.session_id == session_id, _E.state_digest.is_not(None))
    return [(row[0], row[1]) for row in connection.execute(query.group_by(_E.state_digest))]
