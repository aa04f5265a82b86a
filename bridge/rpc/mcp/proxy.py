"""What ``bridge mcp`` does: passes an agent's messages on to the resident controller. Standard library only.

The agent keeps this process for as long as it lives; the controller may come and go meanwhile:

- Messages are lines, passed on as they are. What stands in them is looked at for two things only: which requests wait
  for an answer, and the handshake.
- When the connection ends, every waiting request is answered with ``controller_lost``: whether it was carried out is
  not known. Nothing is ever sent twice.
- The next request connects anew, which starts a controller if none runs; the handshake is repeated on the agent's
  behalf, and its answer kept from it. If that fails the request is answered with the reason, and the one after it
  tries again. There is no other retry, and no waiting between.
- At the end of its input it waits a moment for answers and ends.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import time

# typing is not imported for these: it would cost more than most of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Longest message that is passed on, in bytes; as ``bridge.rpc.messages.MAX_MESSAGE_BYTES``, and tested to be.
MAX_MESSAGE_BYTES = 8 * 1024 * 1024
#: Longest line that is read to its end, so that its request can be answered with what is wrong; a longer one ends this.
MAX_LINE_BYTES = 64 * 1024 * 1024
#: Seconds that answers may take once the input has ended.
DRAIN_SECONDS = 1.0
#: Seconds that a controller may take to repeat the handshake.
HANDSHAKE_SECONDS = 20.0
#: Bytes that wait to be sent before the agent is not read any further.
_HIGH_WATER = 1024 * 1024
_CHUNK = 256 * 1024
_REPLAY_ID = "bridge-handshake"
_INITIALIZE = "initialize"
_INITIALIZED = "notifications/initialized"


class Unreachable(Exception):
    """Raised by a connector; holds the error that the agent's request is answered with.

    Parameters
    ----------
    error
        ``code`` (a number), ``message`` and ``data``, as JSON-RPC has them.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.error = error


class OutputGone(Exception):
    """Raised when the agent does not take answers any more."""


def lost_error() -> dict[str, Any]:
    """Return the error for a request that was under way when the controller was lost."""
    return {
        "code": 224,
        "message": "The controller was lost before it answered. Whether the call was carried out is not known.",
        "data": {
            "code": "controller_lost",
            "hint": "Look whether it was done, then call again; the next call connects anew.",
            "details": {},
        },
    }


def too_large_error() -> dict[str, Any]:
    """Return the error for a message that is too long to be passed on."""
    return {
        "code": -32600,
        "message": f"A message has at most {MAX_MESSAGE_BYTES} bytes. Nothing was called.",
        "data": {
            "code": "invalid_request",
            "hint": "Send less at once.",
            "details": {"reason": "too_large", "limit": MAX_MESSAGE_BYTES},
        },
    }


