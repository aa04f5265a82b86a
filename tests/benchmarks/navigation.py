"""What a page of a log and of the list of sessions costs as a conversation grows; it should not depend on that.

Usage: ``python tests/benchmarks/navigation.py [--entries N ...] [--sessions N ...] [--directory PATH]``

One session of N entries on one path, eight to a turn, with tool outputs of 300 characters; they are put there row by
row without Bridge's hashes and triggers. Printed are medians, in milliseconds, of the use cases as every door calls
them, and of ``bridge log -n 50`` as a whole process without a resident controller beside ``python -c pass``, in turns.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bridge.control.controller import Controller
from bridge.control.reading.sessions import read_log, session_page
from bridge.control.standpoint import Standpoint
from bridge.conversations.facets import Facet
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.foundation.ids import entry_id
from bridge.storage.store import Store

SESSION = "20260101-000000-abcd"
MOMENT = "2026-01-01T00:00:00.000000Z"
DIGEST = "a" * 64
TURN = (
    ("user.message", '{"text":"Please look at the next file and mend it"}'),
    ("turn.started", '{"turn_id":"t"}'),
    ("tool.started", '{"name":"bash","tool_call_id":"c"}'),
    ("tool.completed", '{"name":"bash","output":"' + "x" * 300 + '","status":"completed","tool_call_id":"c"}'),
    ("tool.started", '{"name":"bash","tool_call_id":"d"}'),
    ("tool.completed", '{"name":"bash","output":"' + "y" * 300 + '","status":"failed","tool_call_id":"d"}'),
    ("assistant.message", '{"text":"' + "It is mended now. " * 20 + '"}'),
    ("turn.completed", '{"turn_id":"t"}'),
)
INSERT = (
    "INSERT INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
    " context_visibility, unknown_reason, created_at, payload_hash, entry_hash, payload)"
    f" VALUES (?, ?, ?, ?, 2, ?, 'eligible', 'unstamped', '{MOMENT}', '{DIGEST}', '{DIGEST}', ?)"
)


def fill(path: Path, entries: int, sessions: int) -> None:
    Store.open(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous=OFF")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    names = [SESSION, *(f"20250101-{number:06d}-{number % 65536:04x}" for number in range(sessions - 1))]
    for number, name in enumerate(names):
        moment = MOMENT if number == 0 else f"2025-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}.{number:06d}Z"
        last = entries if number == 0 else 0
        connection.execute(
            "INSERT INTO sessions (id, kind, status, created_at, updated_at) VALUES (?, 'chat', 'open', ?, ?)",
            (name, moment, moment),
        )
        connection.execute(INSERT, (name, entry_id(name, 0), None, 0, "session.root", "{}"))
        connection.execute(
            "INSERT INTO session_heads VALUES (?, ?, ?, ?)", (name, entry_id(name, last), last + 1, moment)
        )
    connection.executemany(INSERT, rows(entries))
    connection.commit()
    connection.close()


def rows(entries: int):
    for number in range(1, entries + 1):
        kind, payload = TURN[(number - 1) % len(TURN)]
        yield SESSION, entry_id(SESSION, number), entry_id(SESSION, number - 1), number, kind, payload


def median(run: Callable[[], object], rounds: int = 15) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def measure(home: Path, entries: int, sessions: int) -> None:
    home.mkdir()
    fill(home / "bridge.db", entries, sessions)
    environment = {**os.environ, "BRIDGE_HOME": str(home)}
    place = Standpoint()
    with Controller(load_settings(environment), clock=SystemClock(), environment={}) as controller:

        def log(**options: object) -> Callable[[], object]:
            return lambda: read_log(controller, place, SESSION, limit=50, **options).to_json()

        middle = entry_id(SESSION, entries // 2)
        figures = {
            "last 50": median(log()),
            "50 before the middle": median(log(before=middle)),
            "50 of all branches": median(log(all_branches=True)),
            "50 of one facet": median(log(facets=[Facet.TOOLS])),
            "50 problems": median(log(problems_only=True)),
            "one turn": median(log(turn=f"{SESSION}.@")),
            "50 sessions": median(lambda: session_page(controller, place, everywhere=True, kinds=(), limit=50)),
            "the next 50": median(
                lambda: session_page(
                    controller, place, everywhere=True, kinds=(), limit=50, before=("2025-01-01T00:30", "z")
                )
            ),
        }
    command = [sys.executable, "-m", "bridge", "log", SESSION, "-n", "50"]
    ours, bare = [], []
    for _ in range(7):
        for words, times in ((command, ours), ([sys.executable, "-c", "pass"], bare)):
            start = time.perf_counter()
            subprocess.run(words, env=environment, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
    figures["process"], figures["bare Python"] = statistics.median(ours) * 1000, statistics.median(bare) * 1000
    shown = "  ".join(f"{name} {value:.2f}" for name, value in figures.items())
    print(f"{entries:>9,} entries, {sessions:>6,} sessions: {shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--sessions", type=int, nargs="+", default=[200, 20_000])
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for entries, sessions in zip(options.entries, options.sessions, strict=True):
            measure(Path(directory) / str(entries), entries, sessions)


if __name__ == "__main__":
    main()
