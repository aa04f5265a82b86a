"""Finding again in one session, over a real store."""

from __future__ import annotations

from functools import partial

import pytest

from bridge.control.search.recalling import MAX_LIMIT, recall
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import EntryDraft, NewSession
from bridge.recall import index, recalling, store
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.storage import fulltext
from bridge.storage.errors import DatabaseFailed
from tests.databases import unguarded

NOWHERE = Standpoint()


@pytest.fixture
def session(controller):
    return controller.recorder.create_session(NewSession()).id


def say(controller, session, text, **fields):
    return controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": text}, **fields)).id


def found(controller, session, text, **options):
    return [hit.entry.id for hit in recall(controller, NOWHERE, session, text, **options).hits]


def prepared(controller, sessions=None, **options):
    with controller.store.read() as connection:
        return index.prepare(connection, sessions, **options)


def held(connection):
    """How many documents have a place, and how many the index holds."""
    return store.count_places(connection)[0], fulltext.count(connection, fulltext.ENTRY_INDEX)


@pytest.fixture
def behind(controller):
    """Run a statement on the database file behind Bridge's back."""

    def run(statement, *values):
        with unguarded(controller.store.url) as connection:
            connection.execute(statement, values)

    return run


QUERIES = ["POL-358", "don't", "foo.bar", "C++", "grammar::fa", "NOTE: x", '"open', 'a"b', "AND", "a OR", "(a"]
QUERIES += [
    "{a b}",
    "-x",
    "^x",
    "*",
    "",
    "   ",
    "\0",
    "session : x",
    "terms",
    "a* NOT b",
    "'",
    ";--",
    "\ud800",
    "x" * 5000,
]


@pytest.mark.parametrize("query", QUERIES)
def test_fc_58_any_input_is_text(controller, session, query):
    quiet = say(controller, session, "something else entirely")
    recorded = say(controller, session, f"before {query} after".replace("\ud800", "").replace("\0", " "))
    hits = found(controller, session, query)
    assert quiet not in hits
    assert hits == ([recorded] if any(character.isalnum() for character in query) else [])


def test_fc_58_no_letter_at_all_is_an_empty_answer_that_says_so(controller, session):
    say(controller, session, "words")
    answer = recall(controller, NOWHERE, session, " * ")
    assert answer.hits == ()
    assert answer.is_empty_query


@pytest.mark.parametrize("query", ["悬空", "悬", "itgc", "gen-itgc", "悬空引用", "条"])
def test_fc_60_scripts_without_blanks_are_found_from_one_character(controller, session, query):
    wanted = say(controller, session, "重跑gen-itgc后50条悬空引用清零")
    say(controller, session, "用户身份")
    assert found(controller, session, query) == [wanted]
    assert len(found(controller, session, "用户 OR 悬空")) == 2


def test_fc_61_a_damaged_index_is_seen_and_comes_back(controller, session):
    wanted = say(controller, session, "kept words")
    assert found(controller, session, "kept") == [wanted]
    assert controller.store.write(index.is_sound)
    controller.store.write(lambda tx: tx.connection.exec_driver_sql("DELETE FROM recall_documents"))
    assert not controller.store.write(index.is_sound)
    if controller.store.database == "sqlite":
        controller.store.write(lambda tx: tx.connection.exec_driver_sql("UPDATE recall_index_data SET block = x'00ff'"))
        with pytest.raises(DatabaseFailed):
            controller.store.write(index.is_sound)
    controller.store.write(index.drop)
    assert controller.store.write(index.is_sound)
    assert found(controller, session, "kept") == [wanted]


def test_an_entry_is_found_by_the_first_search_after_it(controller, session):
    for number in range(3):
        assert found(controller, session, f"word{number}") == []
        assert found(controller, session, f"word{number}") == []
        wanted = say(controller, session, f"word{number}")
        assert found(controller, session, f"word{number}") == [wanted]


def test_appending_does_not_touch_the_index(controller, session):
    say(controller, session, "words")
    with controller.store.read() as connection:
        assert store.mark_of(connection, session) is None
        assert held(connection) == (0, 0)


def test_only_that_session_is_looked_into(controller, session):
    other = controller.recorder.create_session(NewSession()).id
    mine, theirs = say(controller, session, "shared word"), say(controller, other, "shared word")
    assert found(controller, session, "shared") == [mine]
    assert found(controller, other, "shared") == [theirs]


def test_what_is_hidden_is_not_found(controller, session):
    say(controller, session, "secretive", context_visibility="hidden")
    assert found(controller, session, "secretive") == []


def test_hits_say_whether_they_are_on_the_active_branch(controller, session):
    first = say(controller, session, "topic one")
    aside = say(controller, session, "topic two")
    main = say(controller, session, "topic three", parent_entry_id=first)
    controller.recorder.move_head(session, main)
    answer = recall(controller, NOWHERE, session, "topic")
    assert {hit.entry.id: hit.is_active for hit in answer.hits} == {first: True, aside: False, main: True}


def test_a_fork_finds_what_lies_before_it_and_not_what_came_after(controller, session):
    before = say(controller, session, "topic before")
    say(controller, session, "topic after")
    fork = controller.recorder.fork(before, NewSession(parent_session_id=session, parent_relation="forked")).id
    own = say(controller, fork, "topic own")
    assert sorted(found(controller, fork, "topic")) == sorted([before, own])
    answer = recall(controller, NOWHERE, fork, "topic")
    assert all(hit.is_active for hit in answer.hits)


