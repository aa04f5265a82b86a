"""Whether a database is whole at the end of a revision: what must hold before it is committed."""

from __future__ import annotations

from typing import NamedTuple

from bridge.storage.prepared import DriverConnection, is_sqlite

#: Findings of a check that a message shows.
MAX_SHOWN = 5

#: What PostgreSQL was told not to check, or could not finish: ``ADD CONSTRAINT … NOT VALID``, an index that is invalid.
_OURS = "(SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
_UNFINISHED = (
    f"SELECT conname FROM pg_constraint WHERE NOT convalidated AND connamespace = {_OURS}"  # noqa: S608 - constants
    " UNION ALL SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
    f" WHERE NOT indisvalid AND relnamespace = {_OURS} ORDER BY 1"
)
#: Triggers that a session which calls itself a replica would go past.
_PASSABLE = (
    "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"  # noqa: S608 - constants
    f" WHERE NOT tgisinternal AND tgenabled <> 'A' AND relnamespace = {_OURS} ORDER BY 1"
)


class Flaw(NamedTuple):
    """One reason not to commit: ``foreign_keys``, ``integrity`` or ``triggers``, and words for a message."""

    reason: str
    message: str


def flaw_of(driver: DriverConnection) -> Flaw | None:
    """Return the first thing that is wrong with the database; None if all is well."""
    return _flaw_of_file(driver) if is_sqlite(driver) else _flaw_of_server(driver)


def _flaw_of_file(driver: DriverConnection) -> Flaw | None:
    broken = driver.execute("PRAGMA foreign_key_check").fetchall()
    if broken:
        tables = sorted({str(row[0]) for row in broken})
        return Flaw("foreign_keys", f"{len(broken)} rows of {', '.join(tables)} refer to rows that are not")
    found = [str(row[0]) for row in driver.execute("PRAGMA integrity_check").fetchall()]
    return None if found == ["ok"] else Flaw("integrity", "; ".join(found[:MAX_SHOWN]))


def _flaw_of_server(driver: DriverConnection) -> Flaw | None:
    # PostgreSQL holds its keys itself, at each statement, and never turns them off; but for what it was told to skip.
    for query, reason, words in (
        (_UNFINISHED, "foreign_keys", "not checked or not complete"),
        (_PASSABLE, "triggers", "not enabled always"),
    ):
        names = [str(row[0]) for row in driver.execute(query).fetchall()]
        if names:
            return Flaw(reason, f"{', '.join(names[:MAX_SHOWN])}: {words}")
    return None
