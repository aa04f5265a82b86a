"""The log over all events: exact whenever it is read, and anchored where a cut tail is seen."""

from __future__ import annotations

import os
from hashlib import sha256

import pytest
from sqlalchemy import delete, update

from bridge.control.checks.anchoring import (
    anchor_file,
    anchor_in_repository,
    anchor_log,
    bring_log_up,
    known_anchors,
    read_anchor,
)
from bridge.control.checks.upkeep import copy_store_to
from bridge.control.checks.verification import PARTS, read_root, verify
from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.commits import read_ref
from bridge.git.repository import discover
from bridge.integrity.errors import AnchorDamaged, AnchorNotReached, InvalidLogRoot, LogUnsound
from bridge.integrity.log import leaves, store
from bridge.integrity.log.merkle import log_leaf, proves_consistency, proves_inclusion
from bridge.storage.tables import log_leaves
from tests.databases import behind, unguarded

NOWHERE = Standpoint()


@pytest.fixture
def session(controller):
    """A session of ten events, beside another one."""
    other = controller.recorder.create_session(NewSession(label="other")).id
    session = controller.recorder.create_session(NewSession(label="watched")).id
    say(controller, session, 9)
    say(controller, other, 1)
    return session


def say(controller, session, times=1):
    for _ in range(times):
        controller.recorder.append_now(session, EntryDraft(kind="note", payload={"text": "x"}))


def mth(data):
    """MTH of RFC 9162, as it is written."""
    if len(data) < 2:
        return sha256(b"\x00" + data[0]).digest() if data else sha256(b"").digest()
    k = 1 << (len(data) - 1).bit_length() - 1
    return sha256(b"\x01" + mth(data[:k]) + mth(data[k:])).digest()


def events_of(controller):
    with controller.store.read() as connection:
        return [bytes.fromhex(event.event_hash) for event in store.ordered_events(connection, 0)]


def cut(controller, session, condition):
    """Take events away, with their entries and head, so that what is left agrees with itself."""
    with unguarded(controller.store.url) as connection:
        ordinal, entry = f"chain_id = '{session}' AND ordinal", f"session_id = '{session}' AND sequence"
        connection.execute(f"DELETE FROM audit_events WHERE {ordinal} {condition}", ())
        connection.execute(f"DELETE FROM event_order WHERE {ordinal} {condition}", ())
        connection.execute("DELETE FROM log_leaves", ())
        connection.execute(f"DELETE FROM session_entries WHERE {entry} {condition}", ())
        rows = connection.execute(f"SELECT max(sequence) FROM session_entries WHERE session_id = '{session}'", ())
        (last,) = rows.fetchone()
        if last is not None:
            # Each event was that of an entry, so the last one that is left tells when the head moved last.
            moment = "(SELECT max(created_at) FROM audit_events WHERE chain_id = session_id)"
            connection.execute(
                f"UPDATE session_heads SET active_entry_id = ?, next_sequence = ?, updated_at = {moment}"
                " WHERE session_id = ?",
                (f"{session}-{last:06d}", last + 1, session),
            )


def codes(verdict):
    return {finding.code for finding in verdict.report.findings}


def test_roots_and_proofs_are_those_of_the_recursive_definition(controller, session):
    sizes = {}
    for _ in range(5):
        say(controller, session, 3)
        log = bring_log_up(controller)
        data = events_of(controller)
        assert log == leaves.LogRoot(len(data), mth(data).hex())
        sizes[log.size] = bytes.fromhex(log.root)
    last, root = max(sizes.items())
    with controller.store.read() as connection:
        for leaf, item in enumerate(data):
            proof = leaves.inclusion_proof(connection, leaf, last)
            assert proves_inclusion(log_leaf(item), leaf, last, proof, root)
        for size, earlier in sizes.items():
            assert leaves.root_at(connection, size).root == earlier.hex()
            proof = leaves.consistency_proof(connection, size, last)
            assert proves_consistency(size, earlier, last, root, proof)
        assert store.leaf_of(connection, session, 0) == 1
        with pytest.raises(LogUnsound, match="never had 99"):
            leaves.root_at(connection, 99)


def test_leaves_are_dropped_and_made_anew(controller, session):
    before = bring_log_up(controller)
    controller.store.write(store.clear_leaves)
    assert bring_log_up(controller) == before
    # After a crash between two transactions the next reader goes on.
    controller.store.write(store.clear_leaves)
    assert not controller.store.write(lambda tx: leaves.catch_up(tx, 5))
    assert bring_log_up(controller) == before
    assert verify(controller, NOWHERE, None).is_healthy


def test_appending_writes_no_leaf(controller, session):
    with controller.store.read() as connection:
        assert store.last_leaf(connection) == (0, 0)
    assert verify(controller, NOWHERE, None).log.log.size == len(events_of(controller))
    with controller.store.read() as connection:
        assert store.last_leaf(connection) == (0, 0)


