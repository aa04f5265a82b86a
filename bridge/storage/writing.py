"""The writer's connection: begun, committed and undone by the driver itself wherever that is enough.

SQLAlchemy's way through BEGIN and COMMIT takes 25 µs of Python, a fifth of what a lone append costs. On SQLite the
driver can do without it; SQLAlchemy joins in when somebody asks it for something (the engine's ``begin`` hook leaves a
transaction alone that stands already), and then ends it as well.
"""

from __future__ import annotations

import contextlib

from sqlalchemy import Connection, Engine

from bridge.storage.prepared import driver_of, in_transaction, is_closed


class WriterConnection:
    """An open connection of the writer's engine.

    Parameters
    ----------
    engine
        Engine whose transactions begin with the write lock, unless one stands.
    """

    __slots__ = ("driver", "is_sqlite", "sqlalchemy")

    def __init__(self, engine: Engine) -> None:
        self.sqlalchemy: Connection = engine.connect()
        self.driver = driver_of(self.sqlalchemy)
        self.is_sqlite = self.sqlalchemy.dialect.name == "sqlite"

    @property
    def is_lost(self) -> bool:
        """Whether the database's side of it is gone."""
        return is_closed(self.sqlalchemy)

    @property
    def is_clean(self) -> bool:
        """Whether it can be used again: no transaction is left that could be neither committed nor rolled back."""
        if self.sqlalchemy.invalidated or self.sqlalchemy.in_transaction():
            return False
        return not (self.is_sqlite and in_transaction(self.driver))

    def begin(self) -> None:
        """Begin a transaction with the write lock."""
        if self.is_sqlite:
            self.driver.execute("BEGIN IMMEDIATE")
        else:
            self.sqlalchemy.begin()

    def commit(self) -> None:
        if self.is_sqlite and not self.sqlalchemy.in_transaction():
            self.driver.execute("COMMIT")
        else:
            self.sqlalchemy.commit()

    def roll_back(self) -> None:
        """Undo the transaction if there is one. If even that fails, :attr:`is_clean` says so."""
        with contextlib.suppress(Exception):
            self.sqlalchemy.rollback()
        if self.is_sqlite and not self.sqlalchemy.invalidated and in_transaction(self.driver):
            with contextlib.suppress(Exception):
                self.driver.execute("ROLLBACK")

    def close(self) -> None:
        """Close it, whatever state it is in; what was not committed is undone."""
        if not self.is_clean:
            with contextlib.suppress(Exception):
                self.sqlalchemy.invalidate()
        with contextlib.suppress(Exception):
            self.sqlalchemy.close()
