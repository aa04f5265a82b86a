"""Memory while a transcript is taken in does not grow with the transcript."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import ROOT
from tests.transcripts import claude, lines

#: Address space that the process may use beyond what it has before it begins to read, in bytes.
CAP_BYTES = 64 * 1024 * 1024
MEGABYTES = 72

SCRIPT = """
import os, resource, sys
from pathlib import Path
from bridge.control.controller import Controller
from bridge.control.exchange.formats import take_in
from bridge.control.exchange.imported import ImportRequest
from bridge.control.exchange.sources import Source
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
with Controller(load_settings(dict(os.environ)), clock=SystemClock(), environment=os.environ) as controller:
    small, large = sys.argv[1:3]
    take_in(controller, Source(Path(small)), ImportRequest())
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[3]), -1))
    print(take_in(controller, Source(Path(large)), ImportRequest()).added)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit is set from what Linux says is used")
def test_a_transcript_that_is_larger_than_the_memory_it_may_use(tmp_path):
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    small.write_bytes(lines(*(claude(f"s{n}", None, text="x" * 400_000, sessionId="small") for n in range(12))))
    count = MEGABYTES * 1024 * 1024 // 400_000
    with large.open("wb") as out:
        for number in range(count):
            parent = f"u{number - 1}" if number else None
            out.write(lines(claude(f"u{number}", parent, text=f"{number} " * (400_000 // (len(str(number)) + 1)))))
    assert large.stat().st_size > CAP_BYTES
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(small), str(large), str(CAP_BYTES)],
        env={**os.environ, "BRIDGE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(count)), done.stderr[-2000:]
