"""Appends against ``put`` of LangGraph's SQLite checkpointer: same payloads, ``synchronous=FULL``, one run.

Usage: ``pip install -r tests/benchmarks/requirements.txt``, then
``python tests/benchmarks/langgraph_saver.py [--rounds N] [--directory PATH]``

An append redacts, validates, hashes, moves head and cursors and writes an audit event; a ``put`` writes one row.
Both hold the same text. One caller: :meth:`Recorder.append_now` against the synchronous saver. 64 callers: tasks of an
event loop against 64 threads on the synchronous saver, and against tasks on the asynchronous one. The sides take turns
in short blocks; printed are the median block and the best one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

import aiosqlite
from append import CALLERS, TEXT, draft, open_store, report, timed
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

ONE_BLOCK = 60
PER_CALLER = 10
METADATA = {"source": "loop", "step": 1, "parents": {}}


class Thread:
    """One thread of checkpoints; each is the child of the one before."""

    def __init__(self, name: str) -> None:
        self.config = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        self.numbers = itertools.count()

    def next(self) -> tuple[dict, dict, dict, dict]:
        checkpoint = {
            "v": 1,
            "id": f"{next(self.numbers):032x}",
            "ts": "2026-01-02T03:04:05.678901+00:00",
            "channel_values": {"text": TEXT},
            "channel_versions": {},
            "versions_seen": {},
        }
        return self.config, checkpoint, METADATA, {}


def one_caller(directory: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    store, recorder, session_id = open_store(directory, "one.db")
    connection = sqlite3.connect(directory / "saver-one.db", check_same_thread=False)
    saver, thread = SqliteSaver(connection), Thread("t")
    saver.put(*thread.next())
    connection.execute("PRAGMA synchronous=FULL")

    def put() -> None:
        thread.config = saver.put(*thread.next())

    sides = {
        "bridge": lambda: [recorder.append_now(session_id, draft()) for _ in range(ONE_BLOCK)],
        "synchronous saver": lambda: [put() for _ in range(ONE_BLOCK)],
    }
    times = {name: [] for name in sides}
    with store:
        for _ in range(rounds):
            for name, side in sides.items():
                times[name].append(timed(side, ONE_BLOCK))
    connection.close()
    return times


async def many_callers(directory: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    store, recorder, session_id = open_store(directory, "many.db")
    connection = sqlite3.connect(directory / "saver-many.db", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.put(*Thread("set up").next())
    connection.execute("PRAGMA synchronous=FULL")
    threads = [Thread(str(number)) for number in range(CALLERS)]

    async def bridge() -> None:
        async def caller() -> None:
            for _ in range(PER_CALLER):
                await recorder.append_async(session_id, draft())

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    def put_all(thread: Thread) -> None:
        for _ in range(PER_CALLER):
            thread.config = saver.put(*thread.next())

    def synchronous() -> None:
        running = [threading.Thread(target=put_all, args=(thread,)) for thread in threads]
        for each in running:
            each.start()
        for each in running:
            each.join()

    async with aiosqlite.connect(directory / "saver-async.db") as asynchronous_connection:
        asynchronous_saver = AsyncSqliteSaver(asynchronous_connection)
        await asynchronous_saver.aput(*Thread("set up").next())
        await asynchronous_connection.execute("PRAGMA synchronous=FULL")

        async def asynchronous() -> None:
            async def caller(thread: Thread) -> None:
                for _ in range(PER_CALLER):
                    thread.config = await asynchronous_saver.aput(*thread.next())

            await asyncio.gather(*(caller(thread) for thread in threads))

        loop = asyncio.get_running_loop()
        times: dict[str, list[tuple[float, float]]] = {"bridge": [], "synchronous saver": [], "asynchronous saver": []}
        with store:
            for _ in range(rounds):
                for name, taken in times.items():
                    started, used = loop.time(), time.process_time()
                    if name == "synchronous saver":
                        synchronous()
                    else:
                        await (bridge() if name == "bridge" else asynchronous())
                    count = CALLERS * PER_CALLER
                    taken.append(((loop.time() - started) / count, (time.process_time() - used) / count))
    connection.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="blocks of each side (default 10)")
    parser.add_argument("--directory", type=Path, default=None, help="where the databases go (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        place = Path(directory)
        report("one caller", one_caller(place, options.rounds), ["synchronous saver"])
        many = asyncio.run(many_callers(place, options.rounds))
        report(f"{CALLERS} callers", many, ["synchronous saver", "asynchronous saver"])


if __name__ == "__main__":
    main()
