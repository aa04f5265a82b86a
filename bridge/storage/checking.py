"""Whether the database itself is whole: its pages and indexes, what refers to what, and the triggers that guard it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, select

from bridge.storage import ddl_postgresql
from bridge.storage.ddl import trigger_statements
from bridge.storage.tables import metadata

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
        # Pages and indexes are the server's own care; amcheck is the operator's tool for that.
        listing = (
            "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
            " JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            " WHERE NOT tgisinternal AND tgenabled = 'A' AND nspname = current_schema()"
        )
        return [*_dangling_on_server(connection), *_missing_triggers(connection, listing)]
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


def _dangling_on_server(connection: Connection) -> list[Problem]:
    """Look for what the server's own guard lets nobody write, but who turned it off."""
    problems = []
    for table in metadata.sorted_tables:
        for key in sorted(table.foreign_key_constraints, key=lambda one: str(one.name)):
            parent = key.referred_table.alias()
            pairs = [(element.parent, parent.c[element.column.name]) for element in key.elements]
            is_there = exists().where(*(child == referred for child, referred in pairs))
            query = (
                select(func.count()).select_from(table).where(*(child.is_not(None) for child, _ in pairs), ~is_there)
            )
            count = connection.execute(query).scalar_one()
            if count:
                what = f"{count} rows refer to rows of {key.referred_table.name} that are not there."
                problems.append(Problem("dangling", table.name, what))
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
