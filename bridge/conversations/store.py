"""Queries of the conversation forest. Values in, values out; the rules are in ``forest`` and ``paths``."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from bridge.conversations.models import (
    ENTRY_FIELDS,
    LISTED_FIELDS,
    Cursor,
    Entry,
    EntryRow,
    Label,
    ListedEntry,
    NewSession,
    Node,
    Session,
    text_missing,
)
from bridge.conversations.turns import TURN_COMPLETED, TURN_STARTED, StampedNode
from bridge.foundation.outlines import outline_of_text
from bridge.storage.longtexts import body_of, long_size, put_text, whole_payload
from bridge.storage.prepared import Prepared
from bridge.storage.tables import (
    branch_cursors,
    entry_labels,
    quarantined_sessions,
    session_entries,
    session_heads,
    sessions,
)
from bridge.storage.transaction import Transaction

# The row's own payload, which is NULL where the text is long; and the text wherever it is.
_ROW: list[ColumnElement[Any]] = [
    session_entries.c["payload" if name == "payload_text" else name] for name in ENTRY_FIELDS
]
_COLUMNS: list[ColumnElement[Any]] = [*_ROW[:-1], whole_payload()]
LISTED_COLUMNS: list[ColumnElement[Any]] = [
    session_entries.c["payload" if name == "payload_text" else name] for name in LISTED_FIELDS
]
NODE_COLUMNS: list[ColumnElement[Any]] = [
    session_entries.c[name]
    for name in (
        "id",
        "session_id",
        "parent_entry_id",
        "sequence",
        "semantic_schema_version",
        "kind",
        "context_visibility",
        "created_at",
    )
]
#: Sessions touched last among which a page is looked for before all are.
LATEST_LOOKED_AT = 1000
#: Rows fetched at a time where a result is not loaded at once.
_PAGE = 500
_S, _E, _H, _C, _L = sessions.c, session_entries.c, session_heads.c, branch_cursors.c, entry_labels.c
_Q = quarantined_sessions.c


# Sessions


def insert_session(
    tx: Transaction, session_id: str, new: NewSession, created_at: str, updated_at: str | None = None
) -> None:
    """Add a session's row; its root and its head follow in the same transaction. Only an import was touched later."""
    tx.execute(
        insert(sessions).values(
            id=session_id,
            kind=new.kind,
            workspace_id=new.workspace_id,
            agent_id=new.agent_id,
            harness=new.harness,
            label=new.label,
            status=new.status,
            parent_session_id=new.parent_session_id,
            parent_relation=new.parent_relation,
            created_at=created_at,
            updated_at=updated_at or created_at,
        )
    )


_SESSION_EXISTS = Prepared(select(_S.id).where(_S.id == bindparam("session")), "session")


def session_exists(connection: Connection, session_id: str) -> bool:
    return _SESSION_EXISTS.run(connection, session_id).fetchone() is not None


def parent_session_of(connection: Connection, session_id: str) -> str | None:
    """Return the id of a session's parent; None if it has none, or does not exist."""
    found: str | None = connection.execute(select(_S.parent_session_id).where(_S.id == session_id)).scalar()
    return found


def update_session(tx: Transaction, session_id: str, moment: str, **changes: str | None) -> bool:
    """Change columns of a session's row; return whether there is such a session."""
    done = tx.execute(update(sessions).where(_S.id == session_id).values(updated_at=moment, **changes))
    # Lists are ordered by the head's time, which is therefore that of any change.
    tx.execute(
        update(session_heads).where(_H.session_id == session_id, _H.updated_at < moment).values(updated_at=moment)
    )
    return done.rowcount == 1


def session_query(heads: FromClause = session_heads) -> Select[Any]:
    return select(
        _S.id,
        _S.kind,
        _S.workspace_id,
        _S.agent_id,
        _S.harness,
        _S.label,
        _S.status,
        _S.parent_session_id,
        _S.parent_relation,
        _S.created_at,
        heads.c.updated_at,
        heads.c.active_entry_id,
        heads.c.next_sequence,
    ).join_from(heads, sessions, heads.c.session_id == _S.id)


_SESSION = Prepared(session_query().where(_S.id == bindparam("session")), "session")


def get_session(connection: Connection, session_id: str) -> Session | None:
    row = _SESSION.run(connection, session_id).fetchone()
    return None if row is None else Session(*row)


