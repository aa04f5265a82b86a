"""Looking at a store on PostgreSQL from outside, and bringing an older one up to date, when somebody says so.

As on SQLite: alone, step by step, each step one transaction that is checked before it is committed. What differs is
that Bridge makes no backup (the server's own means are better, and the operator's), and that there is nothing beside
the store: an interrupted upgrade is simply a store of the version that it had reached.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from bridge.storage.errors import BackupUnconfirmed, UpgradeFailed
from bridge.storage.prepared import driver_of, table_names
from bridge.storage.schema_version import SCHEMA_VERSION, judge
from bridge.storage.server_catalog import grant, look_at, schema_of
from bridge.storage.survey import Survey, Unreadable
from bridge.storage.tables.conversations import other_versions
from bridge.storage.transaction import typed_error
from bridge.storage.upgrading import Client, Plan, Upgraded, UpgradeProgress, require_older_or_same

#: The first schema that a store on PostgreSQL ever had: those before are SQLite's alone.
FIRST_VERSION = 7

_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint FROM pg_class"
    " JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = current_schema() AND relkind = 'r'"
)
_NOT_MINE = (
    "SELECT tablename, tableowner FROM pg_tables"
    " WHERE schemaname = current_schema() AND NOT pg_has_role(tableowner, 'USAGE') ORDER BY 1"
)


class Server(Protocol):
    """The connections that an upgrade needs; ``postgresql.PostgresqlBackend`` gives them."""

    @property
    def place(self) -> str:
        """Where the store is, for people."""
        ...

    def read_anything(self, *, timeout_seconds: float) -> AbstractContextManager[Connection]:
        """Open a snapshot of a store of any version."""
        ...

    def held_alone(self, *, timeout_seconds: float) -> AbstractContextManager[Connection]:
        """Wait until nobody has the store open, and keep everyone out while the connection lasts."""
        ...


def survey(server: Server, *, readable_versions: Collection[int], timeout_seconds: float) -> Survey:
    """Return what a store is; as :func:`bridge.storage.survey.survey`."""
    with server.read_anything(timeout_seconds=timeout_seconds) as connection:
        found = look_at(connection)
        relation, _, value = ("absent", "", None) if found.is_empty else judge(found.versions)
        return Survey(
            place=server.place,
            relation=relation,
            found=value,
            size_bytes=int(connection.exec_driver_sql(_SIZE).scalar_one()),
            is_interrupted=False,
            clients=_clients(connection) if relation in ("same", "older") else (),
            backups=(),
            unreadable=_unreadable(connection, readable_versions) if relation == "same" else (),
        )


def plan(server: Server, *, timeout_seconds: float) -> Plan:
    """Return what :func:`upgrade` would do, from a look that changes nothing.

    Raises
    ------
    DatabaseMissing
        If there is no store.
    UnsupportedSchemaVersion
        If the store is newer, or its version is odd, doubled or missing.
    UpgradeFailed
        If its version is one that no store on PostgreSQL ever had.
    """
    with server.read_anything(timeout_seconds=timeout_seconds) as connection:
        return _plan(server, connection)


def upgrade(
    server: Server,
    *,
    moment: str,
    timeout_seconds: float,
    progress: UpgradeProgress | None = None,
    rehearse: bool = False,
    is_backed_up: bool = False,
) -> Upgraded:
    """Bring a store to the schema of this program; do nothing if it is there.

    Parameters
    ----------
    moment
        Timestamp of the upgrade, for what the steps record.
    timeout_seconds
        How long to wait for those who have the store open.
    rehearse
        Run all of it, in one transaction, which is rolled back.
    is_backed_up
        Whether somebody said that there is a backup, or that none is wanted. A rehearsal needs none.

    Raises
    ------
    BackupUnconfirmed
        If nobody did.
    DatabaseBusy
        If somebody has the store open.
    UpgradeFailed
        If the login does not own the tables, or a step was undone; ``details`` names the version that the store has.
    DatabaseMissing, UnsupportedSchemaVersion, DatabaseFailed
        Before anything was touched.
    """
    told = progress or (lambda _what, _step, _done, _total: None)
    planned = plan(server, timeout_seconds=timeout_seconds)
    if planned.found == planned.target:
        return Upgraded(planned.found, planned.target, was_rehearsal=rehearse, clients=planned.clients)
    if not (rehearse or is_backed_up):
        raise BackupUnconfirmed(
            f"The store at {server.place} would go from schema {planned.found} to {planned.target}, and Bridge makes "
            "no backup of a store on PostgreSQL. Nothing was touched."
        )
    # Alembic costs 200 ms, and only a store that is not up to date needs it.
    from bridge.storage.migrations.running import require_unaltered, run_on

    require_unaltered()
    with server.held_alone(timeout_seconds=timeout_seconds) as connection:
        with connection.begin():
            # Another upgrade may have run while this one waited.
            planned = _plan(server, connection)
            _require_ownership(connection, planned.found)
        if planned.found == planned.target:
            return Upgraded(planned.found, planned.target, was_rehearsal=rehearse, clients=planned.clients)

        def run() -> None:
            run_on(
                connection,
                planned.target,
                moment=moment,
                progress=lambda step, done, total: told("step", step, done, total),
                after=_grant_all,
            )

        if rehearse:
            with connection.begin() as outer:
                run()
                outer.rollback()
        else:
            run()
    return Upgraded(planned.found, planned.target, was_rehearsal=rehearse, clients=planned.clients)


def _plan(server: Server, connection: Connection) -> Plan:
    version = require_older_or_same(server.place, look_at(connection))
    if version < FIRST_VERSION:
        raise UpgradeFailed(
            f"This store has schema {version}, and on PostgreSQL stores begin at schema {FIRST_VERSION}: there are no "
            "steps from it. Nothing was touched.",
            hint="Go back to a backup of it, or copy the store that it came from anew with: bridge db copy --to URL",
            details={"reason": "no_steps", "version": version},
        )
    from bridge.storage.migrations.running import steps_between  # as in upgrade()

    steps = steps_between(version, SCHEMA_VERSION) if version != SCHEMA_VERSION else []
    return Plan(
        found=version,
        target=SCHEMA_VERSION,
        steps=tuple((step.version, step.summary) for step in steps),
        backup=None,
        needed_bytes=0,
        free_bytes=0,
        resumes=False,
        clients=_clients(connection),
    )


def _require_ownership(connection: Connection, version: int) -> None:
    foreign = connection.exec_driver_sql(_NOT_MINE).all()
    if foreign:
        owners = sorted({str(row.tableowner) for row in foreign})
        raise UpgradeFailed(
            f"This login may not change the tables of the store: they belong to {', '.join(owners)}. "
            "Nothing was touched.",
            hint="Give the owner's login in BRIDGE_DATABASE_URL for the upgrade.",
            details={"reason": "not_owner", "version": version, "owners": owners},
        )


def _grant_all(connection: Connection) -> None:
    """Let the application role work with what a revision made."""
    grant(connection, schema_of(connection), sorted(table_names(driver_of(connection))))


def _clients(connection: Connection) -> tuple[Client, ...]:
    if "clients" not in table_names(driver_of(connection)):
        return ()
    query = "SELECT host, version, first_used_at, last_used_at FROM clients ORDER BY last_used_at DESC, host, version"
    return tuple(Client(*row) for row in connection.exec_driver_sql(query))


def _unreadable(connection: Connection, readable_versions: Collection[int]) -> tuple[Unreadable, ...]:
    query = (
        "SELECT session_id, string_agg(DISTINCT semantic_schema_version::text, ','), count(*)"  # noqa: S608 - constant
        " FROM session_entries"
        f" WHERE {other_versions(readable_versions)} AND semantic_schema_version <> ALL (%s)"
        " GROUP BY session_id ORDER BY session_id"
    )
    parameters: Any = (list(readable_versions),)
    try:
        foreign = connection.exec_driver_sql(query, parameters).all()
        damaged = connection.exec_driver_sql("SELECT session_id, reason FROM quarantined_sessions ORDER BY 1").all()
    except DBAPIError as error:
        raise typed_error(error, outcome="Nothing was touched.") from error
    by_version = [Unreadable(row[0], f"semantic schema version {row[1]}", row[2]) for row in foreign]
    return (*by_version, *(Unreadable(session_id, reason) for session_id, reason in damaged))
