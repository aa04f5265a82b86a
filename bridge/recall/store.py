"""Queries of the search index. The index keeps no text: a hit is the place of an entry, which is read from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, delete, func, insert, or_, select, text

from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage.errors import StoredTextDamaged
from bridge.storage.longtexts import body_of
from bridge.storage.prepared import Prepared, driver_of
from bridge.storage.tables import (
    event_order,
    quarantined_sessions,
    recall_documents,
    recall_marks,
    recall_scopes,
    recall_state,
    recall_terms,
    session_entries,
    session_heads,
    sessions,
)
from bridge.storage.transaction import Transaction

_D, _M, _E, _H, _S = recall_documents.c, recall_marks.c, session_entries.c, session_heads.c, sessions.c
#: Values that one statement looks up at most.
_MAX_VALUES = 1_000
_ADD_DOCUMENT = Prepared(insert(recall_documents), "document", "chat", "scope", "sequence", "part", "length")
_ADD_TERMS = text(
    "INSERT INTO recall_terms (term, documents) VALUES (:term, :documents)"
    " ON CONFLICT (term) DO UPDATE SET documents = recall_terms.documents + excluded.documents"
)
_ADD_SCOPE = text(
    "INSERT INTO recall_scopes (words, number, documents)"
    " SELECT :words, 1 + COALESCE(max(number), 0), :documents FROM recall_scopes WHERE true"
    " ON CONFLICT (words) DO UPDATE SET documents = recall_scopes.documents + excluded.documents RETURNING number"
)
_ADD_STATE = text(
    "INSERT INTO recall_state (name, value) VALUES (:name, :value)"
    " ON CONFLICT (name) DO UPDATE SET value = recall_state.value + excluded.value"
)


class Row(NamedTuple):
    """What of a stored entry decides whether and under which terms it can be found."""

    id: str
    parent_entry_id: str | None
    sequence: int
    semantic_schema_version: int
    kind: str
    context_visibility: str
    created_at: str
    payload_hash: str
    # None where the text is long.
    payload: str | None


class Placed(NamedTuple):
    """A document as it is written down: its number, that of its scopes, and its length in terms."""

    number: int
    scope: int
    length: int


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a session is indexed, and what about it; see the table."""

    session_id: str
    chat: int
    indexed_through: int
    terms_version: int
    scope: str
    digest: str
    changed_at: str
    branches: int
    unreadable_entry_id: str | None
    unreadable_version: int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session as it is now, to compare with its mark."""

    session_id: str
    kind: str
    workspace_id: str | None
    harness: str | None
    label: str | None
    changed_at: str
    last_sequence: int


@dataclass(frozen=True, slots=True)
class IndexedChat:
    """A session as it is indexed and as it is; ``session`` has the values of its row and head, in their order."""

    session_id: str
    chat: int
    indexed_through: int
    digest: str
    branches: int
    unreadable_entry_id: str | None
    unreadable_version: int | None
    is_quarantined: bool
    session: tuple[Any, ...]


_ADD_TERM_COUNTS = Prepared(_ADD_TERMS, "term", "documents")
_STATE = Prepared(select(recall_state.c.name, recall_state.c.value))
_LAST_POSITION = Prepared(select(func.max(event_order.c.position)))
_MARK_NAMES = tuple(Mark.__dataclass_fields__)
_MARK_COLUMNS = [recall_marks.c[name] for name in _MARK_NAMES]
_CANDIDATE_COLUMNS = [_S.id, _S.kind, _S.workspace_id, _S.harness, _S.label, _S.updated_at, _H.next_sequence - 1]


# "IS NOT NULL" would look through all rows on SQLite, and "LIMIT" would cost as much again as the statement.
_ANY_UNREADABLE = Prepared(select(func.min(_M.unreadable_entry_id)).where(_M.unreadable_entry_id > text("''")))
_ANY_QUARANTINED = Prepared(select(func.min(quarantined_sessions.c.session_id)))
_ADD_MARK = Prepared(insert(recall_marks), *_MARK_NAMES)
_REMOVE_MARK = Prepared(delete(recall_marks).where(_M.session_id == bindparam("session")), "session")
_MARK_OF = Prepared(select(*_MARK_COLUMNS).where(_M.session_id == bindparam("session")), "session")
_ENTRY_COLUMNS = [session_entries.c[name] for name in Row._fields]
_ENTRIES_AFTER = Prepared(
    select(*_ENTRY_COLUMNS)
    .where(_E.session_id == bindparam("session"), _E.sequence > bindparam("after"))
    .order_by(_E.sequence)
    .limit(bindparam("limit")),
    "session",
    "after",
    "limit",
)
_BEGINNING_WITH = Prepared(
    select(recall_terms.c.term, recall_terms.c.documents)
    .where(recall_terms.c.term >= bindparam("prefix"), recall_terms.c.term < bindparam("end"))
    .order_by(recall_terms.c.term)
    .limit(bindparam("limit")),
    "prefix",
    "end",
    "limit",
)
_CANDIDATE = Prepared(
    select(*_CANDIDATE_COLUMNS)
    .select_from(sessions.join(session_heads, _H.session_id == _S.id))
    .where(_S.id == bindparam("session")),
    "session",
)


def mark_of(connection: Connection, session_id: str) -> Mark | None:
    """Return how far a session is indexed; None if it is not."""
    row = _MARK_OF.run(connection, session_id).fetchone()
    return None if row is None else Mark(*row)


def indexed_chats(connection: Connection, chats: Sequence[int]) -> dict[int, IndexedChat]:
    """Return some sessions by their number; those whose row is gone are left out."""
    query = (
        "SELECT m.session_id, m.chat, m.indexed_through, m.digest, m.branches, m.unreadable_entry_id,"
        " m.unreadable_version, q.session_id, s.kind, s.workspace_id, s.agent_id, s.harness, s.label, s.status,"
        " s.parent_session_id, s.parent_relation, s.created_at, h.updated_at, h.active_entry_id, h.next_sequence"
        " FROM recall_marks AS m JOIN sessions AS s ON s.id = m.session_id"
        " JOIN session_heads AS h ON h.session_id = m.session_id"
        " LEFT JOIN quarantined_sessions AS q ON q.session_id = m.session_id WHERE m.chat IN ({})"
    )
    found = {}
    for session_id, chat, through, digest, branches, entry, version, quarantined, *session in _among(
        connection, query, chats
    ):
        whole = (session_id, *session)
        is_quarantined = quarantined is not None
        one = IndexedChat(session_id, chat, through, digest, branches, entry, version, is_quarantined, whole)
        found[chat] = one
    return found


def put_mark(tx: Transaction, mark: Mark) -> None:
    """Write a mark, in the place of the one that the session has."""
    _REMOVE_MARK.run(tx.connection, mark.session_id)
    _ADD_MARK.run(tx.connection, *(getattr(mark, name) for name in _MARK_NAMES))


def last_chat(connection: Connection) -> int:
    """Return the highest number given to a session, 0 if there is none."""
    return connection.execute(select(func.max(_M.chat))).scalar() or 0


def candidate(connection: Connection, session_id: str) -> Candidate | None:
    """Return a session as it is now; None if there is none."""
    row = _CANDIDATE.run(connection, session_id).fetchone()
    return None if row is None else Candidate(*row)


def candidates_behind(connection: Connection, version: int, limit: int, after: str = "") -> list[Candidate]:
    """Return sessions that are not indexed to their end, or not as they are now; looks at all after the one named."""
    query = _candidates().outerjoin(recall_marks, _M.session_id == _S.id).where(_S.id > after, _is_behind(version))
    return [Candidate(*row) for row in connection.execute(query.order_by(_S.id).limit(limit))]


def count_behind(connection: Connection, version: int) -> tuple[int, int]:
    """Return how many sessions and how many entries are missing from the index; looks at all of them."""
    missing = _H.next_sequence - 1 - func.coalesce(_M.indexed_through, -1)
    query = select(func.count(), func.coalesce(func.sum(missing), 0)).select_from(
        sessions.join(session_heads, _H.session_id == _S.id).outerjoin(recall_marks, _M.session_id == _S.id)
    )
    sessions_behind, entries = connection.execute(query.where(_is_behind(version))).one()
    return sessions_behind, int(entries)


def _candidates() -> Select[Any]:
    return select(*_CANDIDATE_COLUMNS).select_from(sessions.join(session_heads, _H.session_id == _S.id))


def _is_behind(version: int) -> ColumnElement[bool]:
    return or_(
        _M.session_id.is_(None),
        _M.indexed_through < _H.next_sequence - 1,
        _M.changed_at != _S.updated_at,
        _M.terms_version != version,
    )


def last_position(connection: Connection) -> int:
    """Return the place of the last event in the order of commits, 0 if there is none."""
    row = _LAST_POSITION.run(connection).fetchone()
    return 0 if row is None else row[0] or 0


def touched_after(connection: Connection, position: int, limit: int) -> tuple[list[str], int]:
    """Return of whom the next events after a place speak, once each, and the place of the last of these events."""
    query = select(event_order.c.position, event_order.c.chain_id).where(event_order.c.position > position)
    rows = connection.execute(query.order_by(event_order.c.position).limit(limit)).all()
    return list(dict.fromkeys(row[1] for row in rows)), rows[-1][0] if rows else position


def state(connection: Connection) -> dict[str, int]:
    """Return what is known of the index as a whole."""
    return dict(_STATE.run(connection).fetchall())


def put_position(tx: Transaction, position: int | None) -> None:
    """Set the place in the order of events up to which everything is indexed; None: not known."""
    tx.execute(delete(recall_state).where(recall_state.c.name == "position"))
    if position is not None:
        tx.execute(insert(recall_state).values(name="position", value=position))


def entries_after(connection: Connection, session_id: str, sequence: int, limit: int) -> list[Row]:
    """Return the next entries of a session in the order of sequence."""
    return list(map(Row._make, _ENTRIES_AFTER.run(connection, session_id, sequence, limit)))


def text_of(connection: Connection, row: Row) -> str:
    """Return the payload text of an entry.

    Raises
    ------
    StoredTextDamaged
        If it is long and not where it was kept: what is looked for might be in it.
    """
    text = body_of(connection, row.payload_hash) if row.payload is None else row.payload
    if text is None:
        raise StoredTextDamaged(
            f"The text of {row.id} is not in the store any more, so its session cannot be searched.",
            details={"entry_id": row.id, "digest": row.payload_hash, "reason": "missing"},
        )
    return text


def entry_at(connection: Connection, session_id: str, sequence: int) -> Row | None:
    """Return one entry of a session; None if it is not there."""
    rows = entries_after(connection, session_id, sequence - 1, 1)
    return rows[0] if rows and rows[0].sequence == sequence else None


def unreadable_entry(connection: Connection, session_id: str) -> tuple[str, int] | None:
    """Return id and version of a session's first entry that this Bridge does not read; None if it reads all."""
    query = select(_E.id, _E.semantic_schema_version).where(
        _E.session_id == session_id, _E.semantic_schema_version.not_in(READABLE_VERSIONS)
    )
    row = connection.execute(query.order_by(_E.sequence).limit(1)).first()
    return None if row is None else (row[0], row[1])


