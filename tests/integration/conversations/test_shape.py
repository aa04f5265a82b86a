"""The shape of paths as runs, told from waymarks; reading from the leaf up; holes in every reader."""

from __future__ import annotations

import random

import pytest

from bridge.conversations import paths
from bridge.conversations.errors import EntryNotFound, PathBroken
from bridge.conversations.models import NewSession
from bridge.conversations.pathsource import EntriesInMemory, StoredPath
from bridge.conversations.projection import project, project_source
from bridge.conversations.shape import runs, store
from bridge.conversations.shape.runs import shape_of
from bridge.storage.errors import StoredTextDamaged
from bridge.storage.tables.conversations import WAYMARK_CONDITION
from tests.databases import unguarded

SUMMARY = {"summary": "so far", "tokens_before": 1, "reason": "manual"}


def compare(forest, leaf):
    """Assert that the stored path is the one that following the parents gives, and return its shape."""
    with forest.store.read() as connection:
        expected = paths.path_to(connection, leaf)
        shape = shape_of(connection, leaf)
        placed = list(runs.rows_upwards(connection, shape))
        assert [(identity, place) for identity, place, _ in reversed(placed)] == [
            (entry.id, place) for place, entry in enumerate(expected)
        ]
        for (_, _, row), entry in zip(reversed(placed), expected, strict=True):
            payload = entry.payload_text if entry.context_visibility == "eligible" else None
            assert row == (entry.semantic_schema_version, entry.kind, payload)
        for place, entry in enumerate(expected):
            assert (shape.position(entry.id), shape.id_at(place)) == (place, entry.id)
        assert shape.length == len(expected)
        stored, memory = StoredPath(connection, shape), EntriesInMemory(expected)
        assert (stored.leaf_entry_id, stored.marks) == (memory.leaf_entry_id, memory.marks)
        for budget in (None, 40, 300):
            assert project_source(stored, budget_tokens=budget).text() == project(expected, budget_tokens=budget).text()
        return shape


def test_random_forests_have_the_shape_that_their_parents_say(forest, monkeypatch):
    monkeypatch.setattr(runs, "PAGE", 7)
    chance = random.Random(5)
    session = forest.session()
    entries = [forest.say(session, "u0")]
    for number in range(1, 90):
        parent = entries[-1] if chance.random() < 0.6 else chance.choice(entries)
        if number % 9 == 0:
            payload = {**SUMMARY, "first_retained_entry_id": chance.choice(entries).id}
            entry = forest.append(session, "compaction", payload=payload, parent_entry_id=parent.id)
        elif number % 7 == 0:
            entry = forest.append(
                session, payload={"text": "h"}, parent_entry_id=parent.id, context_visibility="hidden"
            )
        else:
            entry = forest.say(session, f"u{number}", parent_entry_id=parent.id)
        entries.append(entry)
    for leaf in (entries[0], entries[-1], *chance.sample(entries, 8)):
        compare(forest, leaf.id)


def test_a_path_crosses_forks_and_branches(forest):
    origin = forest.session()
    first = forest.say(origin, "u1")
    forest.append(origin, "model.changed", payload={"model": "m"})
    at = forest.say(origin, "a2")
    forest.say(origin, "left behind", parent_entry_id=first.id)
    fork = forest.recorder.fork(at.id, NewSession()).id
    assert compare(forest, forest.head(fork)).runs == (runs.Run(origin, 1, 3),)
    last = forest.say(fork, "u3")
    shape = compare(forest, last.id)
    assert shape.runs == (runs.Run(origin, 1, 3), runs.Run(fork, 1, 1))
    assert [mark.waymark.kind for mark in shape.landmarks] == ["model.changed"]
    assert (shape.position(f"{origin}-000004"), shape.position("nonsense")) == (None, None)


def test_two_writers_in_turns_are_read_together(forest):
    session = forest.session()
    one, other = forest.say(session, "u"), None
    other = forest.say(session, "u", parent_entry_id=f"{session}-000000")
    for number in range(12):
        one = forest.say(session, f"u{number}", parent_entry_id=one.id)
        other = forest.say(session, f"a{number}", parent_entry_id=other.id)
    assert len(compare(forest, one.id).runs) == 13
    compare(forest, other.id)


def test_an_empty_session_has_an_empty_path(forest):
    session = forest.session()
    shape = compare(forest, f"{session}-000000")
    assert (shape.runs, shape.length) == ((), 0)
    with forest.store.read() as connection, pytest.raises(EntryNotFound):
        shape_of(connection, f"{session}-000009")


