"""Statements for the hot path: written in Core, compiled once per dialect, run with plain values.

Compiling, or even looking up, a Core statement for each row costs half of the writer's time; handing its
compiled text to the driver costs five percent.
"""

from __future__ import annotations

from dataclasses import dataclass
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
        self._compiled: dict[str, _Compiled] = {}

    def run(self, connection: Connection, *values: Any) -> CursorResult[*tuple[Any, ...]]:
        """Run the statement with one value for each name, in order."""
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            compiled = self._compile(connection.dialect)
        known = values + compiled.constants
        if compiled.positions is None:
            parameters = dict(zip(compiled.names, known, strict=True))
            return connection.exec_driver_sql(compiled.text, parameters)
        return connection.exec_driver_sql(compiled.text, tuple([known[position] for position in compiled.positions]))

    def _compile(self, dialect: Dialect) -> _Compiled:
        compiled = self._statement.compile(dialect=dialect)
        if not compiled.params.keys() >= set(self._names):
            raise ValueError(f"the statement takes {sorted(compiled.params)}, not {sorted(self._names)}")
        # Beside the caller's parameters there are the statement's own: literals, the OFFSET that comes with a LIMIT.
        constants = {name: value for name, value in compiled.params.items() if name not in self._names}
        names = (*self._names, *constants)
        order: list[str] | None = getattr(compiled, "positiontup", None)
        positions = None if order is None else tuple(names.index(name) for name in order)
        self._compiled[dialect.name] = _Compiled(str(compiled), names, tuple(constants.values()), positions)
        return self._compiled[dialect.name]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement's text and where its parameters go; ``positions`` is None where the driver takes names."""

    text: str
    names: tuple[str, ...]
    constants: tuple[Any, ...]
    positions: tuple[int, ...] | None
