"""Programs that the scripted agent runs as its own tool. The one module of the adapters that starts any: it is part
of a program of its own, which Bridge runs as it runs any other agent."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Final

#: Characters of output that a run shows.
SHOWN_CHARACTERS: Final = 10_000
#: Seconds between two looks at whether a run is to be ended.
LOOK_SECONDS: Final = 0.05


def run_program(argv: list[str], directory: str, cancelled: threading.Event) -> str:
    """Run a program to its end, or until it is cancelled; return what it printed and how it ended."""
    process = subprocess.Popen(
        argv, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    while True:
        try:
            output, _ = process.communicate(timeout=LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if cancelled.is_set():
                process.kill()
        else:
            return f"{output[:SHOWN_CHARACTERS]}exit status {process.returncode}"


def leave_behind(seconds: float) -> None:
    """Start a process that outlives the turn, as agents do that watch files or serve something."""
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({float(seconds)})"])
