"""Full-text indexes: FTS5 on SQLite, tsvector on PostgreSQL, with the same answers.

Both get terms that are ready: neither splits, folds or stems anything, and neither ranks. An index answers one
question: which are the newest documents that hold these terms in this scope? Scopes and terms are words of letters
and digits and of characters beyond ASCII, so nothing in them is syntax to either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlalchemy import Connection

from bridge.storage.prepared import driver_of
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


def newest(
    connection: Connection,
    index: str,
    scopes: Sequence[str],
    groups: Sequence[Group],
    *,
    limit: int,
    span: tuple[int, int] | None = None,
    is_broad: bool = False,
) -> list[tuple[int, ...]]:
    """Return the newest documents that stand in any of the scopes and hold one phrase of each group.

    Parameters
    ----------
    scopes, groups
        At least one scope; without a group any document of the scopes will do.
    span
        The numbers between which a document must lie, both included.
    is_broad
        Whether to look the scopes up in the row of each document instead of in the index; of entries, and with a group.
        Quicker by far where most documents lie in them, and slower where few do. Not for the scope of a session.

    Returns
    -------
    list
        Of entries the number and what ``recall_documents`` says of it, of digests the number; the highest first.
    """
    low, high = (-(2**63), 2**63 - 1) if span is None else span
    is_sqlite = connection.dialect.name == "sqlite"
    number, mark = (f"{index}.rowid", "?") if is_sqlite else (f"{index}.document", "%s")
    condition = f"{index} MATCH ?" if is_sqlite else f"{index}.terms @@ %s::tsquery"
    if index == ENTRY_INDEX:
        # In this order: the index hands out its rows newest first, and stops at the limit.
        join = f"{index} CROSS JOIN recall_documents AS d" if is_sqlite else f"{index}, recall_documents AS d"
        source = f"{number}, d.chat, d.sequence, d.length FROM {join}"
        condition = f"d.document = {number} AND {condition}"
        if is_broad:
            words = " OR ".join([f"words LIKE {mark}"] * len(scopes))
            condition += f" AND d.scope IN (SELECT number FROM recall_scopes WHERE {words})"  # noqa: S608 - marks only
    else:
        source = f"{number} FROM {index}"
    statement = (
        f"SELECT {source} WHERE {condition} AND {number} BETWEEN {mark} AND {mark} ORDER BY {number} DESC LIMIT {mark}"
    )
    among, looked_up = ([f"%{scope}%" for scope in scopes], ()) if is_broad else ([], scopes)
    asked = _fts5_query(looked_up, groups) if is_sqlite else _tsquery(looked_up, groups)
    # By the driver: SQLAlchemy takes longer to wrap the rows than either database to find them.
    return driver_of(connection).execute(statement, (asked, *among, low, high, limit)).fetchall()


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
