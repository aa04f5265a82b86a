"""What verification recomputes, and what it reports when rows were altered or taken away."""

from __future__ import annotations

import hashlib
import json

import pytest

from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.errors import NotCanonical
from bridge.integrity.chain import append_event, verify_chain
from bridge.integrity.store import iterate_events
from bridge.integrity.verify import verify_entries, verify_session
from bridge.storage.store import Store
from tests.databases import unguarded


def codes(report):
    return sorted({finding.code for finding in report.findings})


@pytest.fixture
def session(recorder):
    """A session with three entries on two branches and one head move: 5 events."""
    session_id = recorder.create_session(NewSession()).id
    first = recorder.append_now(session_id, EntryDraft(kind="user.message", payload={"text": "u1"}))
    recorder.append_now(session_id, EntryDraft(kind="assistant.message", payload={"text": "a1"}))
    recorder.move_head(session_id, first.id)
    recorder.append_now(session_id, EntryDraft(kind="assistant.message", payload={"text": "a1b"}))
    return session_id


def tamper(store, *statements):
    """Alter rows as somebody with the file in hand would: triggers dropped first."""
    with unguarded(store.url) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0


def verify(store, session_id):
    with store.read() as connection:
        return verify_session(connection, session_id)


def test_the_chain_is_what_the_design_says(store, session):
    with store.read() as connection:
        events = list(iterate_events(connection, session))
    previous = bytes(32)
    for ordinal, event in enumerate(events):
        body = json.loads(event.body)
        assert event.body == json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        previous = hashlib.sha256(previous + event.body.encode()).digest()
        assert event.event_hash == previous.hex()
        assert (body["ordinal"], body["event_type"], body["chain_id"]) == (ordinal, event.event_type, session)
    assert [event.event_type for event in events] == [
        "session.created",
        "entry.appended",
        "entry.appended",
        "head.moved",
        "entry.appended",
    ]


def test_an_untouched_session_verifies_after_reopening(store, session):
    store.close()
    with Store.open(store.url.render_as_string()) as again:
        report = verify(again, session)
    assert report.is_valid
    assert report.checked == 4 + 5


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ('UPDATE session_entries SET payload = \'{"text":"other"}\' WHERE sequence = 1', "payload_altered"),
        ("UPDATE session_entries SET payload = payload || ' ' WHERE sequence = 1", "payload_altered"),
        ("UPDATE session_entries SET kind = 'note' WHERE sequence = 1", "entry_altered"),
        ("UPDATE session_entries SET created_at = '2020' WHERE sequence = 1", "entry_altered"),
        ("UPDATE session_entries SET context_visibility = 'hidden' WHERE sequence = 1", "entry_altered"),
        ("UPDATE session_entries SET unknown_reason = 'no_path' WHERE sequence = 1", "entry_altered"),
        ("UPDATE session_entries SET external_id = 'x', external_source = '' WHERE sequence = 1", "entry_altered"),
        (
            "UPDATE session_entries SET parent_entry_id = replace(id, '000003', '000002') WHERE sequence = 3",
            "entry_altered",
        ),
        ("UPDATE session_entries SET parent_entry_id = id WHERE sequence = 3", "parent_missing"),
        ("DELETE FROM session_entries WHERE sequence = 2", "entry_missing"),
        ("DELETE FROM session_entries WHERE sequence = 3", "entry_missing"),
        (
            "UPDATE session_heads SET active_entry_id = (SELECT id FROM session_entries WHERE sequence = 2)",
            "head_altered",
        ),
        ("UPDATE audit_events SET body = body || ' ' WHERE ordinal = 2", "event_altered"),
        ("UPDATE audit_events SET body = 'x' WHERE ordinal = 2", "event_altered"),
        ("UPDATE audit_events SET event_type = 'x' WHERE ordinal = 4", "event_altered"),
        ("UPDATE audit_events SET created_at = '2020' WHERE ordinal = 4", "event_altered"),
        ("UPDATE audit_events SET event_hash = substr(event_hash, 2) || 'g' WHERE ordinal = 1", "event_altered"),
        ("DELETE FROM audit_events WHERE ordinal = 0", "event_missing"),
        ("DELETE FROM audit_events WHERE ordinal = 2", "event_missing"),
    ],
)
def test_an_altered_row_is_reported(store, session, statement, code):
    tamper(store, statement)
    assert code in codes(verify(store, session))


