"""Verification over a real store that somebody has been at behind Bridge's back."""

from __future__ import annotations

import pytest

from bridge.control.checks.verification import read_root, verify
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import EntryDraft, NewSession
from bridge.integrity.errors import TreeUnsound
from bridge.workspaces.store import save_state
from tests.databases import unguarded

NOWHERE = Standpoint()


@pytest.fixture
def sessions(controller, repository):
    """Two sessions; the second has a branch, a label and stamped entries."""
    recorder = controller.recorder
    healthy = recorder.create_session(NewSession(label="healthy"))
    recorder.append_now(healthy.id, EntryDraft(kind="user.message", payload={"text": "left alone"}))
    (repository.path / "a.txt").write_text("changed\n")
    seen = controller.observer.observe(repository.path)
    session = recorder.create_session(NewSession(label="watched"))
    first = None
    for number in range(4):
        draft = EntryDraft(kind="user.message", payload={"text": f"entry {number}"})
        entry = recorder.append_now(
            session.id, draft, seen.stamp, first=lambda recording: save_state(recording.tx, seen, recording.moment)
        )
        first = first or entry
    recorder.append_now(
        session.id, EntryDraft(kind="user.message", payload={"text": "aside"}, parent_entry_id=first.id), seen.stamp
    )
    recorder.label(session.id, first.id, "start")
    return healthy.id, session.id


def damage(controller, statement: str, *values: object) -> None:
    """Run a statement with the triggers and foreign keys out of the way."""
    with unguarded(controller.store.url) as behind:
        behind.execute(statement, values)


def codes(verdict) -> set[str]:
    return {finding.code for finding in verdict.report.findings}


def test_what_is_as_recorded_is_healthy(controller, sessions):
    root = read_root(controller, NOWHERE, sessions[1])
    found = verify(controller, NOWHERE, None)
    assert found.is_healthy
    assert found.to_json()["status"] == "healthy"
    assert {verdict.subject for verdict in found.sessions} == set(sessions)
    assert {verdict.session_root for verdict in found.sessions} >= {root.session_root}


def test_a_root_is_sealed_once_and_again_after_an_append(controller, sessions):
    first = read_root(controller, NOWHERE, sessions[1])
    assert read_root(controller, NOWHERE, sessions[1]) == first
    controller.recorder.append_now(sessions[1], EntryDraft(kind="user.message", payload={"text": "more"}))
    second = read_root(controller, NOWHERE, sessions[1])
    assert second.session_root != first.session_root
    assert second.sequence == first.sequence + 1
    with controller.store.read() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM audit_events WHERE event_type = 'root.sealed'")
        assert count.scalar_one() == 2
    assert verify(controller, NOWHERE, None).is_healthy


SEVERAL = [
    ("payload_altered", "UPDATE session_entries SET payload = replace(payload, 'entry 2', 'entry x') WHERE id = ?", 3),
    ("entry_altered", "UPDATE session_entries SET context_visibility = 'hidden' WHERE id = ?", 2),
    ("entry_altered", "UPDATE session_entries SET created_at = '2020-01-01T00:00:00.000000Z' WHERE id = ?", 2),
    ("entry_altered", "UPDATE session_entries SET parent_entry_id = substr(id, 1, 20) || '-000001' WHERE id = ?", 3),
    ("entry_missing", "DELETE FROM session_entries WHERE id = ?", 5),
    ("entry_missing", "DELETE FROM session_entries WHERE id = ?", 2),
    ("tree_unsound", "DELETE FROM session_entries WHERE id = ?", 0),
]


@pytest.mark.parametrize(("code", "statement", "sequence"), SEVERAL)
def test_a_row_that_was_altered_is_named_and_its_neighbours_stay_healthy(
    controller, sessions, code, statement, sequence
):
    damage(controller, statement, f"{sessions[1]}-{sequence:06d}")
    found = {verdict.subject: verdict for verdict in verify(controller, NOWHERE, None).sessions}
    assert found[sessions[0]].is_healthy
    assert not found[sessions[1]].is_healthy
    assert code in codes(found[sessions[1]])
    assert not verify(controller, NOWHERE, sessions[1]).is_healthy
    assert verify(controller, NOWHERE, sessions[0]).is_healthy


