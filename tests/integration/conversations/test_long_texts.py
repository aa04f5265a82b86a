"""Long texts are kept apart from their entries: once, exactly, and out of the way of every list."""

from __future__ import annotations

import pytest

from bridge.control.recording import MAX_PAYLOAD_BYTES
from bridge.conversations import paths, store
from bridge.conversations.errors import ExternalIdConflict, PayloadTooLarge
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.soundness import check_sessions
from bridge.foundation.hashing import digest_hex
from bridge.foundation.outlines import outline_of_text
from bridge.integrity.verify import verify_session
from bridge.storage.errors import StoredTextDamaged
from bridge.storage.longtexts import LONG_TEXT_BYTES
from tests.databases import raw_connection, unguarded

WRAPPING = len('{"text":""}')


def text_of(size: int, mark: str = "") -> str:
    """Return a message whose payload has so many bytes: three to a character, as far as they go."""
    body = size - WRAPPING - len(mark)
    return mark + "x" * (body % 3) + "…" * (body // 3)


def blobs(forest) -> list[tuple[str, int]]:
    with raw_connection(forest.store.url) as connection:
        return [tuple(row) for row in connection.execute("SELECT digest, size FROM blobs ORDER BY digest").fetchall()]


def stored(forest, entry):
    with forest.store.read() as connection:
        return store.get_entry(connection, entry.session_id, entry.id)


@pytest.mark.parametrize("size", [LONG_TEXT_BYTES, LONG_TEXT_BYTES + 1, MAX_PAYLOAD_BYTES])
def test_a_text_comes_back_as_it_was_hashed_on_either_side_of_the_limit(forest, size):
    s = forest.session()
    entry = forest.append(s, text=text_of(size))
    found = stored(forest, entry)
    assert found == entry
    assert len(found.payload_text.encode()) == size
    assert digest_hex(found.payload_text.encode()) == found.payload_hash
    assert blobs(forest) == ([] if size == LONG_TEXT_BYTES else [(entry.payload_hash, size)])
    with forest.store.read() as connection:
        assert verify_session(connection, s).is_valid
        assert list(check_sessions(connection)) == []


def test_more_than_an_entry_holds_is_refused_and_leaves_nothing(forest):
    s = forest.session()
    with pytest.raises(PayloadTooLarge) as caught:
        forest.append(s, text=text_of(MAX_PAYLOAD_BYTES + 1))
    assert caught.value.details == {"bytes": MAX_PAYLOAD_BYTES + 1, "limit": MAX_PAYLOAD_BYTES}
    assert blobs(forest) == []
    assert forest.texts(s) == []


def test_the_same_text_is_kept_once(forest):
    s, t = forest.session(), forest.session()
    long = text_of(LONG_TEXT_BYTES + 1)
    made = [forest.append(session, text=long) for session in (s, t, s)]
    assert len({entry.payload_hash for entry in made}) == 1
    assert len(blobs(forest)) == 1
    assert forest.texts(s) == [long, long]
    assert forest.texts(t) == [long]


def test_short_and_long_ones_in_one_transaction_keep_their_order(forest):
    s = forest.session()
    long = text_of(LONG_TEXT_BYTES + 1)
    texts = ["u1", long, "u2", "u3", long + "!", "u4"]

    def append_all(recording):
        for text in texts:
            recording.append(s, EntryDraft(kind="user.message", payload={"text": text}))

    forest.recorder.transact(append_all)
    assert forest.texts(s) == texts


def test_a_write_that_is_undone_leaves_no_text(forest):
    s = forest.session()

    def fail(recording):
        recording.append(s, EntryDraft(kind="user.message", payload={"text": text_of(LONG_TEXT_BYTES + 1)}))
        raise ValueError("after all")

    with pytest.raises(ValueError, match="after all"):
        forest.recorder.transact(fail)
    assert blobs(forest) == []


def test_a_fork_and_an_older_leaf_reach_their_long_texts(forest):
    s = forest.session()
    long = text_of(LONG_TEXT_BYTES + 1)
    first = forest.append(s, text=long)
    forest.say(s, "a2")
    fork = forest.recorder.fork(first.id, NewSession(parent_session_id=s, parent_relation="forked")).id
    forest.say(fork, "u3")
    assert forest.texts(fork) == [long, "u3"]
    assert forest.texts(s, first.id) == [long]


def test_an_external_entry_is_known_again_by_its_hash_alone(forest):
    s = forest.session()
    options = {"external_id": "x", "external_source": "elsewhere"}
    entry = forest.append(s, text=text_of(LONG_TEXT_BYTES + 1), **options)
    with unguarded(forest.store.url) as connection:
        connection.execute("DELETE FROM blobs")
    assert forest.append(s, text=text_of(LONG_TEXT_BYTES + 1), **options) == entry
    with pytest.raises(ExternalIdConflict):
        forest.append(s, text=text_of(LONG_TEXT_BYTES + 2), **options)


# Lists


@pytest.fixture
def mixed(forest):
    """A session with a long message between short ones, and a branch that begins with one."""
    s = forest.session()
    forest.say(s, "u1")
    forest.append(s, text=text_of(LONG_TEXT_BYTES + 1, "what it is about\n"))
    forest.say(s, "a3")
    forest.append(s, text=text_of(LONG_TEXT_BYTES + 1, "aside"), parent_entry_id=f"{s}-000001")
    return s


LISTS = {
    "session list": lambda c, s: [session.id for session in store.list_sessions(c)],
    "nodes": store.list_nodes,
    "active path ids": lambda c, s: sorted(paths.active_path_ids(c, s)),
    "last 50": lambda c, s: [(e.id, e.payload_text) for e in paths.listed_path(c, s, last=50)],
    "whole path": lambda c, s: [(e.id, e.payload_bytes) for e in paths.listed_path(c, s)],
    "all branches": lambda c, s: [(e.id, e.payload_outline) for e in store.iterate_listed(c, s)],
    "branches": paths.branches,
    "leaves": paths.leaves,
    "children": lambda c, s: store.list_children(c, s, f"{s}-000001"),
    "on the path": lambda c, s: paths.lies_on_active_path(c, s, f"{s}-000002"),
    "path nodes": lambda c, s: paths.path_nodes(c, f"{s}-000003"),
}


@pytest.mark.parametrize("reader", LISTS)
def test_a_list_does_not_as_much_as_name_the_texts(forest, mixed, reader):
    """Where the table has another name, whatever statement names it fails."""
    with forest.store.read() as connection:
        before = LISTS[reader](connection, mixed)
    forest.store.close()
    with unguarded(forest.store.url) as connection:
        connection.execute("ALTER TABLE blobs RENAME TO elsewhere")
    forest.reopen()
    with forest.store.read() as connection:
        assert LISTS[reader](connection, mixed) == before
        with pytest.raises(Exception, match="blobs"):
            paths.active_path(connection, mixed)


def test_what_a_list_has_of_a_long_text(forest, mixed):
    with forest.store.read() as connection:
        one, two, three = paths.listed_path(connection, mixed)
        whole = store.get_entry(connection, mixed, two.id)
    assert (one.payload, one.is_long, one.payload_bytes, one.payload_outline) == ({"text": "u1"}, False, None, None)
    assert (two.payload, two.is_long, two.payload_bytes) == (None, True, len(whole.payload_text.encode()))
    assert two.payload_outline == outline_of_text(whole.payload_text)
    assert len(two.payload_outline) < 2000
    assert three.with_text('{"text":"a3"}') == stored(forest, three)


# Damage


DAMAGE = {
    "missing": ("DELETE FROM blobs WHERE digest = '{digest}'", "text_missing", "payload_missing"),
    "altered": ("UPDATE blobs SET body = 'y' || body WHERE digest = '{digest}'", "text_altered", "payload_altered"),
    "cut": ("UPDATE blobs SET size = size - 1 WHERE digest = '{digest}'", "text_altered", None),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_found_in_the_session_that_refers_to_it_and_in_no_other(forest, mixed, how):
    sibling = forest.session()
    forest.append(sibling, text=text_of(LONG_TEXT_BYTES + 1, "of the sibling"))
    statement, flaw, finding = DAMAGE[how]
    with forest.store.read() as connection:
        digest = store.get_entry(connection, mixed, f"{mixed}-000002").payload_hash
    with unguarded(forest.store.url) as connection:
        connection.execute(statement.format(digest=digest))
    subject = f"{mixed}-000002"
    with forest.store.read() as connection:
        found = list(check_sessions(connection))
        assert [(one.code, one.session_id, one.subject) for one in found] == [(flaw, mixed, subject)]
        report = verify_session(connection, mixed)
        expected = [] if finding is None else [(finding, subject)]
        assert [(one.code, one.subject) for one in report.findings] == expected
        assert verify_session(connection, sibling).is_valid
        assert len(paths.active_path(connection, sibling)) == 1
        assert len(paths.listed_path(connection, mixed)) == 3


def test_a_missing_text_is_named_by_who_needs_it(forest, mixed):
    with unguarded(forest.store.url) as connection:
        connection.execute("DELETE FROM blobs")
    entry_id = f"{mixed}-000002"
    with forest.store.read() as connection:
        for read in (
            lambda: store.get_entry(connection, mixed, entry_id),
            lambda: paths.path_to(connection, entry_id),
            lambda: paths.active_path(connection, mixed),
            lambda: list(store.iterate_entries(connection, mixed)),
        ):
            with pytest.raises(StoredTextDamaged) as caught:
                read()
            assert caught.value.details["reason"] == "missing"
            assert caught.value.details["entry_id"] in (entry_id, f"{mixed}-000004")


def test_what_lists_show_is_checked_against_the_text(forest, mixed):
    with unguarded(forest.store.url) as connection:
        connection.execute(f"UPDATE session_entries SET payload_outline = 'another' WHERE id = '{mixed}-000002'")
    with forest.store.read() as connection:
        found = verify_session(connection, mixed).findings
    assert [(one.code, one.subject) for one in found] == [("payload_altered", f"{mixed}-000002")]
