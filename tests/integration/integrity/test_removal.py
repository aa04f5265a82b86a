"""Erasing what an entry says and removing whole sessions, on real stores: gone from every byte, and provably so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.engine import make_url

from bridge.control.checks.proving import prove_entry
from bridge.control.checks.verification import read_root, verify
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation, DelegationStatus, Request
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.importing import import_session
from bridge.control.reading.sessions import read_entry
from bridge.control.removal.erasing import erase
from bridge.control.removal.pruning import Kept, prune
from bridge.control.search.recalling import recall
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import EraseRefused, SessionRemoved
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.paths import active_path
from bridge.conversations.references import require_entry
from bridge.conversations.store import session_exists
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.integrity.log.leaves import LogRoot
from bridge.integrity.store import iterate_events, last_position
from bridge.storage.errors import RowRefused
from bridge.storage.packing import unpacked
from bridge.storage.tables import import_chunks, import_sessions, import_sources, task_messages
from tests.databases import unguarded

NOWHERE = Standpoint()
SECRET = "hunter2-correcthorse-battery"


@pytest.fixture
def on_file(bridge_home):
    settings = load_settings({"BRIDGE_HOME": str(bridge_home)})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as opened:
        yield opened


@pytest.fixture
def talk(controller):
    return Talk(controller, "talk")


class Talk:
    def __init__(self, controller, label, **new):
        self.controller = controller
        self.session = controller.recorder.create_session(NewSession(label=label, **new)).id

    def say(self, text, kind="user.message", **payload):
        draft = EntryDraft(kind=kind, payload={"text": text, **payload} if kind != "worker.result" else payload)
        return self.controller.recorder.append_now(self.session, draft)

    def entry(self, entry_id):
        with self.controller.store.read() as connection:
            return require_entry(connection, entry_id)

    def events(self):
        with self.controller.store.read() as connection:
            return list(iterate_events(connection, self.session))


def verdict_of(controller, session_id):
    found = verify(controller, NOWHERE, None)
    assert found.is_healthy, found.to_json()
    return next(one for one in (*found.sessions, *found.chains) if one.subject == session_id)


def hits_of(controller, query, session_id):
    return recall(controller, NOWHERE, session_id, query).hits


def files_with(home: Path, needle: str):
    return [str(path) for path in home.rglob("*") if path.is_file() and needle.encode() in path.read_bytes()]


@pytest.mark.parametrize("length", [1, 3000])
def test_what_was_erased_is_gone_and_every_hash_stays(controller, talk, length):
    before = talk.say("before")
    entry = talk.say(f"the word is {SECRET} " * length)
    after = talk.say("after")
    root = read_root(controller, NOWHERE, talk.session).session_root
    assert hits_of(controller, "correcthorse", talk.session)
    done = erase(controller, NOWHERE, entry.id)
    assert (done.entry_id, done.matches, done.also_in) == (entry.id, None, ())
    erased = talk.entry(entry.id)
    assert SECRET not in erased.payload_text
    assert (erased.payload_hash, erased.entry_hash) == (entry.payload_hash, entry.entry_hash)
    assert not hits_of(controller, "correcthorse", talk.session)
    assert hits_of(controller, "before", talk.session)
    assert read_root(controller, NOWHERE, talk.session).session_root == root
    verdict = verdict_of(controller, talk.session)
    assert verdict.report.withheld == 1
    assert verdict.to_json()["status"] == "healthy"
    with controller.store.read() as connection:
        assert [one.id for one in active_path(connection, talk.session)] == [before.id, entry.id, after.id]
    assert read_entry(controller, NOWHERE, entry.id).to_json()["payload"] == {"withheld": True}


@pytest.mark.one_database("on PostgreSQL its owner rewrites the files, which the answer says")
def test_no_byte_of_it_is_left_in_the_database_file(on_file, bridge_home):
    talk = Talk(on_file, "talk")
    entry = talk.say(f"the word is {SECRET}")
    long_one = talk.say(SECRET * 2000)
    hits_of(on_file, "correcthorse", talk.session)
    assert files_with(bridge_home, SECRET)
    assert files_with(bridge_home, "correcthorse")
    assert erase(on_file, NOWHERE, entry.id).not_scrubbed is None
    assert erase(on_file, NOWHERE, long_one.id).not_scrubbed is None
    assert not files_with(bridge_home, SECRET)
    # The index keeps words, not texts: none of them either.
    assert not files_with(bridge_home, "correcthorse")


@pytest.mark.one_database("a snapshot that is open keeps SQLite from clearing its log")
def test_it_says_so_when_the_files_cannot_be_cleared(on_file, monkeypatch):
    monkeypatch.setattr(on_file.store, "_busy_timeout_seconds", 0.2)
    talk = Talk(on_file, "talk")
    entry = talk.say(SECRET)
    with on_file.store.read() as connection:
        last_position(connection)
        done = erase(on_file, NOWHERE, entry.id)
    assert done.not_scrubbed is not None
    assert SECRET not in talk.entry(entry.id).payload_text


@pytest.mark.one_database("PostgreSQL's owner is named instead")
def test_on_postgresql_the_owner_is_named(postgresql_server, bridge_home):
    from tests.databases import TEMPLATE

    with postgresql_server.database(TEMPLATE) as url:
        settings = load_settings({"BRIDGE_HOME": str(bridge_home), "BRIDGE_DATABASE_URL": url})
        with Controller(settings, clock=SystemClock(), environment=os.environ) as controller:
            talk = Talk(controller, "talk")
            assert "VACUUM FULL" in str(erase(controller, NOWHERE, talk.say(SECRET).id).not_scrubbed)


def test_a_pattern_masks_what_it_matches_and_no_more(controller, talk):
    entry = talk.say(f"first {SECRET}, then hunter2-other", provider_meta={"note": f"see {SECRET}"})
    done = erase(controller, NOWHERE, entry.id, pattern=r"hunter2-\w+-\w+")
    assert done.matches == 2
    erased = talk.entry(entry.id)
    assert erased.payload == {
        "text": "first [withheld], then hunter2-other",
        "provider_meta": {"note": "see [withheld]"},
    }
    assert hits_of(controller, "first", talk.session)
    again = erase(controller, NOWHERE, entry.id, pattern="hunter2-other")
    assert again.matches == 1
    assert verdict_of(controller, talk.session).report.withheld == 1
    assert [one.event_type for one in talk.events()].count("entry.erased") == 2


@pytest.mark.parametrize(("pattern", "message"), [("nothing-like-it", "does not hold"), ("(", "no regular expression")])
def test_a_pattern_that_matches_nothing_changes_nothing(controller, talk, pattern, message):
    entry = talk.say("words")
    before = len(talk.events())
    with pytest.raises(EraseRefused, match=message):
        erase(controller, NOWHERE, entry.id, pattern=pattern)
    assert len(talk.events()) == before
    assert talk.entry(entry.id).payload_text == entry.payload_text


def test_a_root_is_not_erased_and_nothing_twice(controller, talk):
    entry = talk.say("words")
    with pytest.raises(EraseRefused, match="root"):
        erase(controller, NOWHERE, f"{talk.session}-000000")
    erase(controller, NOWHERE, entry.id)
    with pytest.raises(EraseRefused, match="already"):
        erase(controller, NOWHERE, entry.id)


def test_other_entries_with_the_same_text_are_named_until_they_are_erased(controller, talk):
    other = Talk(controller, "other")
    first, second = talk.say(SECRET * 1000), other.say(SECRET * 1000)
    assert erase(controller, NOWHERE, first.id).also_in == (second.id,)
    assert talk.entry(second.id).payload_text == second.payload_text
    assert erase(controller, NOWHERE, second.id).also_in == ()
    assert verify(controller, NOWHERE, None).is_healthy


def test_raw_texts_of_a_task_and_files_of_its_folder_go_as_well(controller, talk, bridge_home):
    moment = controller.now()
    delegation = Delegation(
        id="d" + "0" * 12,
        plan_id=None,
        name="t",
        parent_session_id=talk.session,
        status=DelegationStatus.COMPLETED,
        request=Request(name="t", objective=f'use "{SECRET}" there'),
        created_at=moment,
        updated_at=moment,
    )

    def write(tx):
        rows.add_delegation(tx.connection, delegation)
        tx.execute(
            task_messages.insert().values(
                delegation_id=delegation.id, number=1, text=f"use {SECRET}", entry_id="e", sent_at=moment
            )
        )

    controller.store.write(write)
    folder = controller.settings.tasks / delegation.id
    folder.mkdir(parents=True)
    (folder / "stdout").write_text(f"it printed {SECRET}\n")
    (folder / "result.json").write_text(json.dumps({"summary": f"{SECRET}\n"}))
    entry = talk.say(SECRET)
    done = erase(controller, NOWHERE, entry.id)
    assert done.raw_texts == 4
    with controller.store.read() as connection:
        request = rows.require_delegation(connection, delegation.id).request
    assert request.objective == 'use "[withheld]" there'
    assert not files_with(folder, SECRET)
    assert json.loads((folder / "result.json").read_text()) == {"summary": "[withheld]\n"}
    # With the session goes all that hangs on its tasks.
    assert prune(controller, keep=0).removed == (talk.session,)
    assert not folder.exists()
    assert verify(controller, NOWHERE, None).is_healthy


def test_kept_lines_of_the_transcript_that_it_came_from_go_as_well(controller, talk):
    lines = [{"text": "before"}, {"text": f'say "{SECRET}" \u00fc'}, {"text": "after"}]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    entry = talk.say(f'say "{SECRET}" \u00fc')
    moment = controller.now()

    def write(tx):
        tx.execute(
            import_sources.insert().values(
                id="s1",
                format="claude-code",
                native_id="n1",
                size=len(body),
                line_count=3,
                digest="0" * 64,
                is_redacted=1,
                created_at=moment,
                updated_at=moment,
                state="{}",
            )
        )
        tx.execute(
            import_chunks.insert().values(
                source_id="s1",
                number=0,
                first_line=1,
                line_count=3,
                byte_offset=0,
                size=len(body),
                digest="0" * 64,
                changed_lines=0,
                body=zlib.compress(body),  # as it was written before zstd
            )
        )
        tx.execute(
            import_sessions.insert().values(
                format="claude-code", native_id="n1", session_id=talk.session, created_at=moment, updated_at=moment
            )
        )

    def chunks():
        with controller.store.read() as connection:
            return connection.execute(select(import_chunks.c.body, import_chunks.c.changed_lines)).all()

    controller.store.write(write)
    assert erase(controller, NOWHERE, entry.id).raw_texts == 1
    ((kept, changed),) = chunks()
    assert changed == 1
    assert [json.loads(line)["text"] for line in unpacked(bytes(kept)).splitlines()] == [
        "before",
        "[withheld]",
        "after",
    ]
    prune(controller, keep=0)
    assert chunks() == []


@pytest.mark.one_database("backups beside the store are files")
def test_backups_that_still_hold_it_are_named(on_file, bridge_home):
    talk = Talk(on_file, "talk")
    from bridge.storage.backend import file_of
    from bridge.storage.backup import back_up

    entry, other = talk.say(SECRET), talk.say("harmless")
    database = file_of(on_file.settings.database_url)
    backup = database.with_name(f"{database.name}.x.backup")
    back_up(database, backup, timeout_seconds=5)
    assert erase(on_file, NOWHERE, entry.id).backups == (str(backup),)
    later = database.with_name(f"{database.name}.y.backup")
    back_up(database, later, timeout_seconds=5)
    assert erase(on_file, NOWHERE, other.id).backups == (str(backup), str(later))
    broken = database.with_name(f"{database.name}.z.backup")
    broken.write_bytes(b"no database")
    found = prune(on_file, keep=0)
    assert found.removed == (talk.session,)
    assert set(found.backups) == {str(backup), str(later), str(broken)}


def test_an_erased_result_is_evidence_no_more(controller, talk):
    from bridge.control.delegations.evidence import resolve_evidence
    from bridge.control.errors import ReferenceInvalidResult, ReferenceNotAResult

    payload = {"delegation_id": "d" + "0" * 12, "status": "completed", "summary": f"done with {SECRET}"}
    whole, part = (talk.say("", "worker.result", **payload) for _ in range(2))
    erase(controller, NOWHERE, part.id, pattern=SECRET)
    erase(controller, NOWHERE, whole.id)
    with controller.store.read() as connection:
        with pytest.raises(ReferenceInvalidResult, match="erased"):
            resolve_evidence(connection, talk.session, part.id)
        with pytest.raises((ReferenceNotAResult, ReferenceInvalidResult)):
            resolve_evidence(connection, talk.session, whole.id)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ('UPDATE session_entries SET payload = \'{"text":"made up"}\' WHERE id = :entry', "payload_altered"),
        ("DELETE FROM withheld_entries WHERE entry_id = :entry", "tombstone_altered"),
        ("UPDATE withheld_entries SET tombstone_hash = payload_hash WHERE entry_id = :entry", "tombstone_altered"),
    ],
)
def test_a_tombstone_cannot_be_made_up(controller, talk, statement, code):
    entry = talk.say(SECRET)
    erase(controller, NOWHERE, entry.id)
    with unguarded(make_url(controller.settings.database_url)) as raw:
        raw.execute(statement.replace(":entry", f"'{entry.id}'"))
    found = verify(controller, NOWHERE, talk.session)
    assert code in {finding.code for finding in found.sessions[0].report.findings}


def test_without_a_tombstone_neither_a_payload_nor_a_row_can_be_changed(controller, talk):
    entry = talk.say("words")
    for statement in (
        f"UPDATE session_entries SET payload = '{{}}' WHERE id = '{entry.id}'",
        f"DELETE FROM session_entries WHERE session_id = '{talk.session}'",
    ):
        with pytest.raises(RowRefused):
            controller.store.write(lambda tx, one=statement: tx.connection.exec_driver_sql(one).rowcount)
    erase(controller, NOWHERE, entry.id)
    with pytest.raises(RowRefused):
        controller.store.write(
            lambda tx: (
                tx.connection.exec_driver_sql(
                    f"UPDATE session_entries SET kind = 'note' WHERE id = '{entry.id}'"
                ).rowcount
            )
        )


# Removing sessions


def test_the_chats_touched_last_stay(controller):
    talks = [Talk(controller, f"t{number}") for number in range(4)]
    for number in (2, 0, 3, 1):
        talks[number].say("words")
    would = prune(controller, keep=2, dry_run=True)
    assert would.is_dry_run
    assert set(would.removed) == {talks[2].session, talks[0].session}
    with controller.store.read() as connection:
        assert all(session_exists(connection, talk.session) for talk in talks)
        places = last_position(connection)
    done = prune(controller, keep=2)
    assert (set(done.removed), done.entries, done.kept) == (set(would.removed), 4, ())
    with controller.store.read() as connection:
        assert [session_exists(connection, talk.session) for talk in talks] == [False, True, False, True]
        assert last_position(connection) > places
    assert prune(controller, keep=2).removed == ()


def test_of_a_removed_session_the_chain_stays_and_says_so(controller, talk):
    entry = talk.say(SECRET)
    hits_of(controller, "correcthorse", talk.session)
    root = read_root(controller, NOWHERE, talk.session).session_root
    log = verify(controller, NOWHERE, None).log.log
    events = len(talk.events())
    assert prune(controller, keep=0).removed == (talk.session,)
    verdict = verdict_of(controller, talk.session)
    assert verdict.is_removed
    assert verdict.to_json()["status"] == "removed"
    body = json.loads(talk.events()[-1].body)
    assert (body["event_type"], body["body"]["session_root"]) == ("session.removed", root)
    assert len(talk.events()) == events + 1
    # The log of all events goes on from where it was.
    grown = verify(controller, NOWHERE, None, since=str(LogRoot(log.size, log.root)))
    assert grown.is_healthy
    assert grown.log.growth.is_proven
    with pytest.raises(RowRefused, match="removed"):
        controller.recorder.create_session(NewSession(id=talk.session))
    assert entry.id.startswith(talk.session)


@pytest.mark.one_database("on PostgreSQL its owner rewrites the files, which the answer says")
def test_no_byte_of_a_removed_session_is_left(on_file, bridge_home):
    talk = Talk(on_file, "talk")
    talk.say(SECRET)
    talk.say(SECRET * 2000)
    hits_of(on_file, "correcthorse", talk.session)
    assert prune(on_file, keep=0).not_scrubbed is None
    assert not files_with(bridge_home, "correcthorse")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DELETE FROM removed_sessions", "session_missing"),
        ("UPDATE removed_sessions SET event_hash = session_root", "session_missing"),
        ("DELETE FROM audit_events WHERE event_type = 'session.removed'", "session_missing"),
        ("DELETE FROM audit_events", "events_missing"),
    ],
)
def test_a_removal_cannot_be_made_up(controller, talk, statement, code):
    talk.say("words")
    prune(controller, keep=0)
    with unguarded(make_url(controller.settings.database_url)) as raw:
        raw.execute(statement)
    found = verify(controller, NOWHERE, None, only=("chain",))
    assert code in {finding.code for verdict in found.chains for finding in verdict.report.findings}


def test_what_others_stand_on_stays(controller, talk):
    shared = talk.say("shared")
    result = talk.say("", "worker.result", delegation_id="d" + "1" * 12, status="completed", summary="x")
    fork = controller.recorder.fork(shared.id, NewSession(label="fork"))
    cited, writing, damaged, alone = (Talk(controller, name) for name in ("cited", "writing", "damaged", "alone"))
    cited.say("", "worker.result", delegation_id="d" + "2" * 12, status="completed", summary="x")
    bad = damaged.say("words")
    writing.say("words")
    controller.recorder.transact(lambda recording: recording.open_cursor(writing.session, "turn"))
    moment = controller.now()
    keeper = Talk(controller, "keeper")
    delegation = Delegation(
        id="d" + "3" * 12,
        plan_id=None,
        name="t",
        parent_session_id=keeper.session,
        status=DelegationStatus.COMPLETED,
        request=Request(name="t", objective="x", evidence=(f"{cited.session}-000001",)),
        created_at=moment,
        updated_at=moment,
    )
    controller.store.write(lambda tx: rows.add_delegation(tx.connection, delegation))
    keeper.say("words")
    with unguarded(make_url(controller.settings.database_url)) as raw:
        raw.execute(f"UPDATE session_entries SET payload = '{{\"text\":\"y\"}}' WHERE id = '{bad.id}'")
    controller.recorder.append_now(fork.id, EntryDraft(kind="user.message", payload={"text": "newest"}))
    done = prune(controller, keep=2)
    assert done.removed == (alone.session,)
    assert {one.session_id: one.reason for one in done.kept} == {
        talk.session: Kept.FORKED_FROM,
        cited.session: Kept.CITED,
        writing.session: Kept.OPEN,
        damaged.session: Kept.UNVERIFIED,
    }
    assert result.id.startswith(talk.session)
    # With its fork gone as well, it may go.
    assert set(prune(controller, keep=0).removed) == {fork.id, talk.session, keeper.session, cited.session}


def test_the_sessions_of_workers_go_with_their_chat(controller, talk):
    talk.say("words")
    worker = Talk(controller, "w", kind="worker", parent_session_id=talk.session, parent_relation="delegated")
    worker.say("work")
    later = Talk(controller, "later", parent_session_id=talk.session, parent_relation="continued")
    later.say("words")
    done = prune(controller, keep=1)
    assert set(done.removed) == {talk.session, worker.session}
    assert verify(controller, NOWHERE, None).is_healthy


def test_a_removed_session_is_not_taken_in_again(controller, talk, tmp_path):
    talk.say("words")
    with (tmp_path / "f").open("wb") as target:
        export_session(controller, NOWHERE, ExportRequest(session=talk.session), target.write)
    prune(controller, keep=0)
    with (tmp_path / "f").open("rb") as source, pytest.raises(SessionRemoved):
        import_session(controller, source)


def test_somebody_without_the_store_can_check_what_is_left_of_it(controller, talk, tmp_path):
    talk.say("before")
    whole, part = talk.say(SECRET), talk.say(f"say {SECRET} twice")
    erase(controller, NOWHERE, whole.id)
    erase(controller, NOWHERE, part.id, pattern=SECRET)
    verifier = Path(__file__).parents[3] / "docs" / "verifier" / "bridge_verifier.py"
    files = [tmp_path / "session", tmp_path / "whole", tmp_path / "part"]
    with files[0].open("wb") as target:
        export_session(controller, NOWHERE, ExportRequest(session=talk.session), target.write)
    for path, entry in zip(files[1:], (whole, part), strict=True):
        bundle = prove_entry(controller, NOWHERE, entry.id).value
        assert bundle["entry"]["payload_text"] is None
        path.write_bytes(canonical_bytes(bundle))
    for path in files:
        ran = subprocess.run([sys.executable, verifier, path], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    # A mark that nothing was erased for is none.
    lines = files[0].read_bytes().splitlines(keepends=True)
    lines[2] = canonical_bytes({**json.loads(lines[2]), "withheld": True}) + b"\n"
    files[0].write_bytes(b"".join(lines))
    assert subprocess.run([sys.executable, verifier, files[0]], capture_output=True, check=False).returncode == 1
