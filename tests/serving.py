"""A controller's server in a thread of the test, and controllers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridge.control.controller import Controller
from bridge.rpc.errors import ControllerUnavailable
from bridge.rpc.resident.client import Client
from bridge.rpc.resident.endpoint import Endpoint
from bridge.rpc.resident.holding import Hold, digest_of
from bridge.rpc.resident.residency import Residency
from bridge.rpc.resident.server import End, Server

ROOT = Path(__file__).resolve().parents[1]
#: Longest wait for anything here; only what hangs takes so long.
PATIENCE_SECONDS = 60.0
BUILD = "0.0.0+test"
MAIN = "import sys; from bridge.cli.main import main; sys.exit(main())"


def until(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait for a condition and return what it gave."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class Serving:
    """A server that runs in a thread."""

    def __init__(self, server: Server, endpoint: Endpoint) -> None:
        self.server = server
        self.endpoint = endpoint
        self.loop: asyncio.AbstractEventLoop | None = None
        self.why: End | None = None

    def connect(self, **greeting: Any) -> Client:
        return Client.connect(self.endpoint, **greeting)

    def raw(self) -> socket.socket:
        """A socket that has not greeted."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(PATIENCE_SECONDS)
        peer.connect(str(self.endpoint.find_socket()))
        return peer

    def end(self) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.server.end)


@contextmanager
def serving(controller: Controller, *, run_command: Any = None, **options: Any) -> Iterator[Serving]:
    """Serve a controller as long as the block runs."""
    endpoint = Endpoint(str(controller.settings.home))
    hold = Hold.take(endpoint)
    listener = hold.listen(os.environ)
    hold.announce({"build": BUILD})
    residency = options.pop("residency", None) or Residency(controller, build=BUILD, run_command=run_command)
    found = Serving(Server(residency, hold, **options), endpoint)
    ready = threading.Event()

    async def main() -> None:
        found.loop = asyncio.get_running_loop()
        found.why = await found.server.serve(listener, ready=ready.set)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS)
        yield found
    finally:
        if thread.is_alive() and found.loop is not None and not found.loop.is_closed():
            found.end()
        thread.join(PATIENCE_SECONDS)
        hold.release()
        residency.pool.shutdown()
        assert not thread.is_alive()


def line_of(peer: socket.socket) -> dict[str, Any] | None:
    """The next line of a socket; None at its end."""
    found = bytearray()
    while not found.endswith(b"\n"):
        data = peer.recv(1)
        if not data:
            return None
        found += data
    return dict(json.loads(found))


class Resident:
    """``bridge serve`` in a process of its own."""

    def __init__(self, environment: Mapping[str, str], *words: str, root: Path = ROOT) -> None:
        self.environment = {**environment, "BRIDGE_CONTROLLER": "auto", "PYTHONPATH": str(root)}
        self.endpoint = Endpoint(self.environment["BRIDGE_HOME"], self.environment.get("BRIDGE_DATABASE_URL"))
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "serve", *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def answers(self) -> bool:
        """Whether it is the one that answers."""
        assert self.process.poll() is None, self.process.communicate()
        try:
            with Client.connect(self.endpoint) as client:
                return client.pid == self.pid
        except ControllerUnavailable:
            return False

    def wait(self) -> tuple[int, str, str]:
        """Wait for its end; its status and what it printed."""
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out.decode(), err.decode()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if not self.endpoint.is_held():
            forget_socket(self.endpoint)


def forget_socket(endpoint: Endpoint) -> None:
    """Take away what a killed controller left outside of its state directory, which goes with the test."""
    name = Path(f"/tmp/bridge-{os.getuid()}/{digest_of(endpoint)}.sock")
    for left in (name, name.with_name(name.name + ".new")):
        left.unlink(missing_ok=True)


@contextmanager
def resident(environment: Mapping[str, str], *words: str, **options: Any) -> Iterator[Resident]:
    """A controller that answers, killed at the end of the block if it still runs."""
    found = Resident(environment, *words, **options)
    try:
        until(found.answers)
        yield found
    finally:
        found.close()


def end_by_pid(endpoint: Endpoint) -> None:
    """End a controller that some client started, and wait until it is gone."""
    info = endpoint.read_info()
    if info is not None:
        try:
            os.kill(info["pid"], signal.SIGTERM)
        except ProcessLookupError:
            forget_socket(endpoint)
            return
        until(lambda: endpoint.read_info() is None)
