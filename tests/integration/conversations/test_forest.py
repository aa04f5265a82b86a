"""Sessions, appends, heads, cursors, labels."""

from __future__ import annotations

import hashlib
import re
import threading

import pytest

from bridge.control.recording import MAX_PAYLOAD_BYTES
from bridge.conversations import forest as rules
from bridge.conversations import paths, store
from bridge.conversations.errors import (
    CursorExists,
    CursorNotFound,
    EntryNotFound,
    EntryShared,
    ExternalIdConflict,
    HeadMoved,
    InvalidLabel,
    InvalidSession,
    NothingBefore,
    PayloadTooLarge,
    SessionExists,
    SessionNotFound,
)
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.errors import InvalidId, NotCanonical
from bridge.foundation.hashing import entry_hash
from bridge.integrity.store import iterate_events
from bridge.integrity.verify import verify_session
from bridge.semantics.errors import InvalidPayload, TransientKind, UnknownKind
from bridge.semantics.stamps import Stamp, UnknownReason
from tests.databases import stored_bytes


def events(forest, session_id):
    with forest.store.read() as connection:
        return [event.event_type for event in iterate_events(connection, session_id)]


def counts(forest):
    with forest.store.read() as connection:
        return [
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
            for table in ("sessions", "session_entries", "session_heads", "branch_cursors", "audit_events")
        ]


def test_a_new_session_has_a_synthetic_root(forest):
    session = forest.recorder.create_session(NewSession(label="first", harness="command"))
    assert re.fullmatch(r"20260102-030405-[0-9a-f]{4}", session.id)
    assert (session.kind, session.status, session.next_sequence) == ("chat", "open", 1)
    assert session.active_entry_id == f"{session.id}-000000"
    with forest.store.read() as connection:
        root = store.get_entry(connection, session.id, session.active_entry_id)
        assert paths.active_path(connection, session.id) == []
        assert [e.id for e in paths.active_path(connection, session.id, include_roots=True)] == [root.id]
    assert (root.kind, root.parent_entry_id, root.context_visibility) == ("session.root", None, "hidden")
    assert root.payload_text == "{}"
    assert root.is_root


def test_an_entry_is_stored_exactly_as_it_was_hashed(forest):
    session_id = forest.session()
    entry = forest.recorder.append_now(
        session_id,
        EntryDraft(kind="note", payload_text='{ "provider_meta": {"b": 1e3, "a": 1.0}, "text": "z\\u00fc" }'),
        Stamp(unknown_reason=UnknownReason.TIMED_OUT, unknown_path="x", observed_at="t"),
    )
    forest.reopen()
    with forest.store.read() as connection:
        stored = store.get_entry(connection, session_id, entry.id)
    assert stored == entry
    assert stored.payload_text == '{"provider_meta":{"a":1.0,"b":1e3},"text":"zü"}'
    assert stored.payload_hash == hashlib.sha256(stored.payload_text.encode()).hexdigest()
    assert stored.stamp == Stamp(unknown_reason=UnknownReason.TIMED_OUT, unknown_path="x", observed_at="t")
    with forest.store.read() as connection:
        root_hash = store.entry_hash_of(connection, session_id, f"{session_id}-000000")
    assert stored.entry_hash == entry_hash(
        parent_entry_hash=root_hash,
        entry_id=f"{session_id}-000001",
        kind="note",
        semantic_schema_version=2,
        payload_hash=stored.payload_hash,
        context_visibility="eligible",
        stamp={"unknown": "timed_out"},
        external_id=None,
        created_at=stored.created_at,
    )
    assert stored.created_at == "2026-01-02T03:04:06.678901Z"


def test_session_ids_are_tried_again_on_collision(forest, monkeypatch):
    suffixes = iter(["aaaa", "aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("bridge.foundation.ids.secrets.token_hex", lambda _size: next(suffixes))
    forest.clock._step *= 0
    first, second = forest.session(), forest.session()
    assert (first[-4:], second[-4:]) == ("aaaa", "bbbb")


def test_session_ids_may_run_out(forest, monkeypatch):
    monkeypatch.setattr("bridge.foundation.ids.secrets.token_hex", lambda _size: "aaaa")
    forest.clock._step *= 0
    forest.session()
    before = counts(forest)
    with pytest.raises(SessionExists, match="No free session id"):
        forest.session()
    assert counts(forest) == before


def test_a_given_id_is_taken_once(forest):
    assert forest.session(id="imported_1") == "imported_1"
    assert forest.say("imported_1", "u1").id == "imported_1-000001"
    with pytest.raises(SessionExists):
        forest.session(id="imported_1")
    for bad in ("", "a/b", "..", "x" * 65, "ü"):
        with pytest.raises(InvalidId):
            forest.session(id=bad)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"parent_session_id": "nobody", "parent_relation": "continued"}, SessionNotFound),
        ({"parent_relation": "continued"}, InvalidSession),
        ({"label": ""}, InvalidSession),
        ({"label": "x" * 201}, InvalidSession),
    ],
)
def test_a_session_that_cannot_be(forest, options, error):
    before = counts(forest)
    with pytest.raises(error):
        forest.session(**options)
    assert counts(forest) == before
    assert forest.session(label="x" * 200)


