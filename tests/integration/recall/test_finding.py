"""Finding chats, over a real store of either kind: the same chats in the same order on both."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.control.checks.upkeep import check_store
from bridge.control.controller import Controller
from bridge.control.search.finding import find_chats, zone_named
from bridge.control.search.indexing import Indexer, reindex
from bridge.control.search.recalling import recall
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import FixedClock
from bridge.foundation.config import load_settings
from bridge.recall import index, store
from bridge.recall.errors import UnknownTimeZone
from bridge.storage import fulltext
from bridge.storage.prepared import driver_of
from tests.databases import unguarded

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
NOWHERE = Standpoint()


class SetClock(FixedClock):
    """A clock that stands until it is set."""

    def set(self, moment):
        self._now = moment

    def monotonic(self):
        return time.monotonic()


@pytest.fixture
def clock():
    return SetClock(NOW, 0.0)


@pytest.fixture
def controller(bridge_home, database_url, clock):
    found = load_settings({"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": database_url})
    with Controller(found, clock=clock, environment=os.environ) as opened:
        yield opened


def chat(controller, *texts, days_ago=0.0, kind="chat", **fields):
    controller.clock.set(NOW - timedelta(days=days_ago))
    session = controller.recorder.create_session(NewSession(kind=kind, **fields)).id
    for text in texts:
        say(controller, session, text)
    controller.clock.set(NOW)
    return session


def say(controller, session, text, kind="user.message", **fields):
    payload = {"summary": text} if kind == "branch.summary" else {"text": text}
    if kind == "branch.summary":
        payload["from_entry_id"] = f"{session}-000001"
    return controller.recorder.append_now(session, EntryDraft(kind=kind, payload=payload, **fields)).id


def found(controller, text, **options):
    return [one.session.id for one in find(controller, text, **options).chats]


def find(controller, text, **options):
    options = {"all_workspaces": True, "zone": UTC, **options}
    return find_chats(controller, options.pop("standpoint", NOWHERE), text, **options)


@pytest.fixture
def corpus(controller):
    """Some chats by a short name."""
    filler = [
        chat(controller, f"daily work number {n}", "ordinary words about the weather", days_ago=n) for n in range(9)
    ]
    return {
        "login": chat(controller, "the login breaks", "validateToken was wrong", label="Login trouble", days_ago=2),
        "old login": chat(controller, "login page in grey", days_ago=60, status="ended"),
        "deploy": chat(controller, "deployments to staging fail", "POL-358 says why", days_ago=10, harness="codex"),
        "cjk": chat(controller, "重跑gen-itgc后50条悬空引用清零", "用户身份", days_ago=5),
        "code": chat(controller, "C++ and foo.bar and snake_case_name", "grammar::fa", days_ago=4),
        "accents": chat(controller, "Zürich naïve CAFÉ", days_ago=3),
        "filler": filler[0],
    }


#: A question, and who must be found, in this order, and nobody else.
TABLE = [
    ("POL-358", ["deploy"]),
    ("login", ["login", "old login"]),
    ("login page", ["old login", "login"]),
    ("validateToken", ["login"]),
    ("validatetoken", ["login"]),
    ("validate", ["login"]),
    ("deployment", ["deploy"]),
    ("deploymetns", ["deploy"]),
    ("deploym", ["deploy"]),
    ('"login page"', ["old login"]),
    ("悬空", ["cjk"]),
    ("悬", ["cjk"]),
    ("itgc", ["cjk"]),
    ("用户", ["cjk"]),
    ("C++", ["code"]),
    ("foo.bar", ["code"]),
    ("bar", ["code"]),
    ("snake_case_name", ["code"]),
    ("case", ["code"]),
    ("grammar::fa", ["code"]),
    ("zurich", ["accents"]),
    ("NAIVE café", ["accents"]),
    ("login since march", ["login"]),
    ("login last year", []),
    ("login in january", ["old login"]),
    ("fail with codex", ["deploy"]),
    ("codex", []),
    ("xyzzyxyzzy", []),
    ("", []),
    ("* \0 -", []),
]


def test_fc_60_the_same_chats_on_both_databases(controller, corpus):
    names = {session: name for name, session in corpus.items()}
    answers = {text: [names.get(one, one) for one in found(controller, text, limit=50)] for text, _ in TABLE}
    assert answers == dict(TABLE)


FC_58 = ["POL-358", "don't", "foo.bar", "C++", "grammar::fa", "NOTE: x", '"open', 'a"b', "AND", "a OR", "(a", "{a b}"]
FC_58 += ["-x", "^x", "*", "", "   ", "\0", "scope : x", "terms", "a* NOT b", "'", ";--", "\ud800", "x" * 5000]


def test_fc_58_any_input_is_a_question(controller):
    quiet = chat(controller, "something else entirely")
    wanted = {}
    for text in FC_58:
        if any(character.isalnum() for character in text):
            wanted[text] = chat(controller, f"before {text} after")
    for text in FC_58:
        hits = found(controller, text, limit=50)
        assert quiet not in hits
        if text in wanted:
            assert wanted[text] in hits
        else:
            assert hits == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=60), typing=st.booleans())
def test_fc_58_no_text_is_an_error(controller, text, typing):
    find(controller, text, is_typing=typing)


def test_an_entry_is_found_by_the_first_search_after_it(controller):
    session = chat(controller, "first thing")
    for word in ("aardvark", "buffalo", "crocodile"):
        assert found(controller, word) == []
        say(controller, session, word)
        assert found(controller, word) == [session]


def test_a_changed_label_is_found_and_the_old_one_is_not(controller):
    session = chat(controller, "some talk", label="apples")
    assert found(controller, "apples") == [session]
    from bridge.conversations.store import update_session

    def rename(recording):
        update_session(recording.tx, session, "2026-03-18T15:31:00.000000Z", label="pears")
        recording.event(session, "session.updated", {"label": "pears"})

    controller.recorder.transact(rename)
    assert found(controller, "pears") == [session]
    assert found(controller, "apples") == []


def test_a_chat_is_of_a_time_if_anything_was_said_then_whatever_says_what_it_is_about(controller):
    labelled = chat(controller, "some talk", label="apples", days_ago=1)
    begun = chat(controller, "about apples", days_ago=9)
    controller.clock.set(NOW - timedelta(days=1))
    say(controller, begun, "and on we go")
    controller.clock.set(NOW)
    chat(controller, "apples again", days_ago=4)
    assert sorted(found(controller, "apples yesterday")) == sorted([labelled, begun])
    assert found(controller, "apples last year") == []


def test_the_latest_real_summary_tells_what_a_chat_is_about(controller):
    session = chat(controller, "hello")
    say(controller, session, "walruses on the ice", kind="branch.summary")
    assert found(controller, "walruses") == [session]


def test_workers_and_other_workspaces_are_left_out_until_asked_for(controller):
    worker = chat(controller, "shared word", kind="worker")
    hidden = chat(controller, "shared word", kind="hidden")
    alone = chat(controller, "shared word")
    assert found(controller, "shared") == [alone]
    assert sorted(found(controller, "shared", include_workers=True)) == sorted([worker, alone])
    assert hidden not in found(controller, "shared", include_workers=True)


def test_chats_without_a_workspace_share_nothing(controller):
    mine, theirs = chat(controller, "shared word"), chat(controller, "shared word")
    nowhere = find(controller, "shared", all_workspaces=False)
    assert (nowhere.chats, nowhere.is_nowhere) == ((), True)
    assert found(controller, "shared", all_workspaces=False, standpoint=Standpoint(session=mine)) == [mine]
    assert sorted(found(controller, "shared")) == sorted([mine, theirs])


def test_only_this_workspace(controller, tmp_path, repository):
    from bridge.control.sessions import initialise

    here = initialise(controller, repository.path).registration.workspace.id
    mine, other = chat(controller, "shared word", workspace_id=here), chat(controller, "shared word")
    standpoint = Standpoint(directory=repository.path)
    assert found(controller, "shared", all_workspaces=False, standpoint=standpoint) == [mine]
    assert sorted(found(controller, "shared")) == sorted([mine, other])


def test_pages(controller):
    every = {chat(controller, f"topic number{n}") for n in range(7)}
    pages = [find(controller, "topic", limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [page.has_more for page in pages] == [True, True, False]
    assert {one.session.id for page in pages for one in page.chats} == every
    assert sum(len(page.chats) for page in pages) == 7


def test_bodies_are_never_handed_out(controller):
    session = chat(controller, "a first message " + "that goes on " * 50 + "secretend", "and another onlyhere")
    answer = find(controller, "onlyhere")
    assert [one.session.id for one in answer.chats] == [session]
    assert "onlyhere" not in str(answer.to_json()["chats"])
    assert "secretend" not in str(answer.to_json())


def test_the_gate(controller):
    for _ in range(30):
        chat(controller, "ordinary talk about common things")
    one = chat(controller, "the zeppelin flies", "and the zeppelin lands")
    assert find(controller, "zeppelin").found.is_confident
    # A word nobody ever said, or one only guessed at: not sure.
    assert not find(controller, "zeppelin xyzzyxyzzy").found.is_confident
    assert not find(controller, "zeppelim").found.is_confident
    # Many that are alike.
    assert not find(controller, "ordinary").found.is_confident
    assert found(controller, "zeppelin") == [one]


def test_sure_is_only_what_stands_first_and_what_nothing_unread_could_be(controller, monkeypatch):
    for _ in range(30):
        chat(controller, "ordinary talk about common things")
    meant = chat(controller, "the zeppelin flies over common ground", "and the zeppelin lands")
    question = "zeppelin flies common"
    assert find(controller, question).found.is_confident
    # On a later page another chat stands first.
    later = find(controller, question, offset=1)
    assert not later.found.is_confident
    assert meant not in [one.session.id for one in later.chats]
    with monkeypatch.context() as patch:
        patch.setattr("bridge.control.search.finding.SEARCH_PATIENCE_SECONDS", -1.0)
        patch.setattr(index, "MAX_BATCH", 1)
        chat(controller, *(f"new words {n}" for n in range(5)))
        answer = find(controller, question)
        assert (answer.is_complete, answer.found.is_confident) == (False, False)
    assert find(controller, question).found.is_confident
    # Of the chat that would be first nothing can be read: the next one is not the one that is meant.
    with unguarded(controller.store.url) as connection:
        change = "UPDATE recall_marks SET unreadable_entry_id = 'x', unreadable_version = 3 WHERE session_id = ?"
        connection.execute(change, (meant,))
    answer = find(controller, question)
    assert not answer.found.is_confident
    assert answer.chats
    assert answer.unreadable == ((meant, "unsupported_semantic_version"),)


def test_a_single_chat_with_a_common_word_is_no_sure_answer(controller):
    session = chat(controller, *(f"plain word {n}" for n in range(30)))
    answer = find(controller, "plain")
    assert [one.session.id for one in answer.chats] == [session]
    assert not answer.found.is_confident


def test_unreadable_chats_are_named(controller):
    sound, newer = chat(controller, "shared word"), chat(controller, "shared word")
    with unguarded(controller.store.url) as connection:
        connection.execute("UPDATE session_entries SET semantic_schema_version = 3 WHERE session_id = ?", (newer,))
    answer = find(controller, "shared")
    assert [one.session.id for one in answer.chats] == [sound]
    assert answer.unreadable == ((newer, "unsupported_semantic_version"),)


def test_a_match_off_the_active_branch_is_marked(controller):
    session = chat(controller, "start here")
    first = f"{session}-000001"
    say(controller, session, "abandoned zebra")
    other = say(controller, session, "another way", parent_entry_id=first)
    controller.recorder.move_head(session, other)
    assert [one.is_active for one in find(controller, "zebra").chats] == [False]
    assert [one.is_active for one in find(controller, "another way").chats] == [True]


def test_an_answer_over_an_incomplete_index_says_so(controller, monkeypatch):
    monkeypatch.setattr(index, "MAX_BATCH", 2)
    monkeypatch.setattr("bridge.control.search.finding.SEARCH_PATIENCE_SECONDS", -1.0)
    session = chat(controller, *(f"topic {n}" for n in range(9)))
    answer = find(controller, "topic")
    assert not answer.is_complete
    assert answer.missing_entries > 0
    while not find(controller, "topic").is_complete:
        pass
    assert find(controller, "topic").chats[0].matches == 9
    assert found(controller, "topic") == [session]


def test_fc_61_nothing_is_found_twice_and_building_anew_changes_nothing(controller, corpus):
    before = {text: found(controller, text, limit=50) for text, _ in TABLE}
    told = []
    done = reindex(controller, progress=lambda *numbers: told.append(numbers))
    assert done.entries == told[-1][0]
    assert {text: found(controller, text, limit=50) for text, _ in TABLE} == before
    assert controller.store.write(index.is_sound)
    assert check_store(controller).is_sound


@pytest.mark.parametrize("share", [0.0, 2.0], ids=["seen in each match", "looked up beside the words"])
def test_how_a_scope_is_looked_up_changes_no_answer(controller, corpus, monkeypatch, share):
    chat(controller, "the login of a worker", kind="worker")
    questions = [text + harness for text, _ in TABLE for harness in ("", " with codex")]
    before = {text: find(controller, text, limit=50).to_json() for text in questions}
    assert any(answer["chats"] for answer in before.values())
    monkeypatch.setattr("bridge.recall.finding.BROAD_SHARE", share)
    assert {text: find(controller, text, limit=50).to_json() for text in questions} == before
    assert corpus["login"] in found(controller, "login")
    assert len(found(controller, "worker")) == 0
    assert len(found(controller, "worker", include_workers=True)) == 1


def test_both_ways_to_the_newest_matches_are_one(controller, corpus):
    find(controller, "login")
    scopes = [index.scope_of("chat")]
    groups = [(("login",),), (("ordinary",), ("weather",)), (("login", "page"),)]
    with controller.store.read() as connection:
        numbers, documents = store.scopes_within(connection, scopes)
        every = fulltext.newest_entries(connection, scopes, (), limit=100)
        middle = (every[-3][0], every[3][0])
        for span in (fulltext.EVERYTHING, middle):
            for group in groups:
                answers = [
                    fulltext.newest_entries(
                        connection, looked_up, [group], limit=limit, span=span, among=among, frequency=frequency
                    )
                    for limit in (2, 100)
                    for looked_up, among in ((scopes, ()), ((), numbers), ((), ()))
                    for frequency in (None, fulltext.Frequency(0, documents), fulltext.Frequency(documents, documents))
                ]
                assert answers[:9] == [answers[9][:2]] * 9
                assert answers[9:] == [answers[9]] * 9
                assert [row[0] for row in answers[9]] == sorted((row[0] for row in answers[9]), reverse=True)
                assert answers[9] or span is middle


def test_no_plan_is_kept_for_words_of_all_frequencies(controller, corpus, database_kind):
    for _ in range(12):
        find(controller, "login page")
    if database_kind == "postgresql":
        with controller.store.read() as connection:
            kept = driver_of(connection).execute("SELECT statement FROM pg_prepared_statements").fetchall()
        assert kept
        assert not [statement for (statement,) in kept if "::tsquery" in statement]


def test_older_entries_that_hold_all_words_are_found_as_far_as_the_rarest_word_reaches(controller, monkeypatch):
    monkeypatch.setattr("bridge.recall.finding.MIN_WINDOW", 4)
    monkeypatch.setattr("bridge.recall.finding.WINDOW", 8)
    both = chat(controller, "apples and oranges", days_ago=90)
    for day in range(80, 40, -1):
        chat(controller, "apples", "oranges", days_ago=day)
    for day in range(40, 0, -1):
        chat(controller, "apples" if day % 2 else "oranges", days_ago=day)
    assert both in found(controller, "apples oranges", limit=50)
    # So common that what is older than the newest dozen says nothing.
    monkeypatch.setattr("bridge.recall.finding.JOINT_WINDOW", 12)
    assert both not in found(controller, "apples oranges", limit=50)
    # A burst of late does not hide what lies within the dozen's share of the whole time.
    lately = chat(controller, "oranges and apples", days_ago=8)
    for hour in range(6):
        chat(controller, "apples", "oranges", days_ago=hour / 24)
    assert lately in found(controller, "apples oranges", limit=50)


def test_documents_are_counted_by_scope(controller, corpus):
    find(controller, "login")
    scopes = [index.scope_of("chat")], [index.scope_of("chat", harness="codex")], [index.scope_of("worker")]

    def counts():
        with controller.store.read() as connection:
            documents = store.state(connection)["documents"]
            return documents, *(store.scopes_within(connection, words)[1] for words in scopes)

    documents, *before = counts()
    assert before == [documents, 2, 0]
    assert documents > 9
    controller.store.write(lambda tx: index.forget_session(tx, corpus["deploy"]))
    assert counts() == (documents - 2, documents - 2, 0, 0)
    find(controller, "login")
    assert counts() == (documents, *before)
    assert controller.store.write(index.is_sound)


def test_every_word_is_counted_once_for_each_entry_it_stands_in(controller):
    # More than the database takes in one statement, and some of them twice.
    words = [f"word{number}" for number in range(100)]
    chat(controller, " ".join(words), " ".join(words[::2] * 2))
    find(controller, "word1")
    with controller.store.read() as connection:
        counted = store.frequencies(connection, words)
    assert counted == {word: 2 - number % 2 for number, word in enumerate(words)}


def test_building_anew_goes_on_from_session_to_session(controller, corpus, monkeypatch):
    monkeypatch.setattr(index, "MAX_SESSIONS", 3)
    monkeypatch.setattr(index, "MAX_BATCH", 4)
    changed = []

    def progress(done, _total):
        if not changed:
            # Before what was reached: it is indexed all the same.
            changed.append(say(controller, corpus["filler"], "added meanwhile"))

    before = {text: found(controller, text, limit=50) for text, _ in TABLE}
    reindex(controller, progress=progress)
    assert {text: found(controller, text, limit=50) for text, _ in TABLE} == before
    assert found(controller, "added meanwhile") == [corpus["filler"]]
    with controller.store.read() as connection:
        assert index.is_current(connection)
        assert index.backlog(connection).is_empty


def test_fc_61_a_session_that_is_forgotten_is_not_found_and_leaves_nothing_behind(controller):
    kept = chat(controller, "shared word")
    gone = chat(controller, "shared word gonegone", label="gone")
    assert sorted(found(controller, "shared")) == sorted([kept, gone])
    with controller.store.read() as connection:
        assert store.frequencies(connection, ["shared", "gonegone"]) == {"shared": 2, "gonegone": 1}
    controller.store.write(lambda tx: index.forget_session(tx, gone))
    with controller.store.read() as connection:
        assert store.frequencies(connection, ["shared", "gonegone"]) == {"shared": 1}
        assert fulltext.count(connection, fulltext.ENTRY_INDEX) == 1
    assert controller.store.write(index.is_sound)
    # It is still recorded, so the next search takes it in again.
    assert sorted(found(controller, "shared")) == sorted([kept, gone])


def test_a_damaged_index_is_found_by_the_check_and_dropped(controller):
    session = chat(controller, "kept words")
    assert found(controller, "kept") == [session]
    controller.store.write(lambda tx: tx.connection.exec_driver_sql("DELETE FROM recall_documents"))
    assert [problem.code for problem in check_store(controller).problems] == ["index_damaged"]
    assert check_store(controller).is_sound
    assert found(controller, "kept") == [session]


def test_a_crash_in_between_loses_nothing(controller):
    session = chat(controller, "kept words")
    with controller.store.read() as connection:
        batch = index.prepare(connection)

    def fail(tx):
        index.put(tx, batch)
        raise RuntimeError("the process ends here")

    with pytest.raises(RuntimeError):
        controller.store.write(fail)
    assert found(controller, "kept") == [session]
    # Somebody slower puts in the same once more.
    controller.store.write(partial(index.put, batch=batch))
    assert controller.store.write(index.is_sound)
    assert find(controller, "kept").chats[0].matches == 1


def test_very_long_entries_are_found_to_their_end(controller):
    words = " ".join(f"w{n}" for n in range(12_000)) + " the" * 600 + " final phrase here"
    session = chat(controller, words)
    for text in ("w0", "w11999", '"final phrase"', '"w7999 w8000 w8001"', '"the final"'):
        assert found(controller, text) == [session], text
    assert len(recall(controller, NOWHERE, session, "the").hits) == 1


def test_idle_time_is_used(controller):
    session = chat(controller, "kept words")
    indexer = Indexer(controller)
    indexer.start()
    try:
        deadline = time.monotonic() + 30
        current = False
        while not current and time.monotonic() < deadline:
            threading.Event().wait(0.05)
            with controller.store.read() as connection:
                current = index.is_current(connection)
        assert current
    finally:
        indexer.stop()
    assert found(controller, "kept") == [session]


def test_time_zones_by_name():
    assert zone_named("Europe/Berlin").key == "Europe/Berlin"
    for name in ("Nowhere/Town", "../etc/passwd", "", "\0"):
        with pytest.raises(UnknownTimeZone):
            zone_named(name)


def test_a_deep_question_looks_into_what_workers_said_whose_results_count(controller):
    from sqlalchemy import insert

    from bridge.storage.tables import delegations

    parent = chat(controller, "please look into it")
    worker = chat(controller, "the kestrel nests here", kind="worker")
    chat(controller, "a kestrel elsewhere")
    payload = {"delegation_id": "d1", "status": "completed", "summary": "done"}
    result = controller.recorder.append_now(parent, EntryDraft(kind="worker.result", payload=payload)).id
    values = {
        "id": "d1",
        "position": 0,
        "parent_session_id": parent,
        "worker_session_id": worker,
        "status": "completed",
    }
    values |= {"result_entry_id": result, "created_at": "t", "updated_at": "t", "request": "{}"}
    controller.store.write(lambda tx: tx.execute(insert(delegations).values(**values)))
    assert recall(controller, NOWHERE, parent, "kestrel").hits == ()
    (hit,) = recall(controller, NOWHERE, parent, "kestrel", deep=True).hits
    assert (hit.entry.session_id, hit.is_source, hit.is_active) == (worker, True, False)
    # Off the active path the result does not count.
    controller.recorder.move_head(parent, f"{parent}-000001")
    assert recall(controller, NOWHERE, parent, "kestrel", deep=True).hits == ()