class Proxy:
    """Passes messages on until the agent ends.

    Parameters
    ----------
    connect
        Returns a connected socket that was greeted, and what came behind the greeting; raises :class:`Unreachable`.
    source, target
        Descriptors that the agent's messages come from and that answers go to.
    """

    def __init__(self, connect: Callable[[], tuple[socket.socket, bytes]], *, source: int, target: int) -> None:
        self._connect = connect
        self._source = source
        self._target = target
        self._peer: socket.socket | None = None
        self._selector = selectors.PollSelector()
        self._incoming, self._outgoing, self._answers = bytearray(), bytearray(), bytearray()
        self._searched = 0
        #: Requests that were sent and are not answered, by their id's JSON.
        self._waiting: dict[str, Any] = {}
        self._handshake: dict[str, Any] | None = None
        self._initialized: bytes | None = None
        self._is_reading = False
        self._problem: dict[str, Any] | None = None

    def run(self) -> dict[str, Any] | None:
        """Pass messages on until the input ends; return why the last connection could not be made, if it was not."""
        try:
            try:
                # Before the first message is there: the agent's own start takes longer than this.
                self._open()
            except Unreachable as error:
                self._problem = error.error
            self._is_reading = True
            self._adjust()
            while self._is_reading:
                self._turn(None)
            self._drain()
        except OutputGone:
            return None
        finally:
            self._close()
            self._selector.close()
        return self._problem

    # -- the two sides -----------------------------------------------------------------------------------------

    def _turn(self, seconds: float | None) -> None:
        for key, events in self._selector.select(seconds):
            if key.fileobj == self._source:
                self._take_input()
            elif key.fileobj is self._peer:
                if events & selectors.EVENT_WRITE:
                    self._send()
                if events & selectors.EVENT_READ and self._peer is not None:
                    self._take_answers()

    def _take_input(self) -> None:
        data = os.read(self._source, _CHUNK)
        if not data:
            self._is_reading = False
            self._adjust()
            # The last line needs no end of its own.
            data = b"\n" if self._incoming else b""
        self._incoming += data
        while True:
            place = self._incoming.find(b"\n", self._searched)
            if place < 0:
                break
            line = bytes(self._incoming[: place + 1])
            del self._incoming[: place + 1]
            self._searched = 0
            if line.strip():
                self._pass_on(line)
        self._searched = len(self._incoming)
        if len(self._incoming) > MAX_LINE_BYTES:
            self._answer(None, too_large_error())
            self._is_reading = False
            self._adjust()

    def _pass_on(self, line: bytes) -> None:
        """Send a message of the agent's on, after connecting if need be."""
        message = _parsed(line)
        method = message.get("method")
        identity = message.get("id")
        is_request = isinstance(method, str) and identity is not None
        if len(line) - 1 > MAX_MESSAGE_BYTES:
            if is_request:
                self._answer(identity, too_large_error())
            return
        if method == _INITIALIZE:
            self._handshake, self._initialized = message, None
        elif method == _INITIALIZED:
            self._initialized = line
        if self._peer is None:
            if not is_request:
                # Of what was cancelled or told nothing is left at a new controller.
                return
            try:
                self._open()
                if method != _INITIALIZE:
                    self._repeat_handshake()
            except Unreachable as error:
                self._close()
                self._problem = error.error
                self._answer(identity, error.error)
                return
        if is_request:
            self._waiting[json.dumps(identity)] = identity
        self._outgoing += line
        self._send()

    def _send(self) -> None:
        peer = self._peer
        if peer is None:
            return
        while self._outgoing:
            try:
                sent = peer.send(self._outgoing)
            except BlockingIOError:
                break
            except OSError:
                self._lose()
                return
            del self._outgoing[:sent]
        # What it does not take waits here, and behind it the agent.
        self._selector.modify(
            peer, selectors.EVENT_READ | selectors.EVENT_WRITE if self._outgoing else selectors.EVENT_READ
        )
        self._adjust()

    def _take_answers(self) -> None:
        peer = self._peer
        if peer is None:
            return
        try:
            data = peer.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        """Give the agent what is whole of what came; of half a line nobody could make anything if the rest is lost."""
        whole, end, rest = data.rpartition(b"\n")
        if not end:
            self._answers += data
            return
        lines = bytes(self._answers) + whole + end
        self._answers[:] = rest
        for line in lines.splitlines():
            message = _parsed(line)
            if "method" not in message and "id" in message:
                self._waiting.pop(json.dumps(message["id"]), None)
        self._write(lines)

    # -- the connection ----------------------------------------------------------------------------------------

    def _open(self) -> None:
        peer, begun = self._connect()
        peer.settimeout(0)
        self._peer = peer
        self._problem = None
        self._answers[:] = begun
        self._selector.register(peer, selectors.EVENT_READ)

    def _repeat_handshake(self) -> None:
        """Greet a new controller as the agent greeted the one before."""
        peer, handshake = self._peer, self._handshake
        if peer is None or handshake is None:
            return
        message = {**handshake, "id": _REPLAY_ID}
        try:
            peer.settimeout(HANDSHAKE_SECONDS)
            peer.sendall(json.dumps(message).encode() + b"\n")
            found = bytearray(self._answers)
            while b"\n" not in found:
                data = peer.recv(_CHUNK)
                if not data:
                    raise Unreachable(lost_error())
                found += data
            line, _, rest = bytes(found).partition(b"\n")
            answer = _parsed(line)
            if "error" in answer:
                raise Unreachable(answer["error"])
            peer.sendall(self._initialized or b"")
            peer.settimeout(0)
        except OSError as error:
            raise Unreachable(lost_error()) from error
        self._answers[:] = b""
        if rest:
            self._hand_over(rest)

    def _lose(self) -> None:
        """Give up the connection, and say so to whoever waits."""
        self._close()
        waiting, self._waiting = self._waiting, {}
        for identity in waiting.values():
            self._answer(identity, lost_error())

    def _close(self) -> None:
        peer, self._peer = self._peer, None
        self._outgoing.clear()
        self._answers.clear()
        if peer is not None:
            self._selector.unregister(peer)
            peer.close()
            self._adjust()

    def _drain(self) -> None:
        until = time.monotonic() + DRAIN_SECONDS
        while self._peer is not None and (self._waiting or self._outgoing) and time.monotonic() < until:
            self._turn(max(until - time.monotonic(), 0.0))

    def _adjust(self) -> None:
        """Read the agent, unless it has ended or what it sent before still waits to be taken."""
        is_wanted = self._is_reading and len(self._outgoing) <= _HIGH_WATER
        is_watched = any(key.fd == self._source for key in self._selector.get_map().values())
        if is_wanted and not is_watched:
            self._selector.register(self._source, selectors.EVENT_READ)
        elif is_watched and not is_wanted:
            self._selector.unregister(self._source)

    # -- the agent ---------------------------------------------------------------------------------------------

    def _answer(self, identity: Any, error: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": identity, "error": error}
        self._write(json.dumps(message).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._target, view) :]
        except BrokenPipeError as error:
            raise OutputGone from error


def _parsed(line: bytes) -> dict[str, Any]:
    """Return a message; an empty one for what is none, which the controller then answers as it sees fit."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}