@pytest.mark.parametrize(
    ("draft", "error"),
    [
        ({"kind": "assistant.message.delta", "payload": {"text": "x"}}, TransientKind),
        ({"kind": "nonsense", "payload": {}}, UnknownKind),
        ({"kind": "user.message", "payload": {}}, InvalidPayload),
        ({"kind": "user.message", "payload": {"text": 1}}, InvalidPayload),
        ({"kind": "user.message", "payload_text": "[]"}, InvalidPayload),
        ({"kind": "user.message", "payload_text": '{"text":"a","text":"b"}'}, NotCanonical),
        ({"kind": "user.message", "payload": {"text": "\ud800"}}, NotCanonical),
        ({"kind": "note", "payload": {"text": "x", "provider_meta": {"n": float("nan")}}}, NotCanonical),
        ({"kind": "note", "payload": {"text": "x"}, "created_at": "2026-01-01T00:00:00"}, InvalidPayload),
        ({"kind": "note", "payload": {"text": "x"}, "created_at": "yesterday"}, InvalidPayload),
    ],
)
def test_what_cannot_be_recorded_leaves_nothing(forest, draft, error):
    session_id = forest.session()
    before = counts(forest)
    with pytest.raises(error):
        forest.recorder.append_now(session_id, EntryDraft(**draft))
    assert counts(forest) == before


def test_the_payload_limit_at_its_edge(forest):
    session_id = forest.session()
    room = MAX_PAYLOAD_BYTES - len('{"text":""}')
    assert len(forest.append(session_id, text="x" * room).payload_text) == MAX_PAYLOAD_BYTES
    with pytest.raises(PayloadTooLarge) as caught:
        forest.append(session_id, text="x" * (room + 1))
    assert caught.value.details == {"bytes": MAX_PAYLOAD_BYTES + 1, "limit": MAX_PAYLOAD_BYTES}


def test_secrets_are_masked_before_anything_is_hashed(forest):
    session_id = forest.session()
    token = "ghp_" + "a1B2" * 9
    entry = forest.append(session_id, text=f"use {token} please")
    assert token not in entry.payload_text
    assert "[redacted:" in entry.payload_text
    assert token.encode() not in stored_bytes(forest.store.url)


def test_an_append_moves_the_head_only_from_its_parent(forest):
    s = forest.session()
    u1, a1 = forest.say(s, "u1"), forest.say(s, "a1")
    side = forest.say(s, "u2", parent_entry_id=u1.id)
    assert forest.head(s) == a1.id
    forest.say(s, "a2", parent_entry_id=side.id)
    assert forest.head(s) == a1.id
    last = forest.say(s, "u3", parent_entry_id=a1.id)
    assert forest.head(s) == last.id
    assert [entry.sequence for entry in (u1, a1, side, last)] == [1, 2, 3, 5]


def test_a_parent_of_another_session_is_refused(forest):
    s, t = forest.session(), forest.session()
    foreign = forest.say(t, "u1")
    before = counts(forest)
    for parent in (foreign.id, f"{s}-000009", "nonsense"):
        with pytest.raises(EntryNotFound):
            forest.say(s, "u1", parent_entry_id=parent)
    with pytest.raises(SessionNotFound):
        forest.say("nobody", "u1")
    assert counts(forest) == before


def test_expected_head_makes_an_append_conditional(forest):
    s = forest.session()
    u1 = forest.say(s, "u1")
    a1 = forest.say(s, "a1", expected_head=u1.id)
    before = counts(forest)
    with pytest.raises(HeadMoved) as caught:
        forest.say(s, "a2", expected_head=u1.id)
    assert caught.value.details == {"session_id": s, "expected": u1.id, "actual": a1.id}
    assert u1.id in caught.value.message
    assert a1.id in caught.value.message
    with pytest.raises(HeadMoved):
        forest.recorder.move_head(s, u1.id, expected_head=u1.id)
    with pytest.raises(HeadMoved):
        forest.recorder.back(s, expected_head=u1.id)
    assert counts(forest) == before
    # It speaks of the head even where the append goes elsewhere.
    assert forest.say(s, "u2", parent_entry_id=u1.id, expected_head=a1.id)


