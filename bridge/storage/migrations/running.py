"""Runs the revisions on one store, each in one transaction that is checked before it is committed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.errors import BridgeError
from bridge.foundation.hashing import ZERO_HASH, event_hash
from bridge.storage.engine import sqlite_engine
from bridge.storage.errors import RowRefused, UpgradeFailed
from bridge.storage.migrations.legacy import events_digest
from bridge.storage.migrations.wholeness import MAX_SHOWN, flaw_of
from bridge.storage.prepared import DriverConnection, driver_of, end_reading, stream, table_names
from bridge.storage.transaction import typed_error

_PACKAGE = Path(__file__).parent
#: Digests (SHA-256, hex) of the files that make up the revisions; written by ``scripts/pin_revisions.py``.
DIGESTS = _PACKAGE / "digests.json"

#: Told the step (the version it leads to), the rows done and the rows in all; 0 of 0 where there is nothing to count.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One revision: the version it leads to, and what it does in a line."""

    version: int
    summary: str


def revision_files() -> list[Path]:
    """Return the files whose digests are pinned."""
    return sorted([*(_PACKAGE / "versions").glob("v*.*"), _PACKAGE / "legacy.py", _PACKAGE / "statements.py"])


def current_digests() -> dict[str, str]:
    """Return the SHA-256 of each pinned file by its path in this package."""
    return {
        path.relative_to(_PACKAGE).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in revision_files()
    }


def require_unaltered() -> None:
    """Refuse to run revisions that are not those that were shipped.

    Raises
    ------
    UpgradeFailed
        If a file is missing, added or changed.
    """
    pinned, found = json.loads(DIGESTS.read_text(encoding="utf-8")), current_digests()
    changed = sorted(name for name in pinned.keys() | found.keys() if pinned.get(name) != found.get(name))
    if changed:
        raise UpgradeFailed(
            f"The steps of the upgrade are not those that were shipped ({', '.join(changed[:MAX_SHOWN])}). "
            "Nothing was touched.",
            hint="Install Bridge again.",
            details={"reason": "altered_revision", "files": changed},
        )


def steps_between(found: int, target: int) -> list[Step]:
    """Return the steps that lead from a version to another."""
    script = ScriptDirectory.from_config(_config())
    return [Step(number, script.get_revision(str(number)).doc) for number in range(found + 1, target + 1)]


def run_revisions(url: str, target: int, *, moment: str, progress: Progress) -> None:
    """Bring a file from the version it has to a later one. Raises as :func:`run_on`."""
    engine = migration_engine(url)
    try:
        with engine.connect() as connection:
            run_on(connection, target, moment=moment, progress=progress)
    finally:
        engine.dispose()


def run_on(
    connection: Connection,
    target: int,
    *,
    moment: str,
    progress: Progress,
    after: Callable[[Connection], None] = lambda _connection: None,
) -> None:
    """Bring the store at a connection, which nobody else uses, from the version it has to a later one.

    Each revision is a transaction of its own, unless the connection is in one: then all of them are part of it.

    Parameters
    ----------
    after
        Called inside each revision's transaction, after the revision and before it is checked.

    Raises
    ------
    UpgradeFailed
        If a check did not pass; the revision was undone, those before it stand. ``details`` holds ``reason`` and
        ``version``, the one that the store has now.
    DatabaseBusy, DatabaseFailed
        If the database fails; likewise.
    """
    run = _Run(connection, progress, after, moment)
    config = _config()
    config.attributes.update(connection=connection, on_version_apply=run.check, report=run.report, moment=moment)
    try:
        command.upgrade(config, str(target))
    except BridgeError:
        raise
    except (ValueError, sqlite3.Error) as error:
        raise run.failure("step_failed", str(error)) from error
    except Exception as error:
        told = typed_error(error)
        if told is error:
            raise
        if isinstance(told, RowRefused):
            raise run.failure("step_failed", told.details["reason"]) from error
        raise told from error


