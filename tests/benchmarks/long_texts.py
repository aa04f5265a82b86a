"""From which size on a payload text is better kept apart from its entry.

Usage: ``python tests/benchmarks/long_texts.py [--rounds N] [--directory PATH]``

For each size, two stores with the same 400 entries: one keeps the texts in the rows, one apart. Each with texts that
are all different, as they are written once and read back. Printed are medians of one append, of the list of the last 50
entries, of the whole active path, and the size of the file.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from append import open_store

from bridge.conversations import paths
from bridge.conversations.models import EntryDraft
from bridge.storage import longtexts

KIB = 1024
SIZES = [2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB]
ENTRIES = 400
_numbers = itertools.count()


def text(size: int) -> str:
    return f"{next(_numbers):012d} " + "lorem ipsum " * (size // 12)


def median(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def measure(directory: Path, size: int, *, is_apart: bool, rounds: int) -> dict[str, float]:
    name = f"{size}-{is_apart}.db"
    with patch.object(longtexts, "LONG_TEXT_BYTES", 1 if is_apart else 2**40):
        store, recorder, session_id = open_store(directory, name)
        with store:
            made = [EntryDraft(kind="user.message", payload={"text": text(size)}) for _ in range(ENTRIES)]
            prepared = iter([recorder.prepare(draft) for draft in made])
            append = median(lambda: recorder.append_now(session_id, made.pop()), ENTRIES // 2)

            def many() -> None:
                recorder.transact(lambda r: [r.append(session_id, next(prepared)) for _ in range(20)])

            together = median(many, ENTRIES // 40) / 20
            with store.read() as connection:
                listed = median(lambda: paths.listed_path(connection, session_id, last=50), rounds)
                whole = median(lambda: paths.active_path(connection, session_id), rounds)
    return {
        "append": append,
        "one of 20": together,
        "last 50": listed,
        "whole path": whole,
        "MB": (directory / name).stat().st_size / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="readings of each kind (default 15)")
    parser.add_argument("--directory", type=Path, default=None, help="where the databases go (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        for size in SIZES:
            for is_apart in (False, True):
                figures = measure(Path(directory), size, is_apart=is_apart, rounds=options.rounds)
                told = "   ".join(f"{name} {value:.2f}" for name, value in figures.items())
                print(f"{size // KIB:4} KiB {'apart ' if is_apart else 'in row'}   {told}")


if __name__ == "__main__":
    main()
