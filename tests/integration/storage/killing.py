"""Kills an upgrade, or a restore, before each of its statements, in a child process, and starts it again.

Usage: ``killing.py DATABASE WORK [EVERY [BACKUP]]``. For each n: a fresh copy of the store, a child that upgrades it
(with a backup named: restores that) and kills itself with SIGKILL when its n-th statement, renaming or removal begins
(which is after the one before it ended), one line of JSON with what was found then, and after a second run, if there
was one. It ends when a child lives to the end.

The children are forks of this one process, which has imported everything and runs no threads: a process of its own
for each of the hundreds of points would take minutes. Statements are counted by SQLite's own trace, so that those of
``executemany``, of pragmas, of transactions and of the backup are all seen, whoever issues them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from bridge.storage.backup import restore
from bridge.storage.migrations import running  # noqa: F401 - imported before the forks
from bridge.storage.upgrading import upgrade

MOMENT = "2026-01-02T03:04:05.000000Z"
_connect = sqlite3.connect


def kill_at(number: int) -> None:
    """Make the process kill itself when its n-th statement begins."""
    seen = 0

    def step(event: str, _arguments: tuple) -> None:
        if event in {"os.rename", "os.remove", "os.link"}:
            count(event)

    def count(_statement: str) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(*arguments, **options):
        connection = _connect(*arguments, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = connect
    sys.addaudithook(step)


def run(database: Path, backup: Path | None) -> int:
    """Do what is to be killed; return the version that the store has then."""
    if backup is None:
        return upgrade(database, moment=MOMENT, timeout_seconds=5).target
    return restore(database, backup, moment=MOMENT, timeout_seconds=5).version


def run_in_child(database: Path, backup: Path | None, number: int) -> int:
    """Return how the child ended: its wait status."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            kill_at(number)
            run(database, backup)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return ended


def snapshot(database: Path) -> dict:
    """What the store is now, by plain SQL: version, objects, content, soundness, the files beside it."""
    with closing(_connect(database)) as connection:
        objects = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
        tables = [name for kind, name, _ in objects if kind == "table"]
        version = connection.execute("SELECT version_num FROM schema_version").fetchall()
        found = {
            "version": [row[0] for row in version],
            "objects": [[kind, name, " ".join((sql or "").split())] for kind, name, sql in objects],
            "rows": {
                name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                for name in tables
                if not name.startswith("recall_index")
            },
            "sound": connection.execute("PRAGMA integrity_check").fetchone()[0],
            "dangling": connection.execute("PRAGMA foreign_key_check").fetchall(),
        }
    found["files"] = sorted(path.name for path in database.parent.iterdir() if not path.name.endswith(("-shm", "-wal")))
    return found


def main(source: Path, work: Path, every: int, backup: Path | None) -> None:
    number, before = 1, None
    while True:
        home = work / str(number)
        home.mkdir()
        database = home / "bridge.db"
        shutil.copyfile(source, database)
        ended = run_in_child(database, backup, number)
        killed = snapshot(database)
        lived = os.WIFEXITED(ended)
        if lived and os.WEXITSTATUS(ended) != 0:
            raise SystemExit(f"it failed by itself at {number}")
        line = {"number": number, "lived": lived, "killed": killed}
        # Of many kills that leave the same one after the other, the first and each fifth are started again.
        if every > 1 or backup is not None or lived or killed != before or number % 5 == 0:
            line["target"] = run(database, backup)
            line["again"] = snapshot(database)
        before = killed
        print(json.dumps(line), flush=True)
        shutil.rmtree(home)
        if lived:
            return
        number += every


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]) if len(sys.argv) > 3 else 1,
        Path(sys.argv[4]) if len(sys.argv) > 4 else None,
    )
