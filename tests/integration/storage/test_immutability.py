"""What was recorded cannot be altered, whatever statement tries; and what is recorded fits together."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from bridge.storage.errors import RowRefused

DIGEST = "a" * 64
SESSION = "INSERT INTO sessions (id, kind, status, created_at, updated_at) VALUES ('{}', 'chat', 'open', 't', 't')"
ENTRY = (
    "INSERT {conflict} INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
    " context_visibility, unknown_reason, external_source, external_id, created_at, payload_hash, entry_hash, payload)"
    " VALUES (:session, :id, :parent, :sequence, 2, 'note', 'eligible', 'unstamped', :source, :external, 't',"
    f" '{DIGEST}', '{DIGEST}', :payload)"
)
SEEDS = {
    "audit_events": (
        "INSERT {conflict} INTO audit_events (chain_id, ordinal, event_type, created_at, event_hash, body)"
        f" VALUES ('c', 0, 'x', 't', '{DIGEST}', '[]')"
    ),
    "repository_states": (
        "INSERT {conflict} INTO repository_states (state_digest, dirty_hash, created_at, state)"
        f" VALUES ('{DIGEST}', 'd', 't', '[]')"
    ),
    "manifests": (
        f"INSERT {{conflict}} INTO manifests (dirty_hash, created_at, page_index) VALUES ('{DIGEST}', 't', '[]')"
    ),
    "manifest_pages": f"INSERT {{conflict}} INTO manifest_pages (page_digest, body) VALUES ('{DIGEST}', x'00')",
}


def entry(session="s", sequence=0, parent=None, identity=None, external=None, payload="{}", conflict=""):
    values = {
        "session": session,
        "id": identity or f"{session}-{sequence:06d}",
        "parent": parent,
        "sequence": sequence,
        "external": external,
        "source": None if external is None else "",
        "payload": payload,
    }
    return ENTRY.format(conflict=conflict), values


@pytest.fixture
def raw(store, database):
    """A connection without Bridge's own settings: whoever opens the file with another program."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(SESSION.format("s"))
        connection.execute(SESSION.format("t"))
        connection.execute(*entry())
        connection.execute(*entry("t"))
        connection.execute(*entry(sequence=1, parent="s-000000", external="x1", payload='{"a":1}'))
        for statement in SEEDS.values():
            connection.execute(statement.format(conflict=""))
        yield connection


def rows(connection, table):
    return connection.execute(f"SELECT * FROM {table}").fetchall()


@pytest.mark.parametrize("table", ["session_entries", *SEEDS])
def test_rows_refuse_update_and_delete(raw, table):
    before = rows(raw, table)
    column = raw.execute(f"SELECT name FROM pragma_table_info('{table}') LIMIT 1").fetchone()[0]
    for statement in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
        with pytest.raises(sqlite3.IntegrityError, match="immutable"):
            raw.execute(statement)
    assert rows(raw, table) == before


@pytest.mark.parametrize("recursive_triggers", ["OFF", "ON"])
@pytest.mark.parametrize("conflict", ["", "OR REPLACE", "OR ABORT", "OR FAIL"])
@pytest.mark.parametrize("table", list(SEEDS))
def test_rows_refuse_an_insert_over_them(raw, table, conflict, recursive_triggers):
    raw.execute(f"PRAGMA recursive_triggers={recursive_triggers}")
    before = rows(raw, table)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(SEEDS[table].format(conflict=conflict))
    assert rows(raw, table) == before


@pytest.mark.parametrize("conflict", ["", "OR REPLACE"])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"sequence": 1, "parent": "s-000000"}, id="same id and sequence"),
        pytest.param({"sequence": 0}, id="root"),
        pytest.param({"sequence": 2, "parent": "s-000000", "external": "x1"}, id="same external id"),
        pytest.param({"sequence": 1, "identity": "s-000009", "parent": "s-000000"}, id="same sequence, other id"),
        pytest.param({"sequence": 9, "identity": "s-000001", "parent": "s-000000"}, id="same id, other sequence"),
    ],
)
def test_entries_refuse_an_insert_over_them(raw, conflict, values):
    before = rows(raw, "session_entries")
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(*entry(**values, payload='{"b":2}', conflict=conflict))
    assert rows(raw, "session_entries") == before


def test_an_upsert_changes_nothing(raw):
    before = rows(raw, "session_entries")
    statement, values = entry(sequence=1, parent="s-000000")
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement + " ON CONFLICT DO UPDATE SET payload = 'x'", values)
    assert rows(raw, "session_entries") == before


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"sequence": 2, "parent": "s-000003"}, id="parent that is not there"),
        pytest.param({"sequence": 2, "parent": "s-000002"}, id="itself"),
        pytest.param({"sequence": 2, "parent": "t-000000"}, id="parent in another session"),
        pytest.param({"sequence": 2, "parent": None}, id="second root"),
        pytest.param({"session": "t", "sequence": 1, "parent": "s-000001"}, id="shared parent"),
        pytest.param({"session": "u", "sequence": 1, "parent": "u-000000"}, id="no session"),
        pytest.param({"sequence": 2, "parent": "s-000000", "identity": "s-2"}, id="id without padding"),
        pytest.param({"sequence": 2, "parent": "s-000000", "identity": "z9"}, id="id of one's own choice"),
    ],
)
def test_entries_that_do_not_fit_the_tree_are_refused(raw, values):
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(*entry(**values))


def test_a_parent_must_have_the_lower_sequence(raw):
    raw.execute(*entry(sequence=5, parent="s-000001"))
    with pytest.raises(sqlite3.IntegrityError, match="earlier"):
        raw.execute(*entry(sequence=4, parent="s-000005"))


def test_sequences_grow_beyond_their_padding(raw):
    raw.execute(*entry(sequence=999_999, parent="s-000001"))
    raw.execute(*entry(sequence=1_000_000, parent="s-999999"))
    assert raw.execute("SELECT max(id) FROM session_entries WHERE sequence > 999999").fetchone() == ("s-1000000",)


@pytest.mark.parametrize("ordinal", [0, 2, 99])
def test_a_chain_has_no_gap(raw, ordinal):
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(
            "INSERT INTO audit_events (chain_id, ordinal, event_type, created_at, event_hash, body)"
            f" VALUES ('c', {ordinal}, 'x', 't', '{DIGEST}', '[]')"
        )


def test_through_the_store_it_is_a_typed_error(store, raw):
    with pytest.raises(RowRefused, match="immutable"):
        store.write(lambda tx: tx.connection.exec_driver_sql("UPDATE session_entries SET payload = 'x'").rowcount)


def test_heads_cursors_and_labels_point_into_their_own_session(store, raw):
    for statement in (
        "INSERT INTO session_heads VALUES ('s', 't-000000', 1, 't')",
        "INSERT INTO branch_cursors VALUES ('s', 'me', 't-000000', 't')",
        "INSERT INTO entry_labels VALUES ('s', 'name', 't-000000', 't')",
    ):
        with pytest.raises(RowRefused, match="FOREIGN KEY"):
            store.write(lambda tx, statement=statement: tx.connection.exec_driver_sql(statement).rowcount)
