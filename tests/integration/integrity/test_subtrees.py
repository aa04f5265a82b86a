"""What is kept of a large session's tree is exact whenever a root is read, and never needed."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import update

from bridge.conversations.models import EntryDraft, NewSession
from bridge.integrity.errors import TreeUnsound
from bridge.integrity.subtrees import roots, store
from bridge.integrity.subtrees.pages import PAGE_BYTES, PAGE_ENTRIES, Pages, PagesDamaged
from bridge.integrity.verify import root_of
from bridge.storage.tables import subtree_marks, subtree_pages
from tests.databases import behind


@pytest.fixture
def session(recorder):
    return recorder.create_session(NewSession()).id


def grow(recorder, session, parents):
    """Append an entry under each sequence given, in one transaction; None is the head."""

    def add(recording):
        for parent in parents:
            under = None if parent is None else f"{session}-{parent:06d}"
            draft = EntryDraft(kind="note", payload={"text": "x"}, parent_entry_id=under)
            recording.append(session, draft)

    recorder.transact(add)


def read(database, session, *, keep=True):
    """Read the root as from pages, keep them, and compare with a scan that knows none."""
    with database.read() as connection:
        found = roots.read(connection, session, kept_from=1)
        assert found.root == root_of(connection, session)
    if keep:
        database.write(lambda tx: roots.keep(tx, found))
    with database.read() as connection:
        assert not roots.differing_pages(connection, session)
    return found


def test_small_sessions_keep_nothing(recorder, store, session):
    grow(recorder, session, [None] * 30)
    with store.read() as connection:
        found = roots.read(connection, session)
        assert found.root == root_of(connection, session)
        assert roots.read(connection, session, kept_from=32).pages == {}
        assert roots.read(connection, session, kept_from=31).pages != {}
    assert not store.write(lambda tx: roots.keep(tx, found))


def test_only_changed_paths_are_hashed(recorder, store, session):
    grow(recorder, session, [0] * 60 + [None] * 40)
    assert read(store, session).hashed == 101
    grow(recorder, session, [7])
    # The new entry, what it hangs below, and the root.
    assert read(store, session).hashed == 3
    assert read(store, session).hashed == 0


def test_a_sibling_that_did_not_change_keeps_its_hash(recorder, store, session):
    grow(recorder, session, [0, 0, 1, 2, 3])
    first = read(store, session)
    before = Pages(first.pages.get)
    grow(recorder, session, [4])
    after = Pages(read(store, session).pages.get)
    assert [before.slot(n) == after.slot(n) for n in range(6)] == [False, True, False, True, False, True]
    assert [before.slot(n).subtree_hash == after.slot(n).subtree_hash for n in (1, 3, 5)] == [True] * 3


@pytest.mark.parametrize("seed", range(4))
def test_random_growth_agrees_with_a_scan_whenever_it_is_read(recorder, store, session, seed):
    chance = random.Random(seed)
    size = 1
    for _ in range(12):
        parents = []
        for _ in range(chance.choice([1, 2, 30])):
            parents.append(chance.choice([size - 1, chance.randrange(size), 0]))
            size += 1
        grow(recorder, session, parents)
        if chance.random() < 0.8:
            # What was read and not kept is what a crash in between leaves.
            read(store, session, keep=chance.random() < 0.7)


def test_more_than_a_page(recorder, store, session):
    grow(recorder, session, [None] * (PAGE_ENTRIES + 20))
    assert len(read(store, session).pages) == 2
    grow(recorder, session, [PAGE_ENTRIES + 5, 0])
    assert read(store, session).hashed == PAGE_ENTRIES + 8
    with store.read() as connection:
        assert connection.execute(subtree_pages.select()).fetchall()[0].data.__len__() == PAGE_BYTES


def test_what_somebody_else_kept_meanwhile_stays(recorder, store, session):
    grow(recorder, session, [None] * 5)
    with store.read() as connection:
        slow = roots.read(connection, session, kept_from=1)
    grow(recorder, session, [None] * 5)
    read(store, session)
    assert not store.write(lambda tx: roots.keep(tx, slow))
    assert read(store, session).hashed == 0


def test_pages_and_mark_are_written_together_or_not_at_all(recorder, store, session):
    grow(recorder, session, [None] * 5)
    read(store, session)
    grow(recorder, session, [None] * 3)
    with store.read() as connection:
        found = roots.read(connection, session, kept_from=1)

    def fail(tx):
        assert roots.keep(tx, found)
        raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        store.write(fail)
    assert read(store, session).hashed == 9


def test_dropped_or_broken_pages_are_made_anew(recorder, store, session):
    grow(recorder, session, [None] * 5)
    read(store, session)
    store.write(lambda tx: forget(tx, session))
    assert read(store, session).hashed == 6
    store.write(lambda tx: tx.execute(update(subtree_pages).values(data=b"short")))
    grow(recorder, session, [None])
    assert read(store, session).hashed == 7


def test_a_mark_behind_the_last_entry_is_not_believed(recorder, store, session):
    grow(recorder, session, [None] * 5)
    read(store, session)
    store.write(lambda tx: tx.execute(update(subtree_marks).values(exact_through=99)))
    assert read(store, session).hashed == 6


def test_altered_pages_are_named(recorder, store, session):
    grow(recorder, session, [None] * 5)
    read(store, session)
    with store.read() as connection:
        page = bytearray(connection.execute(subtree_pages.select()).one().data)
    page[100] ^= 1
    store.write(lambda tx: tx.execute(update(subtree_pages).values(data=bytes(page))))
    with store.read() as connection:
        assert roots.differing_pages(connection, session) == [0]
    store.write(lambda tx: tx.execute(subtree_marks.delete()))
    with store.read() as connection:
        assert roots.differing_pages(connection, session) == [0]


@pytest.mark.parametrize("change", ["parent_entry_id = NULL", "parent_entry_id = id", "entry_hash = 'ff'"])
def test_a_damaged_tree_has_no_root(recorder, store, session, change):
    grow(recorder, session, [None] * 5)
    read(store, session)
    grow(recorder, session, [None] * 2)
    with behind(store.url) as connection:
        connection.execute(f"UPDATE session_entries SET {change} WHERE sequence = 7", ())
    with store.read() as connection, pytest.raises(TreeUnsound):
        roots.read(connection, session, kept_from=1)
    store.write(lambda tx: forget(tx, session))
    with store.read() as connection, pytest.raises(TreeUnsound):
        roots.read(connection, session, kept_from=1)


@pytest.mark.one_database("pure: it looks at no store")
def test_pages_of_another_size_are_refused():
    with pytest.raises(PagesDamaged):
        Pages(lambda _: b"").slot(0)


def forget(tx, session):
    store.forget(tx, session)
