"""Processes that append are killed at random: no gap, no duplicate, nothing acknowledged is lost, all verifies.

The default numbers are small. ``make soak`` sets BRIDGE_TEST_SOAK=1: 8 processes with 1,000 appends each, 200 kills.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest

from bridge.conversations import store as rows
from bridge.integrity.chain import verify_session
from tests.integration.conversations.crashing import batter

#: Read before the fixture that takes all BRIDGE_* variables away.
IS_SOAK = bool(os.environ.get("BRIDGE_TEST_SOAK"))
PROCESSES, APPENDS, KILLS = (8, 1000, 200) if IS_SOAK else (4, 30, 8)


@pytest.mark.timeout(3600 if IS_SOAK else 300)
def test_killed_writers_lose_nothing_that_was_acknowledged(forest, tmp_path):
    sessions = [forest.session() for _ in range(2)]
    acknowledged = batter(
        forest.url, sessions, tmp_path, processes=PROCESSES, appends=APPENDS, kills=KILLS, seed=20260102
    )
    forest.reopen()
    assert len(acknowledged) >= PROCESSES * APPENDS
    assert len({identity for identity, _ in acknowledged}) == len(acknowledged)
    stored = {}
    with forest.store.read() as connection:
        for session in sessions:
            report = verify_session(connection, session)
            assert report.is_valid, report
            nodes = rows.list_nodes(connection, session)
            assert [node.sequence for node in nodes] == list(range(len(nodes)))
            stored |= {entry.id: entry for entry in rows.iterate_entries(connection, session)}
            assert rows.get_head(connection, session).entry_id == nodes[-1].id
    for identity, text in acknowledged:
        assert stored[identity].payload["text"] == text
    # What was not acknowledged may be there, since a process can die between the two; but no more than was in flight.
    assert len(stored) - len(sessions) - len(acknowledged) <= (KILLS + PROCESSES) * len(sessions)
    if forest.store.database == "sqlite":
        forest.store.close()
        with closing(sqlite3.connect(str(forest.store.url.database))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
