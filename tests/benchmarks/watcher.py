"""What a watch costs and saves, as ratios against one bare git status process in the same run.

    python tests/benchmarks/watcher.py [--sizes 20000,100000] [--rounds 15]

Bare git status is started the same way: a call from a helper thread that the main thread waits for. Runs alternate,
medians are compared. Rows: an unchanged tree with the cookie file and without it; one changed file, exact; set-up of
the watch, and the memory that it takes (the kernel keeps about a kilobyte per folder besides). Nothing here
asserts anything.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bridge.control.watched import CachedObserver
from bridge.foundation.clock import SystemClock
from bridge.git.observe import observe
from bridge.git.repository import discover
from bridge.git.watching import WorktreeWatch

FILES_PER_FOLDER = 100
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
    time.sleep(1.5)  # let index and settings become older than one tick, so that nothing is racy
    subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=root, check=True)
    return files


def medians(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of calls that take turns, each in a helper thread."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    with ThreadPoolExecutor(1) as pool:
        for number in range(-2, rounds):
            for name in names if number % 2 else reversed(names):
                started = time.perf_counter()
                pool.submit(calls[name]).result()
                if number >= 0:
                    times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


MEMORY_SCRIPT = """
import gc, pathlib, sys, tracemalloc
from bridge.git.repository import discover
from bridge.git.watching import WorktreeWatch

def kept():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]

small = WorktreeWatch(discover(pathlib.Path(sys.argv[2])), cookie_folder=pathlib.Path(sys.argv[3]))
assert small.mark(timeout_seconds=60), small.failure  # what is loaded at first use is not the watch's
tracemalloc.start()
before = kept()
watch = WorktreeWatch(discover(pathlib.Path(sys.argv[1])), cookie_folder=pathlib.Path(sys.argv[3]))
assert watch.mark(timeout_seconds=60), watch.failure
print(watch.folder_count, kept() - before)
"""


def show_memory(root: Path, home: Path) -> None:
    """Measure by what is allocated and kept: the resident size of a process that had memory to spare does not grow."""
    small = home / "small"
    subprocess.run(["git", "init", "-q", str(small)], check=True)
    time.sleep(1.5)
    command = [sys.executable, "-c", MEMORY_SCRIPT, str(root), str(small), str(home / "watch")]
    folders, grown = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    print(f"  {folders} folders watched, {int(grown) / 1e6:.3f} MB of memory", flush=True)


def show(label: str, seconds: float, status: float) -> None:
    print(f"  {label:<44} {seconds * 1e3:9.3f} ms   {seconds / status:7.4f} × git status", flush=True)


def measure(root: Path, files: list[Path], home: Path, rounds: int) -> None:
    show_memory(root, home)

    def bare() -> None:
        subprocess.run(STATUS, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    watch = WorktreeWatch(discover(root), cookie_folder=home / "watch")
    started = time.perf_counter()
    mark = watch.mark(timeout_seconds=60)
    set_up = time.perf_counter() - started
    if mark is None:
        raise RuntimeError(watch.failure)
    watch.close()

    observer = CachedObserver(SystemClock(), 60.0, state_directory=home)
    for _ in range(3):
        seen = observer.observe(root)
    if seen.confirmed_at is None:
        raise RuntimeError(str(observer.figures()))
    watches = [tree.watch for tree in observer._memory._worktrees.values()]
    drained = [watch for watch in watches if isinstance(watch, WorktreeWatch)]

    def unchanged() -> None:
        if observer.observe(root).confirmed_at is None:
            raise RuntimeError("not recalled")

    def without_cookie() -> None:
        keep = drained[0]._drain
        drained[0]._drain = lambda _standing: None  # type: ignore[method-assign] - the comparison is the point
        try:
            unchanged()
        finally:
            drained[0]._drain = keep  # type: ignore[method-assign] - see above

    counter = iter(range(10**9))

    def one_changed() -> None:
        files[0].write_text(f"edited {next(counter)}\n")
        if observer.observe(root).confirmed_at is not None:
            raise RuntimeError("recalled")

    def one_changed_bare() -> None:
        files[0].write_text(f"edited {next(counter)}\n")
        bare()

    def one_changed_unwatched() -> None:
        files[0].write_text(f"edited {next(counter)}\n")
        observe(root, clock=SystemClock(), timeout_seconds=60)

    quiet = medians({"status": bare, "unchanged": unchanged, "without": without_cookie}, rounds)
    show("bare git status", quiet["status"], quiet["status"])
    show("unchanged, asked with a cookie file", quiet["unchanged"], quiet["status"])
    show("unchanged, without the cookie file", quiet["without"], quiet["status"])
    show("  (the cookie file alone)", quiet["unchanged"] - quiet["without"], quiet["status"])
    show("set-up of the watch, once", set_up, quiet["status"])
    dirty = medians({"status": one_changed_bare, "watched": one_changed, "exact": one_changed_unwatched}, rounds)
    show("one changed file, bare git status", dirty["status"], dirty["status"])
    show("one changed file, watched (exact)", dirty["watched"], dirty["status"])
    show("one changed file, without a watch", dirty["exact"], dirty["status"])
    observer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="20000,100000")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(f"{options.rounds} rounds, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", flush=True)
    for size in (int(part) for part in options.sizes.split(",")):
        with tempfile.TemporaryDirectory(prefix="bridge-benchmark-") as folder:
            root = Path(folder) / "repository"
            files = build(root, size)
            print(f"{size} files", flush=True)
            measure(root, files, Path(folder) / "home", options.rounds)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