def count_scopes(tx: Transaction, counts: Mapping[str, int]) -> dict[str, int]:
    """Add to how many documents stand in sets of scopes, each its words with blanks between; return their numbers."""
    found = {}
    for words in sorted(counts):
        found[words] = tx.execute(_ADD_SCOPE, {"words": words, "documents": counts[words]}).scalar_one()
    return found


def scopes_within(connection: Connection, scopes: Sequence[str]) -> tuple[list[int], int]:
    """Return the numbers of the sets of scopes that hold any of some, and how many documents stand in these.

    The scopes of single sessions are in none.
    """
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    # No word is a part of another: all are as long.
    wanted = " OR ".join([f"words LIKE {mark}"] * len(scopes))
    query = f"SELECT number, documents FROM recall_scopes WHERE {wanted}"  # noqa: S608 - marks only
    found = driver_of(connection).execute(query, [f"%{scope}%" for scope in scopes]).fetchall()
    return [row[0] for row in found], sum(row[1] for row in found)


def add_documents(tx: Transaction, rows: list[tuple[int, int, int, int, int, int]]) -> None:
    """Write down where documents lead to: number, session's number, scopes' number, sequence, part, length.

    The numbers must be free.
    """
    if rows:
        _ADD_DOCUMENT.run_many_on(driver_of(tx.connection), tx.connection.dialect, rows)


