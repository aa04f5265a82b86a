"""Clients that call a controller at random while it is killed, and what must be true afterwards."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from bridge.foundation.errors import BridgeError
from bridge.rpc.resident.client import Client, RemoteError
from bridge.rpc.resident.endpoint import Endpoint
from tests.serving import MAIN, resident, until


class Caller(threading.Thread):
    """Calls at random until the controller is gone, and remembers which entries it was told of."""

    def __init__(self, endpoint: Endpoint, directory: Path, seed: int, calls: int) -> None:
        super().__init__()
        self._client = Client.connect(endpoint, directory=str(directory))
        self._seed = seed
        self._random = random.Random(seed)
        self._calls = calls
        self.done = 0
        self.entries: list[tuple[str, str, str]] = []
        self.sessions: list[str] = []
        self.failures: list[BaseException] = []

    def run(self) -> None:
        try:
            with self._client:
                for number in range(self._calls):
                    self._one(number)
                    self.done += 1
        except (BridgeError, OSError) as error:
            if isinstance(error, RemoteError):
                self.failures.append(error)
        except BaseException as error:  # noqa: BLE001 - told by the test
            self.failures.append(error)

    def _one(self, number: int) -> None:
        client, pick = self._client, self._random.random()
        if not self.sessions or pick < 0.1:
            self.sessions.append(client.call("sessions/new", {"label": f"s{number}"})["id"])
            return
        session = self._random.choice(self.sessions)
        if pick < 0.6:
            text = f"text {number} {'x' * self._random.randrange(2000)}"
            told = client.call("sessions/append", {"session": session, "kind": "note", "text": text})
            self.entries.append((session, told["id"], text))
        elif pick < 0.7 and self.entries:
            owner, entry, _ = self._random.choice(self.entries)
            client.call("sessions/goto", {"session": owner, "entry": entry})
        elif pick < 0.8 and self.entries:
            _, entry, _ = self._random.choice(self.entries)
            client.call("sessions/label", {"entry": entry, "name": f"l{number}-{self._seed}"})
        else:
            client.call(self._random.choice(["sessions/log", "sessions/tree", "integrity/root"]), {"session": session})


def batter(environment: Mapping[str, str], directory: Path, *, rounds: int, clients: int, calls: int, seed: int) -> int:
    """Kill controllers amid random calls; then all that was acknowledged is there and sound. How much that was."""
    told: list[tuple[str, str, str]] = []
    chance = random.Random(seed)
    for turn in range(rounds):
        with resident(environment) as controller:
            callers = [
                Caller(controller.endpoint, directory, seed * 1000 + turn * 100 + number, calls)
                for number in range(clients)
            ]
            for caller in callers:
                caller.start()
            # Somewhere amid the calls; not before the first was answered.
            enough = chance.randrange(1, clients * calls // 2)
            until(lambda callers=callers, enough=enough: sum(caller.done for caller in callers) >= enough)
            controller.signal(signal.SIGKILL)
            controller.wait()
            for caller in callers:
                caller.join(60)
                assert not caller.is_alive(), "a client hangs"
                assert not caller.failures, caller.failures
                told += caller.entries
    with resident(environment) as controller, Client.connect(controller.endpoint, directory=str(directory)) as client:
        trees: dict[str, str] = {}
        for session, entry, text in told:
            if session not in trees:
                trees[session] = json.dumps(client.call("sessions/tree", {"session": session}))
            assert entry in trees[session], f"{entry} was acknowledged and is gone: {text[:20]}"
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "verify", "--json"],
        env={**environment, "BRIDGE_CONTROLLER": "off"},
        cwd=directory,
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return len(told)
