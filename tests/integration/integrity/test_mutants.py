"""Each column that is said to be covered is: whatever is done to a value in it is found, and only what rests on it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from bridge.control.checks.verification import verify
from bridge.integrity.coverage import COVERAGE
from bridge.storage.tables import metadata
from tests.conftest import GitRepository
from tests.databases import unguarded
from tests.mutants import COVERED, NOWHERE, Hand, Mutation, Specimen, build, check_flips, check_found, look, opened

pytestmark = pytest.mark.one_database("what a hand can do to a file; test_verification.py alters rows of both")


#: The store that was made first in this process, with its sessions.
_MADE: list[tuple[Path, Specimen]] = []


@pytest.fixture
def specimen(tmp_path_factory):
    """A store of some 200 entries, made once: in a fixture of one test, since only there git is as tests want it."""
    if not _MADE:
        folder = tmp_path_factory.mktemp("specimen")
        (folder / "repository").mkdir()
        repository = GitRepository(folder / "repository")
        repository.git("init", "-q", "-b", "main")
        repository.commit("first", a_txt="alpha\n")
        with opened(folder / "home") as controller:
            sessions = build(controller, repository, folder)
            found = verify(controller, NOWHERE, None)
            assert found.is_healthy, found.to_json()
        _MADE.append((folder / "home", sessions))
    return _MADE[0]


@pytest.fixture
def store(specimen, tmp_path):
    """A copy of it, the hand that is at it, and its sessions."""
    home, sessions = specimen
    shutil.copytree(home, tmp_path / "home", dirs_exist_ok=True)
    with opened(tmp_path / "home") as controller, unguarded(controller.store.url) as connection:
        # The anchor is kept under the place of the store.
        verify(controller, NOWHERE, None)
        yield controller, Hand(connection), sessions


def test_every_column_is_classified():
    tables = {table.name: {column.name for column in table.columns} for table in metadata.tables.values()}
    assert tables == {table: set(columns) for table, columns in COVERAGE.items()}


@pytest.mark.parametrize("table", sorted({table for table, _ in COVERED}))
def test_a_bit_that_is_flipped_anywhere_is_found(store, table):
    controller, hand, sessions = store
    check_flips(controller, hand, sessions, table, samples=2)


#: A state may come without its manifest, so that one is gone nobody can tell; see docs/integrity.md.
MAY_BE_MISSING = {"manifests"}


@pytest.mark.parametrize("table", sorted({table for table, _ in COVERED} - MAY_BE_MISSING))
def test_a_row_that_is_taken_away_is_found(store, table):
    controller, hand, sessions = store
    rows = hand.rows(table)
    for row in random.Random(table).sample(rows, min(2, len(rows))):
        with hand.dropped(table, row):
            found = look(controller)
            if table == "log_leaves" and row["leaf"] == max(one["leaf"] for one in rows):
                continue  # the last ones are assigned when they are needed
            check_found(found, Mutation(table, "", row, None), sessions)
    assert look(controller).is_healthy


SWAPPED = [(table, name) for table, name in COVERED if table != "subtree_marks"]


@pytest.mark.parametrize("table", sorted({table for table, _ in SWAPPED}))
def test_values_that_changed_places_are_found(store, table):
    controller, hand, _ = store
    rows = hand.rows(table)
    keys = {column.name for column in metadata.tables[table].primary_key.columns}
    for name in [name for covered, name in SWAPPED if covered == table and name not in keys]:
        pair = next(((a, b) for a in rows for b in reversed(rows) if a[name] != b[name]), None)
        if pair is None:
            continue
        first, second = Mutation(table, name, pair[0], pair[1][name]), Mutation(table, name, pair[1], pair[0][name])
        with hand.mutated(first) as is_done, hand.mutated(second) as is_done_too:
            if is_done and is_done_too:
                assert not look(controller).is_healthy, first
    assert look(controller).is_healthy


def test_another_parent_is_found(store):
    controller, hand, sessions = store
    rows = [row for row in hand.rows("session_entries") if row["session_id"] == sessions.main]
    for row in random.Random(2).sample(rows[10:], 5):
        other = f"{sessions.main}-{row['sequence'] - 9:06d}"  # each goes on from one of the eight before
        mutation = Mutation("session_entries", "parent_entry_id", row, other)
        with hand.mutated(mutation):
            check_found(look(controller), mutation, sessions)


def test_an_end_that_was_cut_off_is_found(store):
    controller, hand, _ = store
    rows = sorted(hand.rows("event_order"), key=lambda row: row["position"])
    for row in reversed(rows[-3:]):
        events = [
            one for one in hand.rows("audit_events") if (one["chain_id"], one["ordinal"]) == tuple(row.values())[1:]
        ]
        hand.delete("event_order", row)
        hand.delete("audit_events", events[0])
    assert not look(controller).is_healthy


def test_what_is_recorded_once_more_is_found(store):
    controller, hand, sessions = store
    entries = [row for row in hand.rows("session_entries") if row["session_id"] == sessions.main]
    again = {**entries[3], "sequence": len(entries), "id": f"{sessions.main}-{len(entries):06d}", "external_id": None}
    hand.insert("session_entries", again)
    assert not look(controller).is_healthy
    hand.delete("session_entries", again)
    assert look(controller).is_healthy
    events = [row for row in hand.rows("audit_events") if row["chain_id"] == sessions.main]
    replayed = {**events[3], "ordinal": len(events)}
    hand.insert("audit_events", replayed)
    assert not look(controller).is_healthy
    hand.delete("audit_events", replayed)
    cursors = {**hand.rows("branch_cursors")[0], "owner": "nobody"}
    hand.insert("branch_cursors", cursors)
    assert not look(controller).is_healthy
