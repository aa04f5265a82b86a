"""How much a durable append costs, as ratios within one run.

Usage: ``python tests/benchmarks/append.py [--rounds N] [--directory PATH]``

Two questions:

- One caller: an append through the Recorder (redact, validate, encode, hash, entry, head, cursors, audit event,
  fsync) against one raw sqlite3 transaction of the same entry row, ``synchronous=FULL``, same tables and
  triggers. Also against a raw transaction of all four rows that an append writes.
- 64 callers at once (asyncio, one append each at a time) against a raw loop that writes the same four rows
  with 64 appends to a transaction.

The sides take turns in short blocks, so that a noisy machine disturbs both. Printed are the median block and the
best one of each side, and the ratios of each; on a busy machine the best blocks are the ones to read, and processor
time: there a change of threads waits for its turn, which the raw side never has to.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from bridge.control.recording import Recorder
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.ids import entry_id
from bridge.storage.store import Store

CALLERS = 64
BLOCK = 60
TEXT = ("The quick brown fox jumps over the lazy dog, then reads src/module.py and runs the tests again. " * 5)[:430]
DIGEST = "0123456789abcdef" * 4
PAYLOAD = f'{{"text":"{TEXT}"}}'

INSERT_ENTRY = (
    "INSERT INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
    " context_visibility, unknown_reason, created_at, payload_hash, entry_hash, payload)"
    " VALUES (?, ?, ?, ?, 2, 'user.message', 'eligible', 'unstamped', ?, ?, ?, ?)"
)
UPDATE_HEAD = "UPDATE session_heads SET active_entry_id = ?, next_sequence = ?, updated_at = ? WHERE session_id = ?"
INSERT_EVENT = (
    "INSERT INTO audit_events (chain_id, ordinal, event_type, created_at, event_hash, body)"
    " VALUES (?, ?, 'entry.appended', ?, ?, ?)"
)
INSERT_PLACE = "INSERT INTO event_order (chain_id, ordinal) VALUES (?, ?)"
MOMENT = "2026-01-02T03:04:05.678901Z"
BODY = '{"body":{"entry_hash":"' + DIGEST + '"},"chain_id":"' + "x" * 20 + '"}' + " " * 240


class Raw:
    """The same rows by hand: no hashing, no validation, no look at what is there."""

    def __init__(self, path: Path, session_id: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute("PRAGMA foreign_keys=ON")
        self.session_id = session_id
        self.sequence = itertools.count(1)

    def write(self, *, appends: int = 1, is_complete: bool) -> None:
        execute = self.connection.execute
        execute("BEGIN IMMEDIATE")
        for _ in range(appends):
            number = next(self.sequence)
            identity, parent = entry_id(self.session_id, number), entry_id(self.session_id, number - 1)
            execute(INSERT_ENTRY, (self.session_id, identity, parent, number, MOMENT, DIGEST, DIGEST, PAYLOAD))
            if is_complete:
                execute(UPDATE_HEAD, (identity, number + 1, MOMENT, self.session_id))
                execute(INSERT_EVENT, (self.session_id, number, MOMENT, DIGEST, BODY))
                execute(INSERT_PLACE, (self.session_id, number))
        execute("COMMIT")


def open_store(directory: Path, name: str) -> tuple[Store, Recorder, str]:
    store = Store.open(f"sqlite:///{directory / name}")
    recorder = Recorder(store, SystemClock())
    return store, recorder, recorder.create_session(NewSession()).id


def draft() -> EntryDraft:
    return EntryDraft(kind="user.message", payload={"text": TEXT})


def timed(run, count: int) -> tuple[float, float]:
    """Return the time of one of so many, and how much of the processors' time it took, all threads together."""
    start, used = time.perf_counter(), time.process_time()
    run()
    return (time.perf_counter() - start) / count, (time.process_time() - used) / count


def one_caller(directory: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    store, recorder, session_id = open_store(directory, "one.db")
    with store, contextlib.ExitStack() as stack:
        raws = {}
        for name in ("raw, entry row only", "raw, all four rows"):
            other, _, other_session = open_store(directory, f"{name}.db".replace(" ", "-"))
            other.close()
            raws[name] = Raw(directory / f"{name}.db".replace(" ", "-"), other_session)
            stack.callback(raws[name].connection.close)
        sides = {
            "recorder": lambda: recorder.append_now(session_id, draft()),
            "raw, entry row only": lambda: raws["raw, entry row only"].write(is_complete=False),
            "raw, all four rows": lambda: raws["raw, all four rows"].write(is_complete=True),
        }
        times = {name: [] for name in sides}
        for _ in range(rounds):
            for name, side in sides.items():
                times[name].append(timed(lambda side=side: [side() for _ in range(BLOCK)], BLOCK))
    return times


def many_callers(directory: Path, rounds: int) -> dict[str, list[tuple[float, float]]]:
    store, recorder, session_id = open_store(directory, "many.db")
    prepared = [recorder.prepare(draft()) for _ in range(CALLERS)]
    other, _, other_session = open_store(directory, "raw-many.db")
    other.close()
    raw = Raw(directory / "raw-many.db", other_session)
    per_caller = 20

    async def full() -> None:
        async def caller() -> None:
            for _ in range(per_caller):
                await recorder.append_async(session_id, draft())

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def storage_only() -> None:
        async def caller(number: int) -> None:
            for _ in range(per_caller):
                await recorder.append_prepared(session_id, prepared[number])

        await asyncio.gather(*(caller(number) for number in range(CALLERS)))

    def burst() -> None:
        for future in [recorder.append(session_id, draft()) for _ in range(per_caller * CALLERS)]:
            future.result()

    sides = {
        "full pipeline, asyncio": lambda: asyncio.run(full()),
        "storage only, asyncio": lambda: asyncio.run(storage_only()),
        "full pipeline, one burst": burst,
        "raw group commit": lambda: [raw.write(appends=CALLERS, is_complete=True) for _ in range(per_caller)],
    }
    times = {name: [] for name in sides}
    with store:
        for _ in range(rounds):
            for name, side in sides.items():
                times[name].append(timed(side, per_caller * CALLERS))
    raw.connection.close()
    return times


def report(title: str, times: dict[str, list[tuple[float, float]]], baselines: list[str]) -> None:
    print(title)
    for statistic, kind, pick in (
        ("median", 0, statistics.median),
        ("best", 0, min),
        ("median of processor time", 1, statistics.median),
        ("best of processor time", 1, min),
    ):
        picked = {name: pick([value[kind] for value in values]) for name, values in times.items()}
        for name, seconds in picked.items():
            ratios = "".join(
                f"   {seconds / picked[base]:.2f} x time ({picked[base] / seconds:.2f} x speed) of {base}"
                for base in baselines
                if name not in baselines
            )
            print(f"  {statistic:24} {name:26} {seconds * 1e6:8.1f} µs {1 / seconds:9.0f}/s{ratios}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="blocks of each side (default 15)")
    parser.add_argument("--directory", type=Path, default=None, help="where the databases go (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        place = Path(directory)
        report("one caller", one_caller(place, options.rounds), ["raw, entry row only", "raw, all four rows"])
        report(f"{CALLERS} callers", many_callers(place, options.rounds), ["raw group commit"])


if __name__ == "__main__":
    main()