def test_reading_a_root_anchors_the_log(controller, session):
    assert read_anchor(controller) is None
    read_root(controller, NOWHERE, session)
    kept = read_anchor(controller)
    assert kept.log == bring_log_up(controller)
    assert anchor_file(controller).stat().st_mode & 0o077 == 0o044
    assert anchor_file(controller).parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in anchor_file(controller).parent.iterdir()] == [anchor_file(controller).name]


@pytest.mark.parametrize("condition", ["> 6", ">= 0", "= 0"], ids=["the last three", "all", "the first"])
def test_fc_64_events_that_were_cut_off_are_missed(controller, session, condition):
    assert verify(controller, NOWHERE, None).is_healthy
    cut(controller, session, condition)
    found = verify(controller, NOWHERE, None)
    assert "anchor_not_reached" in codes(found.log)
    assert str(anchor_file(controller)) in {finding.subject for finding in found.log.report.findings}
    # The session itself agrees with itself again, but for the one that lost its beginning.
    # (With all of it gone nothing in the store speaks of it any more.)
    left = [verdict for verdict in found.sessions if verdict.subject == session]
    assert all(verdict.is_healthy == (condition == "> 6") for verdict in left)
    with pytest.raises(AnchorNotReached):
        anchor_log(controller)
    assert not verify(controller, NOWHERE, None).is_healthy


def test_an_anchor_is_given_up_only_on_request(controller, session):
    anchor_log(controller)
    cut(controller, session, "> 6")
    read_root(controller, NOWHERE, session)
    assert "anchor_not_reached" in codes(verify(controller, NOWHERE, None).log)
    anchor_log(controller, replace=True)
    assert verify(controller, NOWHERE, None).is_healthy


def test_events_that_replaced_those_that_were_cut_off_are_not_the_anchored_ones(controller, session):
    anchor_log(controller)
    cut(controller, session, "> 6")
    say(controller, session, 5)
    assert codes(verify(controller, NOWHERE, None, only=["log"]).log) == {"anchor_differs"}
    with pytest.raises(AnchorNotReached):
        anchor_log(controller)


def test_a_later_anchor_is_not_replaced_by_an_earlier_one(controller, session):
    first = anchor_log(controller)
    say(controller, session)
    assert anchor_log(controller).log.size == first.log.size + 1
    assert verify(controller, NOWHERE, None).is_healthy
    say(controller, session)
    assert verify(controller, NOWHERE, None).log.log.size == read_anchor(controller).log.size


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"root":"xyz","size":3}', b'{"root":5}'])
def test_a_damaged_anchor_is_named(controller, session, text):
    anchor_log(controller)
    anchor_file(controller).write_bytes(text)
    assert codes(verify(controller, NOWHERE, None).log) == {"anchor_damaged"}
    with pytest.raises(AnchorDamaged):
        anchor_log(controller)
    read_root(controller, NOWHERE, session)
    assert anchor_file(controller).read_bytes() == text
    anchor_log(controller, replace=True)
    assert verify(controller, NOWHERE, None).is_healthy


def test_an_anchor_in_a_repository_sees_what_the_state_directory_forgot(controller, session, repository):
    from bridge.workspaces.registration import register

    location = discover(repository.path)
    controller.store.write(lambda tx: register(tx, location, moment=controller.now()))
    before = repository.git("status", "--porcelain", "--branch")
    anchor = anchor_log(controller)
    ref = anchor_in_repository(controller, location, anchor.log)
    first = read_ref(location, ref)
    say(controller, session)
    second = anchor_log(controller)
    assert anchor_in_repository(controller, location, second.log) == ref
    assert repository.git("rev-list", "--count", ref).strip() == "2"
    assert repository.git("rev-parse", f"{ref}^").strip() == first
    assert repository.git("ls-tree", ref) == ""
    assert repository.git("status", "--porcelain", "--branch") == before
    assert {found.log for found in known_anchors(controller)} == {second.log}
    assert verify(controller, NOWHERE, None).is_healthy
    anchor_file(controller).unlink()
    cut(controller, session, "> 6")
    found = verify(controller, NOWHERE, None)
    assert codes(found.log) == {"anchor_not_reached"}
    assert ref in found.log.report.findings[0].subject


def test_a_log_without_events_is_not_anchored_in_a_repository(controller, repository):
    assert anchor_in_repository(controller, discover(repository.path), anchor_log(controller).log) is None
    assert verify(controller, NOWHERE, None).is_healthy


def test_growth_is_proven(controller, session):
    earlier = str(bring_log_up(controller))
    say(controller, session, 20)
    found = verify(controller, NOWHERE, None, since=earlier)
    assert found.is_healthy
    assert found.log.growth.is_proven
    assert found.log.to_json()["since"]["proof"]
    same = verify(controller, NOWHERE, session, only=["tree"], since=str(found.log.log))
    assert same.is_healthy
    assert same.log.growth.proof == ()


