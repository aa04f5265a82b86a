"""Statements for the hot path: written in Core, compiled once per dialect, run by the driver itself.

Looking a Core statement up in SQLAlchemy's cache and wrapping its result costs 25 µs and more, on every one of
the six statements of an append; the driver alone needs three to eight. The transaction is SQLAlchemy's all the
same: only the text goes around it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Protocol, cast

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql import ClauseElement

#: Rows fetched from a server at a time by :func:`stream`.
STREAMED_ROWS = 1000
#: Rows that one INSERT takes at once on SQLite, in one call of its library: a tenth less than row by row.
ROWS_TOGETHER = 32


#: Numbers of the cursors that are kept on a server.
_STREAMS = count()


class Cursor(Protocol):
    """What drivers return from ``execute``: rows are plain tuples."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class ManyCursor(Protocol):
    """What drivers return from ``cursor``, as far as it is used."""

    def executemany(self, statement: str, rows: Any, /) -> Any: ...


class DriverConnection(Protocol):
    """What drivers' connections have in common, as far as it is used."""

    def execute(self, statement: str, parameters: Any = (), /) -> Cursor: ...

    def executemany(self, statement: str, rows: Any, /) -> Any:
        """Of sqlite3 alone, for the revisions, which run nowhere else."""

    def cursor(self) -> ManyCursor: ...


def driver_of(connection: Connection) -> DriverConnection:
    """Return the driver's own connection under an SQLAlchemy one."""
    return cast("DriverConnection", connection.connection.driver_connection)