@pytest.mark.parametrize("kept", [4, 3, 2, 1, 0])
def test_fc_64_a_chain_cut_at_its_end_is_reported(store, session, kept):
    tamper(store, f"DELETE FROM audit_events WHERE ordinal >= {kept}")
    with store.read() as connection:
        assert verify_chain(connection, session).is_valid  # the rest is perfect in itself
    assert not verify(store, session).is_valid


def test_fc_64_a_consistently_older_state_is_what_cannot_be_seen(store, session):
    """Documented: only an anchor outside the database tells this from the truth."""
    tamper(
        store,
        "DELETE FROM audit_events WHERE ordinal = 4",
        "UPDATE session_heads SET next_sequence = 3, updated_at = (SELECT max(created_at) FROM audit_events),"
        " active_entry_id = (SELECT id FROM session_entries WHERE sequence = 1)",
        "DELETE FROM session_entries WHERE sequence = 3",
    )
    assert verify(store, session).is_valid


def test_one_altered_event_is_one_finding(store, session):
    tamper(store, "UPDATE audit_events SET body = replace(body, 'entry', 'entrY') WHERE ordinal = 1")
    with store.read() as connection:
        report = verify_chain(connection, session)
    assert report.checked == 5
    assert {finding.subject for finding in report.findings} == {f"{session}#1"}


def test_the_number_of_findings_is_bounded(store, recorder):
    session_id = recorder.create_session(NewSession()).id
    draft = recorder.prepare(EntryDraft(kind="note", payload={"text": "x"}))
    recorder.transact(lambda r: [r.append(session_id, draft) for _ in range(150)])
    tamper(store, "UPDATE session_entries SET payload = '{}x'")
    with store.read() as connection:
        report = verify_entries(connection, session_id)
    assert (report.problems, len(report.findings)) == (151, 100)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
        ("2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123000Z"),
        ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T08:34:05.123456+05:30", "2026-01-02T03:04:05.123456Z"),
    ],
)
def test_fc_65_times_of_any_precision_verify(store, recorder, given, stored):
    session_id = recorder.create_session(NewSession()).id
    entry = recorder.append_now(session_id, EntryDraft(kind="note", payload={"text": "x"}, created_at=given))
    assert entry.created_at == stored
    assert verify(store, session_id).is_valid


def test_fc_65_floats_key_order_and_unicode_forms_verify(store, recorder):
    session_id = recorder.create_session(NewSession()).id
    texts = [
        '{"text":"x","provider_meta":{"b":1e3,"a":1.0}}',
        '{"provider_meta":{"a":1.0,"b":1e3},"text":"x"}',
        '{"text":"\u00e9","provider_meta":{"n":-0.0}}',
        '{"text":"e\u0301","provider_meta":{"n":0.10}}',
    ]
    entries = [recorder.append_now(session_id, EntryDraft(kind="note", payload_text=text)) for text in texts]
    assert entries[0].payload_hash == entries[1].payload_hash
    assert entries[2].payload_hash != entries[3].payload_hash
    assert entries[0].payload_text == texts[1]
    assert entries[3].payload_text == '{"provider_meta":{"n":0.10},"text":"e\u0301"}'
    store.close()
    with Store.open(store.url.render_as_string()) as again:
        assert verify(again, session_id).is_valid


def test_chains_of_other_things_have_their_own_name(store, recorder, session):
    recorder.transact(lambda r: r.event("workspace:w1", "worktree.reserved", {"path": "/x"}))
    recorder.transact(lambda r: r.event("workspace:w1", "worktree.removed", {"path": "/x"}))
    with store.read() as connection:
        assert verify_chain(connection, "workspace:w1").checked == 2
        assert verify_chain(connection, "nobody").checked == 0
    assert verify(store, session).is_valid


def test_a_body_without_canonical_form_is_refused(store, session):
    with pytest.raises(NotCanonical):
        store.write(lambda tx: append_event(tx, session, "label.set", {"text": "\ud800"}, "t"))
    assert verify(store, session).is_valid


def test_an_event_of_an_unknown_type_is_refused(store, session):
    with pytest.raises(ValueError, match="no type of"):
        store.write(lambda tx: append_event(tx, session, "entry.forgotten", {}, "t"))
    assert verify(store, session).is_valid
