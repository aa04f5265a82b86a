"""Events to many subscribers: 1,000 entries a second, recorded in the process that serves 20 connections.

``python tests/benchmarks/events.py [--rate 1000] [--seconds 10] [--subscribers 20] [--folder DIR]``

The controller with its Unix socket runs in a process of its own and appends, in a thread, at the given rate; the
subscribers are connections of another process. Every subscriber must get every event once and in order. The lag is the
time between the moment an event was recorded and its arrival; a growing one shows as a last second slower than the
first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from bridge.control.controller import Controller
from bridge.control.resident import end_resident
from bridge.control.standpoint import Standpoint
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.clock import SystemClock
from bridge.foundation.config import load_settings
from bridge.rpc.connection import Connection
from bridge.rpc.messages import MAX_MESSAGE_BYTES
from bridge.rpc.roles import Caller, Role


async def serve(controller: Controller, socket: Path, stop: asyncio.Event) -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(message: bytes) -> None:
            writer.write(message + b"\n")
            await writer.drain()

        connection = Connection(controller, Caller(Role.OBSERVER, Standpoint()), send)
        with suppress(asyncio.CancelledError):
            while line := await reader.readline():
                await connection.receive(line)
        await connection.aclose()
        writer.close()

    server = await asyncio.start_unix_server(client, socket, limit=MAX_MESSAGE_BYTES)
    async with server:
        await stop.wait()


def append_all(controller: Controller, session: str, rate: int, seconds: int) -> None:
    """Append at a rate; what a moment missed is made up for in the next, as one batch."""
    recorder, done, began = controller.recorder, 0, time.monotonic()
    while done < rate * seconds:
        due = min(rate * seconds, int((time.monotonic() - began) * rate))
        futures = [
            recorder.append(session, EntryDraft(kind="note", payload={"text": str(number)}))
            for number in range(done, due)
        ]
        for future in futures:
            future.result()
        done = due
        time.sleep(0.005)


def run_server(folder: str, rate: int, seconds: int, begin: Any) -> None:
    settings = load_settings({"BRIDGE_HOME": folder})
    with Controller(settings, clock=SystemClock(), environment=os.environ) as controller:
        session = controller.recorder.create_session(NewSession()).id

        async def main() -> None:
            stop = asyncio.Event()
            serving = asyncio.create_task(serve(controller, Path(folder) / "s", stop))
            await asyncio.to_thread(begin.wait)
            used = time.process_time()
            await asyncio.to_thread(append_all, controller, session, rate, seconds)
            await asyncio.sleep(2)
            print(f"server: {(time.process_time() - used) / (seconds + 2):.0%} of a core")
            stop.set()
            await serving
            await end_resident(controller)

        asyncio.run(main())


async def subscriber(socket: Path, count: int, ready: asyncio.Semaphore, lags: list[list[float]], seconds: int) -> int:
    reader, writer = await asyncio.open_unix_connection(socket, limit=MAX_MESSAGE_BYTES)
    request = {"jsonrpc": "2.0", "id": 1, "method": "events/subscribe", "params": {"types": ["entry.appended"]}}
    writer.write(json.dumps(request).encode() + b"\n")
    await reader.readline()
    ready.release()
    seen: list[int] = []
    began = None
    lagged = 0
    rest = b""
    while len(seen) < count:
        # A client that costs little itself: both share two cores with everything else.
        chunk = await asyncio.wait_for(reader.read(1 << 18), 60)
        now = time.time()
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            message = orjson.loads(line)
            if message["method"] != "events/event":
                lagged += 1
                continue
            event = message["params"]["event"]
            at = datetime.fromisoformat(event["at"]).timestamp()
            began = began or at
            lags[min(seconds - 1, int(at - began))].append(now - at)
            seen.append(event["ordinal"])
    writer.close()
    assert seen == sorted(set(seen)), "every event once and in order"
    return lagged


async def subscribe_all(socket: Path, begin: Any, arguments: argparse.Namespace) -> None:
    while not socket.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.02)
    ready = asyncio.Semaphore(0)
    lags: list[list[float]] = [[] for _ in range(arguments.seconds)]
    count = arguments.rate * arguments.seconds
    tasks = [
        asyncio.create_task(subscriber(socket, count, ready, lags, arguments.seconds))
        for _ in range(arguments.subscribers)
    ]
    for _ in tasks:
        await ready.acquire()
    began = time.monotonic()
    begin.set()
    lagged = await asyncio.gather(*tasks)
    took = time.monotonic() - began
    everything = [lag for second in lags for lag in second]
    print(
        f"{count} events to {arguments.subscribers} subscribers in {took:.1f} s: {len(everything)} arrived, "
        f"{sum(lagged)} lag notices; lag median {statistics.median(everything) * 1000:.0f} ms, "
        f"99 % {statistics.quantiles(everything, n=100)[-1] * 1000:.0f} ms, worst {max(everything) * 1000:.0f} ms"
    )
    for name, second in (("first", lags[0]), ("last", lags[-1])):
        print(f"  {name} second: median {statistics.median(second) * 1000:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--subscribers", type=int, default=20)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        context = multiprocessing.get_context("spawn")
        begin = context.Event()
        server = context.Process(target=run_server, args=(folder, arguments.rate, arguments.seconds, begin))
        server.start()
        asyncio.run(subscribe_all(Path(folder) / "s", begin, arguments))
        server.join()
    assert threading.active_count() == 1


if __name__ == "__main__":
    main()
