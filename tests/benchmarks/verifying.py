"""What integrity costs an append, and what a verification costs beside reading and hashing the same bytes.

Usage: ``python tests/benchmarks/verifying.py [--entries N] [--rounds N] [--blocks N]``

*Append*: 64 callers at once, one append each at a time, through the Recorder on a file. On the other side the same but
for what integrity is made of: no payload hash, no entry hash, no audit event and no place in their order; its tables
have no rows of these. Blocks take turns; time passed and processor time of all threads.

*Verify*: a store of N entries in sessions of 1,000, recorded through the Recorder, log and anchor up to date. Bare is
reading every row of the tables that are verified with sqlite3, and one SHA-256 over the texts and bytes of each.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from unittest import mock

from bridge.control import recording
from bridge.control.checks.anchoring import anchor_log
from bridge.control.checks.verification import verify
from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint
from bridge.conversations import models
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings

CALLERS = 64
TEXT = ("The quick brown fox jumps over the lazy dog, then reads src/module.py and runs the tests again. " * 5)[:430]
DIGEST = "0123456789abcdef" * 4
VERIFIED = ("session_entries", "audit_events", "event_order", "log_leaves")
#: Sessions of the store that is verified have so many entries.
LENGTH = 1000


@contextmanager
def opened(home: Path) -> Iterator[Controller]:
    with Controller(load_settings({"BRIDGE_HOME": str(home)}), clock=SystemClock(), environment=os.environ) as found:
        yield found


def no_hash(*_arguments: object, **_fields: object) -> str:
    return DIGEST


@contextmanager
def without_integrity() -> Iterator[None]:
    with (
        mock.patch.object(models, "entry_hash", no_hash),
        mock.patch.object(recording, "digest_hex", no_hash),
        mock.patch.object(recording, "append_event", no_hash),
    ):
        yield


def appends(controller: Controller, session: str, count: int) -> tuple[float, float]:
    """Return time passed and processor time of an append, in microseconds."""

    async def caller(number: int) -> None:
        for turn in range(number):
            await controller.recorder.append_async(
                session, EntryDraft(kind="user.message", payload={"text": f"{turn} {TEXT}"})
            )

    async def all_of_them() -> None:
        await asyncio.gather(*(caller(count // CALLERS) for _ in range(CALLERS)))

    begun, used = time.perf_counter(), time.process_time()
    asyncio.run(all_of_them())
    done = count // CALLERS * CALLERS
    return (time.perf_counter() - begun) / done * 1e6, (time.process_time() - used) / done * 1e6


def compare_appends(folder: Path, blocks: int) -> None:
    sides: dict[str, list[tuple[float, float]]] = {"full": [], "bare": []}
    with opened(folder / "full") as full, opened(folder / "bare") as bare:
        sessions = {side: found.recorder.create_session(NewSession()).id for side, found in
                    (("full", full), ("bare", bare))}  # fmt: skip
        for _ in range(blocks):
            sides["full"].append(appends(full, sessions["full"], 2560))
            with without_integrity():
                sides["bare"].append(appends(bare, sessions["bare"], 2560))
    for at, what in enumerate(("time passed", "processor time")):
        found = {side: sorted(block[at] for block in times) for side, times in sides.items()}
        medians = {side: statistics.median(times) for side, times in found.items()}
        print(f"append, 64 callers, {what}: full {medians['full']:.1f} µs, without integrity {medians['bare']:.1f} µs, "
              f"ratio of medians {medians['full'] / medians['bare']:.2f}, "
              f"of the least {found['full'][0] / found['bare'][0]:.2f}")  # fmt: skip


def fill(controller: Controller, entries: int) -> None:
    recorder = controller.recorder
    for start in range(0, entries, LENGTH):
        session = recorder.create_session(NewSession()).id
        waiting = [
            recorder.append(session, EntryDraft(kind="user.message", payload={"text": f"{number} {TEXT}"}))
            for number in range(start, min(entries, start + LENGTH))
        ]
        for future in waiting:
            future.result()
    anchor_log(controller)


def read_and_hash(path: Path) -> None:
    connection = sqlite3.connect(path)
    for table in VERIFIED:
        for row in connection.execute(f"SELECT * FROM {table}"):
            kept = [value if isinstance(value, bytes) else str(value).encode() for value in row if value is not None]
            sha256(b"".join(kept)).digest()
    connection.close()


def timed(fn: Callable[[], object]) -> tuple[float, float]:
    begun, used = time.perf_counter(), time.process_time()
    fn()
    return time.perf_counter() - begun, time.process_time() - used


def compare_verifications(folder: Path, entries: int, rounds: int) -> None:
    with opened(folder) as controller:
        fill(controller, entries)
        path = Path(str(controller.store.url.database))

        def look() -> None:
            found = verify(controller, Standpoint(), None, only=("tree", "chain", "log", "states"))
            assert found.is_healthy

        pairs = [(timed(lambda: read_and_hash(path)), timed(look)) for _ in range(rounds)]
    for at, what in enumerate(("time passed", "processor time")):
        bare, whole = (statistics.median(side[at] for side in column) for column in zip(*pairs, strict=True))
        print(f"verify of {entries} entries, {what}: bare {bare:.1f} s, verify {whole:.1f} s, ratio {whole / bare:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=20)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(f"load {os.getloadavg()[0]:.1f}")
        compare_appends(Path(name) / "append", chosen.blocks)
        compare_verifications(Path(name) / "verify", chosen.entries, chosen.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
