"""SIGKILL at every statement of every revision: fully one version or another, and the next run brings it up."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from bridge.storage.store import Store

pytestmark = pytest.mark.one_database("no older schema was ever on PostgreSQL")

SCRIPT = Path(__file__).with_name("killing.py")
ROOT = Path(__file__).parents[3]
#: A conversation that is small, so that there are some two hundred points and not ten thousand, with one event of each
#: awkward kind.
SMALL = """
CREATE TABLE schema_version (version_num TEXT NOT NULL);
INSERT INTO schema_version VALUES ('1');
CREATE TABLE agent_events (session TEXT, ordinal INTEGER, type TEXT, json TEXT, created_at TEXT);
INSERT INTO agent_events
VALUES ('20250401-090000-0001', 1, 'user.message', '{"text":"a"}', '2025-04-01T09:00:00.000000Z');
INSERT INTO agent_events VALUES ('20250401-090000-0001', 1, 'note.delta', '{"te', '2025-04-01T09:00:00.000000Z');
INSERT INTO agent_events VALUES (NULL, NULL, NULL, NULL, NULL);
"""


def kill_everywhere(source: Path, work: Path, *more: str) -> list[dict]:
    work.mkdir()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(source), str(work), "1", *more],
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        timeout=290,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(points: list[dict]) -> None:
    *killed, whole = points
    assert whole["lived"]
    assert not any(point["lived"] for point in killed)
    seen = defaultdict(list)
    for point in points:
        found = point["killed"]
        assert (found["sound"], found["dangling"]) == ("ok", []), point["number"]
        (version,) = found["version"]
        seen[version].append({"objects": found["objects"], "rows": found["rows"]})
        # What is there beside the store is what the next run needs, and it leaves the backup alone.
        assert {name.rpartition(".")[2] for name in found["files"]} <= {"db", "lock", "upgrade", "backup", "partial"}
        if "again" not in point:
            continue
        assert point["target"] == 7
        again, expected = dict(point["again"]), dict(whole["again"])
        assert len(again.pop("files")) == len(expected.pop("files")) == 3
        assert again == expected, point["number"]
    assert sum("again" in point for point in points) > len(points) // 5
    assert sorted(seen) == ["1", "2", "3", "4", "5", "6", "7"]
    for version, states in seen.items():
        assert all(state == states[0] for state in states), f"there is more than one version {version}"


@pytest.mark.timeout(300)
def test_killed_at_every_statement(tmp_path):
    source = tmp_path / "source.db"
    with closing(sqlite3.connect(source)) as connection:
        connection.executescript(SMALL)
    points = kill_everywhere(source, tmp_path / "work")
    assert len(points) > 150
    check(points)


def test_a_restore_killed_anywhere_leaves_the_one_store_or_the_other(tmp_path):
    source, backup = tmp_path / "source.db", tmp_path / "old.backup"
    Store.open(f"sqlite:///{source}").close()
    with closing(sqlite3.connect(backup)) as connection:
        connection.executescript(SMALL)
    *killed, whole = kill_everywhere(source, tmp_path / "work", str(backup))
    assert len(killed) > 10
    assert whole["killed"]["version"] == ["1"]
    assert {point["killed"]["version"][0] for point in killed} <= {"7", "1"}
    for point in killed:
        assert (point["killed"]["sound"], point["killed"]["dangling"]) == ("ok", [])
        assert point["again"]["version"] == ["1"]
        assert point["again"]["rows"]["agent_events"] == 3
        assert not [name for name in point["again"]["files"] if name.endswith((".restoring", ".partial"))]