AROUND = [
    ("session_altered", "UPDATE sessions SET kind = 'worker' WHERE label = 'watched'"),
    ("head_altered", "UPDATE session_heads SET next_sequence = 99 WHERE session_id = ?"),
    ("head_altered", "UPDATE session_heads SET active_entry_id = session_id || '-000001' WHERE session_id = ?"),
    ("head_missing", "DELETE FROM session_heads WHERE session_id = ?"),
    ("session_missing", "DELETE FROM sessions WHERE id = ?"),
    ("event_missing", "DELETE FROM audit_events WHERE chain_id = ? AND ordinal >= 3"),
    ("event_missing", "DELETE FROM audit_events WHERE chain_id = ?"),
    ("event_altered", "UPDATE audit_events SET event_type = 'head.moved' WHERE chain_id = ? AND ordinal = 2"),
    ("state_altered", "UPDATE repository_states SET state = replace(state, 'main', 'mian')"),
    ("state_missing", "DELETE FROM repository_states"),
    ("state_altered", "UPDATE manifest_pages SET body = substr(body, 2)"),
]


@pytest.mark.parametrize(("code", "statement"), AROUND)
def test_what_lies_around_the_entries_is_checked_as_well(controller, sessions, code, statement):
    damage(controller, statement, *([sessions[1]] if "?" in statement else []))
    found = {verdict.subject: verdict for verdict in verify(controller, NOWHERE, None).sessions}
    assert found[sessions[0]].is_healthy
    assert code in codes(found[sessions[1]])


def test_fc_64_a_session_removed_with_its_entries_is_seen_by_its_chain(controller, sessions):
    for table in ("entry_labels", "session_heads", "session_entries"):
        damage(controller, f"DELETE FROM {table} WHERE session_id = ?", sessions[1])
    damage(controller, "DELETE FROM sessions WHERE id = ?", sessions[1])
    found = verify(controller, NOWHERE, None)
    assert [verdict.subject for verdict in found.chains if not verdict.is_healthy] == [sessions[1]]
    assert codes(found.chains[0]) == {"session_missing"}


def test_a_cut_that_left_everything_consistent_is_seen_by_a_sealed_root(controller, sessions):
    sealed = read_root(controller, NOWHERE, sessions[1])
    last = f"{sessions[1]}-{sealed.sequence:06d}"
    damage(controller, "DELETE FROM session_entries WHERE id = ?", last)
    damage(controller, "UPDATE session_heads SET next_sequence = next_sequence - 1 WHERE session_id = ?", sessions[1])
    (verdict,) = verify(controller, NOWHERE, sessions[1]).sessions
    assert "root_altered" in codes(verdict)


def test_the_origin_of_a_fork_is_checked(controller, sessions):
    origin = f"{sessions[1]}-000002"
    fork = controller.recorder.fork(origin, NewSession(parent_session_id=sessions[1], parent_relation="forked"))
    assert verify(controller, NOWHERE, fork.id).is_healthy
    damage(controller, "UPDATE session_entries SET entry_hash = ? WHERE id = ?", "0" * 64, origin)
    (verdict,) = verify(controller, NOWHERE, fork.id).sessions
    assert codes(verdict) == {"origin_altered"}


def test_a_tree_without_a_root_has_no_hash(controller, sessions):
    damage(controller, "DELETE FROM session_entries WHERE id = ?", f"{sessions[1]}-000000")
    with pytest.raises(TreeUnsound):
        read_root(controller, NOWHERE, sessions[1])


def test_an_unknown_session_is_a_typed_error(controller):
    with pytest.raises(SessionNotFound):
        verify(controller, NOWHERE, "nope")


def test_thousands_of_findings_are_counted_and_not_all_listed(controller):
    session = controller.recorder.create_session(NewSession())
    for number in range(130):
        controller.recorder.append_now(session.id, EntryDraft(kind="note", payload={"text": str(number)}))
    damage(controller, "UPDATE session_entries SET payload = payload || ' '")
    (verdict,) = verify(controller, NOWHERE, session.id).sessions
    assert verdict.report.problems == 131
    assert len(verdict.report.findings) == 100
