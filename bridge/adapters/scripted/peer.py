"""JSON-RPC on two file descriptors for the scripted agent: one thread reads, any thread writes and asks."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable
from typing import Any


class PeerError(Exception):
    """The other side answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Peer:
    """The other side of the pipe.

    Parameters
    ----------
    take
        Called in the reading thread for each request and notification: method, params, id (None for the latter).
    """

    def __init__(self, take: Callable[[str, dict[str, Any], Any], None]) -> None:
        self._take = take
        self._writing = threading.Lock()
        self._numbers = itertools.count(1)
        self._answers: dict[int, tuple[threading.Event, dict[str, Any]]] = {}

    def run(self) -> None:
        """Read messages until the input ends."""
        with os.fdopen(0, "rb", closefd=False) as lines:
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(message, dict):
                    continue
                if "method" in message:
                    self._take(str(message["method"]), message.get("params") or {}, message.get("id"))
                else:
                    self._settle(message)

    def send(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Write bytes as they are; nothing of another thread gets between them."""
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"method": method, "params": params})

    def answer(self, identity: Any, result: Any) -> None:
        self.send({"id": identity, "result": result})

    def refuse(self, identity: Any, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        facts = {} if data is None else {"data": data}
        self.send({"id": identity, "error": {"code": code, "message": message, **facts}})

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the other side and wait for the answer. Raises PeerError."""
        identity, event = next(self._numbers), threading.Event()
        answer: dict[str, Any] = {}
        self._answers[identity] = (event, answer)
        self.send({"id": identity, "method": method, "params": params})
        event.wait()
        if "error" in answer:
            error = answer["error"] or {}
            raise PeerError(int(error.get("code", 0)), str(error.get("message", "")))
        return answer.get("result")

    def _settle(self, message: dict[str, Any]) -> None:
        event, answer = self._answers.pop(message.get("id", 0), (None, {}))
        if event is not None:
            answer.update(message)
            event.set()
