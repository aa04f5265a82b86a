"""What all tables share: one metadata of their own, deterministic constraint names, a timestamp convention."""

from __future__ import annotations

from sqlalchemy import MetaData
from sqlalchemy.orm import registry
from sqlmodel import SQLModel

#: Names that migrations can rely on, on every database.
NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

#: Holds every table of the store and nothing else, whatever other SQLModel classes a program defines.
metadata = MetaData(naming_convention=NAMING_CONVENTION)


class Row(SQLModel, registry=registry(metadata=metadata)):
    """The base of all table classes.

    Times are text as :func:`bridge.foundation.clock.format_timestamp` writes them; hashes are lower-case hex.
    """
