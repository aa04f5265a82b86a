"""What was recorded cannot be altered, whatever statement tries; and what is recorded fits together."""

from __future__ import annotations

import pytest

from bridge.storage.errors import RowRefused
from bridge.storage.tables import metadata
from tests.entries import DIGEST, OVER, REFUSED, SEEDS, entry, rows


@pytest.mark.parametrize("table", ["session_entries", *SEEDS])
def test_rows_refuse_update_and_delete(raw, table):
    before = rows(raw, table)
    column = next(iter(metadata.tables[table].columns)).name
    for statement in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
        with pytest.raises(REFUSED, match="immutable"):
            raw.execute(statement)
    assert rows(raw, table) == before


@pytest.mark.parametrize("table", list(SEEDS))
def test_rows_refuse_an_insert_over_them(raw, table):
    before = rows(raw, table)
    with pytest.raises(REFUSED):
        raw.execute(SEEDS[table].format(conflict=""))
    assert rows(raw, table) == before


@pytest.mark.parametrize("values", OVER)
def test_entries_refuse_an_insert_over_them(raw, values):
    before = rows(raw, "session_entries")
    with pytest.raises(REFUSED):
        raw.execute(*entry(**values, payload='{"b":2}'))
    assert rows(raw, "session_entries") == before


def test_an_upsert_changes_nothing(raw):
    before = rows(raw, "session_entries")
    statement, values = entry(sequence=1, parent="s-000000")
    with pytest.raises(REFUSED):
        raw.execute(statement + " ON CONFLICT (session_id, id) DO UPDATE SET payload = 'x'", values)
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
    with pytest.raises(REFUSED):
        raw.execute(*entry(**values))


def test_a_parent_must_have_the_lower_sequence(raw):
    raw.execute(*entry(sequence=5, parent="s-000001"))
    with pytest.raises(REFUSED, match="earlier"):
        raw.execute(*entry(sequence=4, parent="s-000005"))


def test_sequences_grow_beyond_their_padding(raw):
    raw.execute(*entry(sequence=999_999, parent="s-000001"))
    raw.execute(*entry(sequence=1_000_000, parent="s-999999"))
    assert raw.execute("SELECT max(id) FROM session_entries WHERE sequence > 999999").fetchone() == ("s-1000000",)


@pytest.mark.parametrize("ordinal", [0, 2, 99])
def test_a_chain_has_no_gap(raw, ordinal):
    with pytest.raises(REFUSED):
        raw.execute(
            "INSERT INTO audit_events (chain_id, ordinal, event_type, created_at, event_hash, body)"
            f" VALUES ('c', {ordinal}, 'x', 't', '{DIGEST}', '[]')"
        )


def test_through_the_store_it_is_a_typed_error(store, raw):
    # On PostgreSQL the role that Bridge works under has not even the privilege.
    with pytest.raises(RowRefused, match=r"immutable|permission denied"):
        store.write(lambda tx: tx.connection.exec_driver_sql("UPDATE session_entries SET payload = 'x'").rowcount)


def test_heads_cursors_and_labels_point_into_their_own_session(store, raw):
    for statement in (
        "INSERT INTO session_heads VALUES ('s', 't-000000', 1, 't')",
        "INSERT INTO branch_cursors VALUES ('s', 'me', 't-000000', 't')",
        "INSERT INTO entry_labels VALUES ('s', 'name', 't-000000', 't')",
    ):
        with pytest.raises(RowRefused, match=r"(?i)foreign key"):
            store.write(lambda tx, statement=statement: tx.connection.exec_driver_sql(statement).rowcount)