def test_what_never_was_is_not_extended(controller, session):
    log = bring_log_up(controller)
    for size, root in ((log.size - 1, log.root), (log.size, "0" * 64), (log.size + 1, log.root), (0, log.root)):
        found = verify(controller, NOWHERE, None, only=["log"], since=f"{root}/{size}")
        assert codes(found.log) == {"log_not_extended"}
        assert not found.log.growth.is_proven
    for text in ("", "x/1", log.root, f"{log.root}/", f"{log.root}/-1", f"{log.root}/{'9' * 19}"):
        with pytest.raises(InvalidLogRoot):
            verify(controller, NOWHERE, None, since=text)


def test_altered_and_missing_leaves_are_named(controller, session):
    bring_log_up(controller)
    controller.store.write(lambda tx: tx.execute(update(log_leaves).where(log_leaves.c.leaf == 5).values(ordinal=77)))
    found = verify(controller, NOWHERE, None)
    assert [(finding.code, finding.subject) for finding in found.log.report.findings] == [("leaf_altered", "log#5")]
    assert all(verdict.is_healthy for verdict in found.sessions)
    controller.store.write(lambda tx: tx.execute(delete(log_leaves).where(log_leaves.c.leaf == 7)))
    with pytest.raises(LogUnsound, match="leaf 7"):
        bring_log_up(controller)
    earlier = f"{'0' * 64}/3"
    assert "leaf_missing" in codes(verify(controller, NOWHERE, None, since=earlier).log)


def test_an_altered_event_is_one_altered_leaf(controller, session):
    bring_log_up(controller)
    with unguarded(controller.store.url) as connection:
        connection.execute(
            "UPDATE audit_events SET event_hash = ? WHERE chain_id = ? AND ordinal = 4", ("0" * 64, session)
        )
    found = verify(controller, NOWHERE, None, only=["log"])
    assert codes(found.log) == {"leaf_altered"}
    assert found.log.report.problems == 1
    assert found.sessions == found.chains == ()


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM event_order WHERE ordinal = 3", "event_unplaced"),
        ("DELETE FROM audit_events WHERE ordinal = 9", "event_missing"),
        ("UPDATE audit_events SET event_hash = 'zz' WHERE ordinal = 9", "event_missing"),
    ],
)
def test_the_order_and_the_events_belong_together(controller, session, statement, code):
    with unguarded(controller.store.url) as connection:
        connection.execute(statement, ())
    assert code in codes(verify(controller, NOWHERE, None, only=["log"]).log)
    if code == "event_missing":
        with pytest.raises(LogUnsound):
            bring_log_up(controller)


def test_events_are_gone_that_had_leaves(controller, session):
    bring_log_up(controller)
    with unguarded(controller.store.url) as connection:
        connection.execute("DELETE FROM event_order WHERE chain_id = ? AND ordinal = 9", (session,))
        connection.execute("DELETE FROM audit_events WHERE chain_id = ? AND ordinal = 9", (session,))
    assert "leaf_without_event" in codes(verify(controller, NOWHERE, None, only=["log"]).log)


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_looked_at_on_their_own(controller, session, part):
    with unguarded(controller.store.url) as connection:
        connection.execute("UPDATE session_entries SET payload = '{}' WHERE sequence = 5", ())
        connection.execute("UPDATE session_heads SET next_sequence = 99 WHERE session_id = ?", (session,))
    found = verify(controller, NOWHERE, None, only=[part])
    seen = set().union(*(codes(verdict) for verdict in found.sessions))
    assert seen == {"tree": {"payload_altered"}, "chain": {"head_altered"}}.get(part, set())
    assert (found.log is not None) == (part == "log")
    assert (found.index is not None) == (part == "index")
    assert bool(found.sessions) == (part not in ("log", "index"))


def test_of_one_session_only_what_is_about_it_is_looked_at(controller, session):
    found = verify(controller, NOWHERE, session)
    assert found.log is None
    assert found.index is None
    asked = verify(controller, NOWHERE, session, only=["log"])
    assert asked.log.is_healthy
    assert asked.sessions == ()


def test_a_copy_has_the_same_log(controller, session, tmp_path):
    before = anchor_log(controller)
    url = f"sqlite:///{tmp_path}/copy/copy.db"
    copied = copy_store_to(controller, url)
    assert copied.verification.is_healthy
    assert copied.verification.log.log == before.log


@pytest.mark.one_database("the index is a table of SQLite's own")
def test_fc_61_an_index_out_of_step_is_reported_and_rebuilt(bridge_home):
    from bridge.control.checks.upkeep import check_store
    from bridge.control.search.indexing import catch_up

    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as controller:
        session = controller.recorder.create_session(NewSession()).id
        controller.recorder.append_now(session, EntryDraft(kind="user.message", payload={"text": "needle"}))
        assert catch_up(controller)
        assert verify(controller, NOWHERE, None).index.is_healthy
        with behind(controller.store.url) as connection:
            connection.execute("DELETE FROM recall_documents")
        found = verify(controller, NOWHERE, None)
        assert codes(found.index) == {"index_damaged"}
        assert all(verdict.is_healthy for verdict in found.sessions)
        check_store(controller)
        assert verify(controller, NOWHERE, None).is_healthy
