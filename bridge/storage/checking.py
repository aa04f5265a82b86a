"""Whether the database itself is whole: its pages and indexes, what refers to what, and the triggers that guard it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from bridge.storage import ddl_postgresql
from bridge.storage.ddl import trigger_statements

#: Problems that SQLite lists at most; a damaged file would otherwise name every row.
MAX_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the database: ``damaged``, ``dangling``, ``trigger_missing``, ``index_damaged``."""

    code: str
    subject: str
    message: str


def check_database(connection: Connection) -> list[Problem]:
    """Return what is wrong, nothing if all is well; reads every page."""
    if connection.dialect.name != "sqlite":
        # Pages, indexes and foreign keys are the server's own care; amcheck is the operator's tool for that.
        return _missing_triggers(connection, "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'A'")
    listing = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    return [*_damage(connection), *_dangling(connection), *_missing_triggers(connection, listing)]


def _damage(connection: Connection) -> list[Problem]:
    found = connection.exec_driver_sql(f"PRAGMA integrity_check({MAX_PROBLEMS})").scalars().all()
    return [] if found == ["ok"] else [Problem("damaged", "database", str(line)) for line in found]


def _dangling(connection: Connection) -> list[Problem]:
    problems = []
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(MAX_PROBLEMS):
        subject = str(table) if row is None else f"{table} row {row}"
        problems.append(Problem("dangling", subject, f"It refers to a row of {parent} that is not there."))
    return problems


def _missing_triggers(connection: Connection, listing: str) -> list[Problem]:
    present = set(connection.exec_driver_sql(listing).scalars())
    wanted = (
        [statement.split()[2] for statement in trigger_statements()]
        if connection.dialect.name == "sqlite"
        else ddl_postgresql.trigger_names()
    )
    return [
        Problem("trigger_missing", name, "What it guards can be overwritten.") for name in wanted if name not in present
    ]
