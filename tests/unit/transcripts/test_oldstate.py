"""Folders of old state are read as far as they can be, never raise for what they hold, and are never written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transcripts.oldstate import reading, yamlfiles
from bridge.transcripts.oldstate.model import TableState
from bridge.transcripts.oldstate.reading import is_old_state, read_old_state
from bridge.transcripts.oldstate.signals import read_signals
from bridge.transcripts.oldstate.yamlfiles import Unreadable, load_text

FIRST, SECOND = "20260825_190758_86152dcb", "20260826_101010_00000001"
INDEX = f"""\
sessions:
- id: {FIRST}
  status: ended
  created_at: 2026-08-25 19:07:58.123456
  updated_at: 2026-08-25T20:00:00+02:00
  mood: curious
- id: {SECOND}
  parent_session_id: {FIRST}
  created_at: 2026-08-26 10:10:10
"""
NOTES = f"""\
session_id: {FIRST}
notes:
- content: Session started.
  timestamp: 2026-08-25 19:07:58
- content: "go on with the parser"
  timestamp: 2026-08-25 19:30:00
  weight: 3
"""
SCHEMA = (
    "CREATE TABLE signals (id INTEGER PRIMARY KEY, session_id TEXT, sender TEXT, recipient TEXT, type TEXT,"
    " content TEXT, created_at TEXT, priority INTEGER)"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions.yaml").write_text(INDEX)
    (tmp_path / "sessions" / f"{FIRST}.yaml").write_text(NOTES)
    return tmp_path


def table(path: Path, *rows: tuple[Any, ...], schema: str = SCHEMA) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(schema)
    connection.executemany(
        "INSERT INTO signals (session_id, sender, recipient, type, content, created_at, priority)"
        " VALUES (?,?,?,?,?,?,?)",
        rows,
    )
    return connection


ROWS = (
    (FIRST, "ariel", "*", "ask", "from the table", "2026-08-25T19:08:00", 1),
    (FIRST, "eran", "ariel", "inform", "second", None, None),
)


def texts(state: Any, identity: str) -> list[str]:
    return [signal.text for session in state.sessions if session.id == identity for signal in session.signals]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_yaml_notes_appear_as_signals(folder: Path) -> None:
    before = everything(folder)
    state = read_old_state(folder)
    first, second = state.sessions
    assert (first.id, first.parent_session_id, first.status, first.source) == (FIRST, None, "ended", "yaml")
    assert (first.created_at, first.updated_at) == ("2026-08-25T19:07:58.123456+00:00", "2026-08-25T20:00:00+02:00")
    assert (second.id, second.parent_session_id, second.signals) == (SECOND, FIRST, ())
    started, spark = first.signals
    assert (started.sender, started.type, started.recipient, started.position) == ("system", "inform", "*", 0)
    assert (spark.text, spark.created_at, spark.extra) == (
        "go on with the parser",
        "2026-08-25T19:30:00+00:00",
        {"weight": 3},
    )
    assert first.extra == {"mood": "curious"}
    assert (state.problems, state.has_index_failed, state.tables) == ((), False, {})
    assert everything(folder) == before


def test_a_table_comes_first(folder: Path) -> None:
    table(folder / "session.db", *ROWS).close()
    state = read_old_state(folder)
    assert (state.tables, state.sessions[0].source) == ({"session.db": TableState.READ}, "sqlite")
    asked, second = state.sessions[0].signals
    assert (asked.sender, asked.recipient, asked.type, asked.text) == ("ariel", "*", "ask", "from the table")
    assert (asked.extra["priority"], second.created_at) == (1, None)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_what_was_written_last_is_read_in_either_mode_and_nothing_is_left_beside(folder: Path, mode: str) -> None:
    with closing(table(folder / "session.db", ROWS[0])) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("INSERT INTO signals (session_id, content) VALUES (?, 'fresh')", (FIRST,))
        before = everything(folder)
        assert texts(read_old_state(folder), FIRST) == ["from the table", "fresh"]
        assert everything(folder) == before


def test_a_table_that_is_missing_empty_locked_or_damaged_gives_way_to_yaml(folder: Path) -> None:
    """In this order, in one folder that gets worse."""
    path, expected = folder / "session.db", ["Session started.", "go on with the parser"]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")
    assert (texts(read_old_state(folder), FIRST), read_signals(path).state) == (expected, TableState.MISSING)
    path.write_bytes(b"")
    assert (texts(read_old_state(folder), FIRST), read_signals(path).state) == (expected, TableState.MISSING)
    path.unlink()
    table(path).close()
    assert (texts(read_old_state(folder), FIRST), read_signals(path).state) == (expected, TableState.EMPTY)
    path.unlink()
    with closing(table(path, *ROWS)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        state = read_old_state(folder)
        assert (texts(state, FIRST), state.tables["session.db"]) == (expected, TableState.LOCKED)
        assert [problem.code for problem in state.problems] == ["table_locked"]
        connection.execute("ROLLBACK")
    assert texts(read_old_state(folder), FIRST) == ["from the table", "second"]
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)
    state = read_old_state(folder)
    assert (texts(state, FIRST), state.tables["session.db"]) == (expected, TableState.DAMAGED)
    path.write_bytes(b"not a database at all, but long enough to be looked at")
    assert read_signals(path).state is TableState.DAMAGED


def test_a_table_without_sessions_or_with_a_view_in_its_place(folder: Path) -> None:
    with closing(sqlite3.connect(folder / ".signals.db")) as connection:
        connection.execute("CREATE TABLE signals (message TEXT, timestamp REAL)")
        connection.execute(
            "INSERT INTO signals VALUES ('later', 1800000000), ('earlier', 1700000000), (NULL, 1), ('', 2)"
        )
        connection.commit()
    assert texts(read_old_state(folder), reading.UNNAMED) == ["earlier", "later"]
    with closing(sqlite3.connect(folder / "view.db")) as connection:
        connection.execute("CREATE VIEW signals AS SELECT 'x' AS content")
    assert read_signals(folder / "view.db").state is TableState.MISSING


def test_a_torn_file_gives_what_stands_before_the_tear(folder: Path) -> None:
    """Cut anywhere: no crash, and never anything but a beginning of what was there (the last word may be cut)."""
    whole = ["Session started.", "go on with the parser"]
    for end in range(len(NOTES)):
        (folder / "sessions" / f"{FIRST}.yaml").write_text(NOTES[:end])
        state = read_old_state(folder)
        found = texts(state, FIRST)
        assert found[:-1] == whole[: max(0, len(found) - 1)]
        assert not found or whole[len(found) - 1].startswith(found[-1]), end
        assert [session.id for session in state.sessions] == [FIRST, SECOND]


def test_a_torn_note_is_told(folder: Path) -> None:
    (folder / "sessions" / f"{FIRST}.yaml").write_text(NOTES[: NOTES.index("the parser")])
    state = read_old_state(folder)
    assert texts(state, FIRST) == ["Session started."]
    assert [problem.code for problem in state.problems] == ["torn"]


@pytest.mark.parametrize(
    "index", ["{", "sessions: 3", "\x00\x01", "&a [*a]", "- [" * 200, "sessions: !!python/object:os.system {}"]
)
def test_an_index_that_fails_to_load_is_told_and_the_files_are_read(folder: Path, index: str) -> None:
    (folder / "sessions.yaml").write_text(index)
    before = everything(folder)
    state = read_old_state(folder)
    assert state.has_index_failed
    assert state.problems[0].path == "sessions.yaml"
    assert texts(state, FIRST) == ["Session started.", "go on with the parser"]
    assert everything(folder) == before


@pytest.mark.parametrize("identity", ["../../etc/passwd", "a/b", "..", "", "x" * 65, "a b", "ä", "a\n"])
def test_ids_that_could_lead_elsewhere_are_refused(folder: Path, identity: str) -> None:
    (folder / "sessions.yaml").write_text(f"sessions:\n- id: {identity!r}\n")
    state = read_old_state(folder)
    assert [session.id for session in state.sessions] == [FIRST]
    assert [problem.code for problem in state.problems] == ["invalid_id"]


def test_files_that_lead_out_of_the_folder_are_not_followed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "secret.yaml").write_text("notes: [secret]")
    table(elsewhere / "secret.db", (SECOND, "", "", "", "secret", None, None)).close()
    (folder / "sessions" / f"{SECOND}.yaml").symlink_to(elsewhere / "secret.yaml")
    (folder / "signals.db").symlink_to(elsewhere / "secret.db")
    state = read_old_state(folder)
    assert texts(state, SECOND) == []
    assert [problem.code for problem in state.problems] == ["outside"]


def test_what_looks_like_a_number_or_a_time_stays_what_it_is() -> None:
    text = "{a: 20260825_190758, b: 2026-08-25, c: 1:30, d: 007, e: 12, f: 1.50, g: yes, h: true, i: ~, j: null, k: }"
    assert load_text(text).value == {
        "a": "20260825_190758",
        "b": "2026-08-25",
        "c": "1:30",
        "d": "007",
        "e": 12,
        "f": 1.5,
        "g": "yes",
        "h": True,
        **dict.fromkeys("ijk"),
    }


def test_the_limits_at_their_edges(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = yamlfiles.MAX_DEPTH
    assert load_text("[" * deep + "]" * deep).value
    with pytest.raises(Unreadable, match="deep"):
        load_text("[" * (deep + 1) + "]" * (deep + 1))
    with pytest.raises(Unreadable, match="references"):
        load_text("a: &x [1]\nb: *x")
    size = (folder / "sessions.yaml").stat().st_size
    monkeypatch.setattr(yamlfiles, "MAX_BYTES", size)
    assert not read_old_state(folder).has_index_failed
    monkeypatch.setattr(yamlfiles, "MAX_BYTES", size - 1)
    assert read_old_state(folder).has_index_failed
    monkeypatch.undo()
    monkeypatch.setattr(reading, "MAX_SESSIONS", 1)
    assert [problem.code for problem in read_old_state(folder).problems] == ["too_many"]


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("state")
    (folder / "sessions").mkdir()
    for name in ("sessions.yaml", "sessions/a.yaml", "session.db"):
        (folder / name).write_bytes(data)
    state = read_old_state(folder)
    assert is_old_state(folder)
    assert len(state.sessions) <= 300


def test_a_folder_of_something_else_is_none(tmp_path: Path) -> None:
    assert not is_old_state(tmp_path)
    assert not is_old_state(tmp_path / "missing")
    (tmp_path / "a.db").write_bytes(b"")
    assert is_old_state(tmp_path)


def test_100_000_notes_are_read(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    body = "notes:\n" + "".join(f"- content: note {number}\n" for number in range(100_000))
    (tmp_path / "sessions" / "many.yaml").write_text(body)
    (session,) = read_old_state(tmp_path).sessions
    assert (len(session.signals), session.signals[-1].text) == (100_000, "note 99999")
