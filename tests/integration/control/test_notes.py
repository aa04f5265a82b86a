"""Notes and waking up, on real stores and repositories."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime, timedelta

import pytest

from bridge.control.controller import Controller
from bridge.control.lineage.notes import DEFAULT_LIMIT, MAX_LIMIT, MAX_NOTES_BYTES, read_notes, write_note
from bridge.control.lineage.waking import NOTHING_BEFORE, resume, wake
from bridge.control.sessions import AppendRequest, SessionRequest, append_entry, go_to, start_session
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import SessionNotFound
from bridge.conversations.forest import require_session
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.store import get_head
from bridge.foundation.clock import FixedClock
from bridge.lineage.descent import MAX_DEPTH, Stop
from tests.conftest import settings_here

pytestmark = pytest.mark.usefixtures("database_url")
NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def here(repository):
    return Standpoint(directory=repository.path)


@pytest.fixture
def session(controller, here):
    return start_session(controller, here, SessionRequest()).session.id


def texts(found):
    return [note.text for note in found.notes]


def test_notes_are_read_in_order_over_all_branches(controller, here, session):
    first = write_note(controller, here, session, "one")
    write_note(controller, here, session, "two")
    go_to(controller, here, session, first.id)
    write_note(controller, here, session, "three", recipient="a123", note_type="ask", sender="somebody")
    found = read_notes(controller, here, session)
    assert texts(found) == ["one", "two", "three"]
    assert [note.sequence for note in found.notes] == [1, 2, 3]
    assert (found.notes[0].sender, found.notes[0].recipient, found.notes[0].type) == (session, "*", "inform")
    assert (found.notes[2].sender, found.notes[2].recipient, found.notes[2].type) == ("somebody", "a123", "ask")
    assert not found.has_older


def test_the_limit_is_the_total_and_keeps_the_newest(controller, here, session):
    for number in range(DEFAULT_LIMIT + 1):
        write_note(controller, here, session, f"old {number}")
    later = start_session(controller, here, SessionRequest(parent=session)).session.id
    for number in range(3):
        write_note(controller, here, later, f"new {number}")
    assert len(read_notes(controller, here, session).notes) == DEFAULT_LIMIT
    found = read_notes(controller, here, later, include_previous=True, limit=5)
    assert texts(found) == [f"old {DEFAULT_LIMIT - 1}", f"old {DEFAULT_LIMIT}", "new 0", "new 1", "new 2"]
    assert found.has_older
    assert not read_notes(controller, here, later).has_older
    assert len(read_notes(controller, here, later, include_previous=True, limit=MAX_LIMIT + 1).notes) == 24
    assert texts(read_notes(controller, here, later, of="previous", limit=1)) == [f"old {DEFAULT_LIMIT}"]
    nothing = read_notes(controller, here, session, of="previous")
    assert (nothing.session_id, nothing.notes) == (None, ())


def test_an_answer_has_a_limit_in_bytes(controller, here, session):
    half = "x" * (MAX_NOTES_BYTES // 2)
    for text in ("first", half, half):
        append_entry(controller, here, session, AppendRequest(kind="note", text=text))
    found = read_notes(controller, here, session)
    assert [len(text) for text in texts(found)] == [len(half), len(half)]
    assert found.has_older
    append_entry(controller, here, session, AppendRequest(kind="note", text="y" * (MAX_NOTES_BYTES + 1)))
    (only,) = read_notes(controller, here, session).notes
    assert (len(only.text), only.is_cut) == (MAX_NOTES_BYTES, True)


def test_the_way_back_ends_at_a_depth_and_says_so(controller, here, session):
    for _ in range(MAX_DEPTH + 1):
        write_note(controller, here, session, "here")
        session = start_session(controller, here, SessionRequest(parent=session)).session.id
    found = read_notes(controller, here, session, include_previous=True, limit=MAX_LIMIT)
    assert (len(found.notes), found.stop) == (MAX_DEPTH, Stop.DEPTH)


def test_a_worker_and_a_fork_continue_nobody(controller, here, session):
    write_note(controller, here, session, "the orchestrator's")
    entry = append_entry(controller, here, session, AppendRequest(kind="user.message", text="x")).entry.id
    worker = controller.recorder.create_session(
        NewSession(kind="worker", parent_session_id=session, parent_relation="delegated")
    ).id
    fork = start_session(controller, here, SessionRequest(from_entry=entry)).session.id
    for one in (worker, fork):
        assert read_notes(controller, here, one, of="previous").session_id is None
        assert texts(read_notes(controller, here, one, include_previous=True)) == []


def test_what_is_addressed_along_a_delegation_is_received(controller, here, session):
    controller.recorder.transact(lambda recording: recording.update_session(session, agent_id="a1"))
    new = NewSession(kind="worker", parent_session_id=session, parent_relation="delegated", agent_id="a2")
    worker = controller.recorder.create_session(new).id
    write_note(controller, here, worker, "for you", recipient="a1")
    write_note(controller, here, worker, "for all")
    write_note(controller, here, session, "careful", recipient="a2")
    stranger = start_session(controller, here, SessionRequest()).session.id
    write_note(controller, here, stranger, "psst", recipient="a1")
    assert [note.text for note in read_notes(controller, here, session).received] == ["for you"]
    received = read_notes(controller, here, worker).received
    assert [(note.text, note.sender) for note in received] == [("careful", "a1")]
    assert texts(read_notes(controller, here, session)) == ["careful"]


def test_waking_goes_on_with_the_last_word(controller, here, session, repository):
    first = wake(controller, here)
    assert first.predecessor.id == session
    assert first.note.text == NOTHING_BEFORE
    append_entry(controller, here, first.session.id, AppendRequest(kind="assistant.message", text="tests are green"))
    # A note wins over what was merely said, whatever came later.
    write_note(controller, here, first.session.id, "go on with the parser\n\nand nothing else")
    append_entry(controller, here, first.session.id, AppendRequest(kind="user.message", text="bye"))
    repository.write("new.txt")
    second = wake(controller, here, label="next")
    assert second.note.text == "go on with the parser and nothing else"
    assert (second.note.type, second.note.sender) == ("spark", "bridge")
    assert (second.session.parent_session_id, second.session.parent_relation) == (first.session.id, "continued")
    assert str(second.divergence.report.divergence) == "diverged"
    told = second.to_json()
    assert "new.txt" in told["text"]
    assert (told["new"], told["stale"], told["predecessor"]) == (True, False, first.session.id)
    chosen = wake(controller, here, from_session=session)
    assert chosen.predecessor.id == session


def test_what_was_said_is_the_last_word_where_no_note_is(controller, here, session):
    append_entry(controller, here, session, AppendRequest(kind="assistant.message", text="the parser is next"))
    append_entry(controller, here, session, AppendRequest(kind="turn.started", payload={"turn_id": "t"}))
    assert wake(controller, here).note.text == "the parser is next"


def test_going_on_seeds_nothing_twice(controller, here, session):
    woken = resume(controller, here, session)
    assert woken.note.text == NOTHING_BEFORE
    again = resume(controller, here, session)
    assert (again.note, again.is_new, again.session.id) == (None, False, session)
    assert texts(read_notes(controller, here, session)) == [NOTHING_BEFORE]
    with pytest.raises(SessionNotFound):
        resume(controller, here, "20200101-000000-0000")


@pytest.mark.parametrize(("hours", "is_stale"), [(48, False), (49, True)])
def test_an_old_word_is_mentioned_and_not_handed_on(bridge_home, database_url, here, hours, is_stale):
    settings = settings_here()
    with Controller(settings, clock=FixedClock(NOW, 0), environment=os.environ) as controller:
        before = start_session(controller, here, SessionRequest()).session.id
        write_note(controller, here, before, "go on")
    with Controller(settings, clock=FixedClock(NOW + timedelta(hours=hours), 0), environment=os.environ) as later:
        woken = wake(later, here)
    assert woken.is_stale is is_stale
    assert woken.age_seconds == hours * 3600
    if is_stale:
        assert f"silent for {hours} hours" in woken.note.text
    else:
        assert woken.note.text == "go on"


def test_a_clock_that_went_back_makes_nothing_older_than_now(bridge_home, database_url, here):
    for moment in (NOW, NOW - timedelta(days=400)):
        with Controller(settings_here(), clock=FixedClock(moment, 0), environment=os.environ) as controller:
            woken = wake(controller, here)
    assert woken.age_seconds == 0
    assert woken.predecessor is not None


def test_outside_of_repositories_nothing_is_shared(controller, tmp_path):
    elsewhere = Standpoint(directory=tmp_path)
    for _ in range(2):
        woken = wake(controller, elsewhere)
        assert (woken.predecessor, woken.note.text, woken.divergence) == (None, NOTHING_BEFORE, None)
    chosen = wake(controller, elsewhere, from_session=woken.session.id)
    assert chosen.predecessor.id == woken.session.id


def test_two_that_wake_at_once_get_a_session_each(controller, here, session):
    write_note(controller, here, session, "last word")
    woken = []
    threads = [threading.Thread(target=lambda: woken.append(wake(controller, here))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.session.id for one in woken}) == 4
    assert {one.note.text for one in woken} <= {"last word", NOTHING_BEFORE}


def test_notes_written_at_once_are_all_there_in_their_senders_order(controller, here, session):
    def write(sender):
        for number in range(20):
            draft = {"text": str(number), "sender": sender}
            controller.recorder.append_now(session, EntryDraft(kind="note", payload=draft))

    threads = [threading.Thread(target=write, args=(f"a{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_notes(controller, here, session, limit=MAX_LIMIT).notes
    assert len(found) == 160
    for number in range(8):
        assert [note.text for note in found if note.sender == f"a{number}"] == [str(one) for one in range(20)]


def test_a_note_becomes_the_head_like_any_entry(controller, here, session):
    note = write_note(controller, here, session, "one")
    with controller.store.read() as connection:
        assert get_head(connection, session).entry_id == note.id
        assert require_session(connection, session).active_entry_id == note.id
