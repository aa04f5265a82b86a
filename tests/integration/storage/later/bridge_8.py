"""A made-up later Bridge, whose stores have schema 8: run as a program, in a process of its own.

Usage: ``bridge_8.py FOLDER WHAT [URL [MORE]]``. FOLDER gets a copy of the shipped
steps and the one of this folder. WHAT is

``fresh``
    make a store at URL and append nothing;
``upgrade``
    bring the store at URL up to date; MORE may be ``rehearse``, or ``fail`` for a step that changes what was recorded;
``wait``
    as ``upgrade``, but stop inside the step, with its work done and nothing committed, until the standard input ends;
``kill``
    as ``upgrade`` of the store that each line of the standard input names, killed by SIGKILL when the first statement
    begins, at the next line the second, until one lives;
``cli``
    run the command line with the arguments MORE.

A line of JSON says what came of it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

from bridge.storage import schema_version

# Before anything else is imported: the other modules take it from here by name.
schema_version.SCHEMA_VERSION = 8

import psycopg  # noqa: E402 - as above
from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, Table  # noqa: E402 - as above

from bridge.foundation.errors import BridgeError  # noqa: E402 - as above
from bridge.storage import ddl, tables  # noqa: E402 - as above
from bridge.storage.backend import backend_for  # noqa: E402 - as above
from bridge.storage.migrations import running, statements  # noqa: E402 - as above
from bridge.storage.store import Store  # noqa: E402 - as above
from bridge.storage.tables.base import key, optional, required  # noqa: E402 - as above

HERE = Path(__file__).parent
MOMENT = "2026-01-02T03:04:05.000000Z"

ddl.IMMUTABLE_TABLES["moods"] = None
tables.sessions.append_column(optional("mood"))
Table(
    "moods",
    tables.metadata,
    key("session_id"),
    key("entry_id"),
    required("word"),
    CheckConstraint("length(word) > 0", name="word"),
    ForeignKeyConstraint(["session_id", "entry_id"], ["session_entries.session_id", "session_entries.id"]),
    Index("ix_moods_word", "word"),
)


def lay_steps(folder: Path) -> None:
    """Use the shipped steps and the made-up one, pinned as all steps are."""
    package = folder / "migrations"
    if not package.exists():
        unfinished = folder / f"migrations.{os.getpid()}"
        shutil.copytree(Path(running.__file__).parent, unfinished, ignore=shutil.ignore_patterns("__pycache__"))
        for file in HERE.glob("v8*"):
            shutil.copyfile(file, unfinished / "versions" / file.name)
        _point_to(unfinished)
        running.DIGESTS.write_text(json.dumps(running.current_digests()))
        try:
            unfinished.rename(package)
        except OSError:  # another process was quicker
            shutil.rmtree(unfinished)
    _point_to(package)


def _point_to(package: Path) -> None:
    running._PACKAGE = package
    running.DIGESTS = package / "digests.json"
    statements.VERSIONS = package / "versions"


def upgrade(url: str, **options) -> dict:
    done = backend_for(url).upgrade(moment=MOMENT, timeout_seconds=10, is_backed_up=True, **options)
    return {"found": done.found, "target": done.target, "rehearsed": done.was_rehearsal}


def _in_step(what) -> None:
    """Call something inside the step's transaction, before it is checked."""
    flaw_of = running.flaw_of

    def call(driver):
        what(driver)
        return flaw_of(driver)

    running.flaw_of = call


def _change_what_was_recorded(driver) -> None:
    off = "DROP TRIGGER session_entries_no_update"
    driver.execute(off if isinstance(driver, sqlite3.Connection) else off + " ON session_entries")
    driver.execute("UPDATE session_entries SET payload = '{}' WHERE sequence = 1")


def _wait(_driver) -> None:
    print("inside", flush=True)
    sys.stdin.read()


def kill_at(number: int) -> None:
    """Make the process kill itself when its n-th statement begins, whichever driver runs it."""
    seen = 0

    def count(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function):
        def run(*arguments, **options):
            count()
            return function(*arguments, **options)

        return run

    for owner, name in (
        (psycopg.Cursor, "execute"),
        (psycopg.ServerCursor, "execute"),
        (psycopg.Connection, "commit"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
    connect = sqlite3.connect

    def traced(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = traced


def main(folder: Path, what: str, *more: str) -> int:
    lay_steps(folder)
    if what == "cli":
        from bridge.cli.main import main as run

        return run(list(more))
    if what == "kill":
        return _kill_everywhere()
    url, *options = more
    if what == "fresh":
        Store.open(url).close()
        print(json.dumps({}))
        return 0
    if "fail" in options:
        _in_step(_change_what_was_recorded)
    if what == "wait":
        _in_step(_wait)
    try:
        print(json.dumps(upgrade(url, rehearse="rehearse" in options)))
    except BridgeError as error:
        print(json.dumps({"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}))
    return 0


def _kill_everywhere() -> int:
    """Kill one upgrade at its first, second, … statement; each is a fork that has imported all."""
    for number, line in enumerate(sys.stdin, start=1):
        url = line.strip()
        child = os.fork()
        if child == 0:
            status = 70
            try:
                kill_at(number)
                upgrade(url)
                status = 0
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        print(json.dumps({"number": number, "status": os.waitstatus_to_exitcode(ended)}), flush=True)
        if not ended:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
