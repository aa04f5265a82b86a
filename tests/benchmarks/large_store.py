"""What reading and appending cost in stores of 1,000, 100,000 and 1,000,000 entries; they should not depend on it.

Usage: ``python tests/benchmarks/large_store.py [--entries N ...] [--directory PATH]``

The entries lie in sessions that are 10,000 deep (the smallest store: one of 1,000), with texts of 430 characters. They
are put there row by row without Bridge's hashes, which no reading looks at, and without its triggers, which are made
again afterwards.

Printed are medians of opening the store, one append, the 50 last entries, the list of sessions, and the whole active
path of 10,000; and for the path its ratio to the bare recursive query with the payloads decoded by the standard
library's ``json``, in turns.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from append import BODY, DIGEST, INSERT_ENTRY, INSERT_EVENT, MOMENT, PAYLOAD, draft

from bridge.control.recording import Recorder
from bridge.conversations import paths
from bridge.conversations import store as rows
from bridge.foundation.clock import SystemClock
from bridge.foundation.ids import entry_id
from bridge.storage.ddl import trigger_statements
from bridge.storage.store import Store

DEPTH = 10_000
BARE = """
WITH RECURSIVE path(session_id, id, parent_entry_id, sequence, kind, payload) AS (
  SELECT session_id, id, parent_entry_id, sequence, kind, payload FROM session_entries WHERE session_id = ? AND id = ?
  UNION ALL
  SELECT e.session_id, e.id, e.parent_entry_id, e.sequence, e.kind, e.payload FROM session_entries AS e
  JOIN path ON e.session_id = path.session_id AND e.id = path.parent_entry_id)
SELECT session_id, id, parent_entry_id, sequence, kind, payload FROM path
"""


def fill(path: Path, entries: int) -> list[str]:
    depth = min(DEPTH, entries)
    sessions = [f"20260102-{number:06d}-abcd" for number in range(entries // depth)]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    # Side by side, as sessions grow: each page holds rows of many.
    for start in range(0, depth, 100):
        connection.execute("BEGIN")
        for session in sessions:
            if start == 0:
                connection.execute(
                    "INSERT INTO sessions (id, kind, status, created_at, updated_at) VALUES (?, 'chat', 'open', ?, ?)",
                    (session, MOMENT, MOMENT),
                )
            connection.executemany(INSERT_ENTRY, entry_rows(session, start, min(start + 100, depth)))
            connection.executemany(INSERT_EVENT, event_rows(session, start, min(start + 100, depth)))
        connection.execute("COMMIT")
    heads = [(session, entry_id(session, depth - 1), depth, MOMENT) for session in sessions]
    connection.executemany("INSERT INTO session_heads VALUES (?, ?, ?, ?)", heads)
    for statement in trigger_statements():
        connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return sessions


def entry_rows(session: str, start: int, end: int):
    for number in range(start, end):
        parent = None if number == 0 else entry_id(session, number - 1)
        yield session, entry_id(session, number), parent, number, MOMENT, DIGEST, DIGEST, PAYLOAD


def event_rows(session: str, start: int, end: int):
    for number in range(start, end):
        yield session, number, MOMENT, DIGEST, BODY


def median(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def bare(connection: sqlite3.Connection, session: str, leaf: str) -> list[tuple]:
    found = [(*row[:5], json.loads(row[5])) for row in connection.execute(BARE, (session, leaf))]
    found.reverse()
    return found


def measure(directory: Path, entries: int) -> None:
    path = directory / f"{entries}.db"
    url = f"sqlite:///{path}"
    Store.open(url).close()
    sessions = fill(path, entries)
    middle = sessions[len(sessions) // 2]

    def open_and_close() -> None:
        Store.open(url).close()

    figures = {"open": median(open_and_close, 20)}
    with Store.open(url) as store:
        recorder = Recorder(store, SystemClock())
        recorder.append_now(middle, draft())
        figures["append"] = median(lambda: recorder.append_now(middle, draft()), 200)
        with store.read() as connection:
            figures["last 50"] = median(lambda: paths.listed_path(connection, middle, last=50), 200)
            figures["session list"] = median(lambda: rows.list_sessions(connection, limit=50), 50)
            plain = sqlite3.connect(path)
            leaf = paths.active_path(connection, middle, last=1)[0].id
            ours, decoded, theirs = [], [], []
            for _ in range(15):
                theirs.append(median(lambda: bare(plain, middle, leaf), 1))
                ours.append(median(lambda: paths.active_path(connection, middle), 1))
                decoded.append(median(lambda: [e.payload for e in paths.active_path(connection, middle)], 1))
            plain.close()
    figures["active path"] = statistics.median(ours)
    figures["with payloads read"] = statistics.median(decoded)
    figures["bare query"] = statistics.median(theirs)
    size = path.stat().st_size / 1e6
    print(f"{entries} entries, {len(sessions)} sessions, {size:.0f} MB")
    for name, milliseconds in figures.items():
        print(f"  {name:20} {milliseconds:8.2f} ms")
    ratios = (statistics.median(a / b for a, b in zip(times, theirs, strict=True)) for times in (ours, decoded))
    print("  path / bare query: {:.2f}; with every payload read strictly: {:.2f}".format(*ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--directory", type=Path, default=None, help="where the databases go (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for entries in options.entries:
            measure(Path(directory), entries)


if __name__ == "__main__":
    main()
