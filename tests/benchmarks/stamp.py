"""One stamp against one bare git status process, as ratios in one run.

    python tests/benchmarks/stamp.py [--sizes 200,20000,100000] [--rounds 15]

Both are started the same way: a call from a helper thread that the main thread waits for. Runs alternate, medians
are compared. Rows: clean; 10 modified files; 2,000 untracked files besides. Nothing here asserts anything.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bridge.foundation.clock import SystemClock
from bridge.git.contents import CHUNK_BYTES, digest_content
from bridge.git.observe import observe

FILES_PER_FOLDER = 100
DIRTY_FILES = 10
UNTRACKED_FILES = 2_000
STATUS = ["git", "--no-optional-locks", "status", "--porcelain=v2", "-z", "--untracked-files=all"]


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


def median_pair(first: Callable[[], object], second: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the median seconds of two calls that take turns, each in a helper thread."""
    times: tuple[list[float], list[float]] = ([], [])
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            pool.submit(first).result()
            pool.submit(second).result()
        for number in range(rounds):
            pair = ((0, first), (1, second)) if number % 2 else ((1, second), (0, first))
            for index, call in pair:
                started = time.perf_counter()
                pool.submit(call).result()
                times[index].append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])


def measure(root: Path, label: str, rounds: int) -> None:
    def bare() -> None:
        subprocess.run(STATUS, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    def bare_and_digests() -> None:
        done = subprocess.run(STATUS, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        for line in done.stdout.split(b"\0"):
            if line[:1] in {b"1", b"?"}:
                digest_content(os.fsencode(root), line.split(b" ", 8 if line[:1] == b"1" else 1)[-1], float("inf"))

    def stamp() -> None:
        seen = observe(root, clock=SystemClock(), timeout_seconds=120)
        if seen.state is None:
            raise RuntimeError(f"{seen.unknown}: {seen.detail}")

    status, taken = median_pair(bare, stamp, rounds)
    line = f"{label:<34} git status {status * 1e3:8.2f} ms   stamp {taken * 1e3:8.2f} ms   ratio {taken / status:5.2f}"
    if "untracked" in label:
        floor, again = median_pair(bare_and_digests, stamp, rounds)
        line += f"   against status + reading and SHA-256 of the same bytes {again / floor:5.2f}"
    print(line, flush=True)


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
            for file in files[:DIRTY_FILES]:
                file.write_text("edited\n")
            measure(root, f"{size} files, {DIRTY_FILES} dirty", options.rounds)
            untracked = root / "untracked"
            untracked.mkdir()
            for number in range(UNTRACKED_FILES):
                (untracked / f"u{number:05d}").write_text(f"untracked {number}\n")
            measure(root, f"{size} files, {UNTRACKED_FILES} untracked", options.rounds)


if __name__ == "__main__":
    main()
