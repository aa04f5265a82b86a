"""A look at a store from outside, whatever its version and without changing a byte: for status reports and ``doctor``.

Plain sqlite3: a store that this program cannot open is just what one wants to look at.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bridge.storage.backup import backups_of, size_of
from bridge.storage.errors import DatabaseFailed
from bridge.storage.schema_version import SCHEMA_VERSION, judge, look, unaltered_uri
from bridge.storage.tables.conversations import other_versions
from bridge.storage.upgrading import Client, interrupted, read_clients


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A session that this program does not read, and why: entries of another contract, or damage."""

    session_id: str
    reason: str
    entries: int | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What a store is.

    ``relation`` is how its version relates to this program's: ``same``, ``older``, ``newer``, ``odd``, ``doubled``,
    ``missing``, or ``absent`` if there is no store; ``found`` is the version as it stands there. ``place`` is the file,
    or the URL without its password.
    """

    place: str
    relation: str
    found: int | str | list[str | None] | None
    size_bytes: int
    is_interrupted: bool
    clients: tuple[Client, ...]
    backups: tuple[Path, ...]
    unreadable: tuple[Unreadable, ...]
    supported: int = SCHEMA_VERSION


def survey(database: Path, *, readable_versions: Collection[int], timeout_seconds: float) -> Survey:
    """Return what a store is.

    Parameters
    ----------
    readable_versions
        The semantic versions that this program reads.

    Raises
    ------
    DatabaseFailed
        If the file cannot be read.
    """
    found = look(database, timeout_seconds=timeout_seconds)
    relation, _, value = ("absent", "", None) if found.is_empty else judge(found.versions)
    try:
        is_known = relation in ("same", "older")
        return Survey(
            place=str(database),
            relation=relation,
            found=value,
            size_bytes=size_of(database),
            is_interrupted=interrupted(database),
            clients=read_clients(database) if is_known else (),
            backups=tuple(backups_of(database)),
            unreadable=_unreadable(database, readable_versions) if relation == "same" else (),
        )
    except sqlite3.Error as error:
        raise DatabaseFailed(f"The store {database} cannot be read: {error}. Nothing was touched.") from error


def _unreadable(database: Path, readable_versions: Collection[int]) -> tuple[Unreadable, ...]:
    marks = ", ".join("?" * len(readable_versions))
    with closing(sqlite3.connect(unaltered_uri(database), uri=True, isolation_level=None)) as connection:
        query = (
            "SELECT session_id, group_concat(DISTINCT semantic_schema_version), count(*) FROM session_entries"  # noqa: S608 - marks
            f" WHERE {other_versions(readable_versions)} AND semantic_schema_version NOT IN ({marks})"
            " GROUP BY session_id ORDER BY session_id"
        )
        foreign = connection.execute(query, tuple(readable_versions)).fetchall()
        damaged = connection.execute("SELECT session_id, reason FROM quarantined_sessions ORDER BY 1").fetchall()
    by_version = [Unreadable(row[0], f"semantic schema version {row[1]}", row[2]) for row in foreign]
    return (*by_version, *(Unreadable(session_id, reason) for session_id, reason in damaged))