def test_waymarks_come_from_their_index(forest):
    session = forest.session()
    for number in range(50):
        forest.say(session, f"u{number}")
    with forest.store.read() as connection:
        prefix = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
        if connection.dialect.name != "sqlite":
            # So small a table would be scanned.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        query = (
            f"{prefix} SELECT sequence FROM session_entries WHERE session_id = '{session}' AND sequence <= 50"
            f" AND ({WAYMARK_CONDITION}) ORDER BY sequence DESC"
        )
        plan = str(connection.exec_driver_sql(query.replace("%", "%%")).fetchall())
        assert "ix_session_entries_waymarks" in plan
        assert store.waymarks(connection, session, 50) == []


@pytest.mark.parametrize("budget", [None, 20])
def test_fc_02_a_lost_middle_is_one_typed_error_in_every_reader(forest, budget):
    session = forest.session()
    entries = [forest.say(session, f"u{number}") for number in range(1, 10)]
    with unguarded(forest.store.url) as connection:
        for lost in entries[3:6]:
            connection.execute("DELETE FROM session_entries WHERE id = ?", (lost.id,))
    readers = (
        lambda connection: paths.active_path(connection, session),
        lambda connection: paths.path_nodes(connection, entries[8].id),
        lambda connection: project_source(
            StoredPath(connection, shape_of(connection, entries[8].id)), budget_tokens=budget
        ),
    )
    for read in readers:
        with forest.store.read() as connection, pytest.raises(PathBroken) as caught:
            read(connection)
        assert caught.value.details == {"entry_id": entries[6].id, "parent_entry_id": entries[5].id}
    # The island before the gap is a path of its own.
    with forest.store.read() as connection:
        assert (
            project_source(StoredPath(connection, shape_of(connection, entries[2].id))).messages[-1].entry_id
            == entries[2].id
        )


@pytest.mark.parametrize("parent", ["{session}-000009", "{session}-000003", "elsewhere-000001", "no id at all"])
def test_fc_01_a_parent_that_leads_nowhere_up_is_a_typed_error(forest, parent):
    session = forest.session()
    entries = [forest.say(session, f"u{number}") for number in range(1, 6)]
    with unguarded(forest.store.url) as connection:
        values = (parent.format(session=session), entries[2].id)
        connection.execute("UPDATE session_entries SET parent_entry_id = ? WHERE id = ?", values)
    with forest.store.read() as connection, pytest.raises(PathBroken):
        shape_of(connection, entries[4].id)
    with forest.store.read() as connection, pytest.raises(PathBroken):
        paths.active_path(connection, session)


def test_fc_01_the_store_takes_no_entry_whose_parent_is_missing(forest):
    session = forest.session()
    forest.say(session, "u1")
    with pytest.raises(EntryNotFound):
        forest.say(session, "u2", parent_entry_id=f"{session}-000099")
    assert forest.texts(session) == ["u1"]


def test_fc_03_the_leaf_is_the_recorded_head_whatever_times_say(forest):
    session = forest.session()
    entries = [forest.say(session, f"u{number}") for number in range(1, 7)]
    payload = {**SUMMARY, "first_retained_entry_id": entries[4].id}
    boundary = forest.append(session, "compaction", payload=payload)
    seventh = forest.say(session, "u7")
    eighth = forest.append(session, text="u8", parent_entry_id=seventh.id, created_at="2001-01-01T00:00:00.000000Z")
    late = forest.append(session, text="late", parent_entry_id=entries[1].id, created_at="2099-01-01T00:00:00.000000Z")
    forest.reopen()
    assert forest.head(session) == eighth.id
    with forest.store.read() as connection:
        projection = project_source(StoredPath(connection, shape_of(connection, eighth.id)))
        assert [message.entry_id for message in projection.messages] == [
            boundary.id,
            entries[4].id,
            entries[5].id,
            seventh.id,
            eighth.id,
        ]
        assert shape_of(connection, eighth.id).position(late.id) is None


def test_a_long_text_is_told_whole_and_a_lost_one_is_a_typed_error(forest):
    session = forest.session()
    long = "u" + "x" * 40_000
    said = forest.say(session, long)
    payload = {"summary": "s" * 40_000, "decisions": ["d"], "files_touched": [], "open_work": []}
    checkpoint = forest.append(session, "checkpoint", payload=payload)
    forest.append(session, payload={"text": "h" * 40_000}, context_visibility="hidden")
    compare(forest, said.id)
    compare(forest, checkpoint.id)
    with forest.store.read() as connection:
        stored = StoredPath(connection, shape_of(connection, forest.head(session)))
        assert project_source(stored).messages[0].payload["text"] == long
        assert project_source(stored, cold_start=True).messages[0].payload["summary"] == payload["summary"]
    with unguarded(forest.store.url) as connection:
        connection.execute("DELETE FROM blobs")
    for leaf in (said.id, checkpoint.id):
        with forest.store.read() as connection, pytest.raises(StoredTextDamaged) as caught:
            project_source(StoredPath(connection, shape_of(connection, leaf)))
        assert caught.value.details["entry_id"] == leaf
