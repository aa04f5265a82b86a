"""How many bytes keep a copy of a session of 100,000 entries up to date after a change of one entry.

python -m tests.benchmarks.session_sync [ENTRIES]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bridge.control.checks.syncing import changes_since
from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.rpc.mirroring import SessionMirror

#: Entries appended in one transaction while the session is made.
BATCH = 1000
TEXT = "a line of a conversation that says a little more than nothing; " * 6


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings({"BRIDGE_HOME": str(Path(folder) / "home")})
        with Controller(settings, clock=SystemClock(), environment=os.environ) as controller:
            measure(controller, entries)


def measure(controller: Controller, entries: int) -> None:
    session = controller.recorder.create_session(NewSession(label="chain")).id
    draft = EntryDraft(kind="user.message", payload={"text": TEXT})
    for _ in range(entries // BATCH):
        controller.recorder.transact(
            lambda recording: [recording.append(session, draft) for _ in range(BATCH)] and None
        )
    sizes: list[int] = []

    def call(_method: str, params: dict[str, Any]) -> dict[str, Any]:
        found = changes_since(
            controller,
            Standpoint(),
            params["session"],
            session_root=params["session_root"],
            known=params.get("known"),
        )
        text = json.dumps(found.to_json())
        sizes.append(len(text))
        answer: dict[str, Any] = json.loads(text)
        return answer

    mirror = SessionMirror(session)
    began = time.perf_counter()
    mirror.update(call)
    print(f"full listing: {sum(sizes)} bytes in {len(sizes)} answers, {time.perf_counter() - began:.2f} s")
    for name in ("one entry", "one more entry"):
        controller.recorder.append_now(session, draft)
        sizes.clear()
        began = time.perf_counter()
        mirror.update(call)
        print(f"{name}: {sum(sizes)} bytes, {time.perf_counter() - began:.2f} s with the check of the copy")
    sizes.clear()
    mirror.update(call)
    print(f"nothing new: {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