def test_goto_and_back(forest):
    s = forest.session()
    u1, a1 = forest.say(s, "u1"), forest.say(s, "a1")
    move = forest.recorder.move_head(s, u1.id)
    assert (move.from_entry_id, move.to_entry_id) == (a1.id, u1.id)
    assert forest.recorder.move_head(s, u1.id).from_entry_id == u1.id  # no move, no event
    assert forest.recorder.back(s).to_entry_id == f"{s}-000000"
    with pytest.raises(NothingBefore):
        forest.recorder.back(s)
    again = forest.say(s, "u1b")
    assert again.parent_entry_id == f"{s}-000000"
    assert events(forest, s) == ["session.created", *["entry.appended"] * 2, *["head.moved"] * 2, "entry.appended"]


def test_cursors_advance_with_their_leaf_and_stay_on_goto(forest):
    s = forest.session()
    u1 = forest.say(s, "u1")
    forest.recorder.transact(lambda r: (r.open_cursor(s, "turn:1"), r.open_cursor(s, "delegation:d", u1.id)))
    a1 = forest.say(s, "a1", cursor="turn:1")
    forest.recorder.move_head(s, u1.id)
    other = forest.say(s, "u2")

    def leaves():
        with forest.store.read() as connection:
            return {cursor.owner: cursor.leaf_entry_id for cursor in store.list_cursors(connection, s)}

    # Both had u1 as their leaf when a1 came; neither went along with the head.
    assert leaves() == {"turn:1": a1.id, "delegation:d": a1.id}
    late = forest.say(s, "a2", cursor="turn:1")
    assert late.parent_entry_id == a1.id
    assert forest.head(s) == other.id
    forest.recorder.transact(lambda r: r.move_cursor(s, "delegation:d", u1.id))
    assert leaves() == {"turn:1": late.id, "delegation:d": u1.id}
    assert forest.recorder.transact(lambda r: r.close_cursor(s, "turn:1")) == late.id
    with pytest.raises(CursorNotFound):
        forest.say(s, "a3", cursor="turn:1")
    with pytest.raises(CursorExists):
        forest.recorder.transact(lambda r: r.open_cursor(s, "delegation:d"))
    elsewhere = f"{forest.session()}-000000"
    with pytest.raises(EntryNotFound):
        forest.recorder.transact(lambda r: r.open_cursor(s, "x", elsewhere))


def test_the_length_of_a_cursors_owner_at_its_edge(forest):
    s = forest.session()
    for bad in ("", "x" * 201):
        with pytest.raises(ValueError, match="200"):
            forest.recorder.transact(lambda r, bad=bad: r.open_cursor(s, bad))
    assert forest.recorder.transact(lambda r: r.open_cursor(s, "x" * 200)) == f"{s}-000000"


def test_a_cursor_opened_in_the_same_transaction_is_seen(forest):
    s = forest.session()

    def turn(recording):
        recording.append(s, EntryDraft(kind="user.message", payload={"text": "u1"}))
        recording.open_cursor(s, "turn")
        return recording.append(s, EntryDraft(kind="assistant.message", payload={"text": "a1"}, cursor="turn"))

    appended = forest.recorder.transact(turn)
    assert appended.is_head
    with forest.store.read() as connection:
        assert store.cursor_leaf(connection, s, "turn") == appended.entry.id


def test_an_external_id_is_recorded_once(forest):
    s = forest.session()
    first = forest.say(s, "u1", external_id="x1", external_source="host")
    before = counts(forest)
    assert forest.say(s, "u1", external_id="x1", external_source="host") == first
    appended = forest.recorder.append(
        s, EntryDraft(kind="user.message", payload={"text": "u1"}, external_id="x1", external_source="host")
    ).result()
    assert not appended.is_new
    with pytest.raises(ExternalIdConflict) as caught:
        forest.say(s, "u2", external_id="x1", external_source="host")
    assert caught.value.details["entry_id"] == first.id
    with pytest.raises(ExternalIdConflict):
        forest.append(s, "note", text="u1", external_id="x1", external_source="host")
    assert counts(forest) == before
    assert forest.say(s, "u2", external_id="x1", external_source="other").id != first.id
    assert forest.say(forest.session(), "u2", external_id="x1", external_source="host").sequence == 1


def test_labels_are_unique_in_a_session_and_keep_their_history(forest):
    s = forest.session()
    u1, a1 = forest.say(s, "u1"), forest.say(s, "a1")
    assert forest.recorder.label(s, u1.id, "start") is None
    assert forest.recorder.label(s, u1.id, "start") == u1.id
    assert forest.recorder.label(s, a1.id, "start") == u1.id
    with forest.store.read() as connection:
        assert [(label.name, label.entry_id) for label in store.list_labels(connection, s)] == [("start", a1.id)]
        bodies = [event.body for event in iterate_events(connection, s) if event.event_type == "label.set"]
    assert len(bodies) == 2
    assert f'"previous_entry_id":"{u1.id}"' in bodies[1]
    assert forest.recorder.transact(lambda r: r.remove_label(s, "start")) == a1.id
    assert forest.recorder.transact(lambda r: r.remove_label(s, "start")) is None


