"""SIGKILL during the upgrade of a larger history: every 97th statement of some thousands."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / "tests" / "integration" / "storage"
EVENTS = 5000
EVERY = 97


def test_killed_all_over_a_larger_history(tmp_path):
    source, work = tmp_path / "source.db", tmp_path / "work"
    work.mkdir()
    with closing(sqlite3.connect(source)) as connection:
        connection.executescript((STORAGE / "legacy" / "v1.sql").read_text(encoding="utf-8"))
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO agent_events"
            " SELECT 'session-' || (i % 7), i / 3, 'user.message', '{\"text\":\"' || i || '\"}',"
            " strftime('%Y-%m-%dT%H:%M:%S', 1750000000 + i, 'unixepoch') || '.000000Z' FROM n",
            (EVENTS - 1,),
        )
        connection.commit()
    done = subprocess.run(
        [sys.executable, str(STORAGE / "killing.py"), str(source), str(work), str(EVERY)],
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    points = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(points) > 2 * EVENTS // EVERY
    states: dict[str, list] = {}
    for point in points:
        found = point["killed"]
        assert (found["sound"], found["dangling"]) == ("ok", [])
        states.setdefault(found["version"][0], []).append((found["objects"], found["rows"]))
        assert {**point["again"], "files": None} == {**points[-1]["again"], "files": None}
    for version, seen in states.items():
        assert all(state == seen[0] for state in seen), version