def test_pages_and_has_more_at_the_edge(controller, session):
    every = [say(controller, session, f"topic number{number}") for number in range(5)]
    whole = recall(controller, NOWHERE, session, "topic", limit=5)
    assert (len(whole.hits), whole.has_more) == (5, False)
    pages = [recall(controller, NOWHERE, session, "topic", limit=2, offset=offset) for offset in (0, 2, 4)]
    assert [page.has_more for page in pages] == [True, True, False]
    assert sorted(hit.entry.id for page in pages for hit in page.hits) == sorted(every)
    assert recall(controller, NOWHERE, session, "topic", limit=10**9).hits
    assert MAX_LIMIT < 10**9


def test_without_an_entry_that_has_every_word_some_are_enough_and_it_is_said(controller, session):
    one, two = say(controller, session, "alpha beta"), say(controller, session, "gamma")
    assert found(controller, session, "alpha beta") == [one]
    answer = recall(controller, NOWHERE, session, "alpha gamma")
    assert answer.is_relaxed
    assert {hit.entry.id for hit in answer.hits} == {one, two}
    past_the_end = recall(controller, NOWHERE, session, "alpha beta", offset=5)
    assert (past_the_end.hits, past_the_end.is_relaxed) == ((), False)


def test_an_entry_that_is_cut_in_parts_holds_what_any_of_them_holds(controller, session):
    entry = say(controller, session, "alpha " + "the " * (2 * fulltext.MAX_TERM_PLACES) + "omega HttpServer")
    one = say(controller, session, "alpha")
    for query in ("alpha omega", "omega alpha the", "alpha http", "alpha httpserver"):
        answer = recall(controller, NOWHERE, session, query)
        assert ([hit.entry.id for hit in answer.hits], answer.is_relaxed) == ([entry], False), query
    answer = recall(controller, NOWHERE, session, "alpha omega nowhere")
    assert ([hit.entry.id for hit in answer.hits], answer.is_relaxed) == ([entry, one], True)


@pytest.mark.parametrize("query", ["topic", "topic even", "topic even nowhere"])
def test_pages_are_the_same_in_whatever_size_they_are_read(controller, session, query, monkeypatch):
    monkeypatch.setattr(recalling, "WINDOW", 6)
    for number in range(20):
        say(
            controller,
            session,
            f"topic {'even' if number % 2 else 'odd'} " + "and " * (number * 7 % 5) + "the " * 300 * (number == 9),
        )
    whole = found(controller, session, query, limit=50)
    assert len(whole) == len(set(whole))
    for size in (1, 3, 7):
        pages = [found(controller, session, query, limit=size, offset=offset) for offset in range(0, len(whole), size)]
        assert [hit for page in pages for hit in page] == whole


def test_the_best_match_comes_first(controller, session):
    say(controller, session, "rare " + "filler " * 200)
    short = say(controller, session, "rare")
    assert found(controller, session, "rare")[0] == short


def test_a_session_with_an_unreadable_entry_is_refused_and_others_work(controller, session, behind):
    other = controller.recorder.create_session(NewSession()).id
    say(controller, other, "words")
    say(controller, session, "words")
    entry = say(controller, session, "later words")
    assert len(found(controller, session, "words")) == 2
    behind("UPDATE session_entries SET semantic_schema_version = 3 WHERE id = ?", entry)
    with pytest.raises(UnsupportedSemanticVersion) as caught:
        recall(controller, NOWHERE, session, "words")
    assert caught.value.details["entry"] == entry
    assert len(found(controller, other, "words")) == 1


def test_a_fork_of_an_unreadable_entry_is_refused(controller, session, behind):
    origin = say(controller, session, "words")
    fork = controller.recorder.fork(origin, NewSession(parent_session_id=session, parent_relation="forked")).id
    behind("UPDATE session_entries SET semantic_schema_version = 3 WHERE id = ?", origin)
    with pytest.raises(UnsupportedSemanticVersion):
        recall(controller, NOWHERE, fork, "words")


def test_the_index_comes_back_as_it_was(controller, session):
    for number in range(30):
        say(controller, session, f"topic {number} " + "x" * number)
    before = found(controller, session, "topic", limit=30)
    controller.store.write(index.drop)
    with controller.store.read() as connection:
        assert held(connection) == (0, 0)
    assert found(controller, session, "topic", limit=30) == before


def test_another_way_of_making_terms_indexes_anew(controller, session, monkeypatch):
    wanted = say(controller, session, "words")
    found(controller, session, "words")
    monkeypatch.setattr(index, "INDEX_VERSION", index.INDEX_VERSION + 1)
    assert found(controller, session, "words") == [wanted]
    with controller.store.read() as connection:
        assert held(connection) == (1, 1)
        assert store.mark_of(connection, session).terms_version == index.INDEX_VERSION


def test_catching_up_goes_in_batches_and_nothing_is_indexed_twice(controller, session):
    for number in range(7):
        say(controller, session, f"topic {number}")
    read = []
    while (batch := prepared(controller, [session], limit=3)) is not None:
        read.append(batch.entries)
        controller.store.write(partial(index.put, batch=batch))
        # Put in once more, as by somebody who was slower: it changes nothing.
        controller.store.write(partial(index.put, batch=batch))
    assert read == [3, 3, 2]
    assert len(found(controller, session, "topic")) == 7
    with controller.store.read() as connection:
        assert held(connection) == (7, 7)


def test_a_failure_between_mark_and_rows_leaves_both_behind(controller, session):
    wanted = say(controller, session, "words")

    batch = prepared(controller, [session])

    def fail(tx):
        index.put(tx, batch)
        raise RuntimeError("the process ends here")

    with pytest.raises(RuntimeError):
        controller.store.write(fail)
    with controller.store.read() as connection:
        assert store.mark_of(connection, session) is None
    assert found(controller, session, "words") == [wanted]


def test_an_unknown_session_is_a_typed_error(controller):
    with pytest.raises(SessionNotFound):
        recall(controller, NOWHERE, "nope", "x")