def list_sessions(
    connection: Connection,
    *,
    workspace_ids: Sequence[str | None] | None = None,
    kinds: Sequence[str] | None = None,
    statuses: Sequence[str] | None = None,
    parent_session_id: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    before: tuple[str, str] | None = None,
) -> list[Session]:
    """Return sessions, the last touched first; each condition narrows, none means all.

    Parameters
    ----------
    workspace_ids
        None among them stands for the sessions without a workspace.
    before
        Only those that come after a session in this order, given by its ``updated_at`` and id.
    """
    conditions = _session_conditions(workspace_ids, kinds, statuses, parent_session_id)
    if limit is None or offset:
        return _sessions_of(connection, session_heads, conditions, before=before, limit=limit, offset=offset)
    if parent_session_id is None:
        # The sessions that are asked for are among those touched last, but for a forsaken workspace: looking there
        # costs the same however many sessions there are.
        latest = select(session_heads).order_by(_H.updated_at.desc(), _H.session_id.desc()).limit(LATEST_LOOKED_AT)
        if before is not None:
            latest = latest.where(_comes_after(session_heads, before))
        found = _sessions_of(connection, latest.subquery(), conditions, limit=limit)
        if len(found) == limit:
            return found
    return _sessions_of(connection, session_heads, conditions, before=before, limit=limit)


