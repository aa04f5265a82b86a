"""How well the right chat is found: recall@4 and the mean reciprocal rank, by group of questions and half.

    python tests/benchmarks/search_quality.py [--half tuning|held-out|both] [--misses] [--database URL]

Beside ``find`` the same questions are put to plain FTS5 with its bm25 over the entries, a chat ranked by its best entry
(words joined by OR, which finds more than AND). The earlier Bridge published 31 of 40 found among the first four.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

from search_corpus import NOW, Chat, build

from bridge.control.controller import Controller
from bridge.control.search.finding import find_chats
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import FixedClock
from bridge.foundation.config import load_settings

GROUPS = ("exact", "partial", "vague", "time-bounded")


class CorpusClock(FixedClock):
    """A clock that is set."""

    def set(self, moment) -> None:
        self._now = moment


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
    clock.set(NOW)
    return keys


def plain(chats: list[Chat]):
    """Return a function that answers with keys of chats by plain FTS5."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5(chat UNINDEXED, text)")
    for chat in chats:
        for _, text in ((None, chat.label or ""), *chat.entries):
            connection.execute("INSERT INTO t VALUES (?, ?)", (chat.key, text))

    def answer(text: str) -> list[str]:
        words = " OR ".join('"' + word.replace('"', '""') + '"' for word in text.split())
        rows = connection.execute("SELECT chat FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 500", (words,))
        return list(dict.fromkeys(row[0] for row in rows))[:50]

    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=("tuning", "held-out", "both"), default="tuning")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--database")
    options = parser.parse_args()
    chats, asked = build()
    with tempfile.TemporaryDirectory() as home:
        clock = CorpusClock(NOW, 0.0)
        environment = {"BRIDGE_HOME": home}
        if options.database:
            environment["BRIDGE_DATABASE_URL"] = options.database
        with Controller(load_settings(environment), clock=clock, environment=os.environ) as controller:
            keys = record(controller, clock, chats)
            ways = {"find": lambda text: _found(controller, keys, text), "plain FTS5 bm25": plain(chats)}
            print(f"{len(chats)} chats, {len(asked)} questions")
            for half in ("tuning", "held-out"):
                if options.half in (half, "both"):
                    wanted = [one for one in asked if one.is_for_tuning == (half == "tuning")]
                    for name, answer in ways.items():
                        _report(f"{half}: {name}", wanted, answer, show_misses=options.misses and name == "find")


def _found(controller: Controller, keys: dict[str, str], text: str) -> list[str]:
    found = find_chats(controller, Standpoint(), text, all_workspaces=True, limit=50, zone=UTC)
    return [keys[chat.session.id] for chat in found.chats]


def _report(name: str, asked, answer, *, show_misses: bool) -> None:
    hits, reciprocal, counts = defaultdict(int), defaultdict(float), defaultdict(int)
    for one in asked:
        found = answer(one.text)
        place = found.index(one.wanted) + 1 if one.wanted in found else 0
        for group in (one.group, "all"):
            counts[group] += 1
            hits[group] += 0 < place <= 4
            reciprocal[group] += 1 / place if place else 0.0
        if show_misses and not 0 < place <= 4:
            print(f"    missed ({one.group}): {one.text!r} -> place {place}")
    cells = [
        f"{group} {hits[group]}/{counts[group]} ({reciprocal[group] / counts[group]:.2f})" for group in (*GROUPS, "all")
    ]
    print(f"{name}: recall@4 (MRR): {', '.join(cells)}")


if __name__ == "__main__":
    main()
