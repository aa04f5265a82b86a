"""Queries of the search index. The index keeps no text: a hit is the place of an entry, which is read from there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection, delete, func, insert, select

from bridge.foundation.ids import entry_id
from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage.errors import NotOnThisDatabase, StoredTextDamaged
from bridge.storage.longtexts import body_of
from bridge.storage.tables import recall_documents, recall_marks, session_entries
from bridge.storage.tables.recall import RECALL_INDEX
from bridge.storage.transaction import Transaction

_D, _M, _E = recall_documents.c, recall_marks.c, session_entries.c

# The virtual table is outside SQLAlchemy's reach; the name is a constant.
_INSERT = f"INSERT INTO {RECALL_INDEX}(rowid, session, terms) VALUES (?, ?, ?)"  # noqa: S608 - no input in it
_COMMAND = f"INSERT INTO {RECALL_INDEX}({RECALL_INDEX}) VALUES (?)"  # noqa: S608 - no input in it
_SEARCH = (
    f"SELECT d.session_id, d.sequence FROM {RECALL_INDEX} JOIN recall_documents AS d "  # noqa: S608 - no input in it
    f"ON d.document = {RECALL_INDEX}.rowid WHERE {RECALL_INDEX} MATCH ? "
    f"ORDER BY bm25({RECALL_INDEX}, 0.0, 1.0), d.sequence DESC, d.session_id"
)


@dataclass(frozen=True, slots=True)
class Row:
    """What of a stored entry decides whether and under which terms it can be found."""

    sequence: int
    semantic_schema_version: int
    kind: str
    context_visibility: str
    payload_hash: str
    #: None where the text is long.
    payload: str | None


def require_index(connection: Connection) -> None:
    """Refuse a database that cannot hold the index.

    Raises
    ------
    NotOnThisDatabase
        If it is not SQLite: the index is one of its FTS5 tables.
    """
    if connection.dialect.name != "sqlite":
        raise NotOnThisDatabase("Searching needs a store on SQLite so far; this one is on PostgreSQL.")


def session_term(session_id: str) -> str:
    """Return the term that every indexed entry of a session has, and no entry of another one."""
    return "s" + sha256(session_id.encode()).hexdigest()


def mark_of(connection: Connection, session_id: str) -> tuple[int, int] | None:
    """Return how far a session is indexed, and under which version; None if it is not."""
    query = select(_M.indexed_through, _M.terms_version).where(_M.session_id == session_id)
    row = connection.execute(query).first()
    return None if row is None else (row[0], row[1])


def put_mark(tx: Transaction, session_id: str, indexed_through: int, version: int) -> None:
    tx.execute(delete(recall_marks).where(_M.session_id == session_id))
    tx.execute(
        insert(recall_marks).values(session_id=session_id, indexed_through=indexed_through, terms_version=version)
    )


def last_sequence(connection: Connection, session_id: str) -> int:
    """Return the highest sequence of a session, -1 if it has no entries."""
    found: int | None = connection.execute(select(func.max(_E.sequence)).where(_E.session_id == session_id)).scalar()
    return -1 if found is None else found


def entries_after(connection: Connection, session_id: str, sequence: int, limit: int) -> list[Row]:
    """Return the next entries of a session in the order of sequence."""
    query = select(_E.sequence, _E.semantic_schema_version, _E.kind, _E.context_visibility, _E.payload_hash, _E.payload)
    query = query.where(_E.session_id == session_id, _E.sequence > sequence).order_by(_E.sequence).limit(limit)
    return [Row(*row) for row in connection.execute(query)]


def text_of(connection: Connection, session_id: str, row: Row) -> str:
    """Return the payload text of an entry.

    Raises
    ------
    StoredTextDamaged
        If it is long and not where it was kept: what is looked for might be in it.
    """
    text = body_of(connection, row.payload_hash) if row.payload is None else row.payload
    if text is None:
        identity = entry_id(session_id, row.sequence)
        raise StoredTextDamaged(
            f"The text of {identity} is not in the store any more, so its session cannot be searched.",
            details={"entry_id": identity, "digest": row.payload_hash, "reason": "missing"},
        )
    return text


def unreadable_entry(connection: Connection, session_id: str) -> tuple[str, int] | None:
    """Return id and version of a session's first entry that this Bridge does not read; None if it reads all."""
    query = select(_E.id, _E.semantic_schema_version).where(
        _E.session_id == session_id, _E.semantic_schema_version.not_in(READABLE_VERSIONS)
    )
    row = connection.execute(query.order_by(_E.sequence).limit(1)).first()
    return None if row is None else (row[0], row[1])


def add_document(tx: Transaction, session_id: str, sequence: int, terms: Iterable[str]) -> None:
    """Put an entry into the index; its place must be free."""
    added = tx.execute(insert(recall_documents).values(session_id=session_id, sequence=sequence))
    (document,) = added.inserted_primary_key or (None,)
    tx.connection.exec_driver_sql(_INSERT, (document, session_term(session_id), " ".join(terms)))


def clear(tx: Transaction) -> None:
    """Empty the index."""
    tx.connection.exec_driver_sql(_COMMAND, ("delete-all",))
    tx.execute(delete(recall_documents))
    tx.execute(delete(recall_marks))


def check_structure(tx: Transaction) -> None:
    """Have the database check the inner structure of the index; raises what it reports."""
    tx.connection.exec_driver_sql(_COMMAND, ("integrity-check",))


def count_documents(connection: Connection) -> tuple[int, int]:
    """Return how many entries have a place in the index, and how many the index itself holds."""
    places = connection.execute(select(func.count()).select_from(recall_documents)).scalar_one()
    held = connection.exec_driver_sql(f"SELECT count(*) FROM {RECALL_INDEX}_docsize").scalar_one()  # noqa: S608 - constant
    return places, held


def search(
    connection: Connection, session_ids: Sequence[str], phrases: Sequence[Sequence[str]], *, match_all: bool
) -> Iterator[tuple[str, int]]:
    """Yield session and sequence of the entries that hold all phrases, or any of them, the best first.

    Parameters
    ----------
    phrases
        At least one; terms as ``terms.terms`` makes them, which hold nothing that the index would take for syntax.
    """
    asked = (" AND " if match_all else " OR ").join(_quoted(phrase) for phrase in phrases)
    places = " OR ".join(_quoted([session_term(session_id)]) for session_id in session_ids)
    rows = connection.exec_driver_sql(_SEARCH, (f"session : ({places}) AND terms : ({asked})",))
    for row in rows:
        yield row[0], row[1]


def _quoted(phrase: Sequence[str]) -> str:
    return '"' + " ".join(phrase) + '"'
