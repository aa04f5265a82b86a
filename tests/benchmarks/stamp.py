"""One stamp against one bare git status process, as ratios in one run.

    python tests/benchmarks/stamp.py [--sizes 200,20000,100000] [--rounds 15]

Both are started the same way: a call from a helper thread that the main thread waits for. In each round every call
of a row takes its turn, forwards and backwards alternately, and medians are compared. With them stands the ratio of
the medians of processor time (ours and git's, all threads), which other work on the machine disturbs less. Rows:
clean; one changed file; 10; 2,000 untracked files besides, with their digests remembered and read for the first
time. Nothing here asserts anything.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bridge.foundation.clock import SystemClock
from bridge.git.contents import CHUNK_BYTES, digest_content
from bridge.git.digestcache import SETTLING_NS, DigestCache, MemoryDigestCache
from bridge.git.observe import observe

FILES_PER_FOLDER = 100
DIRTY_FILES = 10
UNTRACKED_FILES = 2_000
STATUS = ["git", "--no-optional-locks", "status", "--porcelain=v2", "-z", "--untracked-files=all"]

Call = Callable[[], object]


def build(root: Path, count: int) -> list[Path]:
    """Commit ``count`` small files in folders of a hundred; return their paths."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    files: list[Path] = []
    for number in range(count):
        folder = root / f"d{number // FILES_PER_FOLDER:04d}"
        if number % FILES_PER_FOLDER == 0:
            folder.mkdir()
        file = folder / f"f{number:06d}.txt"
        file.write_text(f"content of file {number}\n" * 5)
        files.append(file)
    git = ["git", "-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "gc.auto=0"]
    subprocess.run([*git, "add", "-A"], cwd=root, check=True)
    subprocess.run([*git, "commit", "-qm", "files"], cwd=root, check=True)
    time.sleep(1.5)  # let the index become older than one tick, so that neither side hashes racy entries
    subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=root, check=True)
    return files


def timed(calls: Sequence[Call], rounds: int) -> list[tuple[float, float]]:
    """Return the median seconds on the clock and of the processors, of calls that take turns in a helper thread."""
    times: list[list[float]] = [[] for _ in calls]
    spent: list[list[float]] = [[] for _ in calls]
    with ThreadPoolExecutor(1) as pool:
        for call in calls:
            pool.submit(call).result()
        for number in range(rounds):
            order = list(enumerate(calls))
            for index, call in order if number % 2 else reversed(order):
                before, started = processor_seconds(), time.perf_counter()
                pool.submit(call).result()
                times[index].append(time.perf_counter() - started)
                spent[index].append(processor_seconds() - before)
    return [(statistics.median(wall), statistics.median(cpu)) for wall, cpu in zip(times, spent, strict=True)]


def processor_seconds() -> float:
    usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Calls:
    """The calls that are compared, on one worktree."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cache = MemoryDigestCache()

    def status(self) -> bytes:
        done = subprocess.run(STATUS, cwd=self._root, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        return done.stdout

    def status_and_digests(self) -> None:
        root = os.fsencode(self._root)
        for line in self.status().split(b"\0"):
            if line[:1] in {b"1", b"?"}:
                digest_content(root, line.split(b" ", 8 if line[:1] == b"1" else 1)[-1], float("inf"))

    def stamp(self) -> None:
        self._observe(self._cache)

    def first_stamp(self) -> None:
        self._observe(MemoryDigestCache())

    def _observe(self, cache: DigestCache) -> None:
        seen = observe(self._root, clock=SystemClock(), timeout_seconds=120, digests=cache)
        if seen.state is None:
            raise RuntimeError(f"{seen.unknown}: {seen.detail}")


def measure(root: Path, label: str, rounds: int, *, is_first: bool = False) -> None:
    """Print one row: a stamp against status alone, and if asked for a first one against the least it must do."""
    calls = Calls(root)
    compared: list[Call] = [calls.status, calls.stamp]
    if is_first:
        compared += [calls.status_and_digests, calls.first_stamp]
    found = timed(compared, rounds)
    print(f"{label:<34} {_pair('git status', 'stamp', found[:2])}", flush=True)
    if is_first:
        print(f"{'  the first time':<34} {_pair('+ read, SHA-256', 'stamp', found[2:])}", flush=True)


def _pair(first: str, second: str, found: Sequence[tuple[float, float]]) -> str:
    (floor, floor_cpu), (taken, taken_cpu) = found
    return (
        f"{first} {floor * 1e3:8.2f} ms   {second} {taken * 1e3:8.2f} ms   "
        f"ratio {taken / floor:5.2f}   of processor time {taken_cpu / floor_cpu:5.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="200,20000,100000")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(f"chunk {CHUNK_BYTES} bytes, {options.rounds} rounds, {os.cpu_count()} processors", flush=True)
    for size in (int(part) for part in options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="bridge-benchmark-") as folder:
            root = Path(folder) / "repository"
            files = build(root, size)
            measure(root, f"{size} files, clean", options.rounds)
            for count in (1, DIRTY_FILES):
                for file in files[:count]:
                    file.write_text("edited\n")
                time.sleep(SETTLING_NS / 1e9)
                measure(root, f"{size} files, {count} changed", options.rounds)
            untracked = root / "untracked"
            untracked.mkdir()
            for number in range(UNTRACKED_FILES):
                (untracked / f"u{number:05d}").write_text(f"untracked {number}\n")
            time.sleep(SETTLING_NS / 1e9)
            measure(root, f"{size} files, {UNTRACKED_FILES} untracked", options.rounds, is_first=True)


if __name__ == "__main__":
    main()
