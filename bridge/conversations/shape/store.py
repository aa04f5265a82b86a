"""Queries by which the shape of a path is known and its entries are read, newest first."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, cast

from sqlalchemy import BigInteger, ColumnElement, Connection, bindparam, case, func, literal, select, text

from bridge.foundation.ids import entry_id
from bridge.semantics.kinds import ELIGIBLE
from bridge.storage.errors import StoredTextDamaged
from bridge.storage.longtexts import whole_payload
from bridge.storage.prepared import Prepared
from bridge.storage.tables import session_entries
from bridge.storage.tables.conversations import WAYMARK_CONDITION

_E = session_entries.c


class Waymark(NamedTuple):
    """An entry that says something about every path through it (see ``tables.conversations``)."""

    sequence: int
    parent_entry_id: str | None
    semantic_schema_version: int
    kind: str
    context_visibility: str


#: Semantic schema version, kind, payload. The payload is None where it is not to be told: hidden entries. A plain
#: tuple, as the driver gives it: a path has ten thousands of them.
Row: TypeAlias = tuple[int, str, str | None]


_WAYMARKS = Prepared(
    select(_E.sequence, _E.parent_entry_id, _E.semantic_schema_version, _E.kind, _E.context_visibility)
    .where(
        _E.session_id == bindparam("session"),
        _E.sequence <= bindparam("last", type_=BigInteger),
        # As it stands in the index, or the database would not know that the index holds all of them.
        text(f"({WAYMARK_CONDITION})"),
    )
    .order_by(_E.sequence.desc()),
    "session",
    "last",
)
_COUNT = Prepared(
    select(func.count())
    .select_from(session_entries)
    .where(
        _E.session_id == bindparam("session"),
        _E.sequence >= bindparam("first", type_=BigInteger),
        _E.sequence <= bindparam("last", type_=BigInteger),
    ),
    "session",
    "first",
    "last",
)
#: A hidden entry's payload stays where it is: it may be long, and nobody is told it. One that is lost is empty.
_TOLD = case((_E.context_visibility == literal(ELIGIBLE), func.coalesce(whole_payload(), "")), else_=None).label(
    "payload"
)


def _between(*columns: ColumnElement[Any]) -> Prepared:
    statement = (
        select(*columns)
        .where(
            _E.session_id == bindparam("session"),
            _E.sequence >= bindparam("first", type_=BigInteger),
            _E.sequence <= bindparam("last", type_=BigInteger),
        )
        .order_by(_E.sequence.desc())
    )
    return Prepared(statement, "session", "first", "last")


_RUN = _between(_E.semantic_schema_version, _E.kind, _TOLD)
_NUMBERED = _between(_E.sequence, _E.semantic_schema_version, _E.kind, _TOLD)
_PAYLOAD = Prepared(
    select(whole_payload(), _E.payload_hash).where(
        _E.session_id == bindparam("session"), _E.sequence == bindparam("at", type_=BigInteger)
    ),
    "session",
    "at",
)
_PARENT = Prepared(
    select(_E.parent_entry_id).where(
        _E.session_id == bindparam("session"), _E.sequence == bindparam("at", type_=BigInteger)
    ),
    "session",
    "at",
)


def waymarks(connection: Connection, session_id: str, last: int) -> list[Waymark]:
    """Return the waymarks of a session up to a sequence, newest first; from an index of their own."""
    return [Waymark._make(row) for row in _WAYMARKS.run(connection, session_id, last)]


def count_between(connection: Connection, session_id: str, first: int, last: int) -> int:
    """Return how many entries there are between two sequences, both included."""
    row = _COUNT.run(connection, session_id, first, last).fetchone()
    return 0 if row is None else int(row[0])


def run(connection: Connection, session_id: str, first: int, last: int) -> list[Row]:
    """Return the entries between two sequences, newest first."""
    rows: list[Any] = _RUN.run(connection, session_id, first, last).fetchall()
    return cast("list[Row]", rows)


def numbered(connection: Connection, session_id: str, first: int, last: int) -> list[tuple[int, Row]]:
    """Return the entries between two sequences, newest first, each with its sequence."""
    return [(row[0], cast("Row", row[1:])) for row in _NUMBERED.run(connection, session_id, first, last)]


def payload_at(connection: Connection, session_id: str, sequence: int) -> str | None:
    """Return a payload's stored text; None if there is no such entry.

    Raises
    ------
    StoredTextDamaged
        If it was long and is not where it was kept.
    """
    row = _PAYLOAD.run(connection, session_id, sequence).fetchone()
    if row is not None and row[0] is None:
        identity = entry_id(session_id, sequence)
        raise StoredTextDamaged(
            f"The text of {identity} is not in the store any more.",
            details={"entry_id": identity, "digest": row[1], "reason": "missing"},
        )
    return None if row is None else row[0]


def require_payload(connection: Connection, row: Row, session_id: str, sequence: int) -> None:
    """Refuse a row whose long text is lost. Raises StoredTextDamaged as :func:`payload_at`."""
    if row[2] == "":
        payload_at(connection, session_id, sequence)


def exists_at(connection: Connection, session_id: str, sequence: int) -> bool:
    return _PARENT.run(connection, session_id, sequence).fetchone() is not None
