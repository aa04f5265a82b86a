"""Old state is taken in for good: once, with parents and times, and without a byte changed where it came from."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridge.control.errors import ImportUnreadable
from bridge.control.exchange import oldstate
from bridge.control.exchange.oldstate import take_in_old_state
from bridge.control.lineage.notes import MAX_LIMIT, read_notes
from bridge.control.lineage.waking import wake
from bridge.control.standpoint import Standpoint
from bridge.conversations.forest import require_session
from bridge.conversations.models import NewSession
from bridge.conversations.store import iterate_entries

pytestmark = pytest.mark.usefixtures("database_url")
FIRST, SECOND = "20260825_190758_86152dcb", "20260826_101010_00000001"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "old"
    (root / "sessions").mkdir(parents=True)
    # The child first, and a link that closes a circle.
    (root / "sessions.yaml").write_text(
        f"sessions:\n- id: {SECOND}\n  parent_session_id: {FIRST}\n  mood: curious\n"
        f"- id: {FIRST}\n  status: ended\n  created_at: 2026-08-25 19:07:58\n"
        "- {id: a, parent_session_id: b}\n- {id: b, parent_session_id: a}\n- {id: c, parent_session_id: gone}\n"
    )
    notes(root, FIRST, "one", "two", "one")
    notes(root, SECOND, "three")
    return root


def notes(root: Path, identity: str, *texts: str) -> None:
    lines = "".join(
        f"- {{content: {text}, timestamp: 2026-08-25 19:0{number}:00}}\n" for number, text in enumerate(texts)
    )
    (root / "sessions" / f"{identity}.yaml").write_text(f"session_id: {identity}\nnotes:\n{lines}")


def found(controller: Any, identity: str, **keys: Any) -> list[Any]:
    return list(read_notes(controller, Standpoint(), identity, limit=MAX_LIMIT, **keys).notes)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_taken_in_once(controller: Any, folder: Path) -> None:
    before = everything(folder)
    dry = take_in_old_state(controller, folder, dry_run=True)
    assert (dry.added, {one.status for one in dry.sessions}) == (4 + 1 + 1 + 3, {"created"})
    with controller.store.read() as connection, pytest.raises(Exception, match="There is no session"):
        require_session(connection, FIRST)
    done = take_in_old_state(controller, folder)
    assert done.added == dry.added
    assert [problem.code for problem in done.problems] == ["lineage_cycle", "parent_missing"]
    first = found(controller, FIRST)
    assert [(note.text, note.sender, note.type, note.created_at[:16]) for note in first] == [
        ("one", "system", "inform", "2026-08-25T19:00"),
        ("two", "system", "inform", "2026-08-25T19:01"),
        ("one", "system", "inform", "2026-08-25T19:02"),
    ]
    assert [note.text for note in found(controller, SECOND, include_previous=True)] == ["one", "two", "one", "three"]
    with controller.store.read() as connection:
        second, ended = require_session(connection, SECOND), require_session(connection, FIRST)
        records = [entry for entry in iterate_entries(connection, SECOND) if entry.kind == "provider.unknown"]
    assert (second.parent_session_id, second.parent_relation, ended.status) == (FIRST, "continued", "ended")
    assert (records[0].payload["raw"]["mood"], records[0].context_visibility) == ("curious", "hidden")
    again = take_in_old_state(controller, folder)
    assert (again.added, {one.status for one in again.sessions}) == (0, {"unchanged"})
    assert everything(folder) == before
    woken = wake(controller, Standpoint(), from_session=SECOND)
    assert (woken.predecessor.id, woken.note.text) == (SECOND, "three")


def test_what_has_grown_is_continued_wherever_it_can_be_read(controller: Any, folder: Path) -> None:
    take_in_old_state(controller, folder)
    with closing(sqlite3.connect(folder / "session.db")) as connection:
        connection.execute(
            "CREATE TABLE signals (id INTEGER PRIMARY KEY, session_id, sender, recipient, type, content, level)"
        )
        rows = [(FIRST, "ariel", "*", "inform", text, 7) for text in ("one", "two", "one", "two", "four")]
        connection.executemany("INSERT INTO signals VALUES (NULL,?,?,?,?,?,?)", rows)
        connection.commit()
    done = take_in_old_state(controller, folder)
    assert done.added == 2
    assert [note.text for note in found(controller, FIRST)] == ["one", "two", "one", "two", "four"]
    assert take_in_old_state(controller, folder).added == 0
    (folder / "sessions.yaml").write_text("{ torn")
    before = everything(folder)
    broken = take_in_old_state(controller, folder)
    assert (broken.added, broken.state.has_index_failed) == (0, True)
    assert everything(folder) == before


def test_what_cannot_be_taken_in_does_not_stop_the_rest(controller: Any, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(oldstate, "BATCH", 2)
    controller.recorder.create_session(NewSession(id=SECOND, harness="another"))
    done = take_in_old_state(controller, folder)
    assert "id_taken" in [problem.code for problem in done.problems]
    assert [note.text for note in found(controller, FIRST)] == ["one", "two", "one"]
    assert found(controller, SECOND) == []
    assert SECOND not in {one.session_id for one in done.sessions}


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_what_is_no_such_folder_is_refused(controller: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("sessions: []")
    with pytest.raises(ImportUnreadable):
        take_in_old_state(controller, tmp_path / name)
