"""How well the right chat is found: recall@4 and the mean reciprocal rank, by group of questions and half.

    python tests/benchmarks/search_quality.py [--half tuning|held-out|both] [--misses] [--postgresql]
        [--deep overlap|knows|invents | --model NAME [--base-url URL] [--api-key-variable NAME]]

Beside ``find`` (T1) the same questions are put to plain FTS5 with its bm25 over the entries, a chat ranked by its best
entry (words joined by OR, which finds more than AND). The earlier Bridge published 31 of 40 found among the first four.

``--model`` has a model asked where the index is not sure (T2), ``--deep`` a scripted one (``search_model.py``), whose
figures say what the way through a model costs and whether it can do harm, and nothing about a real one.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import search_real
from postgresql_server import server
from search_corpus import NOW, Asked, Chat, build
from search_model import POLICIES, Asking

from bridge.adapters.models.library import LibraryModel
from bridge.control.controller import Controller
from bridge.control.exchange.formats import take_in
from bridge.control.exchange.imported import ImportRequest
from bridge.control.exchange.sources import Source
from bridge.control.search.deep.asking import Depth, find_deep
from bridge.control.search.finding import FoundChats, find_chats
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.conversations.store import iterate_entries
from bridge.foundation.clock import FixedClock
from bridge.foundation.config import load_settings
from bridge.recall.texts import searchable_text
from tests.scriptedmodel import ModelServer

GROUPS = ("exact", "partial", "vague", "time-bounded")
LIMIT = 50
PLAIN, T1, T2 = "plain FTS5, bm25", "find (T1)", "find --deep (T2)"


class CorpusClock(FixedClock):
    """A clock that is set."""

    def set(self, moment) -> None:
        self._now = moment


@dataclass
class Row:
    """How often the right chat was found, by group."""

    hits: Counter = field(default_factory=Counter)
    counts: Counter = field(default_factory=Counter)
    reciprocal: defaultdict = field(default_factory=lambda: defaultdict(float))

    def add(self, group: str, place: int) -> None:
        for name in (group, "all"):
            self.counts[name] += 1
            self.hits[name] += 0 < place <= 4
            self.reciprocal[name] += 1 / place if place else 0.0

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {self.hits[name]}/{self.counts[name]} ({self.reciprocal[name] / self.counts[name]:.2f})"
            for name in (*GROUPS, "all")
            if self.counts[name]
        )


@dataclass
class Deep:
    """What asking a model cost, and what came of it."""

    asked: int = 0
    reasons: Counter = field(default_factory=Counter)
    lookups: int = 0
    seconds: list = field(default_factory=list)
    model_seconds: list = field(default_factory=list)
    index_seconds: list = field(default_factory=list)
    better: int = 0
    worse: int = 0
    unlike: int = 0


class Bench:
    """A store with every chat in it, and what was asked of it."""

    def __init__(self, controller: Controller, clock: CorpusClock, model: LibraryModel | None) -> None:
        self.controller, self.clock, self.model = controller, clock, model
        self.chats, self.asked = build()
        self.keys = record(controller, clock, self.chats)
        self.imported = take_in_real(controller)
        self.keys |= self.imported
        self.begins = {self.keys[one]: self._begin(one) for one in self.keys}
        #: How the chat begins that is asked for just now.
        self.right = ""
        self.plain = plain(controller, self.keys, self.chats)
        self.rows: defaultdict = defaultdict(Row)
        self.deep = Deep()
        self.sure: defaultdict = defaultdict(Counter)

    def ask(self, one: Asked, half: str, origin: str, *, show_misses: bool) -> None:
        self.right = self.begins[one.wanted]
        self.clock.set(NOW if origin == "templates" else search_real.ASKED_AT)
        began = time.perf_counter()
        found = find_chats(self.controller, Standpoint(), one.text, all_workspaces=True, limit=LIMIT, zone=UTC)
        taken = time.perf_counter() - began
        keys = self._keys(found.chats)
        place = place_of(one.wanted, keys)
        for way, at in ((T1, place), (PLAIN, place_of(one.wanted, self.plain(one.text)))):
            self.rows[half, origin, way].add(one.group, at)
        if found.found.is_confident:
            self.sure[origin, one.group].update(["sure", "right"] if place == 1 else ["sure"])
        self.sure[origin, one.group]["all"] += 1
        if show_misses and not 0 < place <= 4:
            print(f"    missed ({origin}, {one.group}): {one.text!r} -> place {place}")
        if self.model is not None:
            self.rows[half, origin, T2].add(one.group, self._ask_model(one, found, place, taken))

    def _ask_model(self, one: Asked, found: FoundChats, place: int, taken: float) -> int:
        done = find_deep(self.controller, Standpoint(), one.text, self.model, all_workspaces=True, limit=LIMIT)
        assert (done.depth is Depth.NOT_NEEDED) == found.found.is_confident
        at = place_of(one.wanted, self._keys(done.chats))
        if done.depth is not Depth.NOT_NEEDED:
            deep = self.deep
            deep.asked += 1
            deep.reasons[str(done.trouble or "answered")] += 1
            deep.lookups += done.lookups
            deep.seconds.append(done.elapsed_seconds)
            deep.model_seconds.append(done.model_seconds)
            deep.index_seconds.append(taken)
            deep.better += bool(at) and (not place or at < place)
            deep.worse += bool(place) and (not at or at > place)
            deep.unlike += self._keys(done.chats) != self._keys(found.chats)
        return at

    def _begin(self, session_id: str) -> str:
        """Return how a chat begins, as far as a card surely holds it."""
        with self.controller.store.read() as connection:
            texts = (
                searchable_text(one.semantic_schema_version, one.kind, one.payload_text, one.context_visibility)
                for one in iterate_entries(connection, session_id)
                if one.kind == "user.message"
            )
            return " ".join(next(filter(None, texts), "-").split())[:60]

    def _keys(self, chats) -> list[str]:
        return list(dict.fromkeys(self.keys[chat.session.id] for chat in chats))


def place_of(wanted: str, keys: list[str]) -> int:
    return keys.index(wanted) + 1 if wanted in keys else 0


def record(controller: Controller, clock: CorpusClock, chats: list[Chat]) -> dict[str, str]:
    """Record the chats; return the keys by session id."""
    keys = {}
    for chat in chats:
        clock.set(chat.started)
        session = controller.recorder.create_session(NewSession(label=chat.label, status=chat.status)).id
        keys[session] = chat.key
        for number, (kind, text) in enumerate(chat.entries):
            clock.set(chat.started + timedelta(minutes=number))
            payload = {"text": text}
            if kind == "checkpoint":
                payload = {"summary": text, "decisions": [], "files_touched": [], "open_work": []}
            controller.recorder.append_now(session, EntryDraft(kind=kind, payload=payload))
    return keys


def take_in_real(controller: Controller) -> dict[str, str]:
    """Import the transcripts of real agents; return their paths by session id."""
    keys = {}
    for path in search_real.transcripts():
        for session in take_in(controller, Source(path), ImportRequest()).sessions:
            keys.setdefault(session.session_id, str(path))
    return keys


def plain(controller: Controller, keys: dict[str, str], chats: list[Chat]):
    """Return a function that answers with keys of chats by plain FTS5."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(chat UNINDEXED, text)")
    for chat in chats:
        connection.execute("INSERT INTO t VALUES (?, ?)", (chat.key, chat.label or ""))
    with controller.store.read() as stored:
        for session_id, key in keys.items():
            for entry in iterate_entries(stored, session_id):
                text = searchable_text(
                    entry.semantic_schema_version, entry.kind, entry.payload_text, entry.context_visibility
                )
                connection.execute("INSERT INTO t VALUES (?, ?)", (key, text))

    def answer(text: str) -> list[str]:
        words = " OR ".join('"' + word.replace('"', '""') + '"' for word in text.split())
        rows = connection.execute("SELECT chat FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 500", (words,))
        return list(dict.fromkeys(row[0] for row in rows))[:LIMIT]

    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=("tuning", "held-out", "both"), default="tuning")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--postgresql", action="store_true", help="a server of its own instead of SQLite")
    parser.add_argument("--deep", choices=sorted(POLICIES))
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--api-key-variable")
    options = parser.parse_args()
    # Times in a question are those of the asker's zone, which the deep search takes from the machine.
    os.environ["TZ"] = "UTC"
    time.tzset()
    environment = {}
    with ExitStack() as stack:
        if options.postgresql:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            environment["BRIDGE_DATABASE_URL"] = stack.enter_context(server(folder))
        environment["BRIDGE_HOME"] = stack.enter_context(tempfile.TemporaryDirectory())
        model = None
        if options.model:
            key = os.environ.get(options.api_key_variable or "")
            model = LibraryModel(options.model, base_url=options.base_url, api_key=key)
        elif options.deep:
            policy = POLICIES[options.deep]
            scripted = stack.enter_context(ModelServer(lambda body: policy(Asking(body, bench.right))))
            model = LibraryModel("openai:scripted", base_url=scripted.url)
        clock = CorpusClock(NOW, 0.0)
        settings = load_settings(environment)
        controller = stack.enter_context(Controller(settings, clock=clock, environment=os.environ))
        bench = Bench(controller, clock, model)
        asked = {"templates": bench.asked, "imported": search_real.asked()}
        print(
            f"{len(bench.chats)} chats made from templates, {len(set(bench.imported.values()))} transcripts imported;"
        )
        print(", ".join(f"{len(ones)} questions about {origin}" for origin, ones in asked.items()))
        for half in ("tuning", "held-out"):
            if options.half in (half, "both"):
                for origin, ones in asked.items():
                    for one in ones:
                        if one.is_for_tuning == (half == "tuning"):
                            bench.ask(one, half, origin, show_misses=options.misses)
                    for way in (T1, T2, PLAIN):
                        if (half, origin, way) in bench.rows:
                            print(f"{half}, {origin}, {way}: recall@4 (MRR): {bench.rows[half, origin, way]}")
        report(bench)


def report(bench: Bench) -> None:
    for origin in ("templates", "imported"):
        cells = [(group, bench.sure[origin, group]) for group in GROUPS]
        total = sum((counts for _, counts in cells), Counter())
        print(
            f"the gate, {origin}: sure of "
            + ", ".join(f"{group} {one['sure']}/{one['all']}" for group, one in (*cells, ("all", total)))
            + f"; right where it was sure: {total['right']}/{total['sure']}"
        )
    deep = bench.deep
    if deep.asked:
        print(f"the model was asked {deep.asked} times: {dict(deep.reasons)}, {deep.lookups} look-ups")
        print(f"  the right chat stands higher {deep.better} times, lower {deep.worse}; another order: {deep.unlike}")
        for name, values in (
            ("index alone", deep.index_seconds),
            ("with the model", deep.seconds),
            ("of it the model's", deep.model_seconds),
        ):
            late = statistics.quantiles(values, n=20)[-1]
            print(f"  {name}: median {statistics.median(values) * 1e3:.0f} ms, p95 {late * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
