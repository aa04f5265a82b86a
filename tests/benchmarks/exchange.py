"""Export and import of one session against the standard ``json`` module over the same lines, in one run.

``python tests/benchmarks/exchange.py [ENTRIES]``: prints entries per second, and the rate as a part of the module's, by
the clock and by processor time. Stores are files in a temporary folder.
"""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bridge.control.controller import Controller
from bridge.control.exchange.exporting import ExportRequest, export_session
from bridge.control.exchange.importing import import_session
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings

WORDS = ("parser", "takes", "a", "comma", "after", "the", "last", "element", "and", "test", "naïve", "über", "日本語")


def opened(home: Path) -> Controller:
    return Controller(load_settings({"BRIDGE_HOME": str(home)}), clock=SystemClock(), environment=os.environ)


def fill(controller: Controller, count: int) -> str:
    """Make a session of messages and tool calls of a few hundred bytes each."""
    choose = random.Random(1)
    session = controller.recorder.create_session(NewSession()).id
    drafts = []
    for number in range(count):
        text = " ".join(choose.choices(WORDS, k=choose.randint(5, 120)))
        if number % 3:
            payload = {"tool_call_id": f"c{number}", "name": "shell", "status": "completed", "output": text}
            drafts.append(EntryDraft(kind="tool.completed", payload=payload))
        else:
            drafts.append(EntryDraft(kind="user.message", payload={"text": text}))
    for start in range(0, count, 5000):
        batch = drafts[start : start + 5000]
        controller.recorder.transact(
            lambda recording, batch=batch: [recording.append(session, draft) for draft in batch]
        )
    return session


def timed(work) -> tuple[float, float]:
    """Return how long something took, and how much of it the processors worked for this process."""
    begun = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def median_of(work, rounds: int = 5) -> tuple[float, float]:
    """Return the medians of what :func:`timed` says: what takes a moment is disturbed as a whole, or not at all."""
    times = [timed(work) for _ in range(rounds)]
    return statistics.median(time for time, _ in times), statistics.median(used for _, used in times)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        home, file = Path(folder), Path(folder) / "session.jsonl"
        with opened(home / "from") as source:
            session = fill(source, count)
            with file.open("wb") as out:
                exporting = timed(
                    lambda: export_session(source, Standpoint(), ExportRequest(session=session), out.write)
                )
            documents = {}
            for form in ("markdown", "html"):
                with (home / form).open("wb") as out:
                    request = ExportRequest(session=session, format=form)
                    documents[form] = timed(
                        lambda request=request, out=out: export_session(source, Standpoint(), request, out.write)
                    )
        with opened(home / "to") as target, file.open("rb") as data:
            checking = timed(lambda: import_session(target, data, dry_run=True))
            data.seek(0)
            importing = timed(lambda: import_session(target, data))
            data.seek(0)
            again = timed(lambda: import_session(target, data))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        lines = file.read_bytes().splitlines()
        values = [json.loads(line) for line in lines]
        loading = median_of(lambda: [json.loads(line) for line in lines])
        dumping = median_of(lambda: [json.dumps(value, separators=(",", ":")).encode() for value in values])
        print(f"{count} entries, {file.stat().st_size / 1e6:.0f} MB; peak {peak} MB with filling the store")
        for name, seconds, against, by in (
            ("export", exporting, "json.dumps", dumping),
            ("import", importing, "json.loads", loading),
            ("import --dry-run", checking, "json.loads", loading),
            ("import again", again, "json.loads", loading),
        ):
            ratios = f"{by[0] / seconds[0]:5.2f} of its rate, {by[1] / seconds[1]:5.2f} by processor time"
            print(f"{name:17} {count / seconds[0]:9.0f}/s   {against} {count / by[0]:.0f}/s: {ratios}")
        for form, seconds in documents.items():
            print(f"export {form:10} {count / seconds[0]:9.0f}/s")


if __name__ == "__main__":
    main()
