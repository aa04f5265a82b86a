"""What all tables share: one metadata of their own, deterministic constraint names, the two forms of a column.

The tables are plain Core declarations: their queries are Core as well, and nothing maps rows to classes.

Times are text as :func:`bridge.foundation.clock.format_timestamp` writes them; hashes are lower-case hex.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, MetaData, String, text
from sqlalchemy.types import TypeEngine

#: Names that migrations can rely on, on every database.
NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

#: Holds every table of the store and nothing else.
metadata = MetaData(naming_convention=NAMING_CONVENTION)


def _typed(kind: type[TypeEngine[Any]]) -> TypeEngine[Any]:
    """Return a column's type; texts compare byte by byte everywhere.

    SQLite does so by itself. PostgreSQL would use the collation that the database was made with; but ids and times
    are ordered by the database, and digests depend on the order.
    """
    return kind().with_variant(kind(collation="C"), "postgresql") if issubclass(kind, String) else kind()


def key(name: str, kind: type[TypeEngine[Any]] = String) -> Column[Any]:
    """Declare a column of the primary key; its values are given, never counted up by the database."""
    return Column(name, _typed(kind), primary_key=True, autoincrement=False)


def required(name: str, kind: type[TypeEngine[Any]] = String) -> Column[Any]:
    """Declare a column that always has a value."""
    return Column(name, _typed(kind), nullable=False)


def optional(name: str, kind: type[TypeEngine[Any]] = String) -> Column[Any]:
    """Declare a column that may be NULL."""
    return Column(name, _typed(kind))


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Declare an index over the rows for which a condition holds. It serves queries that name the same condition.

    The condition is only noted for PostgreSQL, see :func:`note_for_postgresql`: naming it here would import that
    dialect, 80 ms, on every start that works on SQLite.
    """
    return Index(name, *columns, unique=unique, sqlite_where=text(where), info={"where": where})


def partial_unique(name: str, *columns: str, where: str) -> Index:
    """Declare a unique index over the rows for which a condition holds."""
    return partial_index(name, *columns, where=where, unique=True)


def note_for_postgresql(tables: MetaData = metadata) -> None:
    """Give the partial indexes their condition for PostgreSQL; before any table is made or compared there."""
    for table in tables.tables.values():
        for index in table.indexes:
            if "where" in index.info:
                index.dialect_options["postgresql"]["where"] = text(index.info["where"])
