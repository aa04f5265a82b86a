"""Full-text indexes: FTS5 on SQLite, tsvector on PostgreSQL, with the same answers.

Both get terms that are ready: neither splits, folds or stems anything, and neither ranks. An index answers one
question: which are the newest documents that hold these terms in this scope? Scopes and terms are words of letters
and digits and of characters beyond ASCII, so nothing in them is syntax to either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from bridge.storage.prepared import rows_planned_for
from bridge.storage.transaction import Transaction

#: Documents are entries, or parts of very long ones.
ENTRY_INDEX: Final = "recall_index"
#: Documents are sessions: what a look at each is made of.
DIGEST_INDEX: Final = "recall_digest_index"
INDEXES: Final = (ENTRY_INDEX, DIGEST_INDEX)
#: Terms that one document may have at most, and times that one term may stand in it: PostgreSQL forgets places beyond
#: those, and a phrase would not be found.
MAX_DOCUMENT_TERMS: Final = 8_000
MAX_TERM_PLACES: Final = 250

#: Numbers between which all documents lie.
EVERYTHING: Final = (-(2**63), 2**63 - 1)

# The two ways that PostgreSQL is sent: through all documents from the newest on until enough match, or to those that
# match, and then the newest of them. With N documents of which m match, one looks at limit * N / m rows in order, the
# other at m rows out of order, which cost twice as much each. What is fenced off (OFFSET 0, MATERIALIZED) it leaves so.
_WALK: Final = """
SELECT s.document, p.chat, p.sequence, p.length
FROM (
    SELECT document, terms FROM recall_index WHERE document BETWEEN %s AND %s ORDER BY document DESC OFFSET 0
) AS s CROSS JOIN LATERAL (
    SELECT d.chat, d.sequence, d.length FROM recall_documents AS d WHERE d.document = s.document{within} OFFSET 0
) AS p
WHERE s.terms @@ %s::tsquery ORDER BY s.document DESC LIMIT %s
"""
_LOOK_UP: Final = """
WITH found AS MATERIALIZED (
    SELECT document FROM recall_index WHERE terms @@ %s::tsquery AND document BETWEEN %s AND %s
)
SELECT s.document, p.chat, p.sequence, p.length
FROM (SELECT document FROM found ORDER BY document DESC OFFSET 0) AS s CROSS JOIN LATERAL (
    SELECT d.chat, d.sequence, d.length FROM recall_documents AS d WHERE d.document = s.document{within} OFFSET 0
) AS p
ORDER BY s.document DESC LIMIT %s
"""
# In this order: the index hands out its rows newest first, and stops at the limit.
_ON_SQLITE: Final = """
SELECT d.document, d.chat, d.sequence, d.length
FROM recall_index CROSS JOIN recall_documents AS d
WHERE d.document = recall_index.rowid AND recall_index MATCH ?{within} AND recall_index.rowid BETWEEN ? AND ?
ORDER BY recall_index.rowid DESC LIMIT ?
"""

#: Terms in a row.
Phrase = tuple[str, ...]
#: Phrases of which one is enough.
Group = tuple[Phrase, ...]


def sqlite_statements() -> Iterator[str]:
    """Yield the statements that make the indexes on SQLite."""
    for index in INDEXES:
        # "ascii" only splits at what is neither a letter nor a digit nor beyond ASCII.
        yield f"CREATE VIRTUAL TABLE {index} USING fts5(scope, terms, content='', tokenize='ascii')"


def postgresql_statements() -> Iterator[str]:
    """Yield the statements that make the indexes on PostgreSQL."""
    for index in INDEXES:
        yield f"CREATE TABLE {index} (document BIGINT PRIMARY KEY, terms TSVECTOR NOT NULL)"
        yield f"CREATE INDEX ix_{index}_terms ON {index} USING gin (terms)"


def add(tx: Transaction, index: str, documents: Iterable[tuple[int, str, Sequence[str]]]) -> None:
    """Put documents in: the number, which must be free, the scope words with blanks between, and the terms."""
    if tx.connection.dialect.name == "sqlite":
        statement = f"INSERT INTO {index}(rowid, scope, terms) VALUES (?, ?, ?)"  # noqa: S608 - a constant
        rows = [(number, scope, " ".join(terms)) for number, scope, terms in documents]
    else:
        statement = f"INSERT INTO {index}(document, terms) VALUES (%s, %s::tsvector)"  # noqa: S608 - a constant
        rows = [(number, _tsvector(scope, terms)) for number, scope, terms in documents]  # type: ignore[misc]  # two columns here
    if rows:
        tx.connection.exec_driver_sql(statement, rows)


def remove(tx: Transaction, index: str, number: int, scope: str, terms: Sequence[str]) -> None:
    """Take a document out; scope and terms must be what it was put in with, since the index keeps no text."""
    if tx.connection.dialect.name == "sqlite":
        statement = f"INSERT INTO {index}({index}, rowid, scope, terms) VALUES ('delete', ?, ?, ?)"  # noqa: S608 - constant
        tx.connection.exec_driver_sql(statement, (number, scope, " ".join(terms)))
    else:
        tx.connection.exec_driver_sql(f"DELETE FROM {index} WHERE document = %s", (number,))  # noqa: S608 - constant


def clear(tx: Transaction) -> None:
    """Empty the indexes."""
    for index in INDEXES:
        if tx.connection.dialect.name == "sqlite":
            tx.connection.exec_driver_sql(f"INSERT INTO {index}({index}) VALUES ('delete-all')")  # noqa: S608 - constant
        else:
            tx.connection.exec_driver_sql(f"DELETE FROM {index}")  # noqa: S608 - constant


def check_structure(tx: Transaction) -> None:
    """Have the database check the inner structure of its indexes; raises what it reports."""
    if tx.connection.dialect.name == "sqlite":
        for index in INDEXES:
            tx.connection.exec_driver_sql(f"INSERT INTO {index}({index}) VALUES ('integrity-check')")  # noqa: S608 - constant


def count(connection: Connection, index: str) -> int:
    """Return how many documents an index holds."""
    table = f"{index}_docsize" if connection.dialect.name == "sqlite" else index
    found: int = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()  # noqa: S608 - constant
    return found


@dataclass(frozen=True, slots=True)
class Frequency:
    """How many documents match something, as far as is known beforehand, and how many there are."""

    documents: int
    total: int


def newest_entries(
    connection: Connection,
    scopes: Sequence[str],
    groups: Sequence[Group],
    *,
    limit: int,
    span: tuple[int, int] = EVERYTHING,
    among: Sequence[int] = (),
    frequency: Frequency | None = None,
) -> list[tuple[int, ...]]:
    """Return the newest documents of entries that stand in any of the scopes and hold one phrase of each group.

    Parameters
    ----------
    scopes
        Looked up in the index beside the groups, which is quick where few documents lie in them; none: anywhere.
    groups
        None: any document of the scopes, of which there must be one then.
    span
        The numbers between which a document must lie, both included.
    among
        Numbers in ``recall_scopes`` of which a document's row must name one, which is quick where most do; none: any.
    frequency
        How many documents there are of which how many match probably; None: few do. It changes no answer, only which
        way PostgreSQL goes to it: its own guess, with few statistics, can cost a walk through all documents.

    Returns
    -------
    list
        Number, and chat, sequence and length as in ``recall_documents``; the highest number first.
    """
    within = f" AND d.scope IN ({','.join(map(str, among))})" if among else ""
    values: tuple[object, ...]
    if connection.dialect.name == "sqlite":
        statement, values = _ON_SQLITE, (_fts5_query(scopes, groups), *span, limit)
    elif frequency is not None and frequency.documents**2 * 2 > limit * frequency.total:
        statement, values = _WALK, (*span, _tsquery(scopes, groups), limit)
    else:
        statement, values = _LOOK_UP, (_tsquery(scopes, groups), *span, limit)
    # By the driver: SQLAlchemy takes longer to wrap the rows than either database to find them.
    return rows_planned_for(connection, statement.format(within=within), values)


def newest_digests(connection: Connection, scopes: Sequence[str], groups: Sequence[Group], *, limit: int) -> list[int]:
    """Return the sessions started last whose digests stand in any of the scopes and hold one phrase of each group."""
    if connection.dialect.name == "sqlite":
        statement = f"SELECT rowid FROM {DIGEST_INDEX} WHERE {DIGEST_INDEX} MATCH ? ORDER BY rowid DESC LIMIT ?"  # noqa: S608 - constants
        asked = _fts5_query(scopes, groups)
    else:
        statement = f"SELECT document FROM {DIGEST_INDEX} WHERE terms @@ %s::tsquery ORDER BY document DESC LIMIT %s"  # noqa: S608 - constants
        asked = _tsquery(scopes, groups)
    return [row[0] for row in rows_planned_for(connection, statement, (asked, limit))]


def _fts5_query(scopes: Sequence[str], groups: Sequence[Group]) -> str:
    within = " OR ".join(f'"{scope}"' for scope in scopes)
    places = [f"scope : ({within})"] if within else []
    asked = [" OR ".join(f'"{" ".join(phrase)}"' for phrase in group) for group in groups]
    # The rarest first would be enough for either, but only the rows that all have are ever counted.
    return " AND ".join([*places, *(f"terms : ({alternatives})" for alternatives in asked)])


def _tsquery(scopes: Sequence[str], groups: Sequence[Group]) -> str:
    places = [" | ".join(_lexeme_of_scope(scope) for scope in scopes)] if scopes else []
    asked = [
        " | ".join("(" + " <-> ".join(f"'{term}'" for term in phrase) + ")" for phrase in group) for group in groups
    ]
    return " & ".join(f"({part})" for part in (*places, *asked))


def _tsvector(scope: str, terms: Sequence[str]) -> str:
    places: dict[str, list[str]] = {}
    for place, term in enumerate(terms, 1):
        places.setdefault(term, []).append(str(place))
    words = [_lexeme_of_scope(word) for word in scope.split()]
    return " ".join([*words, *(f"'{term}':{','.join(found)}" for term, found in places.items())])


def _lexeme_of_scope(scope: str) -> str:
    # No term begins so: scopes and terms share the one column.
    return f"'.{scope}'"
