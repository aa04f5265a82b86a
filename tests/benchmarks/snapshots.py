"""What keeping contents adds to a stamp, side by side in one run.

    python tests/benchmarks/snapshots.py [--rounds 15]

In a repository of 200 files with 10 modified ones, medians of: the stamp alone; keeping a state that is kept already;
keeping one in which one file is new to the store; keeping one with 2,000 untracked files that are. Nothing here
asserts anything.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stamp import DIRTY_FILES, UNTRACKED_FILES, build

from bridge.control.contents.keeping import Keeper
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.git.observe import observe
from bridge.storage.store import Store

TRACKED_FILES = 200


def median(call: Callable[[int], float], rounds: int) -> float:
    """Return the median milliseconds of what a call measures; the first two runs do not count."""
    return 1_000 * statistics.median([call(number) for number in range(rounds + 2)][2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        home, root = Path(folder) / "home", Path(folder) / "repository"
        home.mkdir()
        (home / "config.toml").write_text('snapshots = "dirty"\n')
        settings = load_settings({"BRIDGE_HOME": str(home)})
        files = build(root, TRACKED_FILES)
        for file in files[:DIRTY_FILES]:
            file.write_text("changed\n" * 50)
        with Store.open(settings.database_url) as store:
            keeper = Keeper(store, settings, SystemClock())

            def stamp(_number: int) -> float:
                started = time.perf_counter()
                observe(root, clock=SystemClock())
                return time.perf_counter() - started

            def keep(change: Callable[[int], None]) -> Callable[[int], float]:
                def run(number: int) -> float:
                    change(number)
                    seen = observe(root, clock=SystemClock())
                    started = time.perf_counter()
                    keeper.keep(seen)
                    return time.perf_counter() - started

                return run

            def edit(number: int) -> None:
                files[0].write_text(f"edit {number}\n" * 50)

            def add(number: int) -> None:
                for name in range(UNTRACKED_FILES):
                    (root / f"new{name}").write_text(f"{number} {name}\n" * 20)

            rows = [
                ("stamp alone", median(stamp, rounds)),
                ("kept already", median(keep(lambda _number: None), rounds)),
                ("one new content", median(keep(edit), rounds)),
                ("2,000 new contents", median(keep(add), max(rounds // 5, 1))),
            ]
    for name, milliseconds in rows:
        print(f"{name:20} {milliseconds:8.2f} ms   {milliseconds / rows[0][1]:6.2f} x")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
