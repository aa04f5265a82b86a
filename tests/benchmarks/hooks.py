"""The hook client as a whole process against a bare Python, and the controller's side of an event in a large checkout.

``python tests/benchmarks/hooks.py [client|controller]``; all in one run and in turns, so that ratios hold on a noisy
machine. ``FILES`` (20,000) files are in the checkout, ``EVENTS`` (300) events are sent, ``ROUNDS`` (60) processes run.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.serving import MAIN, Resident, resident  # noqa: E402 - found by the line above

ROUNDS = int(os.environ.get("ROUNDS", "60"))
EVENTS = int(os.environ.get("EVENTS", "300"))
FILES = int(os.environ.get("FILES", "20000"))
GREETING = b'{"bridge":1,"build":null,"role":"hook","token":null,"directory":null,"session":null}\n'


def bridge(environment: dict[str, str], directory: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-c", MAIN, *words], env=environment, cwd=directory, check=True, stdout=subprocess.DEVNULL
    )


def make_repository(path: Path, files: int) -> None:
    for number in range(files):
        target = path / f"d{number // 100}" / f"f{number}.txt"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{number}\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=path, check=True)


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of each call, made in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            found[name].append((time.perf_counter() - begun) * 1000)
    return found


def event(repository: Path, name: str, **fields: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": "bench", "cwd": str(repository), **fields}


def tool(repository: Path, number: int) -> dict[str, Any]:
    given = {"file_path": str(repository / "d0" / "f0.txt")}
    return event(repository, "PreToolUse", tool_name="Read", tool_input=given, tool_use_id=f"t{number}")


def client(home: Path, repository: Path) -> None:
    program = str(home / "hooks" / "bridge-hook")
    prompt = json.dumps(event(repository, "UserPromptSubmit", prompt="hello")).encode()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
    found = measured(
        {
            "python -c pass": lambda: subprocess.run([sys.executable, "-c", "pass"], input=b"", **quiet),
            "bridge-hook": lambda: subprocess.run([program, "claude-code"], input=prompt, **quiet),
        },
        ROUNDS,
    )
    bare = statistics.median(found["python -c pass"])
    for name, times in found.items():
        middle = statistics.median(times)
        print(
            f"{name:20} {middle:7.1f} ms  {middle / bare:4.2f} x   p90 {sorted(times)[int(len(times) * 0.9)]:7.1f} ms"
        )
    lost = home / "hooks" / "lost-claude-code"
    print(
        f"kept {len(list((home / 'hooks' / 'spool').glob('*.json')))}, lost {lost.stat().st_size if lost.exists() else 0}"
    )


def controller(serving: Resident, repository: Path) -> None:
    path = str(serving.endpoint.find_socket())
    numbers = iter(range(10**9))

    def send(raw: dict[str, Any]) -> None:
        line = {
            "id": f"b{next(numbers)}",
            "host": "claude-code",
            "at": 0.5,
            "parent": None,
            "patience": 30.0,
            "event": raw,
        }
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.connect(path)
            peer.sendall(GREETING + json.dumps(line).encode() + b"\n")
            received = b""
            while received.count(b"\n") < 2:
                received += peer.recv(65536)
        assert b'"taken":true' in received, received

    send(event(repository, "SessionStart", source="startup"))
    send(event(repository, "UserPromptSubmit", prompt="hello"))
    for number in range(20):
        send(tool(repository, number))
    edited = repository / "d0" / "f0.txt"

    def edit() -> None:
        edited.write_text(f"{time.time_ns()}\n")
        send(tool(repository, next(numbers)))

    found = measured({"nothing changed": lambda: send(tool(repository, next(numbers)))}, EVENTS)
    found |= measured({"a file edited before": edit}, max(EVENTS // 10, 5))
    for name, times in found.items():
        ordered = sorted(times)
        print(
            f"{name:22} p50 {statistics.median(ordered):7.2f} ms   p95 {ordered[int(len(ordered) * 0.95)]:7.2f} ms   "
            f"({len(ordered)} events, {FILES} files)"
        )


def main() -> None:
    chosen = sys.argv[1:] or ["client", "controller"]
    with tempfile.TemporaryDirectory() as folder:
        home, repository = Path(folder) / "state", Path(folder) / "repository"
        repository.mkdir()
        make_repository(repository, FILES)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("BRIDGE_", "GIT_"))},
            "BRIDGE_HOME": str(home),
            "HOME": folder,
            "PYTHONPATH": str(ROOT),
        }
        bridge(environment, repository, "init")
        bridge(environment, repository, "hooks", "install", "claude-code")
        with resident(environment) as serving:
            if "controller" in chosen:
                controller(serving, repository)
            if "client" in chosen:
                client(home, repository)


if __name__ == "__main__":
    main()
