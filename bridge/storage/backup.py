"""Copies of a store: made while it is used, whole or not there at all, and put back in one step."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bridge.storage.errors import BackupRefused, DatabaseFailed, NotEnoughSpace
from bridge.storage.locking import StoreLock
from bridge.storage.schema_version import SCHEMA_VERSION, Look, look, unaltered_uri

#: Ending of a file that is not finished yet; removed by whoever finds it while holding the store alone.
PARTIAL_SUFFIX = ".partial"
#: Ending of backups that Bridge names itself.
BACKUP_SUFFIX = ".backup"
#: Space that is left free beside a copy, in bytes.
SPARE_BYTES = 16 * 1024 * 1024
#: Pages copied between two calls of the progress function.
_PAGES = 2048
#: Ids of new entries that a restore names; the rest is counted.
MAX_LISTED = 20

#: Told the pages copied and the pages in all.
CopyProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Loss:
    """What a restore gives up: what the store holds and the backup does not.

    ``entries`` and ``sessions`` are None where the present store cannot be read. ``entry_ids`` names the first few.
    """

    entries: int | None
    sessions: int | None
    entry_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did, or would do: the store's version now, where the one before it is, what is lost."""

    version: int
    replaced: Path | None
    loss: Loss


def size_of(database: Path) -> int:
    """Return the bytes of a store with its WAL."""
    sides = (database, database.with_name(database.name + "-wal"))
    return sum(path.stat().st_size for path in sides if path.exists())


def require_space(directory: Path, needed: int) -> None:
    """Refuse what would not fit.

    Raises
    ------
    NotEnoughSpace
        If fewer than ``needed`` bytes and :data:`SPARE_BYTES` are free in a directory.
    """
    free = shutil.disk_usage(directory).free
    if free < needed + SPARE_BYTES:
        raise NotEnoughSpace(
            f"{directory} has {free // 1024**2} MiB free; {(needed + SPARE_BYTES) // 1024**2} MiB are needed. "
            "Nothing was touched.",
            details={"free_bytes": free, "needed_bytes": needed + SPARE_BYTES},
        )


def copy_database(source: Path, target: Path, *, progress: CopyProgress | None = None) -> None:
    """Copy a store with what is in its WAL into one file (0600), checked and on the disk once this returns.

    Others may go on reading and writing meanwhile. A half-made copy bears :data:`PARTIAL_SUFFIX`.

    Raises
    ------
    DatabaseFailed
        If the store cannot be read, or its copy is damaged.
    """
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    partial.unlink(missing_ok=True)
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        with (
            closing(
                sqlite3.connect(f"file:{quote(os.fsencode(source))}?mode=ro", uri=True, isolation_level=None)
            ) as reading,
            closing(sqlite3.connect(partial, isolation_level=None)) as writing,
        ):
            told = progress or (lambda _done, _total: None)
            reading.backup(writing, pages=_PAGES, progress=lambda _, left, total: told(total - left, total))
            # One file without side files: a backup that is copied away must be whole.
            writing.execute("PRAGMA journal_mode=DELETE")
            found = writing.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise DatabaseFailed(f"The copy of {source} is damaged: {found}. The store was not touched.")
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise DatabaseFailed(f"The store {source} cannot be copied: {error}. It was not touched.") from error


def back_up(database: Path, target: Path, *, timeout_seconds: float, progress: CopyProgress | None = None) -> int:
    """Make a backup while the store is used; return its schema version.

    Raises
    ------
    BackupRefused
        If the target exists, or its directory does not, or there is no store.
    NotEnoughSpace, DatabaseFailed
        If it does not fit, or the store cannot be read.
    """
    if target.exists():
        raise BackupRefused(f"{target} exists already. Nothing was written.")
    if not target.parent.is_dir():
        raise BackupRefused(f"There is no directory {target.parent}. Nothing was written.")
    with StoreLock.share(database, timeout_seconds=timeout_seconds):
        version = _version_of(look(database, timeout_seconds=timeout_seconds))
        if version is None:
            raise BackupRefused(f"{database} is no store of this Bridge. Nothing was written.")
        require_space(target.parent, size_of(database))
        copy_database(database, target, progress=progress)
    return version


def restore(database: Path, backup: Path, *, moment: str, timeout_seconds: float, dry_run: bool = False) -> Restored:
    """Put a backup in the place of the store; the store before it is kept beside it.

    Parameters
    ----------
    moment
        Timestamp that the kept store is named after.
    dry_run
        Only say what would be lost.

    Raises
    ------
    BackupRefused
        If the backup is missing, damaged, or of a version that this Bridge does not know.
    DatabaseBusy
        If somebody has the store open.
    NotEnoughSpace, DatabaseFailed
        If the copy does not fit, or cannot be made.
    """
    version = _require_usable(backup, timeout_seconds)
    # A missing directory is one that nobody can have a store open in.
    if not database.parent.is_dir():
        raise BackupRefused(f"There is no directory {database.parent}. Nothing was touched.")
    with StoreLock.take(database, timeout_seconds=timeout_seconds):
        loss = _loss(database, backup)
        kept = _free_name(database, f".replaced-{compact(moment)}") if database.exists() else None
        if dry_run:
            return Restored(version, kept, loss)
        require_space(database.parent, size_of(backup))
        fresh = database.with_name(database.name + ".restoring")
        fresh.unlink(missing_ok=True)
        copy_database(backup, fresh)
        if kept is not None:
            _set_aside(database, kept)
        # At no moment is there no store: an opening would make an empty one.
        fresh.replace(database)
        _sync(database.parent)
    return Restored(version, kept, loss)


