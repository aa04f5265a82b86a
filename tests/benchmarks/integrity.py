"""What roots of conversations and proofs of the log cost beside the hashing that nobody can spare.

Usage: ``python tests/benchmarks/integrity.py [--events N] [--large N] [--rounds N]``

Entries and events are put into a store row by row, without Bridge's triggers; hashes are those of numbers. *Bare* is
hashing the changed entries and what is above them, from lists in memory. Everything takes turns; printed are medians.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from bridge.foundation.ids import entry_id
from bridge.integrity.log import leaves
from bridge.integrity.log.merkle import log_leaf, proves_inclusion
from bridge.integrity.subtrees import roots
from bridge.integrity.tree import subtree_hash
from bridge.storage.store import Store

DIGEST = "a" * 64
MOMENT = "2026-01-01T00:00:00.000000Z"
ENTRY = (
    "INSERT INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
    " context_visibility, unknown_reason, created_at, payload_hash, entry_hash, payload)"
    f" VALUES (?, ?, ?, ?, 2, 'note', 'eligible', 'unstamped', '{MOMENT}', '{DIGEST}', ?, ?)"
)
PAYLOAD = '{"text":"' + "x" * 400 + '"}'


def fill(path: Path, session: str, parents: Sequence[int | None], start: int = 0) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("BEGIN")
    connection.execute(
        "INSERT OR IGNORE INTO sessions (id, kind, status, created_at, updated_at) VALUES (?, 'chat', 'open', ?, ?)",
        (session, MOMENT, MOMENT),
    )
    rows = (
        (
            session,
            entry_id(session, number),
            None if parent is None else entry_id(session, parent),
            number,
            sha256(str(number).encode()).hexdigest(),
            PAYLOAD,
        )
        for number, parent in enumerate(parents[start:], start)
    )
    connection.executemany(ENTRY, rows)
    connection.execute("COMMIT")
    connection.close()


def bare(parents: Sequence[int | None], changed: Sequence[int]) -> float:
    """Return the seconds of hashing some entries, children before parents, with everything in memory."""
    hashes = [sha256(str(number).encode()).digest() for number in range(len(parents))]
    other = [sha256(b"-%d" % number).digest() for number in range(len(parents))]
    is_changed = set(changed)
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        if parent in is_changed:
            children.setdefault(parent, []).append(number)
    order = sorted(changed, reverse=True)
    begun = time.perf_counter()
    done: dict[int, bytes] = {}
    for number in order:
        done[number] = subtree_hash(hashes[number], [done.get(c, other[c]) for c in children.get(number, ())])
    return time.perf_counter() - begun


def path_of(parents: Sequence[int | None], new: range) -> list[int]:
    changed = set(new)
    for number in new:
        above = parents[number]
        while above is not None and above not in changed:
            changed.add(above)
            above = parents[above]
    return sorted(changed)


def timed(fn: Callable[[], object]) -> float:
    begun = time.perf_counter()
    fn()
    return time.perf_counter() - begun


def tree(folder: Path, name: str, parents: list[int | None], new: int, rounds: int) -> None:
    session, path = "20260101-000000-abcd", folder / f"{name}.db"
    Store.open(f"sqlite:///{path}").close()
    kept = parents[: len(parents) - new]
    fill(path, session, kept)
    with Store.open(f"sqlite:///{path}") as store:

        def read() -> roots.Reading:
            with store.read() as connection:
                return roots.read(connection, session)

        first = read()
        store.write(lambda tx: roots.keep(tx, first))
        fill(path, session, parents, len(kept))
        changed = path_of(parents, range(len(kept), len(parents)))
        found = read()
        pairs = [(bare(parents, changed), timed(read)) for _ in range(rounds)]
        writing = timed(lambda: store.write(lambda tx: roots.keep(tx, found)))
    base, whole = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    how = f"{len(found.pages)} pages kept in {writing * 1000:.1f} ms" if found.pages else "nothing kept"
    print(f"{name}, +{new}: {found.hashed} hashed ({len(changed)} changed), bare {base:.2f} ms, "
          f"root {whole:.2f} ms, ratio {whole / base:.2f}; {how}")  # fmt: skip


def log(folder: Path, events: int) -> None:
    path = folder / "log.db"
    Store.open(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("BEGIN")
    hashes = [sha256(str(number).encode()).digest() for number in range(events)]
    connection.executemany(
        f"INSERT INTO audit_events VALUES ('s', ?, 'note', '{MOMENT}', ?, '{{}}')",
        ((number, value.hex()) for number, value in enumerate(hashes)),
    )
    connection.executemany("INSERT INTO event_order (chain_id, ordinal) VALUES ('s', ?)", ((n,) for n in range(events)))
    connection.execute("COMMIT")
    connection.close()
    with Store.open(f"sqlite:///{path}") as store:

        def catch_up() -> None:
            while not store.write(leaves.catch_up):
                pass

        whole = timed(catch_up)
        with store.read() as reading:
            current = leaves.current_root(reading)
            chosen = random.Random(1).sample(range(events), min(1000, events))
            begun = time.perf_counter()
            proofs = [leaves.inclusion_proof(reading, leaf, events) for leaf in chosen]
            each = (time.perf_counter() - begun) / len(chosen)
            begun = time.perf_counter()
            growth = [leaves.consistency_proof(reading, size, events) for size in chosen if size]
            each_growth = (time.perf_counter() - begun) / len(chosen)
        root = bytes.fromhex(current.root)
        assert all(
            proves_inclusion(log_leaf(hashes[leaf]), leaf, events, proof, root)
            for leaf, proof in zip(chosen, proofs, strict=True)
        )
    print(f"log of {events}: all leaves {whole:.1f} s ({whole / events * 1e6:.1f} µs each); "
          f"inclusion at most {max(map(len, proofs))} hashes, {each * 1000:.2f} ms; "
          f"consistency at most {max(map(len, growth))} hashes, {each_growth * 1000:.2f} ms")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"load {os.getloadavg()[0]:.1f}")
        for new in (1, 1000):
            chain: list[int | None] = [None, *range(10_000 + new)]
            tree(folder, f"chain-10k-{new}", chain, new, chosen.rounds)
        for new in (1, 1000):
            # A deep conversation and a bushy one on top of it.
            deep: list[int | None] = [None, *range(9_999)]
            deep += [chance.randrange(9_000, number) for number in range(10_000, chosen.large)]
            deep += [9_999] if new == 1 else [chance.randrange(9_000, len(deep)) for _ in range(new)]
            tree(folder, f"large-{chosen.large}-{new}", deep, new, chosen.rounds)
        log(folder, chosen.events)
    return 0


if __name__ == "__main__":
    sys.exit(main())