def _session_conditions(
    workspace_ids: Sequence[str | None] | None,
    kinds: Sequence[str] | None,
    statuses: Sequence[str] | None,
    parent_session_id: str | None,
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if workspace_ids is not None:
        places = _S.workspace_id.in_([place for place in workspace_ids if place is not None])
        conditions.append(or_(places, _S.workspace_id.is_(None)) if None in workspace_ids else places)
    if kinds is not None:
        conditions.append(_S.kind.in_(kinds))
    if statuses is not None:
        conditions.append(_S.status.in_(statuses))
    if parent_session_id is not None:
        conditions.append(_S.parent_session_id == parent_session_id)
    return conditions


def _sessions_of(
    connection: Connection,
    heads: FromClause,
    conditions: Sequence[ColumnElement[bool]],
    *,
    before: tuple[str, str] | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[Session]:
    query = session_query(heads).where(*conditions)
    if before is not None:
        query = query.where(_comes_after(heads, before))
    query = query.order_by(heads.c.updated_at.desc(), heads.c.session_id.desc()).offset(offset)
    return [Session(*row) for row in connection.execute(query if limit is None else query.limit(limit))]


def _comes_after(heads: FromClause, before: tuple[str, str]) -> ColumnElement[bool]:
    return tuple_(heads.c.updated_at, heads.c.session_id) < tuple_(*map(literal, before))


def sessions_by_tail(connection: Connection, tail: str, limit: int) -> list[str]:
    """Return the id that is ``tail``, else the ids that end with a hyphen and ``tail``, newest first."""
    if session_exists(connection, tail):
        return [tail]
    # Not LIKE: SQLite's ignores case.
    query = select(_S.id).where(func.substr(_S.id, func.length(_S.id) - len(tail)) == "-" + tail)
    return list(connection.execute(query.order_by(_S.created_at.desc()).limit(limit)).scalars())


def sessions_by_label(connection: Connection, label: str, limit: int) -> list[str]:
    query = select(_S.id).where(_S.label == label).order_by(_S.created_at.desc()).limit(limit)
    return list(connection.execute(query).scalars())


# Entries

_INSERT_ENTRY = Prepared(
    insert(session_entries).values({column: bindparam(column.name) for column in _ROW}),
    *(column.name for column in _ROW),
)
_LONG_COLUMNS = [*_ROW[:-1], _E.blob_digest, _E.payload_bytes, _E.payload_outline]
_INSERT_LONG_ENTRY = Prepared(
    insert(session_entries).values({column: bindparam(column.name) for column in _LONG_COLUMNS}),
    *(column.name for column in _LONG_COLUMNS),
)
_ENTRY_HASH = Prepared(
    select(_E.entry_hash).where(_E.session_id == bindparam("session"), _E.id == bindparam("entry")), "session", "entry"
)
_HEAD = Prepared(
    select(
        _H.active_entry_id,
        _H.next_sequence,
        _E.entry_hash,
        select(_C.owner).where(_C.session_id == bindparam("session")).exists().label("has_cursors"),
        select(_Q.reason).where(_Q.session_id == bindparam("session")).scalar_subquery().label("quarantine"),
    )
    .join_from(session_heads, session_entries, and_(_E.session_id == _H.session_id, _E.id == _H.active_entry_id))
    .where(_H.session_id == bindparam("session")),
    "session",
)


class Head(NamedTuple):
    """Where a session stands: its active entry with its hash, the next sequence, and whether anyone holds a cursor.

    ``quarantine`` is why the session is set aside, None if it is not.
    """

    entry_id: str
    next_sequence: int
    entry_hash: str
    has_cursors: bool
    quarantine: str | None = None


_PAYLOAD_HASH_AT = ENTRY_FIELDS.index("payload_hash")


def insert_entry(tx: Transaction, row: EntryRow, outline: str | None = None) -> None:
    """Add an entry's row; a long payload goes to where those are kept.

    Parameters
    ----------
    outline
        Outline of a long payload, where the caller has made it already.

    Raises
    ------
    StoredTextDamaged
        If it is kept already, and damaged.
    """
    text = row[-1]
    size = long_size(text)
    if size is None:
        tx.queue_row(_INSERT_ENTRY, row)
        return
    digest = row[_PAYLOAD_HASH_AT]
    put_text(tx, digest, size, text)
    tx.run(_INSERT_LONG_ENTRY, *row[:-1], digest, size, outline or outline_of_text(text))


def entry_hash_of(connection: Connection, session_id: str, entry_id: str) -> str | None:
    """Return the hash of an entry of that very session; None if there is none."""
    row = _ENTRY_HASH.run(connection, session_id, entry_id).fetchone()
    return None if row is None else row[0]


_OF_SESSION = _E.session_id == bindparam("session")
_BY_ID, _AT = _E.id == bindparam("entry"), _E.sequence == bindparam("place")
_ENTRY = Prepared(select(*_COLUMNS).where(_OF_SESSION, _BY_ID), "session", "entry")
_LISTED = Prepared(select(*LISTED_COLUMNS).where(_OF_SESSION, _BY_ID), "session", "entry")
_LISTED_AT = Prepared(select(*LISTED_COLUMNS).where(_OF_SESSION, _AT), "session", "place")
_ID_AT = Prepared(select(_E.id).where(_OF_SESSION, _AT), "session", "place")


def get_entry(connection: Connection, session_id: str, entry_id: str) -> Entry | None:
    row = _ENTRY.run(connection, session_id, entry_id).fetchone()
    return None if row is None else Entry.from_row(row)


def get_listed_at(connection: Connection, session_id: str, sequence: int) -> ListedEntry | None:
    """Return an entry by its place, without its text if that is long; None if there is none."""
    row = _LISTED_AT.run(connection, session_id, sequence).fetchone()
    return None if row is None else ListedEntry.from_row(row)


def entry_id_at(connection: Connection, session_id: str, sequence: int) -> str | None:
    row = _ID_AT.run(connection, session_id, sequence).fetchone()
    return None if row is None else row[0]


def get_listed(connection: Connection, session_id: str, entry_id: str) -> ListedEntry | None:
    """Return an entry without its text if that is long; None if there is none."""
    row = _LISTED.run(connection, session_id, entry_id).fetchone()
    return None if row is None else ListedEntry.from_row(row)


def find_external(connection: Connection, session_id: str, source: str, external_id: str) -> ListedEntry | None:
    query = select(*LISTED_COLUMNS).where(
        _E.session_id == session_id, _E.external_source == source, _E.external_id == external_id
    )
    row = connection.execute(query).first()
    return None if row is None else ListedEntry.from_row(row)


def iterate_entries(connection: Connection, session_id: str, *, after_sequence: int = -1) -> Iterator[Entry]:
    """Yield a session's entries in the order of their sequence, over all branches, without loading them at once."""
    # A long text is fetched when its entry is reached: a page of them would be too much to hold.
    with closing(iterate_listed(connection, session_id, after_sequence=after_sequence)) as listed:
        for entry in listed:
            yield whole_entry(connection, entry)


def iterate_listed(connection: Connection, session_id: str, *, after_sequence: int = -1) -> Generator[ListedEntry]:
    """Yield what :func:`iterate_entries` does, without the long texts."""
    query = select(*LISTED_COLUMNS).where(_E.session_id == session_id, _E.sequence > after_sequence)
    with connection.execute(query.order_by(_E.sequence), execution_options={"yield_per": _PAGE}) as rows:
        for row in rows:
            yield ListedEntry.from_row(row)


def whole_entry(connection: Connection, entry: ListedEntry) -> Entry:
    """Return a listed entry with its text.

    Raises
    ------
    StoredTextDamaged
        If it is long and not where it was kept.
    """
    text = entry.payload_text
    if text is None:
        text = body_of(connection, entry.payload_hash)
        if text is None:
            raise text_missing(entry)
    return entry.with_text(text)


def list_nodes(connection: Connection, session_id: str) -> list[Node]:
    """Return the shape of a session in the order of sequence; payloads are not touched."""
    query = select(*NODE_COLUMNS).where(_E.session_id == session_id).order_by(_E.sequence)
    return [Node(*row) for row in connection.execute(query)]


def newest_stamped_nodes(connection: Connection, session_id: str, limit: int) -> list[StampedNode]:
    """Return the last entries of a session, in the order of their sequence, as turns are told from them.

    Payloads are only touched where they name a turn.
    """
    turn_payload = case((_E.kind.in_([TURN_STARTED, TURN_COMPLETED]), whole_payload()), else_=None)
    query = (
        select(_E.id, _E.session_id, _E.parent_entry_id, _E.kind, turn_payload, _E.state_digest, _E.observed_at)
        .where(_E.session_id == session_id)
        .order_by(_E.sequence.desc())
        .limit(limit)
    )
    nodes = [StampedNode(*row) for row in connection.execute(query)]
    nodes.reverse()
    return nodes


def list_children(connection: Connection, session_id: str, entry_id: str) -> list[Node]:
    query = (
        select(*NODE_COLUMNS).where(_E.session_id == session_id, _E.parent_entry_id == entry_id).order_by(_E.sequence)
    )
    return [Node(*row) for row in connection.execute(query)]


def _ancestry(columns: Sequence[Any], *, with_texts: bool = False) -> Select[Any]:
    """Return the recursive query from an entry upwards, the entry first, at most ``limit`` rows.

    Parameters
    ----------
    with_texts
        Whether to fetch long payloads from where they are kept; outside the recursion, which would copy them.

    A parent's sequence is smaller than its child's. Asking for that again makes the query end even in a
    database where somebody else's hand has tied a cycle.
    """
    start = (
        select(*columns, literal(1, BigInteger).label("depth"))
        .where(_E.session_id == bindparam("session"), _E.id == bindparam("leaf"))
        .cte("ancestry", recursive=True)
    )
    up = select(*columns, start.c.depth + 1).where(
        _E.session_id == start.c.session_id,
        _E.id == start.c.parent_entry_id,
        _E.sequence < start.c.sequence,
        start.c.depth < bindparam("limit", type_=BigInteger),
    )
    whole = start.union_all(up)
    # No ORDER BY: sorting would copy every payload once more. A chain comes out in order; callers check that.
    wanted = [whole.c[column.name] for column in columns]
    if with_texts:
        wanted[-1] = whole_payload(whole.c.payload, whole.c.payload_hash)
    return select(*wanted)


_ANCESTRY = Prepared(_ancestry(_ROW, with_texts=True), "session", "leaf", "limit")
_LISTED_ANCESTRY = Prepared(_ancestry(LISTED_COLUMNS), "session", "leaf", "limit")
_NODE_ANCESTRY = Prepared(_ancestry(NODE_COLUMNS), "session", "leaf", "limit")


def ancestry(connection: Connection, session_id: str, leaf_entry_id: str, limit: int) -> list[Entry]:
    """Return an entry of that session and its ancestors there, leaf first, at most ``limit``."""
    return [Entry.from_row(row) for row in _ANCESTRY.run(connection, session_id, leaf_entry_id, limit)]


def listed_ancestry(connection: Connection, session_id: str, leaf_entry_id: str, limit: int) -> list[ListedEntry]:
    """Return what :func:`ancestry` does, without long texts."""
    return [ListedEntry.from_row(row) for row in _LISTED_ANCESTRY.run(connection, session_id, leaf_entry_id, limit)]


def node_ancestry(connection: Connection, session_id: str, leaf_entry_id: str, limit: int) -> list[Node]:
    """Return what :func:`ancestry` does, without payloads."""
    return [Node(*row) for row in _NODE_ANCESTRY.run(connection, session_id, leaf_entry_id, limit)]


# Heads

_INSERT_HEAD = Prepared(insert(session_heads), "session_id", "active_entry_id", "next_sequence", "updated_at")
_ADVANCE_HEAD = Prepared(
    update(session_heads)
    .where(_H.session_id == bindparam("session"))
    .values(active_entry_id=bindparam("entry"), next_sequence=bindparam("next"), updated_at=bindparam("moment")),
    "entry",
    "next",
    "moment",
    "session",
)


def insert_head(tx: Transaction, session_id: str, entry_id: str, next_sequence: int, moment: str) -> None:
    tx.run(_INSERT_HEAD, session_id, entry_id, next_sequence, moment)


def head_to_change(tx: Transaction, session_id: str) -> Head | None:
    """Return where a session stands, as :func:`get_head`, from the transaction's memo if it moved the head itself."""
    known: Head | None = tx.memo.get(("head", session_id))
    return get_head(tx.connection, session_id) if known is None else known


def get_head(connection: Connection, session_id: str) -> Head | None:
    """Return where a session stands; None if there is no such session."""
    row = _HEAD.run(connection, session_id).fetchone()
    return None if row is None else Head(*row)


def set_head(tx: Transaction, session_id: str, head: Head, moment: str) -> None:
    tx.queue_last(_ADVANCE_HEAD, session_id, head.entry_id, head.next_sequence, moment, session_id)
    tx.memo["head", session_id] = head


# Cursors

_ADVANCE_CURSORS = Prepared(
    update(branch_cursors)
    .where(_C.session_id == bindparam("session"), _C.leaf_entry_id == bindparam("parent"))
    .values(leaf_entry_id=bindparam("entry")),
    "entry",
    "session",
    "parent",
)
_CURSOR_LEAF = Prepared(
    select(_C.leaf_entry_id).where(_C.session_id == bindparam("session"), _C.owner == bindparam("owner_name")),
    "session",
    "owner_name",
)


_CURSORS = Prepared(
    select(_C.owner, _C.session_id, _C.leaf_entry_id).where(_C.session_id == bindparam("session")).order_by(_C.owner),
    "session",
)


def advance_cursors(tx: Transaction, session_id: str, parent_entry_id: str, entry_id: str) -> None:
    """Move every cursor of the session whose leaf was the parent."""
    tx.run(_ADVANCE_CURSORS, entry_id, session_id, parent_entry_id)


def cursor_leaf(connection: Connection, session_id: str, owner: str) -> str | None:
    row = _CURSOR_LEAF.run(connection, session_id, owner).fetchone()
    return None if row is None else row[0]


def insert_cursor(tx: Transaction, session_id: str, owner: str, leaf_entry_id: str, moment: str) -> None:
    tx.memo.pop(("head", session_id), None)
    tx.execute(
        insert(branch_cursors).values(
            session_id=session_id, owner=owner, leaf_entry_id=leaf_entry_id, created_at=moment
        )
    )


def move_cursor(tx: Transaction, session_id: str, owner: str, leaf_entry_id: str) -> None:
    tx.execute(
        update(branch_cursors).where(_C.session_id == session_id, _C.owner == owner).values(leaf_entry_id=leaf_entry_id)
    )


def delete_cursor(tx: Transaction, session_id: str, owner: str) -> None:
    tx.execute(delete(branch_cursors).where(_C.session_id == session_id, _C.owner == owner))


def list_cursors(connection: Connection, session_id: str) -> list[Cursor]:
    return [Cursor(*row) for row in _CURSORS.run(connection, session_id)]


# Labels


LABELS = select(_L.name, _L.session_id, _L.entry_id)
_LABELS = Prepared(LABELS.where(_L.session_id == bindparam("session")).order_by(_L.name), "session")


def label_target(connection: Connection, session_id: str, name: str) -> str | None:
    query = select(_L.entry_id).where(_L.session_id == session_id, _L.name == name)
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found


def put_label(tx: Transaction, session_id: str, name: str, entry_id: str, moment: str) -> None:
    """Set a label, whether or not it exists."""
    tx.execute(delete(entry_labels).where(_L.session_id == session_id, _L.name == name))
    tx.execute(insert(entry_labels).values(session_id=session_id, name=name, entry_id=entry_id, created_at=moment))


def delete_label(tx: Transaction, session_id: str, name: str) -> None:
    tx.execute(delete(entry_labels).where(_L.session_id == session_id, _L.name == name))


def list_labels(connection: Connection, session_id: str) -> list[Label]:
    return [Label(*row) for row in _LABELS.run(connection, session_id)]


def count_entries(connection: Connection, session_id: str) -> int:
    """Return how many entries a session has, its root included."""
    query = select(func.count()).select_from(session_entries).where(_E.session_id == session_id)
    return connection.execute(query).scalar_one()