def rows_planned_for(connection: Connection, statement: str, values: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that is planned for just these values.

    psycopg prepares what it runs often, and PostgreSQL then may keep one plan for all values: right for keys, and wrong
    by a hundred times where one value stands for five rows and another for a million.
    """
    driver = driver_of(connection)
    if is_sqlite(driver):
        return driver.execute(statement, values).fetchall()
    rows: list[tuple[Any, ...]] = cast("Any", driver).execute(statement, values, prepare=False).fetchall()
    return rows


# sqlite3 and psycopg name the same things differently.


def is_sqlite(driver: DriverConnection) -> bool:
    """Return whether the driver is sqlite3."""
    return isinstance(driver, sqlite3.Connection)


def table_names(driver: DriverConnection) -> set[str]:
    """Return the names of the store's tables."""
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if is_sqlite(driver)
        else "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    )
    return {str(row[0]) for row in driver.execute(query).fetchall()}


def stream(driver: DriverConnection, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query, however many, in bounded memory."""
    if is_sqlite(driver):
        yield from driver.execute(query)
        return
    # psycopg would fetch all of them first; a cursor with a name stays on the server.
    with cast("Any", driver).cursor(name="bridge_stream") as cursor:
        cursor.itersize = STREAMED_ROWS
        cursor.execute(query)
        yield from cursor


def end_reading(driver: DriverConnection) -> None:
    """End the transaction that psycopg began for statements that only read."""
    if not is_sqlite(driver):
        cast("Any", driver).rollback()


@contextmanager
def any_texts(connection: Connection) -> Iterator[None]:
    """Read texts that are not UTF-8 as well, with the bytes that are none as surrogates, as file names are read.

    On SQLite alone a text can be anything; there reading one that is no UTF-8 fails otherwise.
    """
    driver = driver_of(connection)
    if not isinstance(driver, sqlite3.Connection):
        yield
        return
    before = driver.text_factory
    driver.text_factory = _decoded
    try:
        yield
    finally:
        driver.text_factory = before


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def count_changes(driver: DriverConnection) -> int | None:
    """Return how many rows the connection changed so far; None where the driver does not count."""
    changes: int | None = getattr(driver, "total_changes", None)
    return changes


def in_transaction(driver: DriverConnection) -> bool:
    """Return whether the transaction still stands: SQLite undoes all of it on some failures."""
    return bool(getattr(driver, "in_transaction", True))


def is_closed(connection: Connection) -> bool:
    """Return whether the database's side of a connection is gone."""
    return connection.invalidated or bool(getattr(driver_of(connection), "closed", False))


class Prepared:
    """One Core statement and the order in which its parameters are given.

    Parameters
    ----------
    statement
        A Core statement whose variable parts are ``bindparam`` of the given names. Its types must not need
        conversion: text, integers and bytes do not.
    names
        The parameters in the order in which :meth:`run` takes their values.
    """

    def __init__(self, statement: ClauseElement, *names: str) -> None:
        self._statement = statement
        self._names = names
        self._compiled: dict[str, _Compiled] = {}

    def run(self, connection: Connection, *values: Any) -> Cursor:
        """Run the statement with one value for each name, in order, in the connection's open transaction."""
        return self.run_on(driver_of(connection), connection.dialect, values)

    def run_on(self, driver: DriverConnection, dialect: Dialect, values: tuple[Any, ...]) -> Cursor:
        """Run the statement on a driver's connection; what :meth:`run` does for who runs many."""
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compile(dialect)
        if compiled.is_plain:
            return driver.execute(compiled.text, values)
        known = values + compiled.constants
        if compiled.positions is None:
            return driver.execute(compiled.text, dict(zip(compiled.names, known, strict=True)))
        return driver.execute(compiled.text, [known[position] for position in compiled.positions])

    def stream(self, connection: Connection, *values: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, however many, in bounded memory; several may be under way at once."""
        driver = driver_of(connection)
        if is_sqlite(driver):
            return iter(self.run_on(driver, connection.dialect, values))
        return self._stream_from_server(driver, connection.dialect, values)

    def _stream_from_server(
        self, driver: DriverConnection, dialect: Dialect, values: tuple[Any, ...]
    ) -> Iterator[tuple[Any, ...]]:
        compiled = self._compiled.get(dialect.name) or self._compile(dialect)
        known = dict(zip(compiled.names, values + compiled.constants, strict=True))
        with cast("Any", driver).cursor(name=f"bridge_stream_{next(_STREAMS)}") as cursor:
            cursor.itersize = STREAMED_ROWS
            cursor.execute(compiled.text, known)
            yield from cursor

    def run_many_on(self, driver: DriverConnection, dialect: Dialect, rows: list[tuple[Any, ...]]) -> None:
        """Run the statement once for each row of values, in order."""
        if len(rows) == 1:
            self.run_on(driver, dialect, rows[0])
            return
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compile(dialect)
        if compiled.is_plain:
            rest = 0
            if compiled.text_together is not None:
                while rest + ROWS_TOGETHER <= len(rows):
                    together = rows[rest : rest + ROWS_TOGETHER]
                    driver.execute(compiled.text_together, tuple(chain.from_iterable(together)))
                    rest += ROWS_TOGETHER
            if rest < len(rows):
                driver.cursor().executemany(compiled.text, rows[rest:] if rest else rows)
        elif compiled.positions is None:
            known = [dict(zip(compiled.names, row + compiled.constants, strict=True)) for row in rows]
            driver.cursor().executemany(compiled.text, known)
        else:
            for row in rows:
                self.run_on(driver, dialect, row)

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled = self._statement.compile(dialect=dialect)
        if not compiled.params.keys() >= set(self._names):
            raise ValueError(f"the statement takes {sorted(compiled.params)}, not {sorted(self._names)}")
        # Beside the caller's parameters there are the statement's own: literals, the OFFSET that comes with a LIMIT.
        constants = {name: value for name, value in compiled.params.items() if name not in self._names}
        names = (*self._names, *constants)
        order: list[str] | None = getattr(compiled, "positiontup", None)
        positions = None if order is None else tuple(names.index(name) for name in order)
        is_plain = positions == tuple(range(len(names))) and not constants
        text = str(compiled)
        together = _for_many_rows(text) if is_plain else None
        made = _Compiled(text, names, tuple(constants.values()), positions, is_plain, together)
        self._compiled[dialect.name] = made
        return made


def _for_many_rows(text: str) -> str | None:
    """Return the text of an INSERT of one row as one of :data:`ROWS_TOGETHER`; None if it is anything else."""
    start, separator, rest = text.partition(" VALUES ")
    row, end, conflict = rest.partition(")")
    if not text.startswith("INSERT ") or not end or "(" in row[1:]:
        return None
    return start + separator + ", ".join([row + end] * ROWS_TOGETHER) + conflict


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement's text and where its parameters go.

    ``positions`` is None where the driver takes names; ``is_plain`` says that the caller's order is the text's;
    ``text_together`` inserts many rows.
    """

    text: str
    names: tuple[str, ...]
    constants: tuple[Any, ...]
    positions: tuple[int, ...] | None
    is_plain: bool
    text_together: str | None
