"""Round trips to the resident controller against a bare asyncio echo server; whole commands against a bare Python.

``python tests/benchmarks/controller.py [round-trip|start|commands|memory|stamps ...]``; all in one run and in
turns, so that the ratios hold on a noisy machine. ``memory`` makes a store of ``ENTRIES`` (1,000,000) entries.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bridge.rpc.resident.client import Client  # noqa: E402 - found by the line above
from tests.serving import MAIN, resident  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "9"))
CALLS = int(os.environ.get("CALLS", "2000"))
CONCURRENT = 64
PING = b'{"jsonrpc":"2.0","id":1,"method":"admin/ping"}\n'
#: The echo server in a process of its own, as the controller is.
ECHO = """
import asyncio, sys
async def talk(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_unix_server(talk, sys.argv[1], limit=8 * 1024 * 1024)
    print("ready", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


async def _sequential(path: str, message: bytes, greeting: bytes | None) -> float:
    reader, writer = await asyncio.open_unix_connection(path, limit=8 * 1024 * 1024)
    if greeting:
        writer.write(greeting)
        await reader.readline()
    begun = time.perf_counter()
    for _ in range(CALLS):
        writer.write(message)
        await reader.readline()
    took = time.perf_counter() - begun
    writer.close()
    return took / CALLS * 1e6


async def _concurrent(path: str, message: bytes, greeting: bytes | None) -> float:
    """64 connections with one call each under way; microseconds a call."""

    async def open_one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_unix_connection(path, limit=8 * 1024 * 1024)
        if greeting:
            writer.write(greeting)
            await reader.readline()
        return reader, writer

    async def run(pair: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        reader, writer = pair
        for _ in range(CALLS // 16):
            writer.write(message)
            await reader.readline()

    pairs = [await open_one() for _ in range(CONCURRENT)]
    begun = time.perf_counter()
    await asyncio.gather(*(run(pair) for pair in pairs))
    took = time.perf_counter() - begun
    for _, writer in pairs:
        writer.close()
    return took / (CONCURRENT * (CALLS // 16)) * 1e6


async def _pipelined(path: str, message: bytes, greeting: bytes | None) -> float:
    """One connection with 64 calls under way; microseconds a call."""
    reader, writer = await asyncio.open_unix_connection(path, limit=8 * 1024 * 1024)
    if greeting:
        writer.write(greeting)
        await reader.readline()
    total = CALLS * 4
    begun = time.perf_counter()
    for _ in range(CONCURRENT):
        writer.write(message)
    for number in range(total):
        await reader.readline()
        if number < total - CONCURRENT:
            writer.write(message)
    took = time.perf_counter() - begun
    writer.close()
    return took / total * 1e6


def round_trip(environment: Mapping[str, str]) -> None:
    place = str(Path(environment["BRIDGE_HOME"]).parent / "echo.sock")
    echo = subprocess.Popen([sys.executable, "-c", ECHO, place], stdout=subprocess.PIPE)
    assert echo.stdout is not None
    echo.stdout.readline()
    with resident(environment) as controller:
        door = str(controller.endpoint.find_socket())
        with Client.connect(controller.endpoint) as client:
            session = client.call("sessions/new", {"label": "figures"})["id"]
        greeting = json.dumps({"bridge": 1, "role": "operator"}).encode() + b"\n"
        show = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sessions/show", "params": {"session": session}})
        messages = {"ping": PING, "sessions/show": show.encode() + b"\n"}
        for name, way in (("sequential", _sequential), ("64 connections", _concurrent), ("64 on one", _pipelined)):
            figures: dict[str, list[float]] = {"echo": [], **{key: [] for key in messages}}
            for _ in range(ROUNDS):
                figures["echo"].append(asyncio.run(way(place, PING, None)))
                for key, message in messages.items():
                    figures[key].append(asyncio.run(way(door, message, greeting)))
            bare = statistics.median(figures["echo"])
            for key, values in figures.items():
                found = statistics.median(values)
                ratios = [value / echo for value, echo in zip(values, figures["echo"], strict=True)]
                middle = statistics.median(ratios)
                print(f"{name:15} {key:14} {found:8.1f} µs a call  {found / bare:5.2f} ×  (of ratios {middle:.2f})")
    echo.terminate()
    echo.wait()


def _ms(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return (time.perf_counter() - begun) * 1000


def commands(environment: Mapping[str, str]) -> None:
    repository = make_repository(environment, 200)

    def ran(mode: str, *words: str) -> float:
        changes = {"BRIDGE_CONTROLLER": mode}
        return _ms(
            lambda: subprocess.run(
                [sys.executable, "-c", "import re, " + MAIN.removeprefix("import "), *words],
                cwd=repository,
                env={**environment, **changes},
                capture_output=True,
                check=True,
            )
        )

    with resident(environment) as controller, Client.connect(controller.endpoint, directory=str(repository)) as client:
        session = client.call("sessions/new", {})["id"]
        for number in range(200):
            client.call("sessions/append", {"session": session, "kind": "note", "text": f"entry {number}"})
        lines = {
            "log, newest 50": ("log", session, "-n", "50"),
            "log, newest 50, --json": ("log", session, "-n", "50", "--json"),
            "append": ("append", session, "--kind", "note", "--text", "x"),
            "session list": ("session", "list"),
        }
        for words in lines.values():
            ran("required", *words)
        for name, words in lines.items():
            bare, there, here = [], [], []
            for _ in range(ROUNDS):
                bare.append(_ms(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
                there.append(ran("required", *words))
                here.append(ran("off", *words))
            base, remote, own = (statistics.median(values) for values in (bare, there, here))
            print(
                f"{name:24} python -c pass {base:6.1f} ms  controller {remote:6.1f} ms ({remote / base:.1f} ×)  "
                f"in-process {own:6.1f} ms ({own / base:.1f} ×)"
            )


def start(environment: Mapping[str, str]) -> None:
    """From the start of ``bridge serve`` to its first answer, and to the end of ``serve --detach``."""
    figures = []
    bare = []
    for _ in range(ROUNDS):
        bare.append(_ms(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)))
        begun = time.perf_counter()
        with resident(environment):
            figures.append((time.perf_counter() - begun) * 1000)
    found, base = statistics.median(figures), statistics.median(bare)
    print(f"start to first answer   {found:.0f} ms (python -c pass: {base:.1f} ms)")


def memory(environment: Mapping[str, str]) -> None:
    from large_store import fill

    entries = int(os.environ.get("ENTRIES", "1000000"))
    with resident(environment) as controller:
        empty = psutil.Process(controller.pid).memory_info().rss
    fill(Path(environment["BRIDGE_HOME"]) / "bridge.db", entries)
    with resident(environment) as controller:
        process = psutil.Process(controller.pid)
        time.sleep(2)
        idle = process.memory_info().rss
        with Client.connect(controller.endpoint) as client:
            for _ in range(100):
                session = client.call("sessions/list")["sessions"][0]["id"]
                client.call("sessions/show", {"session": session})
                client.call("sessions/log", {"session": session, "limit": 50})
                client.call("sessions/append", {"session": session, "kind": "note", "text": "x"})
            used = process.memory_info().rss
    for name, value in (("empty store", empty), (f"{entries} entries, idle", idle), ("after 400 calls", used)):
        print(f"memory, {name:24} {value / 2**20:6.0f} MiB")


def stamps(environment: Mapping[str, str]) -> None:
    """An append through the controller in an unchanged checkout of 20,000 files: watched, and without a watch."""
    repository = make_repository(environment, 20_000)
    note = {"kind": "note", "text": "x"}
    with resident(environment) as controller, Client.connect(controller.endpoint, directory=str(repository)) as client:
        placed = {**note, "session": client.call("sessions/new", {})["id"]}
        bare = {**note, "session": client.call("sessions/new", {"without_workspace": True})["id"]}
        for _ in range(5):
            client.call("sessions/append", placed)
        time.sleep(2)
        client.call("sessions/append", placed)
        times: dict[str, list[float]] = {"git status": [], "append, watched": [], "append, no workspace": []}
        status = ["git", "--no-optional-locks", "status", "--porcelain=v2", "-z", "--untracked-files=all"]
        for _ in range(ROUNDS * 3):
            times["git status"].append(
                _ms(lambda: subprocess.run(status, cwd=repository, capture_output=True, check=True))
            )
            times["append, watched"].append(_ms(lambda: client.call("sessions/append", placed)))
            times["append, no workspace"].append(_ms(lambda: client.call("sessions/append", bare)))
        print("watches", client.call("controller/status")["watches"])
    for name, values in times.items():
        print(f"{name:24} {statistics.median(values):7.2f} ms")


def make_repository(environment: Mapping[str, str], files: int) -> Path:
    repository = Path(environment["BRIDGE_HOME"]).parent / "repository"
    repository.mkdir()
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "gc.auto=0"]
    subprocess.run([*git, "init", "-q"], cwd=repository, check=True)
    for number in range(files):
        folder = repository / f"d{number // 100}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}.txt").write_text(f"{number}\n")
    subprocess.run([*git, "add", "-A"], cwd=repository, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], cwd=repository, check=True)
    return repository


PARTS: Mapping[str, Callable[[Mapping[str, str]], None]] = {
    "round-trip": round_trip,
    "start": start,
    "commands": commands,
    "memory": memory,
    "stamps": stamps,
}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory(prefix="b") as folder:
            environment = {key: value for key, value in os.environ.items() if not key.startswith("BRIDGE_")}
            PARTS[name]({**environment, "BRIDGE_HOME": f"{folder}/h", "PYTHONPATH": str(ROOT)})


if __name__ == "__main__":
    main()
