"""What building a context costs, in one run with what it is measured against.

Usage: ``python tests/benchmarks/context.py [--rounds N] [--pi FOLDER]``

Two questions, on a conversation of 430 characters a message, user and assistant in turns:

- Of 10,000 entries: the whole context, as message objects, against reading and decoding its rows: the bare recursive
  query over the parents with sqlite3, payloads decoded by orjson.
- Of 10,000 and of 50,000 entries with the same content: opening the store and building the context against opening
  the file with Pi's own session manager and building its context. Pi (npm ``@mariozechner/pi-coding-agent``) is
  installed into a temporary folder without running any script of its packages, or taken from ``--pi``, a folder that
  has it in ``node_modules``. One more row: the context within 200,000 tokens, where Pi builds all of it.

Sides take turns. A turn of Pi is a process of its own with one opening to warm it up; what counts is the second one, so
that loading and compiling its code is not in it. Printed are the medians, their ratio, the ratio of the best, and that
of the processor time that either process used; on a busy machine the last two are the ones to read.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson
from append import TEXT
from large_store import BARE

from bridge.control.recording import Recorder
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.pathsource import StoredPath
from bridge.conversations.projection import Projection, project_source
from bridge.conversations.shape.runs import shape_of
from bridge.conversations.store import get_head
from bridge.foundation.clock import SystemClock
from bridge.storage.store import Store

PACKAGE = "@mariozechner/pi-coding-agent"
BUDGET_TOKENS = 200_000
KINDS = ("user.message", "assistant.message")


def fill(url: str, entries: int) -> tuple[str, str]:
    """Record a conversation as Bridge does; return its session and its leaf."""
    with Store.open(url) as store:
        recorder = Recorder(store, SystemClock())
        session = recorder.create_session(NewSession()).id
        for start in range(0, entries, 500):
            drafts = [
                EntryDraft(kind=KINDS[number % 2], payload={"text": f"{number} {TEXT}"})
                for number in range(start, min(start + 500, entries))
            ]

            def append(recording, drafts=drafts):
                for draft in drafts:
                    recording.append(session, draft)

            recorder.transact(append)
        with store.read() as connection:
            return session, get_head(connection, session).entry_id


def write_pi(path: Path, entries: int) -> None:
    """Write the same conversation as Pi keeps it."""
    moment = "2026-01-02T03:04:05.678Z"
    lines = [{"type": "session", "version": 3, "id": "bench", "timestamp": moment, "cwd": str(path.parent)}]
    parent = None
    for number in range(entries):
        text = f"{number} {TEXT}"
        message = {"role": KINDS[number % 2].split(".")[0], "content": [{"type": "text", "text": text}], "timestamp": 1}
        identity = f"{number:08x}"
        lines.append({"type": "message", "id": identity, "parentId": parent, "timestamp": moment, "message": message})
        parent = identity
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def install(folder: Path) -> Path:
    (folder / "package.json").write_text('{"private": true}')
    subprocess.run(
        ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", PACKAGE], cwd=folder, check=True
    )
    return folder


class Times:
    """Times of one side, and the processor time of its process, in ms."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def add(self, wall: float, processor: float) -> None:
        self.wall.append(wall)
        self.processor.append(processor)

    def run(self, call: Callable[[], object]) -> None:
        start, used = time.perf_counter(), time.process_time()
        # Kept until the clock was read: the other sides do not throw away what they made either.
        made = call()
        self.add((time.perf_counter() - start) * 1000, (time.process_time() - used) * 1000)
        del made


def pi_once(times: Times, folder: Path, file: Path, entries: int) -> None:
    script = Path(shutil.copy(Path(__file__).with_name("pi_session.mjs"), folder))
    done = subprocess.run(["node", str(script), str(file), "2"], capture_output=True, text=True, check=True)
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["messages"] == entries
    times.add(last["ms"], last["cpu"])


def opened(url: str, session: str, entries: int, budget: int | None = None) -> Projection:
    with Store.open(url) as store, store.read() as connection:
        leaf = get_head(connection, session).entry_id
        projection = project_source(StoredPath(connection, shape_of(connection, leaf)), budget_tokens=budget)
    assert budget is not None or len(projection.messages) == entries
    return projection


def show(name: str, ours: Times, theirs: Times, aim: float) -> None:
    ratio = statistics.median(ours.wall) / statistics.median(theirs.wall)
    best = min(ours.wall) / min(theirs.wall)
    processor = statistics.median(ours.processor) / statistics.median(theirs.processor)
    print(
        f"{name:52} {statistics.median(ours.wall):8.1f} ms {statistics.median(theirs.wall):8.1f} ms  ratio {ratio:6.3f}"
        f"  of the best {best:6.3f}  of processor time {processor:6.3f}  aim {aim}"
    )


def against_rows(url: str, session: str, leaf: str, rounds: int) -> None:
    plain = sqlite3.connect(url.removeprefix("sqlite:///"))

    def rows() -> list[tuple]:
        found = [(*row[:5], orjson.loads(row[5])) for row in plain.execute(BARE, (session, leaf))]
        found.reverse()
        return found

    ours, theirs = Times(), Times()
    with Store.open(url) as store, store.read() as connection:
        for _ in range(rounds):
            theirs.run(rows)
            ours.run(lambda: project_source(StoredPath(connection, shape_of(connection, leaf))))
    plain.close()
    show("10,000 entries: context against rows and decoding", ours, theirs, 1.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pi", type=Path, default=None, help="a folder that has Pi in node_modules")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pi = options.pi or install(folder)
        for entries, aim in ((10_000, 0.7), (50_000, 0.25)):
            url, file = f"sqlite:///{folder}/{entries}.db", folder / f"{entries}.jsonl"
            session, leaf = fill(url, entries)
            write_pi(file, entries)
            if entries == 10_000:
                against_rows(url, session, leaf, options.rounds)
            ours, theirs, within = Times(), Times(), Times()
            for _ in range(options.rounds):
                pi_once(theirs, pi, file, entries)
                ours.run(partial(opened, url, session, entries))
                within.run(partial(opened, url, session, entries, BUDGET_TOKENS))
            show(f"{entries:,} entries: whole context against Pi", ours, theirs, aim)
            if entries == 50_000:
                show(f"{entries:,} entries: within {BUDGET_TOKENS:,} tokens against Pi", within, theirs, 0.05)
                told = opened(url, session, entries, BUDGET_TOKENS)
                print(f"  ({len(told.messages)} messages, {told.tokens:,} tokens)")


if __name__ == "__main__":
    main()
