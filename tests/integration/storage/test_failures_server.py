"""The server fails under the store: lost connections, collisions, a URL that leads nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy.engine import make_url

from bridge.foundation.errors import InvalidConfiguration
from bridge.storage.errors import DatabaseBusy, DatabaseFailed, DatabaseMissing, NotOnThisDatabase, RowRefused
from bridge.storage.store import Store
from bridge.storage.transaction import UNKNOWN
from tests.databases import TEMPLATE, Server, raw_connection
from tests.rows import Gate, insert_plan, plan_ids

pytestmark = pytest.mark.one_database("the server is what fails")


@pytest.fixture
def url(postgresql_server: Server) -> Iterator[str]:
    with postgresql_server.database(TEMPLATE) as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


def end_connections(store, condition="true"):
    """End the server's side of the store's connections, as a restart does."""
    with raw_connection(store.url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE application_name = 'bridge' AND datname = current_database() AND {condition}"
        ).fetchall()


def test_a_connection_that_was_lost_while_idle_is_replaced(store):
    store.write(lambda tx: insert_plan(tx, "a"))
    assert plan_ids(store) == ["a"]
    end_connections(store)
    assert store.write(lambda tx: insert_plan(tx, "b")) == "b"
    assert store.submit(lambda tx: insert_plan(tx, "c")).result(20) == "c"
    assert plan_ids(store) == ["a", "b", "c"]


def test_a_connection_lost_amid_a_write_is_a_typed_error_and_nothing_is_written(store):
    def lose(tx):
        insert_plan(tx, "half")
        end_connections(store)
        insert_plan(tx, "more")

    with pytest.raises(DatabaseFailed, match="Nothing was written"):
        store.write(lose)
    assert store.write(lambda tx: insert_plan(tx, "next")) == "next"
    assert plan_ids(store) == ["next"]


def test_a_connection_lost_at_the_commit_leaves_the_outcome_open(store):
    def lose(tx):
        insert_plan(tx, "perhaps")
        end_connections(store)

    with pytest.raises(DatabaseFailed, match=UNKNOWN):
        store.write(lose)
    assert plan_ids(store) == []  # here it is known: the server was gone before


def test_neighbours_of_a_lost_write_are_told_or_run(store):
    gate = Gate(store)

    def lose(tx):
        end_connections(store)
        insert_plan(tx, "half")

    futures = [
        store.submit(lambda tx: insert_plan(tx, "before")),
        store.submit(lose),
        store.submit(lambda tx: insert_plan(tx, "after")),
    ]
    gate.open.set()
    outcomes = [future.exception(20) for future in futures]
    assert [type(outcome) for outcome in outcomes] == [DatabaseFailed, DatabaseFailed, type(None)]
    assert plan_ids(store) == ["after"]


COLLISION = "DO $$ BEGIN RAISE EXCEPTION USING MESSAGE = 'collided', ERRCODE = '{}'; END $$"


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_collision_is_tried_again_where_that_is_safe(store, state):
    tries = []

    def collide(tx):
        tries.append(1)
        insert_plan(tx, f"try {len(tries)}")
        if len(tries) == 1:
            tx.connection.exec_driver_sql(COLLISION.format(state)).close()
        return len(tries)

    assert store.write(collide, is_repeatable=True) == 2
    assert plan_ids(store) == ["try 2"]


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_a_collision_of_what_must_not_run_twice_is_database_busy(store, state):
    tries = []

    def collide(tx):
        tries.append(1)
        insert_plan(tx, "a")
        tx.connection.exec_driver_sql(COLLISION.format(state)).close()

    with pytest.raises(DatabaseBusy, match="Nothing was written"):
        store.write(collide)
    assert tries == [1]
    assert plan_ids(store) == []


def test_a_text_that_postgresql_cannot_hold_is_refused_by_name(store):
    with pytest.raises(RowRefused, match="NUL"):
        store.write(lambda tx: insert_plan(tx, "a\0b"))
    assert plan_ids(store) == []


def test_a_database_that_is_not_there(url):
    missing = make_url(url).set(database="nowhere").render_as_string(hide_password=False)
    with pytest.raises(DatabaseMissing, match="nowhere"):
        Store.open(missing)


def test_a_server_that_is_not_there_and_the_password_is_not_told(tmp_path):
    with pytest.raises(DatabaseFailed, match="Nothing was touched") as caught:
        Store.open(f"postgresql+psycopg://me:secret@/db?host={tmp_path}")
    assert "secret" not in caught.value.message + str(caught.value.details)


@pytest.mark.parametrize("url", ["postgresql+asyncpg://h/db", "postgresql+psycopg2://h/db", "postgresql+psycopg://h"])
def test_a_url_that_cannot_be_used(url):
    with pytest.raises(InvalidConfiguration):
        Store.open(url)


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(InvalidConfiguration, match="not installed") as caught:
        Store.open("postgresql+psycopg://h/db")
    assert "bridge-controller[postgres]" in caught.value.hint


def test_what_needs_a_file_says_so(url):
    from bridge.storage.backend import file_of

    with pytest.raises(NotOnThisDatabase):
        file_of(url)


def test_two_stores_in_one_database_do_not_see_each_other(url):
    with raw_connection(make_url(url)) as connection:
        connection.execute("CREATE SCHEMA other")
    other = make_url(url).update_query_dict({"options": "-csearch_path=other"}).render_as_string(hide_password=False)
    with Store.open(url) as first, Store.open(other) as second:
        first.write(lambda tx: insert_plan(tx, "first"))
        # Each has a lock of its own, and each hears its own commits alone.
        follower = first.follow()
        second.write(lambda tx: first.write(lambda inner: insert_plan(inner, "inside")) and insert_plan(tx, "second"))
        assert follower.wait(10)
        second.write(lambda tx: insert_plan(tx, "more"))
        assert not follower.wait(0.1)
        follower.close()
        assert (plan_ids(first), plan_ids(second)) == (["first", "inside"], ["second", "more"])


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_another_encoding_is_refused(postgresql_server, encoding):
    postgresql_server.execute(
        "DROP DATABASE IF EXISTS test_encoding",
        f"CREATE DATABASE test_encoding TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'",
    )
    with pytest.raises(DatabaseFailed, match="UTF8"):
        Store.open(postgresql_server.url("test_encoding"))
    with psycopg.connect(
        make_url(postgresql_server.url("test_encoding"))
        .set(drivername="postgresql")
        .render_as_string(hide_password=False)
    ) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