def migration_engine(url: str) -> Engine:
    """Return the engine that revisions run on.

    Transactions begin with the write lock and are never begun or ended by the driver; DDL is inside them. Foreign
    keys are off, because a table that others refer to cannot be rebuilt otherwise: dropping it would silently
    delete what refers to it. The pragma has no effect inside a transaction, so it stands here.
    """
    engine = sqlite_engine(make_url(url), busy_timeout_seconds=0.0, poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=OFF")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        driver_of(connection).execute("BEGIN IMMEDIATE")

    return engine


class _Run:
    """Checks each revision before its commit: the database is whole, and no recorded row changed."""

    def __init__(
        self, connection: Connection, progress: Progress, after: Callable[[Connection], None], moment: str
    ) -> None:
        self._connection = connection
        self._moment = moment
        self._progress = progress
        self._after = after
        self._driver = driver_of(connection)
        self._version = self._stored_version()
        self._digests = content_digests(self._driver)
        if not connection.in_transaction():
            end_reading(self._driver)

    def report(self, done: int, total: int) -> None:
        self._progress(self._version + 1, done, total)

    def check(self, **_facts: Any) -> None:
        """Check the open transaction of a revision; called by Alembic after the version was written."""
        self._after(self._connection)
        flaw = flaw_of(self._driver)
        if flaw is not None:
            raise self.failure(flaw.reason, flaw.message)
        digests = content_digests(self._driver)
        for table, digest in self._digests.items():
            # A table that a revision moves elsewhere is compared by that revision, before it drops it.
            if table in digests and digests[table] != digest:
                raise self.failure("digest", f"the content of {table} would not be what it was")
        self._digests = digests
        found, self._version = self._version, self._stored_version()
        record_upgrade(self._connection, found, self._version, self._moment)
        self._progress(self._version, 0, 0)

    def failure(self, reason: str, message: str) -> UpgradeFailed:
        version = self._version
        return UpgradeFailed(
            f"The step to schema {version + 1} was undone: {message}. The store is whole at schema {version}.",
            details={"reason": reason, "version": version, "step": version + 1},
        )

    def _stored_version(self) -> int:
        row = self._driver.execute("SELECT version_num FROM schema_version").fetchone()
        return 0 if row is None else int(row[0])


def record_upgrade(connection: Connection, found: int, version: int, moment: str) -> None:
    """Append the event of a step to the chain of the store, where there are chains, in the step's transaction."""
    tables = table_names(driver_of(connection))
    if "audit_events" not in tables:
        return
    last = connection.execute(text(_LAST_OF_STORE)).first()
    ordinal, previous = (0, ZERO_HASH) if last is None else (last[0] + 1, bytes.fromhex(last[1]))
    columns = {"chain_id": STORE_CHAIN, "ordinal": ordinal, "event_type": STORE_UPGRADED, "created_at": moment}
    body = canonical_bytes({**columns, "body": {"from_version": found, "to_version": version}})
    row = {**columns, "event_hash": event_hash(previous, body).hex(), "body": body.decode()}
    names = ", ".join(row)
    connection.execute(text(f"INSERT INTO audit_events ({names}) VALUES (:{', :'.join(row)})"), row)  # noqa: S608 - names of columns
    if "event_order" in tables:
        connection.execute(text("INSERT INTO event_order (chain_id, ordinal) VALUES (:chain_id, :ordinal)"), columns)


#: The chain of what happens to the store, and the event of an upgrade, as ``bridge.integrity.events`` names them.
STORE_CHAIN = "store"
STORE_UPGRADED = "store.upgraded"
_LAST_OF_STORE = "SELECT ordinal, event_hash FROM audit_events WHERE chain_id = 'store' ORDER BY ordinal DESC LIMIT 1"


def content_digests(driver: DriverConnection) -> dict[str, str]:
    """Return the digest of everything recorded, by table: what an upgrade must not change.

    Only what an entry or an event was written with counts. Columns that a later version derives are in tables of
    their own.
    """
    tables = table_names(driver)
    digests = {}
    if "agent_events" in tables:
        digests["agent_events"] = events_digest(driver)
    for table, (columns, order) in _RECORDED.items():
        if table in tables:
            digest = hashlib.sha256()
            # What a step itself records is in the store's own chain.
            where = f"WHERE chain_id <> '{STORE_CHAIN}'" if table == "audit_events" else ""
            for row in stream(driver, f"SELECT {columns} FROM {table} {where} ORDER BY {order}"):  # noqa: S608 - constants
                digest.update(repr(row).encode(errors="surrogatepass"))
            digests[table] = digest.hexdigest()
    return digests


_RECORDED = {
    "session_entries": (
        (
            "session_id, id, parent_entry_id, sequence, semantic_schema_version, kind, context_visibility,"
            " state_digest, unknown_reason, unknown_path, unknown_detail, observed_at, external_source, external_id,"
            " created_at, payload_hash, entry_hash, blob_digest, payload_bytes, payload_outline, payload"
        ),
        "session_id, sequence",
    ),
    "blobs": ("digest, size, body", "digest"),
    "audit_events": ("chain_id, ordinal, event_type, created_at, event_hash, body", "chain_id, ordinal"),
    "legacy_events": ("session_id, entry_id, original", "session_id, entry_id"),
}


def _config() -> Config:
    config = Config()
    # A percent sign in a path would be read as the beginning of an interpolation.
    config.set_main_option("script_location", str(_PACKAGE).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
