"""Statements for the hot path: written in Core, compiled once per dialect, run with plain values.

Compiling, or even looking up, a Core statement for each row costs half of the writer's time; handing its
compiled text to the driver costs five percent.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, CursorResult, Dialect
from sqlalchemy.sql import ClauseElement


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
        self._compiled: dict[str, tuple[str, tuple[int, ...] | None]] = {}

    def run(self, connection: Connection, *values: Any) -> CursorResult[Any]:
        """Run the statement with one value for each name, in order."""
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            compiled = self._compile(connection.dialect)
        text, positions = compiled
        if positions is None:
            return connection.exec_driver_sql(text, dict(zip(self._names, values, strict=True)))
        return connection.exec_driver_sql(text, tuple([values[position] for position in positions]))

    def _compile(self, dialect: Dialect) -> tuple[str, tuple[int, ...] | None]:
        compiled = self._statement.compile(dialect=dialect)
        order: list[str] | None = getattr(compiled, "positiontup", None)
        names = set(order) if order is not None else set(compiled.params)
        if names != set(self._names):
            raise ValueError(f"the statement takes {sorted(names)}, not {sorted(self._names)}")
        positions = None if order is None else tuple(self._names.index(name) for name in order)
        self._compiled[dialect.name] = str(compiled), positions
        return self._compiled[dialect.name]
