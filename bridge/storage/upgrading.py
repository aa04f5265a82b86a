"""Bringing a store of an older schema up to date: alone, with a backup, step by step, or not at all.

The order is what makes it safe. The lock keeps everyone out; a note beside the store says which upgrade is under way
and where its backup goes; the backup is whole before anything changes; each step is one transaction. So whenever it is
interrupted, the store is exactly at one version, and the next run goes on from there with the same backup.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bridge.storage.backup import (
    BACKUP_SUFFIX,
    PARTIAL_SUFFIX,
    SPARE_BYTES,
    compact,
    copy_database,
    size_of,
)
from bridge.storage.errors import DatabaseFailed, DatabaseMissing, NotEnoughSpace
from bridge.storage.locking import StoreLock
from bridge.storage.schema_version import SCHEMA_VERSION, Look, judge, look, require_supported, unaltered_uri

#: What the note of an upgrade under way is called, after the store's own name.
NOTE_SUFFIX = ".upgrade"
#: Space that an upgrade needs beside its backup, in sizes of the store: old and new tables, and the WAL of both.
GROWTH_FACTOR = 4
#: What an event becomes beside its text when it moves into the forest, in bytes: ids, hashes, indexes and its audit
#: event; measured 1150, and as much again in the WAL.
MOVED_EVENT_BYTES = 2 * 1300
#: The version in which events move.
_MOVING_VERSION = 6

#: Told a word for what is done (``backup``, ``step``), the step's version, the part done and the whole.
UpgradeProgress = Callable[[str, int, int, int], None]


@dataclass(frozen=True, slots=True)
class Client:
    """A host and version of Bridge that used the store."""

    host: str
    version: str
    first_used_at: str
    last_used_at: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What an upgrade is going to do.

    ``resumes`` says that an earlier run was interrupted; its backup is kept. ``clients`` are those that the store
    knows: programs of the old schema among them cannot open it afterwards. On PostgreSQL there is no backup of
    Bridge's own, and the space is the server's care: ``backup`` is None, and both numbers are 0.
    """

    found: int
    target: int
    steps: tuple[tuple[int, str], ...]
    backup: Path | None
    needed_bytes: int
    free_bytes: int
    resumes: bool
    clients: tuple[Client, ...] = ()

    @property
    def fits(self) -> bool:
        return self.free_bytes >= self.needed_bytes


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What an upgrade did: from where to where, and where the backup is (None if there was nothing to do)."""

    found: int
    target: int
    backup: Path | None = None
    was_rehearsal: bool = False
    clients: tuple[Client, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Note:
    """The upgrade under way: where it began and the name of its backup."""

    found: int
    backup: str


def plan(database: Path, *, moment: str, timeout_seconds: float) -> Plan:
    """Return what :func:`upgrade` would do, from a look that changes nothing.

    Raises
    ------
    DatabaseMissing
        If there is no store.
    UnsupportedSchemaVersion
        If the store is newer, or its version is odd, doubled or missing.
    """
    found = look(database, timeout_seconds=timeout_seconds)
    version = require_older_or_same(database, found)
    note = _read_note(database)
    resumes = note is not None and note.found < version < SCHEMA_VERSION
    name = note.backup if note is not None else _backup_name(database, version, moment)
    needed = 0
    if version != SCHEMA_VERSION:
        needed = size_of(database) * (GROWTH_FACTOR + (not resumes)) + SPARE_BYTES
        if version < _MOVING_VERSION:
            needed += _count_events(database) * MOVED_EVENT_BYTES
    status = os.statvfs(database.parent)
    # Imported here: Alembic costs 200 ms, and only a store that is not up to date needs it.
    from bridge.storage.migrations.running import steps_between

    steps = steps_between(version, SCHEMA_VERSION) if version != SCHEMA_VERSION else []
    return Plan(
        found=version,
        target=SCHEMA_VERSION,
        steps=tuple((step.version, step.summary) for step in steps),
        backup=database.with_name(name),
        needed_bytes=needed,
        free_bytes=status.f_bavail * status.f_frsize,
        resumes=resumes,
        clients=read_clients(database),
    )


def upgrade(
    database: Path,
    *,
    moment: str,
    timeout_seconds: float,
    progress: UpgradeProgress | None = None,
    rehearse: bool = False,
) -> Upgraded:
    """Bring a store to the schema of this program; do nothing if it is there.

    Parameters
    ----------
    moment
        Timestamp of the upgrade: for the backup's name, and for what the steps record.
    timeout_seconds
        How long to wait for those who have the store open.
    rehearse
        Run all of it on a copy, which is removed again.

    Raises
    ------
    DatabaseBusy
        If somebody has the store open.
    UpgradeFailed
        If a step was undone; ``details`` names the version that the store has.
    NotEnoughSpace, DatabaseMissing, UnsupportedSchemaVersion, DatabaseFailed
        Before anything was touched.
    """
    told = progress or (lambda _what, _step, _done, _total: None)
    if rehearse:
        return _rehearse(database, moment, timeout_seconds, told)
    require_older_or_same(database, look(database, timeout_seconds=timeout_seconds))
    with StoreLock.take(database, timeout_seconds=timeout_seconds):
        # Another upgrade may have run while this one waited.
        planned = plan(database, moment=moment, timeout_seconds=timeout_seconds)
        if planned.found == planned.target:
            _finish(database)
            return Upgraded(planned.found, planned.target, clients=planned.clients)
        from bridge.storage.migrations.running import require_unaltered, run_revisions

        require_unaltered()
        _require_fit(planned)
        backup = planned.backup or database.with_name(_backup_name(database, planned.found, moment))
        if not planned.resumes or not backup.exists():
            _write_note(database, _Note(planned.found, backup.name))
            _checkpoint(database)
            copy_database(database, backup, progress=lambda done, total: told("backup", 0, done, total))
        _switch_to_wal(database)
        run_revisions(
            f"sqlite:///{database}",
            planned.target,
            moment=moment,
            progress=lambda step, done, total: told("step", step, done, total),
        )
        _finish(database)
    return Upgraded(planned.found, planned.target, backup, clients=planned.clients)


def read_clients(database: Path) -> tuple[Client, ...]:
    """Return the clients that a store knows, the last used first; none where it keeps no account of them."""
    if not database.exists():
        return ()
    with closing(sqlite3.connect(unaltered_uri(database), uri=True, isolation_level=None)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'clients'").fetchone():
            rows = connection.execute(
                "SELECT host, version, first_used_at, last_used_at FROM clients"
                " ORDER BY last_used_at DESC, host, version"
            )
            return tuple(Client(*row) for row in rows)
    return ()


def _count_events(database: Path) -> int:
    with closing(sqlite3.connect(unaltered_uri(database), uri=True, isolation_level=None)) as connection:
        return int(connection.execute("SELECT count(*) FROM agent_events").fetchone()[0])


def interrupted(database: Path) -> bool:
    """Return whether an upgrade was begun and not finished."""
    return _read_note(database) is not None


def _rehearse(database: Path, moment: str, timeout_seconds: float, told: UpgradeProgress) -> Upgraded:
    planned = plan(database, moment=moment, timeout_seconds=timeout_seconds)
    if planned.found == planned.target:
        return Upgraded(planned.found, planned.target, was_rehearsal=True, clients=planned.clients)
    from bridge.storage.migrations.running import require_unaltered, run_revisions

    require_unaltered()
    _require_fit(planned)
    copy = database.with_name(f"{database.name}.rehearsal-{os.getpid()}")
    try:
        # To the end: who upgrades the store removes the copies that a killed rehearsal left.
        with StoreLock.share(database, timeout_seconds=timeout_seconds):
            copy_database(database, copy, progress=lambda done, total: told("backup", 0, done, total))
            run_revisions(
                f"sqlite:///{copy}",
                planned.target,
                moment=moment,
                progress=lambda step, done, total: told("step", step, done, total),
            )
    finally:
        for ending in ("", "-wal", "-shm", "-journal", PARTIAL_SUFFIX):
            copy.with_name(copy.name + ending).unlink(missing_ok=True)
    return Upgraded(planned.found, planned.target, was_rehearsal=True, clients=planned.clients)


def require_older_or_same(place: object, found: Look) -> int:
    """Return the version of a store that this program works with or has steps for.

    Raises
    ------
    DatabaseMissing
        If there is no store.
    UnsupportedSchemaVersion
        If its version is any other.
    """
    if found.is_empty:
        raise DatabaseMissing(f"There is no store at {place}.")
    relation, _, value = judge(found.versions)
    if relation not in ("same", "older") or not isinstance(value, int):
        require_supported(found)
        raise AssertionError("unreachable: every other relation is refused")
    return value


def _require_fit(planned: Plan) -> None:
    if not planned.fits:
        raise NotEnoughSpace(
            f"The upgrade with its backup needs {planned.needed_bytes // 1024**2} MiB; "
            f"{planned.free_bytes // 1024**2} MiB are free. Nothing was touched.",
            details={"free_bytes": planned.free_bytes, "needed_bytes": planned.needed_bytes},
        )


def _backup_name(database: Path, version: int, moment: str) -> str:
    return f"{database.name}.schema-{version}-{compact(moment)}{BACKUP_SUFFIX}"


def _note_path(database: Path) -> Path:
    return database.with_name(database.name + NOTE_SUFFIX)


def _read_note(database: Path) -> _Note | None:
    try:
        stored = json.loads(_note_path(database).read_text(encoding="utf-8"))
        return _Note(int(stored["found"]), str(stored["backup"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatabaseFailed(
            f"The note of an interrupted upgrade, {_note_path(database)}, cannot be read. Nothing was touched.",
            hint="If no upgrade is under way, remove the file and try again.",
        ) from error


def _write_note(database: Path, note: _Note) -> None:
    partial = database.with_name(database.name + NOTE_SUFFIX + PARTIAL_SUFFIX)
    with partial.open("w", encoding="utf-8") as file:
        json.dump(asdict(note), file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(_note_path(database))


def _finish(database: Path) -> None:
    """Remove what an upgrade leaves beside the store while it runs."""
    _note_path(database).unlink(missing_ok=True)
    for path in database.parent.glob(f"{database.name}.*{PARTIAL_SUFFIX}"):
        path.unlink(missing_ok=True)
    for path in database.parent.glob(f"{database.name}.rehearsal-*"):
        path.unlink(missing_ok=True)


def _checkpoint(database: Path) -> None:
    """Bring what is in the WAL into the file, so that the upgrade begins with an empty one."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _switch_to_wal(database: Path) -> None:
    # Before the steps, not after: a store that was upgraded and then killed must already be as openings expect it.
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
