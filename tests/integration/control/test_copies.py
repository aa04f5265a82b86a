"""Copies of sessions between stores: grown on both sides, as one SQLite file, from Merkle-rooted sessions."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from contextlib import closing
from hashlib import sha256

import pytest

from bridge.control.checks.verification import verify
from bridge.control.controller import Controller
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.formats import recognise, take_in
from bridge.control.exchange.imported import ImportRequest
from bridge.control.exchange.importing import import_session
from bridge.control.exchange.sources import Source
from bridge.control.removal.erasing import erase
from bridge.control.standpoint import Standpoint
from bridge.conversations.errors import ExternalIdConflict, SessionDiffers
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.paths import active_path
from bridge.conversations.store import get_head, get_session, list_labels, list_sessions
from bridge.foundation.canonical import canonical_text
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.foundation.hashing import hash_combine, leaf_hash
from bridge.transcripts.errors import TranscriptInvalid, UnsupportedTranscriptVersion

NOWHERE = Standpoint()


@pytest.fixture
def store(tmp_path):
    """Opens stores by name."""
    opened = {}

    def run(name):
        if name not in opened:
            settings = load_settings({"BRIDGE_HOME": str(tmp_path / name)})
            opened[name] = Controller(settings, clock=SystemClock(), environment=os.environ)
        return opened[name]

    yield run
    for controller in opened.values():
        controller.close()


def say(controller, session_id, text, **options):
    return controller.recorder.append_now(
        session_id, EntryDraft(kind="user.message", payload={"text": text}, **options)
    )


def exported(controller, session_id, form="jsonl"):
    out = io.BytesIO()
    export_session(controller, NOWHERE, ExportRequest(session=session_id, format=form), out.write)
    return out.getvalue()


def imported(controller, content, *, dry_run=False):
    return take_in(controller, Source(stream=io.BytesIO(content), name="it"), ImportRequest(dry_run=dry_run))


def words(controller, session_id):
    with controller.store.read() as connection:
        return [one.payload.get("text") for one in active_path(connection, session_id)]


def paths(controller):
    """Return what every session says on its active path, whatever its id."""
    with controller.store.read() as connection:
        ids = [one.id for one in list_sessions(connection)]
    return sorted(words(controller, session_id) for session_id in ids)


@pytest.fixture
def grown_apart(store):
    """One session in two stores that both went on, on the branch that they share and on one of their own."""
    left, right = store("left"), store("right")
    session = left.recorder.create_session(NewSession(label="talk", harness="h")).id
    for text in ("one", "two", "three"):
        say(left, session, text)
    imported(right, exported(left, session))
    for controller, name in ((left, "left"), (right, "right")):
        say(controller, session, f"{name} four")
        last = say(controller, session, f"{name} five")
        say(controller, session, f"{name} aside", parent_entry_id=f"{session}-000001")
        controller.recorder.label(session, last.id, name)
    return session


def test_copies_that_both_went_on_become_forks_in_whatever_order(store, grown_apart):
    left, right = exported(store("left"), grown_apart), exported(store("right"), grown_apart)
    found = []
    for name, files in (("a", (left, right)), ("b", (right, left))):
        controller = store(name)
        results = [imported(controller, content) for content in files]
        assert [one.status for one in results[1].sessions] == ["unchanged", "forked", "forked"]
        assert verify(controller, NOWHERE, None).is_healthy
        found.append(paths(controller))
        # Once more, in either order: nothing is added.
        assert [imported(controller, content).added for content in (*files, *reversed(files))] == [0] * 4
    everything = [
        ["one", "two", "three", "left four", "left five"],
        ["one", "two", "three", "right four", "right five"],
    ]
    for told, second in zip(found, ("right", "left"), strict=True):
        assert told == sorted([*everything, ["one", f"{second} aside"]])


def test_a_fork_of_a_copy_goes_on_with_the_copy(store, grown_apart):
    right, target = store("right"), store("target")
    imported(target, exported(store("left"), grown_apart))
    would = imported(target, exported(right, grown_apart), dry_run=True)
    done = imported(target, exported(right, grown_apart))
    assert [(one.status, one.added) for one in would.sessions] == [(one.status, one.added) for one in done.sessions]
    fork = next(one.session_id for one in done.sessions if one.added == 2)
    with target.store.read() as connection:
        made = get_session(connection, fork)
        assert (made.label, made.harness, made.parent_session_id) == ("talk", "h", grown_apart)
        assert [label.name for label in list_labels(connection, fork)] == ["right"]
        entry = active_path(connection, fork)[-1]
    assert entry.external_id.startswith(f"{grown_apart}-000005@")
    say(right, grown_apart, "right six", parent_entry_id=f"{grown_apart}-000005")
    again = imported(target, exported(right, grown_apart))
    assert {one.session_id: one.status for one in again.sessions}[fork] == "continued"
    assert again.added == 1
    assert words(target, fork)[-1] == "right six"
    assert words(target, grown_apart)[-1] == "left five"


def test_another_session_under_the_same_id_is_refused(store):
    first, second = store("first"), store("second")
    session = first.recorder.create_session(NewSession()).id
    second.recorder.create_session(NewSession(id=session))
    say(second, session, "words")
    with pytest.raises(SessionDiffers):
        imported(first, exported(second, session))


@pytest.mark.parametrize("form", ["jsonl", "sqlite"], ids=["as-lines", "as-a-file"])
def test_an_erased_entry_travels_as_erased(store, form):
    here, there = store("here"), store("there")
    session = here.recorder.create_session(NewSession()).id
    first, second = say(here, session, "a secret word"), say(here, session, "another")
    whole = exported(here, session, form)
    erase(here, NOWHERE, first.id)
    erase(here, NOWHERE, second.id, pattern="another")
    content = exported(here, session, form)
    assert b"secret" not in content
    assert imported(there, content).added == 3
    found = verify(there, NOWHERE, None)
    assert found.is_healthy
    assert found.sessions[0].report.withheld == 2
    # A whole copy brings nothing back, here or there.
    assert imported(here, whole).added == 0
    assert words(there, session) == [None, "[withheld]"]


def test_a_mark_that_nothing_is_withheld_for_is_refused(store):
    here = store("here")
    session = here.recorder.create_session(NewSession()).id
    say(here, session, "words")
    lines = exported(here, session).splitlines(keepends=True)
    entry = json.loads(lines[2])
    lines[2] = canonical_text({**entry, "withheld": True}).encode() + b"\n"
    with pytest.raises(TranscriptInvalid) as caught:
        imported(store("there"), b"".join(lines))
    assert caught.value.details["reason"] == "payload_altered"


# One SQLite file


@pytest.fixture
def talk(store):
    controller = store("here")
    session = controller.recorder.create_session(NewSession(label="talk")).id
    for text in ("one", "two", "three", "x" * 40_000):
        say(controller, session, text)
    aside = say(controller, session, "aside", parent_entry_id=f"{session}-000002", external_id="e", external_source="s")
    controller.recorder.label(session, aside.id, "branch")
    return session


def test_a_session_as_sqlite_is_read_with_sqlite_and_sha256_alone(store, talk, tmp_path):
    """What docs/portable-sqlite.md says, done by hand: nothing of Bridge is used here but to make the file."""
    (tmp_path / "f.db").write_bytes(exported(store("here"), talk, "sqlite"))

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def hexed(content):
        return sha256(content).hexdigest()

    with closing(sqlite3.connect(tmp_path / "f.db")) as connection:
        connection.row_factory = sqlite3.Row
        meta = connection.execute("SELECT * FROM meta").fetchone()
        entries = connection.execute(
            "SELECT * FROM entries WHERE session_id = ? ORDER BY sequence", (meta["session_id"],)
        ).fetchall()
        events = connection.execute("SELECT * FROM audit_events ORDER BY ordinal").fetchall()
    assert len(entries) == 6
    hashes = {}
    for entry in entries:
        assert hexed(entry["payload"].encode()) == entry["payload_hash"]
        stamp = (
            {"unknown": entry["unknown_reason"]}
            if entry["state_digest"] is None
            else {"state_digest": entry["state_digest"]}
        )
        body = {
            "parent_entry_hash": hashes.get(entry["parent_entry_id"]),
            "id": entry["id"],
            "kind": entry["kind"],
            "semantic_schema_version": entry["semantic_schema_version"],
            "payload_hash": entry["payload_hash"],
            "context_visibility": entry["context_visibility"],
            "stamp": stamp,
            "external_id": entry["external_id"],
            "created_at": entry["created_at"],
        }
        hashes[entry["id"]] = hexed(text(body).encode())
        assert hashes[entry["id"]] == entry["entry_hash"]
    below = {}
    for entry in reversed(entries):
        own = sha256(b"\x00" + bytes.fromhex(entry["entry_hash"])).digest()
        level = sorted(below.pop(entry["id"], []))
        while len(level) > 1:
            level += level[-1:] * (len(level) % 2)
            level = [sha256(b"\x03" + level[at] + level[at + 1]).digest() for at in range(0, len(level), 2)]
        if level:
            own = sha256(b"\x03" + own + level[0]).digest()
        below.setdefault(entry["parent_entry_id"], []).append(own)
    assert below[None][0].hex() == meta["session_root"]
    previous = bytes(32)
    for event in events:
        previous = sha256(previous + event["body"].encode()).digest()
        assert previous.hex() == event["event_hash"]


def test_a_session_as_sqlite_comes_back_as_it_was(store, talk):
    here, there = store("here"), store("there")
    content = exported(here, talk, "sqlite")
    assert recognise(Source(stream=io.BytesIO(content), name="it")).name == "sqlite"
    assert imported(there, content).added == 6
    assert exported(there, talk).splitlines()[1:] == exported(here, talk).splitlines()[1:]
    assert imported(there, content).added == 0
    assert imported(there, exported(here, talk)).added == 0
    assert verify(there, NOWHERE, None).is_healthy


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ('UPDATE entries SET payload = \'{"text":"other"}\' WHERE sequence = 2', TranscriptInvalid),
        ("UPDATE entries SET kind = 'note' WHERE sequence = 2", TranscriptInvalid),
        ("DELETE FROM entries WHERE sequence = 3", TranscriptInvalid),
        ("UPDATE meta SET session_root = printf('%064d', 0)", TranscriptInvalid),
        ("UPDATE audit_events SET body = body || ' ' WHERE ordinal = 1", TranscriptInvalid),
        ("DELETE FROM audit_events WHERE ordinal = 1", TranscriptInvalid),
        ("UPDATE meta SET format_version = 2", UnsupportedTranscriptVersion),
        ("DROP TABLE labels", TranscriptInvalid),
        ("UPDATE sessions SET active_entry_id = 'x'", TranscriptInvalid),
    ],
)
def test_an_altered_sqlite_file_is_refused(store, talk, tmp_path, statement, error):
    path = tmp_path / "f.db"
    path.write_bytes(exported(store("here"), talk, "sqlite"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    with pytest.raises(error):
        imported(store("there"), path.read_bytes())
    with store("there").store.read() as connection:
        assert list_sessions(connection) == []


# Merkle-rooted sessions

SID = "20250102-030405-ab12"


def merkle_file(path, nodes, *, current=None):
    """Write a file in the layout that the seed describes: (seq, parent, question, label) of each node but the root."""
    rows, hashes, roots = [], {}, []
    for seq, parent, question, label in [(0, None, "", None), *nodes]:
        bates = f"{SID}-{seq:06d}"
        body = {
            "parent_node_hash": None if parent is None else hashes[parent],
            "bates": bates,
            "question": question,
            "cache_key": f"key-{seq}",
            "audit_mode": "strict",
            "created_at": f"2025-01-02T03:04:{seq:02d}Z",
            "label": label,
        }
        hashes[seq] = sha256(canonical_text(body).encode()).hexdigest()
        rows.append([bates, seq, parent, question, body["cache_key"], "strict", body["created_at"], label])
        roots.append(subtrees(rows, hashes)[0].hex())
    found = subtrees(rows, hashes)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "CREATE TABLE session_meta (session_id TEXT PRIMARY KEY, root_bates TEXT NOT NULL, session_root TEXT NOT"
            " NULL, current_bates TEXT NOT NULL, next_seq INTEGER NOT NULL, created_at TEXT NOT NULL, updated_at TEXT"
            " NOT NULL);"
            "CREATE TABLE nodes (bates TEXT PRIMARY KEY, seq INTEGER NOT NULL, parent_bates TEXT REFERENCES"
            " nodes(bates), question TEXT NOT NULL, cache_key TEXT NOT NULL, audit_mode TEXT NOT NULL, created_at TEXT"
            " NOT NULL, label TEXT, node_hash TEXT NOT NULL, subtree_hash TEXT NOT NULL);"
            "CREATE TABLE session_audit_events (seq INTEGER PRIMARY KEY AUTOINCREMENT, event_type TEXT NOT NULL, bates"
            " TEXT, prev_root TEXT NOT NULL, session_root TEXT NOT NULL, body TEXT NOT NULL, event_hash TEXT NOT NULL,"
            " created_at TEXT NOT NULL);"
        )
        last = rows[-1]
        connection.execute(
            "INSERT INTO session_meta VALUES (?, ?, ?, ?, ?, ?, ?)",
            (SID, rows[0][0], found[0].hex(), current or last[0], len(rows), rows[0][6], last[6]),
        )
        previous, before = bytes(32), ""
        for row, root in zip(rows, roots, strict=True):
            parent = None if row[2] is None else f"{SID}-{row[2]:06d}"
            values = (row[0], row[1], parent, *row[3:], hashes[row[1]], found[row[1]].hex())
            connection.execute(f"INSERT INTO nodes VALUES ({', '.join('?' * 10)})", values)
            body = canonical_text({"bates": row[0], "session_root": root})
            previous = sha256(previous + body.encode()).digest()
            kind = "session_init" if row[1] == 0 else "node_added"
            connection.execute(
                "INSERT INTO session_audit_events (event_type, bates, prev_root, session_root, body, event_hash,"
                " created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (kind, row[0], before, root, body, previous.hex(), row[6]),
            )
            before = root
        connection.commit()
    return path.read_bytes()


def subtrees(rows, hashes):
    below, found = {}, {}
    for row in reversed(rows):
        own, level = leaf_hash(bytes.fromhex(hashes[row[1]])), sorted(below.pop(row[1], []))
        while len(level) > 1:
            level += level[-1:] * (len(level) % 2)
            level = [hash_combine(level[at], level[at + 1]) for at in range(0, len(level), 2)]
        found[row[1]] = hash_combine(own, level[0]) if level else own
        below.setdefault(row[2], []).append(found[row[1]])
    return found


QUESTIONS = [
    (1, 0, "who built it?", None),
    (2, 1, "and when?", "when"),
    (3, 1, "where?", None),
    (4, 3, "why there?", "a name with spaces"),
    (5, 1, "how?", None),
]


def test_a_merkle_session_is_taken_in_with_all_it_says(store, tmp_path):
    controller = store("here")
    content = merkle_file(tmp_path / "m.db", QUESTIONS, current=f"{SID}-000004")
    assert recognise(Source(stream=io.BytesIO(content), name="it")).name == "merkle-sessions"
    done = imported(controller, content)
    assert (done.session_id, done.sessions[0].status, done.added) == (SID, "created", 5)
    assert words(controller, SID) == ["who built it?", "where?", "why there?"]
    with controller.store.read() as connection:
        entry = active_path(connection, SID)[-1]
        names = {label.name: label.entry_id for label in list_labels(connection, SID)}
        assert get_head(connection, SID).entry_id == f"{SID}-000004"
    assert (entry.id, entry.created_at) == (f"{SID}-000004", "2025-01-02T03:04:04.000000Z")
    kept = entry.payload["provider_meta"]["merkle-sessions"]
    assert (kept["cache_key"], kept["audit_mode"]) == ("key-4", "strict")
    assert names["when"] == f"{SID}-000002"
    assert verify(controller, NOWHERE, None).is_healthy
    assert imported(controller, content).added == 0


def test_a_merkle_session_that_has_grown_goes_on(store, tmp_path):
    controller = store("here")
    imported(controller, merkle_file(tmp_path / "a.db", QUESTIONS[:3]))
    done = imported(controller, merkle_file(tmp_path / "b.db", QUESTIONS))
    assert (done.sessions[0].status, done.added) == ("continued", 2)
    other = [*QUESTIONS[:4], (5, 1, "something else?", None)]
    with pytest.raises(ExternalIdConflict):
        imported(controller, merkle_file(tmp_path / "c.db", [*other, (6, 5, "more?", None)]))


def test_a_session_of_that_id_that_is_another_one_is_not_touched(store, tmp_path):
    controller = store("here")
    controller.recorder.create_session(NewSession(id=SID))
    with pytest.raises(SessionDiffers):
        imported(controller, merkle_file(tmp_path / "m.db", QUESTIONS))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE nodes SET question = 'who broke it?' WHERE seq = 1",
        "UPDATE nodes SET cache_key = 'other' WHERE seq = 2",
        "UPDATE nodes SET audit_mode = 'lax' WHERE seq = 2",
        "UPDATE nodes SET label = 'other' WHERE seq = 2",
        "UPDATE nodes SET parent_bates = (SELECT bates FROM nodes WHERE seq = 2) WHERE seq = 3",
        "UPDATE nodes SET subtree_hash = node_hash WHERE seq = 3",
        "DELETE FROM nodes WHERE seq = 5",
        "UPDATE session_meta SET session_root = printf('%064d', 0)",
        "UPDATE session_meta SET current_bates = 'x'",
        "DELETE FROM session_audit_events WHERE seq = 3",
        "UPDATE session_audit_events SET body = '{}' WHERE seq = 3",
        "UPDATE session_audit_events SET session_root = printf('%064d', 0) WHERE seq = 3",
        "DELETE FROM session_meta",
        "DELETE FROM nodes",
    ],
)
def test_an_altered_merkle_session_is_refused(store, tmp_path, statement):
    path = tmp_path / "m.db"
    merkle_file(path, QUESTIONS)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    with pytest.raises(TranscriptInvalid):
        imported(store("here"), path.read_bytes())
    with store("here").store.read() as connection:
        assert list_sessions(connection) == []


def test_import_session_takes_lines_alone(store, talk):
    with pytest.raises(TranscriptInvalid):
        import_session(store("there"), io.BytesIO(exported(store("here"), talk, "sqlite")))
