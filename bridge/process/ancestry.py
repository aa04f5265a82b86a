"""Which process called: the first ancestor that is not merely the shell that ran the call."""

from __future__ import annotations

from typing import Final

import psutil

from bridge.process.identity import ProcessIdentity, identity_of

#: Processes between the call and who asked for it: a shell, seldom two.
MAX_STEPS: Final = 8


def caller_of(pid: int, word: str) -> ProcessIdentity | None:
    """Return the first process from ``pid`` upwards whose command line does not hold ``word``; None if it is gone."""
    try:
        process: psutil.Process | None = psutil.Process(pid)
        for _ in range(MAX_STEPS):
            if process is None:
                return None
            if not any(word in part for part in process.cmdline()):
                return identity_of(process.pid)
            process = process.parent()
    except (psutil.NoSuchProcess, psutil.AccessDenied, ValueError):
        return None
    return None
