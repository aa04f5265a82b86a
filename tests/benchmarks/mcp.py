"""How long an agent waits for its tools: ``bridge mcp`` up to the first answer, and one call of a tool.

``python tests/benchmarks/mcp.py --runs 20``: one controller, which has its library loaded; each measured beside a bare
start of Python, and a bare echo over the same pipes, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bridge.control.access.tokens import TOKEN_VARIABLE, mint  # noqa: E402 - after the path is set
from bridge.control.controller import Controller  # noqa: E402
from bridge.control.sessions import SessionRequest, start_session  # noqa: E402
from bridge.control.standpoint import Standpoint  # noqa: E402
from bridge.foundation.clock import SystemClock  # noqa: E402
from bridge.foundation.config import load_settings  # noqa: E402

MAIN = "import sys; from bridge.cli.main import main; sys.exit(main())"
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}},
}
ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"
CALL = {"name": "recall", "arguments": {"query": "parrot"}}


class Agent:
    """A process that answers lines."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def end(self) -> None:
        self.process.communicate()


def milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Measure, and print one line for each figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "BRIDGE_HOME": f"{home}/state", "PYTHONPATH": str(ROOT)}
        settings = load_settings(environment)
        with Controller(settings, clock=SystemClock(), environment=environment) as controller:
            session = start_session(controller, Standpoint(), SessionRequest()).session.id
            environment[TOKEN_VARIABLE] = mint(controller, session, purpose="benchmark").token
        bridge = [sys.executable, "-P", "-c", MAIN, "mcp"]
        began = time.perf_counter()
        first = Agent(bridge, environment)
        first.ask(HELLO)
        print(f"first answer, with the controller started for it: {milliseconds(began):.0f} ms")
        try:
            measure(bridge, environment, runs)
        finally:
            first.end()
            stop = [sys.executable, "-c", MAIN, "serve", "--stop", "--cancel-workers"]
            subprocess.run(stop, env=environment, check=True, capture_output=True)


def measure(bridge: list[str], environment: dict[str, str], runs: int) -> None:
    starts, bare, calls, echoes = [], [], [], []
    echo = Agent([sys.executable, "-c", ECHO], environment)
    agent = Agent(bridge, environment)
    agent.ask(HELLO)
    for number in range(runs):
        began = time.perf_counter()
        one = Agent(bridge, environment)
        one.ask(HELLO)
        starts.append(milliseconds(began))
        one.end()
        began = time.perf_counter()
        one = Agent([sys.executable, "-c", ECHO], environment)
        one.ask(HELLO)
        bare.append(milliseconds(began))
        one.end()
        for more in range(10):
            message = {"jsonrpc": "2.0", "id": number * 10 + more + 1, "method": "tools/call", "params": CALL}
            began = time.perf_counter()
            answer = agent.ask(message)
            calls.append(milliseconds(began))
            assert not answer["result"].get("isError"), answer
            began = time.perf_counter()
            echo.ask(message)
            echoes.append(milliseconds(began))
    agent.end()
    echo.end()
    for what, mine, other in (("first answer", starts, bare), ("call of a tool", calls, echoes)):
        ratio = statistics.median(mine) / statistics.median(other)
        best = min(mine) / min(other)
        print(
            f"{what}: {statistics.median(mine):.1f} ms against {statistics.median(other):.1f} ms bare, "
            f"ratio {ratio:.1f}, of the best {best:.1f}"
        )


if __name__ == "__main__":
    main()
