"""Stores of every older schema, written down as SQL, become today's: whole, in order, and with today's structure."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from bridge.conversations.soundness import check_sessions
from bridge.conversations.store import iterate_entries
from bridge.integrity.chain import verify_chain
from bridge.integrity.store import iterate_events
from bridge.integrity.verify import verify_session
from bridge.storage.longtexts import LONG_TEXT_BYTES
from bridge.storage.migrations import running
from bridge.storage.migrations.legacy import normalized_time
from bridge.storage.schema_version import SCHEMA_VERSION
from bridge.storage.store import Store
from bridge.storage.upgrading import plan, upgrade
from tests.structures import file_structure as structure

pytestmark = pytest.mark.one_database("no older schema was ever on PostgreSQL")

LEGACY = Path(__file__).with_name("legacy")
VERSIONS = range(1, SCHEMA_VERSION)
MOMENT = "2026-01-02T03:04:05.000000Z"


def lay(database: Path, version: int) -> Path:
    """Make a store of an older schema from its literal SQL."""
    database.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript((LEGACY / f"v{version}.sql").read_text(encoding="utf-8"))
    return database


def bring_up(database: Path, **options):
    return upgrade(database, moment=MOMENT, timeout_seconds=1, **options)


@pytest.fixture
def fresh(tmp_path) -> Path:
    path = tmp_path / "fresh" / "bridge.db"
    Store.open(f"sqlite:///{path}").close()
    return path


@pytest.mark.parametrize("version", VERSIONS)
def test_the_migrated_schema_is_the_fresh_one(database, fresh, version):
    done = bring_up(lay(database, version))
    assert (done.found, done.target) == (version, SCHEMA_VERSION)
    expected, found = structure(fresh), structure(database)
    assert {name: value for name, value in found.items() if expected.get(name) != value} == {}, "add it to a revision"
    assert expected.keys() == found.keys()


def test_the_revisions_alone_make_the_fresh_schema(tmp_path, fresh):
    """From nothing at all: version 1 is what the first revision makes."""
    database = tmp_path / "from-nothing.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE schema_version (version_num TEXT NOT NULL)")
    for version in range(1, SCHEMA_VERSION + 1):
        running.run_revisions(f"sqlite:///{database}", version, moment=MOMENT, progress=lambda *_: None)
        if version < SCHEMA_VERSION:
            old = lay(tmp_path / f"v{version}.db", version)
            ours, theirs = structure(database), structure(old)
            ours.pop("pragmas"), theirs.pop("pragmas")
            assert ours == theirs, f"the fixture of version {version} is not what the revisions make"
    assert structure(database) == structure(fresh)


# What was recorded


def events_of(database: Path) -> list[tuple]:
    """The events of an old store, by plain SQL: session, ordinal, type, json and created_at, in their order."""
    with closing(sqlite3.connect(database)) as connection:
        connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
        return connection.execute(
            "SELECT session, ordinal, type, json, created_at FROM agent_events"
            " ORDER BY session, ordinal IS NULL, ordinal, rowid"
        ).fetchall()


@pytest.mark.parametrize("version", range(1, 6))
def test_every_event_is_an_entry_in_its_order_with_its_text_and_time(database, version):
    lay(database, version)
    events = events_of(database)
    bring_up(database)
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT e.session_id, e.sequence, e.kind, e.payload, e.created_at, e.semantic_schema_version, l.original,"
            " r.payload FROM session_entries e JOIN session_entries r ON r.session_id = e.session_id AND r.sequence = 0"
            " LEFT JOIN legacy_events l ON l.session_id = e.session_id AND l.entry_id = e.id"
            " WHERE e.sequence > 0 ORDER BY e.session_id, e.sequence"
        ).fetchall()
    assert len(rows) == len(events)
    by_session = defaultdict(list)
    for session_id, sequence, kind, payload, created_at, semantic, original, root in rows:
        assert semantic == 1
        kept = json.loads(original) if original else {}
        name = tuple(json.loads(root)["provider_meta"]["session"])
        by_session[name].append((session_id, sequence, kind, payload, created_at, kept))
    expected = defaultdict(list)
    for event in events:
        session = event[0]
        if session is None:
            name = ("null:hex", None)
        elif isinstance(session, bytes):
            name = ("blob:hex", session.hex())
        else:
            name = ("text", session)
        expected[name].append(event)
    assert by_session.keys() >= expected.keys()
    for name, wanted in expected.items():
        got = by_session[name]
        assert [sequence for _, sequence, *_ in got] == list(range(1, len(wanted) + 1))
        for (_session, ordinal, kind, text, moment), entry in zip(wanted, got, strict=True):
            check_event(ordinal, kind, text, moment, entry)


def check_event(ordinal, kind, text, moment, entry):
    """An entry holds each column, or its original is kept, and nothing else is."""
    _, _, entry_kind, payload, created_at, kept = entry
    kept = {name: value for name, value in kept.items() if name != "session"}
    if isinstance(text, str) and text.isprintable() and "\udcff" not in text:
        assert payload == text
        assert "json" not in kept
    else:
        assert kept.pop("json")[0].split(":")[0] == {type(None): "null", bytes: "blob", str: "text"}[type(text)]
    if kind:
        assert entry_kind == kind
    else:
        assert entry_kind == "provider.unknown"
        assert kept.pop("type") == (["text", ""] if kind == "" else ["null:hex", None])
    if created_at != moment:
        assert kept.pop("created_at") == (["null:hex", None] if moment is None else ["text", moment])
        if normalized_time(moment):
            assert created_at == normalized_time(moment)
    if not isinstance(ordinal, int):
        kept.pop("ordinal")
    assert kept == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_upgraded_store_opens_and_verifies(database, version):
    bring_up(lay(database, version))
    with Store.open(f"sqlite:///{database}") as store, store.read() as connection:
        with closing(sqlite3.connect(database)) as plain:
            sessions = [row[0] for row in plain.execute("SELECT id FROM sessions ORDER BY id")]
        assert sessions
        for session_id in sessions:
            assert verify_session(connection, session_id).findings == []


@pytest.mark.parametrize("version", [5, 6])
def test_each_step_is_an_event_of_the_store(database, version):
    bring_up(lay(database, version))
    with Store.open(f"sqlite:///{database}") as store, store.read() as connection:
        events = list(iterate_events(connection, "store"))
        assert verify_chain(connection, "store").is_valid
    assert {event.event_type for event in events} == {"store.upgraded"}
    facts = [json.loads(event.body)["body"] for event in events]
    assert facts == [{"from_version": step, "to_version": step + 1} for step in range(version, 7)]


def test_what_sessions_knew_of_themselves_is_kept(database):
    bring_up(lay(database, 5))
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT label, harness, status FROM sessions ORDER BY label").fetchall()
        clients = connection.execute("SELECT host FROM clients").fetchall()
    assert rows == [(None, None, "open"), ("a b", None, "open"), ("named", "claude-code", "archived")]
    assert clients == [("desk",), ("laptop",)]


def test_a_session_without_events_has_its_root(database):
    bring_up(lay(database, 3))
    with closing(sqlite3.connect(database)) as connection:
        (found,) = connection.execute(
            "SELECT count(*) FROM session_entries e JOIN sessions s ON s.id = e.session_id WHERE s.label = ?",
            ("without events",),
        ).fetchone()
    assert found == 1


def test_a_hundred_thousand_events_move(database):
    """Made by SQLite itself, not by anything that migrates."""
    lay(database, 4)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM agent_events")
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99999)"
            " INSERT INTO agent_events (session, ordinal, type, json, created_at)"
            " SELECT '20250601-090000-0001', i, CASE i % 3 WHEN 0 THEN 'user.message' WHEN 1 THEN 'assistant.message'"
            " ELSE 'assistant.message.delta' END, '{\"text\":\"number ' || i || '\"}',"
            " strftime('%Y-%m-%dT%H:%M:%S', 1750000000 + i, 'unixepoch') || '.000000Z' FROM n"
        )
        connection.commit()
        digest = hashlib.sha256()
        query = "SELECT type, json, created_at FROM agent_events ORDER BY ordinal"
        for row in connection.execute(query):
            digest.update(repr(row).encode())
    needed = plan(database, moment=MOMENT, timeout_seconds=1).needed_bytes
    seen = []
    bring_up(database, progress=lambda what, step, done, total: seen.append((what, step, done, total)))
    reported = [done for what, step, done, total in seen if (what, step, total) == ("step", 6, 100_000)]
    assert len(reported) > 100
    assert reported == sorted(reported)
    assert reported[-1] == 100_000
    # The work is done twice: in the WAL, and from there into the file.
    assert 2 * database.stat().st_size < needed < 4 * database.stat().st_size
    after = hashlib.sha256()
    with closing(sqlite3.connect(database)) as connection:
        query = (
            "SELECT kind, payload, created_at FROM session_entries"
            " WHERE sequence > 0 AND session_id LIKE '2%' ORDER BY sequence"
        )
        for row in connection.execute(query):
            after.update(repr(row).encode())
        assert connection.execute("SELECT count(*) FROM legacy_events").fetchone() == (0,)
    assert after.hexdigest() == digest.hexdigest()


# What protects a step


@pytest.mark.parametrize("size", [LONG_TEXT_BYTES, LONG_TEXT_BYTES + 1])
def test_long_events_move_to_where_long_texts_are_kept(database, size):
    lay(database, 5)
    long = json.dumps({"text": "x" * (size - len('{"text": ""}'))})
    rows = [("long", ordinal, "user.message", long, MOMENT) for ordinal in range(40)]
    rows.append(("other", 1, "tool.completed", long, MOMENT))
    with closing(sqlite3.connect(database)) as connection:
        for session in ("long", "other"):
            connection.execute("INSERT INTO agent_sessions (session, created_at) VALUES (?, ?)", (session, MOMENT))
        connection.executemany(
            "INSERT INTO agent_events (session, ordinal, type, json, created_at) VALUES (?, ?, ?, ?, ?)", rows
        )
        connection.commit()
    bring_up(database)
    is_long = size > LONG_TEXT_BYTES
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM blobs").fetchone() == (int(is_long),)
        (inline,) = connection.execute(
            "SELECT count(payload) FROM session_entries WHERE session_id IN ('long', 'other') AND sequence > 0"
        ).fetchone()
        assert inline == (0 if is_long else 41)
    with Store.open(f"sqlite:///{database}") as store, store.read() as connection:
        assert [entry.payload_text for entry in iterate_entries(connection, "long")][1:] == [long] * 40
        assert verify_session(connection, "long").is_valid
        assert verify_session(connection, "other").is_valid
        assert list(check_sessions(connection)) == []


def test_shipped_revisions_are_pinned():
    assert json.loads(running.DIGESTS.read_text()) == running.current_digests(), "run scripts/pin_revisions.py"


def test_there_is_one_revision_for_each_version():
    assert [step.version for step in running.steps_between(0, SCHEMA_VERSION)] == list(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2025-13-01", "2025-01-01T25:00:00Z", "1.5", "0000-00-00", "2025-01-01T00:00:00.1234567Z"],
)
def test_a_time_that_is_none_has_no_normal_form(text):
    assert normalized_time(text) is None


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2025-01-01", "2025-01-01T00:00:00.000000Z"),
        ("2025-01-01 02:03:04", "2025-01-01T02:03:04.000000Z"),
        ("2025-01-01T02:03:04.5+05:30", "2024-12-31T20:33:04.500000Z"),
    ],
)
def test_other_forms_of_a_time_become_the_normal_one(text, normal):
    assert normalized_time(text) == normal
