"""What all tables share: one metadata of their own, deterministic constraint names, the two forms of a column.

The tables are plain Core declarations: their queries are Core as well, and nothing maps rows to classes.

Times are text as :func:`bridge.foundation.clock.format_timestamp` writes them; hashes are lower-case hex.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, MetaData, String
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


def key(name: str, kind: type[TypeEngine[Any]] = String) -> Column[Any]:
    """Declare a column of the primary key; its values are given, never counted up by the database."""
    return Column(name, kind, primary_key=True, autoincrement=False)


def required(name: str, kind: type[TypeEngine[Any]] = String) -> Column[Any]:
    """Declare a column that always has a value."""
    return Column(name, kind, nullable=False)


def optional(name: str, kind: type[TypeEngine[Any]] = String) -> Column[Any]:
    """Declare a column that may be NULL."""
    return Column(name, kind)