def compact(moment: str) -> str:
    """Return a timestamp without what does not belong in a file name."""
    return moment.translate(str.maketrans("", "", "-:."))


def backups_of(database: Path) -> list[Path]:
    """Return the backups and replaced stores beside a store, oldest first by name."""
    beside = database.parent.glob(f"{database.name}.*") if database.parent.is_dir() else ()
    return sorted(path for path in beside if path.name.endswith(BACKUP_SUFFIX) or ".replaced-" in path.name)


def _version_of(found: Look) -> int | None:
    if found.versions is None or len(found.versions) != 1 or found.versions[0] is None:
        return None
    text = found.versions[0]
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text) <= SCHEMA_VERSION else None


def _require_usable(backup: Path, timeout_seconds: float) -> int:
    if not backup.is_file():
        raise BackupRefused(f"There is no file {backup}. Nothing was touched.")
    try:
        version = _version_of(look(backup, timeout_seconds=timeout_seconds))
        with closing(sqlite3.connect(unaltered_uri(backup), uri=True)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except (DatabaseFailed, sqlite3.Error) as error:
        raise BackupRefused(f"{backup} cannot be read as a store. Nothing was touched.") from error
    if version is None:
        raise BackupRefused(f"{backup} is no store of schema 1 to {SCHEMA_VERSION}. Nothing was touched.")
    if found != "ok":
        raise BackupRefused(f"{backup} is damaged: {found}. Nothing was touched.", details={"reason": found})
    return version


def _loss(database: Path, backup: Path) -> Loss:
    if not database.exists() or database.stat().st_size == 0:
        return Loss(0, 0)
    try:
        with closing(sqlite3.connect(unaltered_uri(database), uri=True)) as connection:
            connection.execute("ATTACH ? AS old", (unaltered_uri(backup),))
            return _compare(connection)
    except sqlite3.Error:
        # What is damaged beyond reading is what a restore is for.
        return Loss(None, None)


def _compare(connection: sqlite3.Connection) -> Loss:
    tables = {
        name: {row[0] for row in connection.execute(f"SELECT name FROM {name}.sqlite_master WHERE type = 'table'")}  # noqa: S608 - constants
        for name in ("main", "old")
    }
    if "session_entries" not in tables["main"]:
        if "agent_events" not in tables["main"] or "agent_events" not in tables["old"]:
            return Loss(None, None)
        (ahead,) = connection.execute(
            "SELECT max(0, (SELECT count(*) FROM main.agent_events) - (SELECT count(*) FROM old.agent_events))"
        ).fetchone()
        return Loss(ahead, 0)
    if "session_entries" in tables["old"]:
        missing = "NOT EXISTS (SELECT 1 FROM old.session_entries o WHERE o.session_id = e.session_id AND o.id = e.id)"
        without = "NOT EXISTS (SELECT 1 FROM old.sessions o WHERE o.id = s.id)"
    else:
        # The backup is of the linear history: what came from there is in it.
        moved = "EXISTS (SELECT 1 FROM main.session_entries r WHERE r.session_id = {} AND r.sequence = 0"
        moved += ' AND coalesce(r.payload, r.payload_outline) LIKE \'%"moved_from":"agent_events"%\')'
        missing = f"e.external_source IS NOT 'agent_events' AND NOT (e.sequence = 0 AND {moved.format('e.session_id')})"
        without = f"NOT {moved.format('s.id')}"
    query = f"FROM main.session_entries e WHERE {missing}"
    (entries,) = connection.execute(f"SELECT count(*) {query}").fetchone()
    (sessions,) = connection.execute(f"SELECT count(*) FROM main.sessions s WHERE {without}").fetchone()  # noqa: S608 - constants
    ids = connection.execute(f"SELECT e.id {query} ORDER BY e.created_at, e.id LIMIT {MAX_LISTED}").fetchall()
    return Loss(entries, sessions, tuple(row[0] for row in ids))


def _free_name(database: Path, ending: str) -> Path:
    """Return a name beside the store that nothing has: a restore that was killed may have taken the first."""
    names = (f"{database.name}{ending}", *(f"{database.name}{ending}-{number}" for number in range(2, 1000)))
    return next(path for path in map(database.with_name, names) if not path.exists())


def _set_aside(database: Path, kept: Path) -> None:
    """Keep the present store under another name too; its WAL must not meet the store that comes."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for ending in ("-wal", "-journal"):
        side = database.with_name(database.name + ending)
        if side.exists():
            # Only a damaged store still has one; it goes with the file that it belongs to.
            side.replace(kept.with_name(kept.name + ending))
    database.with_name(database.name + "-shm").unlink(missing_ok=True)
    try:
        os.link(database, kept)
    except OSError:
        # A file system without links.
        shutil.copyfile(database, kept)
        _sync(kept)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