@pytest.mark.parametrize("name", ["", "31", "٣", "a.b", "@", "a b", "-x", "a/b", "x" * 65, "a\n"])
def test_names_that_are_no_labels(forest, name):
    s = forest.session()
    with pytest.raises(InvalidLabel):
        forest.recorder.label(s, f"{s}-000000", name)


def test_labels_in_other_forms_of_the_same_text_are_one(forest):
    s = forest.session()
    entry = forest.say(s, "u1")
    forest.recorder.label(s, entry.id, "größe")
    assert forest.recorder.label(s, entry.id, "gro\u0308ße") == entry.id
    assert rules.check_label("x" * 64)


def test_several_recordings_and_rows_in_one_transaction_or_none(forest):
    s, t = forest.session(), forest.session()
    before = counts(forest)

    def record(recording):
        for session_id in (s, t):
            recording.append(session_id, EntryDraft(kind="note", payload={"text": "both"}))
        recording.event("workspace:w", "worktree.kept", {"reason": "x"})
        raise LookupError("afterwards")

    with pytest.raises(LookupError):
        forest.recorder.transact(record)
    assert counts(forest) == before
    # What was undone is not remembered either: the next append continues the stored chain and sequence.
    assert forest.say(s, "u1").sequence == 1
    with forest.store.read() as connection:
        assert verify_session(connection, s).is_valid


def test_what_a_job_undid_is_not_remembered_by_its_neighbours(forest):
    s = forest.session()

    def fail(recording):
        recording.append(s, EntryDraft(kind="note", payload={"text": "undone"}))
        raise LookupError("afterwards")

    gate = threading.Event()
    blocker = forest.store.submit(lambda tx: gate.wait(20))
    futures = [forest.recorder.submit(fail)]
    futures += [forest.recorder.append(s, EntryDraft(kind="note", payload={"text": f"n{n}"})) for n in range(3)]
    futures.insert(2, forest.recorder.submit(fail))
    gate.set()
    blocker.result(20)
    outcomes = [future.exception(20) for future in futures]
    assert [type(outcome) for outcome in outcomes] == [LookupError, type(None), LookupError, type(None), type(None)]
    assert forest.texts(s) == ["n0", "n1", "n2"]
    with forest.store.read() as connection:
        assert verify_session(connection, s).is_valid
        assert [node.sequence for node in store.list_nodes(connection, s)] == [0, 1, 2, 3]


def test_a_session_is_changed_with_an_event(forest):
    s = forest.session()
    changed = forest.recorder.transact(lambda r: r.update_session(s, label="new name", status="ended"))
    assert (changed.label, changed.status) == ("new name", "ended")
    assert events(forest, s)[-1] == "session.updated"
    with pytest.raises(ValueError, match="cannot be changed"):
        forest.recorder.transact(lambda r: r.update_session(s, kind="worker"))


def test_sessions_are_listed_by_last_use(forest):
    a, b = forest.session(workspace_id="w1"), forest.session(workspace_id="w2")
    worker = forest.session(kind="worker", workspace_id="w1", parent_session_id=a, parent_relation="delegated")
    forest.say(a, "u1")
    with forest.store.read() as connection:
        assert [session.id for session in store.list_sessions(connection)] == [a, worker, b]
        assert [s.id for s in store.list_sessions(connection, kinds=["chat"])] == [a, b]
        assert [s.id for s in store.list_sessions(connection, workspace_ids=["w1"], limit=1, offset=1)] == [worker]
        assert [s.id for s in store.list_sessions(connection, parent_session_id=a)] == [worker]
        assert store.get_session(connection, a).updated_at > store.get_session(connection, a).created_at


def test_a_fork_never_takes_its_head_or_appends_onto_a_shared_entry(forest):
    s = forest.session()
    u1, a1 = forest.say(s, "u1"), forest.say(s, "a1")
    fork = forest.recorder.fork(a1.id, NewSession(parent_session_id=s, parent_relation="forked"))
    before = counts(forest)
    for attempt in (
        lambda: forest.recorder.move_head(fork.id, u1.id),
        lambda: forest.say(fork.id, "u9", parent_entry_id=a1.id),
        lambda: forest.recorder.label(fork.id, u1.id, "shared"),
        lambda: forest.recorder.transact(lambda r: r.open_cursor(fork.id, "turn", u1.id)),
    ):
        with pytest.raises(EntryShared):
            attempt()
    with pytest.raises(NothingBefore, match="beginning") as caught:
        forest.recorder.back(fork.id)
    assert "fork" in caught.value.hint
    with pytest.raises(EntryNotFound):
        forest.recorder.fork(f"{s}-000099", NewSession())
    assert counts(forest) == before
