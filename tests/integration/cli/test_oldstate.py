"""``bridge import --format yaml-sessions`` and ``bridge notes --old-state``."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_a_folder_is_looked_at_and_taken_in(bridge: Any, tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions.yaml").write_text("sessions: [{id: s1}, {id: ../x}]")
    (tmp_path / "sessions" / "s1.yaml").write_text("notes: [{content: one}, {content: two}]")
    shown = bridge("notes", "--old-state", tmp_path, "--limit", "1", "--json").json()
    assert [(note["text"], note["sender"]) for note in shown["notes"]] == [("two", "system")]
    assert shown["hasOlder"]
    assert bridge("notes", "--old-state", tmp_path, "--session", "../x", "--json").error()["code"] == "invalid_id"
    assert bridge("notes", "--old-state", tmp_path, "--session", "s2", "--json").error()["code"] == "session_not_found"
    assert bridge("notes", "--old-state", tmp_path, "--include-previous").status == 2
    done = bridge("import", "--format", "yaml-sessions", tmp_path)
    assert done.status == 1
    assert "1 session(s): 1 taken in, 0 continued, 0 unchanged; 2 entries added" in done.stdout
    assert "(invalid_id)" in done.stdout
    again = bridge("import", "--format", "yaml-sessions", tmp_path, "--json").json()
    assert (again["added"], again["sessions"][0]["status"]) == (0, "unchanged")
    assert "system: two" in bridge("notes", "--session", "s1").ok().stdout
    assert bridge("import", "--format", "nonsense", tmp_path).status == 2
