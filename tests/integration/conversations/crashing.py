"""Eight processes append to shared sessions and are killed and started again; what was acknowledged must be there.

``python crashing.py URL SESSION[,SESSION…] COUNT NAME LOG`` appends COUNT entries and writes each acknowledged one to
LOG. :func:`batter` runs many of them and sends SIGKILL to one after the other.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bridge.control.recording import Recorder
from bridge.conversations import store as rows
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.integrity.verify import verify_session
from bridge.storage.store import Store

ROOT = Path(__file__).parents[3]
#: Longest time between two kills, in seconds; the shortest is none.
MAX_PAUSE_SECONDS = 0.4


@dataclass
class Worker:
    """One of the places at which a process appends; the process changes with each kill."""

    name: str
    log: Path
    generation: int = 0
    process: subprocess.Popen[bytes] | None = None


def append(url: str, sessions: Sequence[str], count: int, name: str, log: Path) -> None:
    with Store.open(url, create=False, busy_timeout_seconds=90) as store, log.open("ab", buffering=0) as file:
        recorder = Recorder(store, SystemClock())
        for number in range(count):
            text = f"{name} {number}"
            draft = EntryDraft(kind="user.message", payload={"text": text})
            if number % 5 == 4:
                # Several in one transaction, through the writer's thread.
                futures = [recorder.append(session, draft) for session in sessions]
                entries = [future.result().entry for future in futures]
            else:
                entries = [recorder.append_now(sessions[number % len(sessions)], draft)]
            # One write each, which a kill leaves whole or out.
            file.write("".join(f"{entry.id} {text}\n" for entry in entries).encode())


def batter_and_check(url: str, folder: Path, *, processes: int, appends: int, kills: int) -> None:
    """Batter a store and assert that no gap, no duplicate and no loss came of it."""
    with Store.open(url) as store:
        recorder = Recorder(store, SystemClock())
        sessions = [recorder.create_session(NewSession()).id for _ in range(2)]
    numbers = {"processes": processes, "appends": appends, "kills": kills}
    acknowledged = batter(url, sessions, folder, **numbers, seed=20260102)
    assert len(acknowledged) >= processes * appends
    assert len({identity for identity, _ in acknowledged}) == len(acknowledged)
    stored = {}
    with Store.open(url) as store, store.read() as connection:
        for session in sessions:
            report = verify_session(connection, session)
            assert report.is_valid, report
            nodes = rows.list_nodes(connection, session)
            assert [node.sequence for node in nodes] == list(range(len(nodes)))
            stored |= {entry.id: entry for entry in rows.iterate_entries(connection, session)}
            head = rows.get_head(connection, session)
            assert head is not None
            assert head.entry_id == nodes[-1].id
    for identity, text in acknowledged:
        assert stored[identity].payload["text"] == text
    # What was not acknowledged may be there, since a process can die between the two; but no more than was in flight.
    assert len(stored) - len(sessions) - len(acknowledged) <= (kills + processes) * len(sessions)
    if store.database == "sqlite":
        with closing(sqlite3.connect(str(store.url.database))) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def batter(
    url: str, sessions: Sequence[str], folder: Path, *, processes: int, appends: int, kills: int, seed: int
) -> list[tuple[str, str]]:
    """Run the processes until each has appended its share and so many were killed; return what was acknowledged."""
    choose = random.Random(seed)
    workers = [Worker(f"w{n}", folder / f"w{n}.log") for n in range(processes)]
    left = kills
    try:
        while True:
            running = []
            for worker in workers:
                if worker.process is not None and worker.process.poll() is not None:
                    assert worker.process.returncode in (0, -9), worker.name
                    # One that came to its end is not needed again, unless there is more to kill.
                    worker.process = None if worker.process.returncode or left else worker.process
                if worker.process is None:
                    worker.generation += 1
                    worker.process = _start(url, sessions, appends, worker)
                if worker.process.poll() is None:
                    running.append(worker)
            if not running:
                break
            if left:
                time.sleep(choose.uniform(0, MAX_PAUSE_SECONDS))
                victim = choose.choice(running)
                if victim.process is not None and victim.process.poll() is None:
                    victim.process.kill()
                    victim.process.wait()
                    left -= 1
            else:
                time.sleep(0.05)
    finally:
        for worker in workers:
            if worker.process is not None and worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
    lines = [line for worker in workers if worker.log.exists() for line in worker.log.read_text().splitlines()]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def _start(url: str, sessions: Sequence[str], appends: int, worker: Worker) -> subprocess.Popen[bytes]:
    arguments = [url, ",".join(sessions), str(appends), f"{worker.name}.{worker.generation}", str(worker.log)]
    environment = {"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", "")}
    return subprocess.Popen([sys.executable, __file__, *arguments], cwd=ROOT, env=environment)


if __name__ == "__main__":
    append(sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
