"""What the tests of session files share: deterministic files, and their bytes written by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count

from bridge.foundation.clock import FixedClock
from bridge.transcripts.sessionfile import SessionFile

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TIME = "2026-01-02T03:04:05.000000Z"


def options(**changes):
    """Return a clock and ids that are the same in every run."""
    numbers = count(1)
    return {"clock": FixedClock(START), "new_id": lambda: f"entry-{next(numbers):03d}", **changes}


def create(path, **changes):
    return SessionFile.create(path, session_id="session-1", **options(**changes))


def user(text="hello", **details):
    return {"role": "user", "content": text, **({"details": details} if details else {})}


def calling(*calls):
    return {"role": "assistant", "content": "", "toolCalls": [{"id": i, "name": n} for i, n in calls]}


def result(call, name, content="done"):
    return {"role": "tool", "toolCallId": call, "toolName": name, "content": content}


def header_line(**changes):
    return as_line({"type": "session", "version": 1, "id": "session-1", "timestamp": TIME, **changes})


def entry_line(identity="entry-001", parent=None, message=None, **changes):
    record = {"type": "entry", "version": 1, "id": identity, "parentId": parent, "timestamp": TIME}
    return as_line({**record, "message": user() if message is None else message, **changes})


def as_line(record):
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def beside(path):
    """Return the names of what lies beside a session file, but for its lock."""
    return sorted(other.name for other in path.parent.iterdir() if other.name not in {path.name, f".{path.name}.lock"})
