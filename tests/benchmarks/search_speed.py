"""What indexing, finding and recalling cost in a large store, and what indexing costs whoever appends meanwhile.

    python tests/benchmarks/search_speed.py [--entries 50000] [--chats 1000] [--rounds 40] [--directory PATH]
        [--keep PATH] [--reindex] [--postgresql]

The store is filled row by row, without Bridge's hashes, which no search looks at: messages of 12 to 60 words out of a
vocabulary in which few words are very common and most are rare (Zipf), and one word that stands in every message.

Printed are the rate of indexing; medians and 95th percentiles of questions by kind; for the questions of one word the
ratio, in turns, to one bare FTS5 MATCH ranked by bm25 over the same window of newest matches; and appends with and
without the indexer at work.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from postgresql_server import server

from bridge.control.controller import Controller
from bridge.control.search.finding import find_chats
from bridge.control.search.indexing import Indexer, reindex
from bridge.control.search.recalling import recall
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock, format_timestamp
from bridge.foundation.config import load_settings
from bridge.foundation.ids import entry_id
from bridge.recall.finding import WINDOW
from bridge.recall.index import drop
from bridge.storage import fulltext
from bridge.storage.ddl import trigger_statements

DIGEST = "a" * 64
#: Tables that are filled, and their columns.
TABLES = {
    "sessions": "id, kind, status, created_at, updated_at",
    "session_entries": "session_id, id, parent_entry_id, sequence, semantic_schema_version, kind, context_visibility,"
    " unknown_reason, created_at, payload_hash, entry_hash, payload",
    "session_heads": "session_id, active_entry_id, next_sequence, updated_at",
}
Row = tuple[object, ...]
VOCABULARY = 60_000
SYLLABLES = [
    "ba",
    "de",
    "fi",
    "go",
    "lu",
    "ma",
    "ne",
    "pi",
    "ro",
    "su",
    "ta",
    "ve",
    "wi",
    "xo",
    "zu",
    "kra",
    "ble",
    "sto",
    "mni",
    "tre",
]


def vocabulary(size: int) -> list[str]:
    generator = random.Random(1)
    words = dict.fromkeys(["the"])
    while len(words) < size:
        words["".join(generator.choice(SYLLABLES) for _ in range(generator.randint(2, 5)))] = None
    return list(words)


def chats_of(words: list[str], entries: int, chats: int) -> Iterator[tuple[Row, list[Row], Row]]:
    """Yield chats out of a vocabulary with the most common word first: rows of the session, its entries, its head."""
    generator = random.Random(2)
    weights = [1 / (rank + 2) for rank in range(len(words))]
    drawn = generator.choices(words, weights, k=2_000_000)
    start = datetime(2025, 1, 1, tzinfo=UTC)
    each = max(2, entries // chats)
    for number in range(chats):
        session = f"20250101-{number:06d}-abcd"
        begun = start + timedelta(minutes=25 * number)
        moment = format_timestamp(begun)
        rows = []
        for sequence in range(each):
            at = generator.randrange(len(drawn) - 60)
            text = "the " + " ".join(drawn[at : at + generator.randint(12, 60)])
            kind = "session.root" if sequence == 0 else "assistant.message" if sequence % 2 else "user.message"
            parent = None if sequence == 0 else entry_id(session, sequence - 1)
            payload = json.dumps({} if sequence == 0 else {"text": text}, separators=(",", ":"))
            written = format_timestamp(begun + timedelta(seconds=30 * sequence))
            row = (session, entry_id(session, sequence), parent, sequence, 2, kind, "eligible", "unstamped", written)
            rows.append((*row, DIGEST, DIGEST, payload))
        head = (session, entry_id(session, each - 1), each, moment)
        yield (session, "chat", "open", moment, moment), rows, head


def fill_sqlite(path: Path, words: list[str], entries: int, chats: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("BEGIN")
        for session, rows, head in chats_of(words, entries, chats):
            for (table, columns), written in zip(TABLES.items(), ([session], rows, [head]), strict=True):
                marks = ", ".join("?" * len(columns.split(",")))
                connection.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", written)
        connection.execute("COMMIT")
        for statement in trigger_statements():
            connection.execute(statement)


def fill_postgresql(url: str, words: list[str], entries: int, chats: int) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        # Neither triggers nor foreign keys: the rows are whole.
        connection.execute("SET session_replication_role = replica")
        filled: dict[str, list[Row]] = {table: [] for table in TABLES}
        for session, rows, head in chats_of(words, entries, chats):
            for table, written in zip(TABLES, ([session], rows, [head]), strict=True):
                filled[table] += written
        for table, columns in TABLES.items():
            with connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for row in filled[table]:
                    copy.write_row(row)


def timed(call, rounds: int) -> tuple[float, float]:
    """Return median and 95th percentile in milliseconds."""
    taken = []
    for number in range(rounds):
        started = time.perf_counter()
        call(number)
        taken.append((time.perf_counter() - started) * 1000)
    taken.sort()
    return statistics.median(taken), taken[min(len(taken) - 1, round(len(taken) * 0.95))]


def report(name: str, call, rounds: int) -> None:
    processor = time.process_time()
    median, high = timed(call, rounds)
    spent = (time.process_time() - processor) * 1000 / rounds
    print(f"{name}: {median:.2f} ms, p95 {high:.2f} ms; processor {spent:.2f} ms each", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--chats", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--directory")
    parser.add_argument("--keep", metavar="PATH", help="keep the store there; where one was kept, measure that")
    parser.add_argument("--reindex", action="store_true", help="build the index of a kept store anew")
    parser.add_argument("--postgresql", action="store_true", help="a server of its own instead of SQLite")
    options = parser.parse_args()
    with ExitStack() as stack:
        home = options.keep or stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory))
        is_kept = any(Path(home).iterdir())
        environment = {"BRIDGE_HOME": home}
        if options.postgresql:
            environment["BRIDGE_DATABASE_URL"] = stack.enter_context(server(Path(home)))
        settings = load_settings(environment)
        Controller(settings, clock=SystemClock(), environment=os.environ).close()
        words = vocabulary(VOCABULARY)
        if not is_kept and options.postgresql:
            plain = environment["BRIDGE_DATABASE_URL"].replace("+psycopg", "")
            fill_postgresql(plain, words, options.entries, options.chats)
        elif not is_kept:
            fill_sqlite(next(Path(home).rglob("*.db")), words, options.entries, options.chats)
        controller = stack.enter_context(Controller(settings, clock=SystemClock(), environment=os.environ))
        if not is_kept or options.reindex:
            measure_indexing(controller)
        size = sum(found.stat().st_size for found in Path(home).rglob("*") if found.is_file())
        print(f"store {size / 1024**2:.0f} MiB")
        measure_questions(controller, words, options.rounds)
        if not options.postgresql:
            measure_ratio(controller, words, options.rounds)
        if not options.keep:
            measure_appends(controller)


def measure_indexing(controller: Controller) -> None:
    processor, started = time.process_time(), time.perf_counter()
    done = reindex(controller)
    took, spent = time.perf_counter() - started, time.process_time() - processor
    rates = f"{done.entries / took:.0f}/s; {done.entries / spent:.0f}/s of processor time"
    print(f"indexed {done.entries} entries: {rates}", flush=True)


def measure_questions(controller: Controller, words: list[str], rounds: int) -> None:
    generator = random.Random(3)
    find = partial(find_chats, controller, Standpoint(), all_workspaces=True, zone=UTC)
    common, middle, rare = words[1:20], words[200:2_000], words[20_000:]
    kinds = {
        "the most common word": lambda _: "the",
        "common words": lambda _: " ".join(generator.sample(common, 4)),
        "six common words": lambda _: " ".join(generator.sample(common, 6)),
        "a common and a rare word": lambda _: f"{generator.choice(common)} {generator.choice(rare)}",
        "middling words": lambda _: " ".join(generator.sample(middle, 3)),
        "rare words": lambda _: " ".join(generator.sample(rare, 2)),
        "a phrase": lambda _: f'"the {generator.choice(common)}"',
        "mistyped": lambda _: generator.choice(middle) + "q",
        "within a month": lambda _: f"{generator.choice(common)} in january 2025",
    }
    # Writing the question and warming the cache are no part of it.
    for name, make in kinds.items():
        find(make(0))
        report(f"find, {name}", lambda number, make=make: find(make(number)), rounds)
    typed = [word[:length] for word in generator.sample(middle + common, 10) for length in range(2, len(word) + 1)]
    call = lambda number: find(typed[number % len(typed)], is_typing=True)  # noqa: E731
    report("find as you type", call, max(rounds, len(typed)))
    session = "20250101-000007-abcd"
    call = lambda _: recall(controller, Standpoint(), session, generator.choice(common))  # noqa: E731
    report("recall in one chat", call, rounds)


def measure_ratio(controller: Controller, words: list[str], rounds: int) -> None:
    bare = (
        f"SELECT rowid, bm25({fulltext.ENTRY_INDEX}) AS score FROM {fulltext.ENTRY_INDEX}"
        f" WHERE {fulltext.ENTRY_INDEX} MATCH ? ORDER BY rowid DESC LIMIT {WINDOW}"
    )
    for name, chosen in (("common", words[:20]), ("middling", words[200:2_000]), ("rare", words[20_000:])):
        generator = random.Random(4)
        ours, theirs = [], []
        for _ in range(rounds):
            word = generator.choice(chosen)
            started = time.perf_counter()
            find_chats(controller, Standpoint(), word, all_workspaces=True, zone=UTC)
            middle = time.perf_counter()
            with controller.store.read() as connection:
                sorted(connection.exec_driver_sql(bare, (f'terms : "{word}"',)).all(), key=lambda row: row[1])
            ours.append(middle - started)
            theirs.append(time.perf_counter() - middle)
        mine, plain = statistics.median(ours) * 1000, statistics.median(theirs) * 1000
        print(f"{name} word: find {mine:.2f} ms, bare MATCH with bm25 {plain:.2f} ms, ratio {mine / plain:.2f}")


def measure_appends(controller: Controller) -> None:
    session = controller.recorder.create_session(NewSession()).id
    draft = EntryDraft(kind="user.message", payload={"text": "the words of a message " * 8})
    append = lambda _: controller.recorder.append_now(session, draft)  # noqa: E731
    timed(append, 50)
    report("append", append, 300)
    controller.store.write(drop)
    indexer = Indexer(controller)
    indexer.start()
    time.sleep(1)
    report("append while the index is built anew", append, 300)
    indexer.stop()


if __name__ == "__main__":
    main()
