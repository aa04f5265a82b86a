"""What differs between the databases; everything above it is the same on both."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from sqlalchemy import Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from bridge.foundation.errors import InvalidConfiguration
from bridge.storage.errors import NotOnThisDatabase, SchemaUpgradeNeeded
from bridge.storage.locking import StoreLock
from bridge.storage.schema_version import Look

if TYPE_CHECKING:
    from collections.abc import Collection

    from bridge.storage.survey import Survey
    from bridge.storage.upgrading import Plan, Upgraded, UpgradeProgress


class Follower(Protocol):
    """A place from which somebody watches a store for what others commit to it."""

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a commit; return whether there was one since the last wait, or since the follower was made."""

    def close(self) -> None:
        """Give the connection back. Safe to call twice."""


class Backend(Protocol):
    """One database of one kind, by its URL."""

    #: The URL as it was understood.
    url: URL
    #: Jobs that share one transaction.
    max_batch_jobs: int

    @property
    def place(self) -> str:
        """Where the database is, for messages; without its password."""

    def look(self, *, timeout_seconds: float, client: tuple[str, str] | None = None) -> Look:
        """Look which schema version there is, and when a client (host, version) used it; changes nothing."""

    def create(self, *, timeout_seconds: float) -> bool:
        """Make the tables in an empty database, in one transaction; return false if another process was quicker."""

    def share(self, *, timeout_seconds: float) -> StoreLock:
        """Wait until nobody upgrades or replaces the store, and keep that from happening until it is released."""

    def upgrade_at_once(self, needed: SchemaUpgradeNeeded, *, moment: str, timeout_seconds: float) -> Upgraded:
        """Upgrade an older store; raise the error given where that is not done without being asked for."""

    def survey(self, *, readable_versions: Collection[int], timeout_seconds: float) -> Survey:
        """Return what the store is, whatever its version; changes nothing. See :func:`bridge.storage.survey.survey`."""

    def plan_upgrade(self, *, moment: str, timeout_seconds: float) -> Plan:
        """Return what :meth:`upgrade` would do; changes nothing. See :func:`bridge.storage.upgrading.plan`."""

    def upgrade(
        self,
        *,
        moment: str,
        timeout_seconds: float,
        progress: UpgradeProgress | None = None,
        rehearse: bool = False,
        is_backed_up: bool = False,
    ) -> Upgraded:
        """Bring the store to the schema of this program. See :func:`bridge.storage.upgrading.upgrade`.

        Parameters
        ----------
        is_backed_up
            Where Bridge makes no backup itself (on PostgreSQL): whether somebody said that there is one, or that none
            is wanted.
        """

    def writer_engine(self, *, busy_timeout_seconds: float) -> Engine:
        """Return the engine whose transactions begin with the write lock of the whole store."""

    def reader_engine(self, *, busy_timeout_seconds: float) -> Engine:
        """Return the engine whose transactions are snapshots and refuse writes."""

    def scrub(self, *, timeout_seconds: float) -> str | None:
        """Rewrite the database without what was deleted; return why not, where it cannot be done."""

    def follow(self) -> Follower:
        """Begin to watch for commits."""


#: Where the backends are. Imported when used: the driver of the one that is not costs a start 100 ms.
_BACKENDS = {
    "sqlite": ("bridge.storage.sqlite", "SqliteBackend"),
    "postgresql": ("bridge.storage.postgresql", "PostgresqlBackend"),
}


def file_of(url: str) -> Path:
    """Return the file of a store on SQLite.

    Raises
    ------
    NotOnThisDatabase
        If the store is on PostgreSQL.
    InvalidConfiguration
        If the URL cannot be used.
    """
    path = getattr(backend_for(url), "path", None)
    if not isinstance(path, Path):
        raise NotOnThisDatabase(
            "This is for a store that is a file; this one is on PostgreSQL. Nothing was changed.",
            hint="Back it up with pg_dump and go back with pg_restore, or copy it to a file and from it with: "
            "bridge db copy --to sqlite:////full/path/bridge.db",
        )
    return path


def backend_for(url: str | URL) -> Backend:
    """Return the backend for a database URL.

    Raises
    ------
    InvalidConfiguration
        If it is not a URL, names a database that Bridge cannot use, or a SQLite database in memory.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise InvalidConfiguration(
            "The database URL cannot be read.",
            hint="It looks like sqlite:////full/path/bridge.db or postgresql+psycopg://user@host/database",
        ) from error
    name = parsed.get_backend_name()
    if name not in _BACKENDS:
        raise InvalidConfiguration(f"Bridge cannot use a {name} database.")
    module, attribute = _BACKENDS[name]
    make = cast("Callable[[URL], Backend]", getattr(importlib.import_module(module), attribute))
    return make(parsed)