def taken_among(connection: Connection, numbers: Sequence[int]) -> set[int]:
    """Return which of some numbers of documents are taken."""
    query = "SELECT document FROM recall_documents WHERE document IN ({})"
    return {row[0] for row in _among(connection, query, numbers)}


def _among(connection: Connection, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query about some values; by the driver, since SQLAlchemy takes longer than the database."""
    mark, driver = "?" if connection.dialect.name == "sqlite" else "%s", driver_of(connection)
    for start in range(0, len(values), _MAX_VALUES):
        some = values[start : start + _MAX_VALUES]
        yield from driver.execute(query.format(",".join([mark] * len(some))), tuple(some))


def entries_in_parts(connection: Connection, chats: Sequence[int]) -> set[tuple[int, int]]:
    """Return which entries of some sessions are so long that they are indexed in parts: number and sequence."""
    query = select(_D.chat, _D.sequence).where(_D.chat.in_(chats), _D.part == 1)
    return {(row[0], row[1]) for row in connection.execute(query)}


def document_bounds(connection: Connection) -> tuple[int, int]:
    """Return the lowest and the highest number of a document; 0 and 0 if there is none."""
    lowest, highest = select(func.min(_D.document)).scalar_subquery(), select(func.max(_D.document)).scalar_subquery()
    row = connection.execute(select(lowest, highest)).one()
    return row[0] or 0, row[1] or 0


def chats_within(connection: Connection, chats: Sequence[int], span: tuple[int, int]) -> set[int]:
    """Return which of some sessions have a document between two numbers, both included."""
    said = select(_D.document).where(_D.chat == _M.chat, _D.document.between(*span)).exists()
    return set(connection.execute(select(_M.chat).where(_M.chat.in_(chats), said)).scalars())


def taken_between(connection: Connection, first: int, last: int) -> set[int]:
    """Return which numbers of documents are taken between two, both included."""
    return set(connection.execute(select(_D.document).where(_D.document.between(first, last))).scalars())


def documents_of(connection: Connection, chat: int) -> list[tuple[int, int, int]]:
    """Return number, sequence and part of all documents of a session."""
    query = select(_D.document, _D.sequence, _D.part).where(_D.chat == chat).order_by(_D.sequence, _D.part)
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def count_terms(tx: Transaction, counts: Mapping[str, int], *, documents: int, terms: int) -> None:
    """Add to the number of documents that each term stands in, and to those of all documents and terms."""
    if counts:
        rows = [(term, counts[term]) for term in sorted(counts)]
        _ADD_TERM_COUNTS.run_many_on(driver_of(tx.connection), tx.connection.dialect, rows)
        if any(count < 0 for count in counts.values()):
            tx.execute(delete(recall_terms).where(recall_terms.c.documents <= 0))
    count_state(tx, {"documents": documents, "terms": terms})


def count_state(tx: Transaction, values: Mapping[str, int]) -> None:
    """Add to numbers of the index as a whole."""
    tx.execute(_ADD_STATE, [{"name": name, "value": value} for name, value in values.items()])


def frequencies(connection: Connection, terms: Iterable[str]) -> dict[str, int]:
    """Return in how many documents some terms stand; a term that stands in none is left out."""
    return dict(_among(connection, "SELECT term, documents FROM recall_terms WHERE term IN ({})", list(terms)))


def beginning_with(connection: Connection, prefix: str, limit: int) -> list[tuple[str, int]]:
    """Return terms that begin so, the shortest first at least, with the number of documents that each stands in."""
    rows = _BEGINNING_WITH.run(connection, prefix, prefix + "\U0010ffff", limit)
    return [(row[0], row[1]) for row in rows]


def forget_mark(tx: Transaction, mark: Mark) -> None:
    """Take away where a session's documents lead to, and how far it is indexed."""
    tx.execute(delete(recall_documents).where(_D.chat == mark.chat))
    _REMOVE_MARK.run(tx.connection, mark.session_id)


def clear(tx: Transaction) -> None:
    """Empty all that stands beside the full-text indexes."""
    for table in (recall_documents, recall_marks, recall_scopes, recall_terms, recall_state):
        tx.execute(delete(table))


def count_places(connection: Connection) -> tuple[int, int]:
    """Return how many documents, and how many sessions, have a place."""
    documents = connection.execute(select(func.count()).select_from(recall_documents)).scalar_one()
    marks = connection.execute(select(func.count()).select_from(recall_marks)).scalar_one()
    return documents, marks


def marks_through(connection: Connection) -> list[tuple[str, int]]:
    """Return all sessions that are indexed, and how far."""
    query = select(_M.session_id, _M.indexed_through).order_by(_M.session_id)
    return [(row[0], row[1]) for row in connection.execute(query)]


def places_between(connection: Connection, chat: int, first: int, last: int) -> dict[tuple[int, int], Placed]:
    """Return by sequence and part where a session's documents are and how long, of some sequences up to the last."""
    query = select(_D.sequence, _D.part, _D.document, _D.scope, _D.length)
    query = query.where(_D.chat == chat, _D.sequence.between(first, last))
    return {(row[0], row[1]): Placed(*row[2:]) for row in connection.execute(query)}


def number_of_scope(connection: Connection, words: str) -> int | None:
    """Return the number of a set of scopes; None if nothing stands in it."""
    query = select(recall_scopes.c.number).where(recall_scopes.c.words == words)
    return connection.execute(query).scalar()


def sum_lengths(connection: Connection) -> tuple[int, int]:
    """Return how many documents have a place, and how many terms these have."""
    row = connection.execute(select(func.count(), func.coalesce(func.sum(_D.length), 0)).select_from(recall_documents))
    documents, length = row.one()
    return documents, int(length)


def unreadable_chats(
    connection: Connection, kinds: Sequence[str], workspace_id: str | None, limit: int
) -> list[tuple[str, str]]:
    """Return sessions of some kinds, and of one workspace if it is named, that cannot be read, and the reason."""
    if all(query.run(connection).fetchall() == [(None,)] for query in (_ANY_UNREADABLE, _ANY_QUARANTINED)):
        return []
    wanted: ColumnElement[bool] = _S.kind.in_(kinds)
    if workspace_id is not None:
        wanted = and_(wanted, _S.workspace_id == workspace_id)
    damaged = select(_S.id).join(quarantined_sessions, quarantined_sessions.c.session_id == _S.id).where(wanted)
    found = dict.fromkeys(
        connection.execute(damaged.order_by(_S.id.desc()).limit(limit)).scalars(), "session_quarantined"
    )
    query = select(_M.session_id, _M.unreadable_version).join(sessions, _S.id == _M.session_id)
    query = query.where(_M.unreadable_entry_id > "", wanted).order_by(_M.session_id.desc()).limit(limit)
    for session_id, version in connection.execute(query):
        found.setdefault(session_id, unreadable_reason(version))
    return list(found.items())


def unreadable_reason(version: int | None) -> str:
    """Return what keeps a session from being read, by the version of its first entry that is not read."""
    return "stored_text_damaged" if version in READABLE_VERSIONS else "unsupported_semantic_version"


def harness_names(connection: Connection) -> list[str]:
    """Return the harnesses that any session was held with."""
    query = select(_S.harness).where(_S.harness.is_not(None)).distinct().order_by(_S.harness)
    return list(connection.execute(query).scalars())
