"""PostgreSQL's own ways past a trigger: TRUNCATE, a session that calls itself a replica, an owner who may do all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from bridge.storage.ddl import IMMUTABLE_TABLES, REMOVABLE
from bridge.storage.ddl_postgresql import APPLICATION_ROLE
from bridge.storage.errors import RowRefused
from bridge.storage.store import Store
from bridge.storage.tables import metadata
from tests.databases import TEMPLATE, Server, raw_connection
from tests.entries import REFUSED, entry, rows, seed

pytestmark = pytest.mark.one_database("SQLite has neither TRUNCATE nor roles")


@pytest.fixture
def url(postgresql_server: Server) -> Iterator[str]:
    with postgresql_server.database(TEMPLATE) as url:
        yield url


@pytest.fixture
def raw(url: str) -> Iterator[Any]:
    with raw_connection(make_url(url)) as connection:
        seed(connection)
        yield connection


@pytest.mark.parametrize("cascade", ["", " CASCADE"])
@pytest.mark.parametrize("table", sorted(IMMUTABLE_TABLES))
def test_tables_refuse_truncate(raw, table, cascade):
    before = rows(raw, table)
    with pytest.raises((*REFUSED, psycopg.errors.FeatureNotSupported)):
        raw.execute(f"TRUNCATE {table}{cascade}")
    assert rows(raw, table) == before


def test_emptying_the_sessions_does_not_cascade_into_the_entries(raw):
    with pytest.raises(REFUSED, match="immutable"):
        raw.execute("TRUNCATE sessions CASCADE")
    assert len(rows(raw, "session_entries")) == 3


def test_a_session_that_calls_itself_a_replica_is_refused_as_well(raw):
    raw.execute("SET session_replication_role = replica")
    for statement in ("UPDATE session_entries SET kind = 'x'", "DELETE FROM audit_events", "TRUNCATE audit_events"):
        with pytest.raises(REFUSED, match="immutable"):
            raw.execute(statement)
    with pytest.raises(REFUSED, match="earlier"):
        raw.execute(*entry(sequence=2, parent="s-000009"))


def test_bridge_works_under_a_role_that_owns_nothing(url):
    with Store.open(url) as store:
        role = store.write(lambda tx: tx.connection.exec_driver_sql("SELECT current_user").scalar())
        owners = store.write(
            lambda tx: tx.connection.exec_driver_sql(
                "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'"
            ).all()
        )
    assert role == APPLICATION_ROLE
    assert (role,) not in owners


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_the_roles_privileges_are_what_bridge_needs_and_no_more(raw, table):
    held = {
        privilege
        for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER", "REFERENCES")
        if raw.execute(f"SELECT has_table_privilege('{APPLICATION_ROLE}', '{table}', '{privilege}')").fetchone()[0]
    }
    if table == "schema_version":
        assert held == {"SELECT"}
    elif table in REMOVABLE:
        assert held == {"SELECT", "INSERT", "DELETE"}
    elif table in IMMUTABLE_TABLES:
        assert held == {"SELECT", "INSERT"}
    else:
        assert held == {"SELECT", "INSERT", "UPDATE", "DELETE"}


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE session_entries DISABLE TRIGGER ALL",
        "DROP TRIGGER session_entries_no_update ON session_entries",
        "DROP TABLE audit_events",
        "CREATE OR REPLACE FUNCTION bridge_immutable() RETURNS trigger LANGUAGE sql AS 'SELECT 1'",
        "TRUNCATE session_entries",
        "SET session_replication_role = replica",
    ],
)
def test_the_role_cannot_take_the_guards_away(url, statement):
    with Store.open(url) as store, pytest.raises(Exception) as caught:
        store.write(lambda tx: tx.connection.exec_driver_sql(statement).rowcount)
    assert "permission denied" in str(caught.value) or "must be owner" in str(caught.value)
    assert isinstance(caught.value, RowRefused)


def test_a_login_that_may_not_act_as_the_role_works_with_its_own_privileges(url, raw):
    raw.execute("DROP ROLE IF EXISTS bridge_test_plain")
    raw.execute("CREATE ROLE bridge_test_plain LOGIN")
    try:
        raw.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO bridge_test_plain")
        plain = make_url(url).set(username="bridge_test_plain").render_as_string(hide_password=False)
        with Store.open(plain) as store, pytest.raises(RowRefused, match="immutable"):
            store.write(lambda tx: tx.connection.exec_driver_sql("DELETE FROM session_entries").rowcount)
    finally:
        raw.execute("DROP OWNED BY bridge_test_plain")
        raw.execute("DROP ROLE bridge_test_plain")
