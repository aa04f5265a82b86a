"""Queries for lists: entries by id and by the page, without long texts, and labels of all sessions."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, FromClause, func, literal_column, select

from bridge.conversations.models import Label, ListedEntry, Node, Session
from bridge.conversations.store import LABELS, LISTED_COLUMNS, NODE_COLUMNS, session_query
from bridge.storage.tables import entry_labels, session_entries, session_heads, sessions

_E, _L, _S, _H = session_entries.c, entry_labels.c, sessions.c, session_heads.c
#: Kinds of sessions that another one may go on with by itself.
CONTINUABLE_KINDS = ("chat",)
#: Sessions, those touched last, among which the latest chat of a workspace is looked for first.
LATEST_CHATS_LOOKED_AT = 100
#: Ids asked for at a time.
_PAGE = 500


def entries_by_id(connection: Connection, session_id: str, ids: Sequence[str]) -> dict[str, ListedEntry]:
    """Return entries of a session by their ids; what there is not is left out."""
    found: dict[str, ListedEntry] = {}
    for start in range(0, len(ids), _PAGE):
        query = select(*LISTED_COLUMNS).where(_E.session_id == session_id, _E.id.in_(ids[start : start + _PAGE]))
        for row in connection.execute(query):
            entry = ListedEntry.from_row(row)
            found[entry.id] = entry
    return found


def newest_entries(
    connection: Connection, session_id: str, *, before_sequence: int | None, after_sequence: int, limit: int
) -> list[ListedEntry]:
    """Return the last entries of a session between two sequences, both left out, the last one first."""
    query = select(*LISTED_COLUMNS).where(*_between(session_id, before_sequence, after_sequence))
    rows = connection.execute(query.order_by(_E.sequence.desc()).limit(limit))
    return [ListedEntry.from_row(row) for row in rows]


def newest_nodes(
    connection: Connection, session_id: str, *, before_sequence: int | None, after_sequence: int, limit: int
) -> list[Node]:
    """Return what :func:`newest_entries` does, without payloads."""
    query = select(*NODE_COLUMNS).where(*_between(session_id, before_sequence, after_sequence))
    rows = connection.execute(query.order_by(_E.sequence.desc()).limit(limit))
    return [Node(*row) for row in rows]


def oldest_nodes(connection: Connection, session_id: str, *, after_sequence: int, limit: int) -> list[Node]:
    """Return the first entries of a session behind a sequence, in its order."""
    query = select(*NODE_COLUMNS).where(*_between(session_id, None, after_sequence))
    return [Node(*row) for row in connection.execute(query.order_by(_E.sequence).limit(limit))]


def newest_note_ids(connection: Connection, session_id: str, limit: int) -> list[str]:
    """Return the ids of the last notes of a session, of all branches, the last one first."""
    # Written out and not bound: only so the database knows that the index of notes has them all.
    query = select(_E.id).where(_E.session_id == session_id, literal_column("kind = 'note'"))
    return list(connection.execute(query.order_by(_E.sequence.desc()).limit(limit)).scalars())


def latest_chat(connection: Connection, workspace_id: str, *, excluding: str | None = None) -> Session | None:
    """Return the chat of a workspace that was touched last; of those touched at once the one made last, then by id.

    It is looked for among the sessions touched last, which costs the same however many there are; only in a workspace
    that was left alone for long among all of its own.
    """
    heads = select(session_heads).order_by(_H.updated_at.desc(), _H.session_id.desc()).limit(LATEST_CHATS_LOOKED_AT)
    near = heads.subquery()
    found = _latest_of(connection, near, workspace_id, excluding)
    if found is not None:
        oldest = connection.execute(select(func.min(near.c.updated_at))).scalar_one()
        # At the edge of what was looked at there may be more of the same time.
        if found.updated_at > oldest:
            return found
    return _latest_of(connection, session_heads, workspace_id, excluding) or found


def _latest_of(connection: Connection, heads: FromClause, workspace_id: str, excluding: str | None) -> Session | None:
    query = session_query(heads).where(_S.workspace_id == workspace_id, _S.kind.in_(CONTINUABLE_KINDS))
    if excluding is not None:
        query = query.where(_S.id != excluding)
    query = query.order_by(heads.c.updated_at.desc(), _S.created_at.desc(), _S.id.desc()).limit(1)
    row = connection.execute(query).first()
    return None if row is None else Session(*row)


def _between(session_id: str, before_sequence: int | None, after_sequence: int) -> list[ColumnElement[bool]]:
    conditions = [_E.session_id == session_id, _E.sequence > after_sequence]
    return conditions if before_sequence is None else [*conditions, _E.sequence < before_sequence]


def count_children(connection: Connection, session_id: str, ids: Sequence[str]) -> dict[str, int]:
    """Return how many children entries of a session have; those without are left out."""
    counts: dict[str, int] = {}
    for start in range(0, len(ids), _PAGE):
        chosen = _E.parent_entry_id.in_(ids[start : start + _PAGE])
        query = select(_E.parent_entry_id, func.count()).where(_E.session_id == session_id, chosen)
        counts.update((row[0], row[1]) for row in connection.execute(query.group_by(_E.parent_entry_id)))
    return counts


def labels_named(connection: Connection, name: str, limit: int) -> list[Label]:
    """Return the labels of a name in all sessions, newest first."""
    query = LABELS.where(_L.name == name)
    return [Label(*row) for row in connection.execute(query.order_by(_L.created_at.desc()).limit(limit))]


def label_names(connection: Connection, limit: int) -> list[str]:
    """Return the names of entries in all sessions, the newest first."""
    query = select(_L.name).order_by(_L.created_at.desc()).limit(limit)
    return list(connection.execute(query).scalars())
