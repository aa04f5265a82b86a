"""PostgreSQL behind the store.

Writes are as serial as on SQLite, where the file's lock makes them so: each write transaction begins with an advisory
lock of the whole store, and what a job reads cannot change before it writes. The isolation is READ COMMITTED for that
very reason: its statements see what was committed before they began, hence all that the lock's last holder did. Under
REPEATABLE READ or SERIALIZABLE the snapshot is taken by the statement that waits for the lock, and is stale once the
lock is there: each collision would be a serialization failure. Readers are REPEATABLE READ and READ ONLY: one snapshot
for all of a reader's statements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from bridge.foundation.errors import InvalidConfiguration
from bridge.storage import fulltext
from bridge.storage.ddl_postgresql import APPLICATION_ROLE, trigger_statements
from bridge.storage.engine import MAX_READERS
from bridge.storage.errors import DatabaseBusy, DatabaseMissing, SchemaUpgradeNeeded, StoreClosed
from bridge.storage.locking import StoreLock
from bridge.storage.prepared import driver_of
from bridge.storage.schema_version import MAX_SHOWN, SCHEMA_VERSION, VERSION_TABLE, Look, require_supported
from bridge.storage.server_catalog import SCHEMA, grant, look_at, require_utf8, schema_of
from bridge.storage.tables import metadata, schema_version
from bridge.storage.tables.base import note_for_postgresql
from bridge.storage.transaction import typed_error

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg

    from bridge.storage.survey import Survey
    from bridge.storage.upgrading import Plan, Upgraded, UpgradeProgress

#: Jobs that share one transaction. Each has a savepoint, and beyond 64 of those PostgreSQL keeps them out of its
#: shared memory, which costs every reader.
MAX_BATCH_JOBS = 60
#: How long a write transaction may do nothing before the server ends it: its process hangs or its machine is gone,
#: and it holds everybody's lock.
IDLE_IN_TRANSACTION_SECONDS = 120
#: How long a server may take to answer a new connection, in whole seconds.
CONNECT_TIMEOUT_SECONDS = 10
#: A longer wait of a follower is made of several.
_FOLLOWER_SLICE_SECONDS = 1.0

#: Shared by every connection of a store, held alone by an upgrade: what the lock file is beside a SQLite file. It
#: belongs to the connection, so that whoever lost it has lost the connection too.
_HOLD_KEY = f"hashtextextended('bridge store ' || {SCHEMA}, 0)"
#: Pause between two tries of an upgrade to get it. An upgrade never queues for it, since whoever came after would then
#: wait for it in turn.
_RETRY_SECONDS = 0.05
_LOCK_KEY = f"hashtextextended('bridge ' || {SCHEMA}, 0)"
#: Takes the store's write lock, and tells followers once the transaction is committed; one round trip for both.
_CHANNEL = f"'bridge ' || {SCHEMA}"
_BEGIN_WRITE = f"SELECT pg_advisory_xact_lock({_LOCK_KEY}), pg_notify({_CHANNEL}, '')"
_CONNECT_ARGUMENTS = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    "application_name": "bridge",
    "client_encoding": "utf8",
}
_INVALID_CATALOG_NAME = "3D000"


class PostgresqlBackend:
    """A PostgreSQL database, in which the store is the first schema of the search path.

    Raises
    ------
    InvalidConfiguration
        If another driver than psycopg is named, or psycopg is not installed.
    """

    max_batch_jobs = MAX_BATCH_JOBS

    def __init__(self, url: URL) -> None:
        if url.drivername not in ("postgresql", "postgresql+psycopg"):
            raise InvalidConfiguration(
                f"Bridge does not use the driver of {url.drivername}.",
                hint="The database URL looks like postgresql+psycopg://user@host/database",
            )
        if not url.database:
            raise InvalidConfiguration("The database URL names no database.")
        try:
            import psycopg  # noqa: F401 - an extra; asked for here to say so by name
        except ImportError as error:
            raise InvalidConfiguration(
                "PostgreSQL needs a library that is not installed.",
                hint="Install it with: pip install 'bridge-controller[postgres]'",
            ) from error
        self.url = url.set(drivername="postgresql+psycopg")

    @property
    def place(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def look(self, *, timeout_seconds: float, client: tuple[str, str] | None = None) -> Look:
        engine = self._engine(timeout_seconds, NullPool, is_read_only=True)
        try:
            with engine.begin() as connection:
                return look_at(connection, client)
        except DBAPIError as error:
            if _is_unknown_database(error):
                raise DatabaseMissing(
                    f"There is no database at {self.place}.", hint="Make it first: createdb --encoding=UTF8 NAME"
                ) from error
            raise typed_error(error, outcome="Nothing was touched.") from error
        finally:
            engine.dispose()

    def create(self, *, timeout_seconds: float) -> bool:
        note_for_postgresql()
        engine = self._engine(timeout_seconds, NullPool)
        try:
            with engine.begin() as connection:
                connection.exec_driver_sql(_BEGIN_WRITE)
                if not look_at(connection).is_empty:
                    return False
                require_utf8(connection)
                schema = schema_of(connection)
                metadata.create_all(connection, checkfirst=False)
                for statement in (*fulltext.postgresql_statements(), *trigger_statements(schema)):
                    connection.exec_driver_sql(statement)
                grant(connection, schema, (*metadata.tables, *fulltext.INDEXES))
                connection.execute(schema_version.insert().values(version_num=str(SCHEMA_VERSION)))
                return True
        except Exception as error:
            told = typed_error(error)
            if told is error:
                raise
            raise told from error
        finally:
            engine.dispose()

    def share(self, *, timeout_seconds: float) -> StoreLock:
        # Each connection has its own share, from when it was made; see _share_store.
        return StoreLock(None)

    def upgrade_at_once(self, needed: SchemaUpgradeNeeded, *, moment: str, timeout_seconds: float) -> Upgraded:
        raise needed

    def survey(self, *, readable_versions: Collection[int], timeout_seconds: float) -> Survey:
        # Imported here: only those who look after a store need it, and an upgrade pulls in Alembic.
        from bridge.storage.server_upgrading import survey

        return survey(self, readable_versions=readable_versions, timeout_seconds=timeout_seconds)

    def plan_upgrade(self, *, moment: str, timeout_seconds: float) -> Plan:
        from bridge.storage.server_upgrading import plan  # as in survey()

        return plan(self, timeout_seconds=timeout_seconds)

    def upgrade(
        self,
        *,
        moment: str,
        timeout_seconds: float,
        progress: UpgradeProgress | None = None,
        rehearse: bool = False,
        is_backed_up: bool = False,
    ) -> Upgraded:
        from bridge.storage.server_upgrading import upgrade  # as in survey()

        return upgrade(
            self,
            moment=moment,
            timeout_seconds=timeout_seconds,
            progress=progress,
            rehearse=rehearse,
            is_backed_up=is_backed_up,
        )

    @contextmanager
    def read_anything(self, *, timeout_seconds: float) -> Iterator[Connection]:
        """Open a snapshot of a store of any version, as :meth:`look` does; nothing is held for it.

        Raises
        ------
        DatabaseFailed, DatabaseBusy
            If the server cannot be reached, or fails.
        """
        engine = self._engine(timeout_seconds, NullPool, is_read_only=True)
        try:
            with engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise typed_error(error, outcome="Nothing was touched.") from error
        finally:
            engine.dispose()

    @contextmanager
    def held_alone(self, *, timeout_seconds: float) -> Iterator[Connection]:
        """Wait until nobody has the store open, keep everyone out, and yield the connection that does so.

        Each transaction of it begins with the store's write lock. When the connection ends, however it ends, so does
        the hold.

        Raises
        ------
        DatabaseBusy
            If somebody had the store open for longer than ``timeout_seconds``.
        """
        engine = self._engine(timeout_seconds, NullPool)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            driver_of(connection).execute(_BEGIN_WRITE)

        try:
            with engine.connect() as connection:
                _take_store(connection, timeout_seconds)
                yield connection
        except DBAPIError as error:
            raise typed_error(error) from error
        finally:
            engine.dispose()

    def writer_engine(self, *, busy_timeout_seconds: float) -> Engine:
        engine = self._engine(busy_timeout_seconds, NullPool, is_shared=True, is_writer=True)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            driver_of(connection).execute(_BEGIN_WRITE)

        return engine

    def reader_engine(self, *, busy_timeout_seconds: float) -> Engine:
        return self._engine(
            busy_timeout_seconds,
            QueuePool,
            is_shared=True,
            is_read_only=True,
            pool_size=5,
            max_overflow=MAX_READERS - 5,
            pool_timeout=busy_timeout_seconds,
            # A connection that the server closed meanwhile is replaced before a reader gets to see it.
            pool_pre_ping=True,
        )

    def scrub(self, *, timeout_seconds: float) -> str | None:
        return "on PostgreSQL its owner does that: VACUUM FULL, and a new base backup instead of the archived WAL"

    def follow(self) -> PostgresqlFollower:
        import psycopg  # this module is imported without psycopg to say that it is missing

        # A connection of its own, which no pool resets: it keeps listening.
        arguments, options = create_engine(self.url, poolclass=NullPool).dialect.create_connect_args(self.url)
        try:
            connection = psycopg.connect(*arguments, **{**_CONNECT_ARGUMENTS, **options}, autocommit=True)
            connection.execute("SET default_transaction_read_only = on")
            channel = connection.execute(f"SELECT {_CHANNEL}".encode()).fetchone()
        except psycopg.Error as error:
            raise typed_error(error) from error
        return PostgresqlFollower(connection, "" if channel is None else channel[0])

    def _engine(
        self,
        busy_timeout_seconds: float,
        pool: type[Any],
        *,
        is_shared: bool = False,
        is_read_only: bool = False,
        is_writer: bool = False,
        **options: Any,
    ) -> Engine:
        engine = create_engine(
            self.url,
            poolclass=pool,
            connect_args=_CONNECT_ARGUMENTS,
            **options,
        )

        @event.listens_for(engine, "connect")
        def configure(connection: psycopg.Connection[Any], _record: Any) -> None:
            from psycopg import IsolationLevel  # as in follow()

            connection.autocommit = True
            connection.execute(f"SET lock_timeout = {max(1, round(busy_timeout_seconds * 1000))}".encode())
            if is_shared:
                _share_store(connection)
            if is_writer:
                _configure_writer(connection)
            connection.autocommit = False
            connection.read_only = is_read_only
            connection.isolation_level = (
                IsolationLevel.REPEATABLE_READ if is_read_only else IsolationLevel.READ_COMMITTED
            )

        return engine


class PostgresqlFollower:
    """Listens to what every write transaction says when it commits."""

    def __init__(self, connection: psycopg.Connection[Any], channel: str) -> None:
        from psycopg import sql  # as in follow()

        self._connection = connection
        self._lock = threading.Lock()
        self._is_closed = False
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))

    def wait(self, timeout_seconds: float) -> bool:
        deadline = time.monotonic() + timeout_seconds
        while True:
            left = max(0.0, deadline - time.monotonic())
            # In slices, so that closing from another thread is noticed.
            with self._lock:
                if self._is_closed:
                    raise StoreClosed("The follower was closed.")
                if self._heard(min(left, _FOLLOWER_SLICE_SECONDS)):
                    return True
            if not left:
                return False

    def close(self) -> None:
        self._is_closed = True
        with self._lock:
            self._connection.close()

    def _heard(self, timeout_seconds: float) -> bool:
        try:
            # All that came in so far is one change: who woke up reads everything that is there.
            return any(True for _ in self._connection.notifies(timeout=timeout_seconds, stop_after=1))
        except Exception as error:
            raise typed_error(error) from error


def _share_store(connection: psycopg.Connection[Any]) -> None:
    """Keep the store from being upgraded while this connection lives, and see that it was not upgraded before.

    A store may stay open for days and its connections come and go: each one asks anew. Closes the connection if it
    raises: nobody else has it yet.

    Raises
    ------
    SchemaUpgradeNeeded, UnsupportedSchemaVersion
        If the store has another schema by now.
    DatabaseBusy
        If an upgrade takes longer than the time limit.
    """
    try:
        try:
            connection.execute(f"SELECT pg_advisory_lock_shared({_HOLD_KEY})".encode())
        except Exception as error:
            told = typed_error(error)
            if not isinstance(told, DatabaseBusy):
                raise
            raise DatabaseBusy("The store is being upgraded. Nothing was written.") from error
        rows = connection.execute(f"SELECT version_num FROM {VERSION_TABLE} LIMIT {MAX_SHOWN}".encode()).fetchall()  # noqa: S608 - constants
        require_supported(Look(is_empty=False, versions=tuple(row[0] for row in rows)))
    except BaseException:
        connection.close()
        raise


def _take_store(connection: Connection, timeout_seconds: float) -> None:
    driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
    deadline = time.monotonic() + timeout_seconds
    while True:
        row = driver.execute(f"SELECT pg_try_advisory_lock({_HOLD_KEY})".encode()).fetchone()
        driver.rollback()  # the lock is the connection's, not the transaction's
        if row is not None and row[0]:
            return
        if time.monotonic() >= deadline:
            raise DatabaseBusy(
                "The store is in use by another process, or being upgraded. Nothing was touched.",
                hint="End the programs that use it (pg_stat_activity shows them as bridge), then try again.",
            )
        time.sleep(_RETRY_SECONDS)


def _configure_writer(connection: psycopg.Connection[Any]) -> None:
    connection.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_SECONDS}s'".encode())
    # "Durable once it returns" is a promise of the store's, whatever the server or the role prefers.
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    # Where the login may act as the application role, it does: what is immutable then has not even the privilege.
    may_act = connection.execute(
        "SELECT has_table_privilege(oid, 'session_entries', 'INSERT') AND pg_has_role(oid, 'MEMBER')"
        " FROM pg_roles WHERE rolname = %s",
        (APPLICATION_ROLE,),
    ).fetchone()
    if may_act is not None and may_act[0]:
        connection.execute(f"SET ROLE {APPLICATION_ROLE}")


def _is_unknown_database(error: DBAPIError) -> bool:
    # While connecting psycopg keeps no code, only the server's words. In another language it is a failure like others.
    return getattr(error.orig, "sqlstate", None) == _INVALID_CATALOG_NAME or (
        'database "' in str(error.orig) and '" does not exist' in str(error.orig)
    )
