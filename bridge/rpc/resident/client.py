"""A client of the resident controller for Python programs; blocking, and of the standard library alone."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from bridge.foundation.errors import BridgeError
from bridge.rpc.errors import ControllerLost, ControllerUnavailable
from bridge.rpc.resident.endpoint import Endpoint

#: Seconds that a controller may take to answer a greeting.
GREETING_SECONDS: Final = 5.0
_CHUNK: Final = 256 * 1024


class RemoteError(BridgeError):
    """An error that the controller answered with; code, exit status, hint and details are those given there."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        data = error.get("data")
        data = data if isinstance(data, dict) else {}
        super().__init__(str(error.get("message")), hint=str(data.get("hint", "")), details=data.get("details"))
        # What is a class's own elsewhere is one answer's here.
        self.code = str(data.get("code", "internal_error"))  # type: ignore[misc] # as above
        number = error.get("code")
        #: As the command line would end with it.
        self.exit_status = number if isinstance(number, int) and number > 0 else _EXIT_STATUSES.get(self.code, 118)  # type: ignore[misc] # as above


#: Statuses of the errors for which JSON-RPC reserves codes of its own.
_EXIT_STATUSES: Final = {"invalid_request": 115, "method_not_found": 116, "invalid_params": 117}


class Client:
    """A connection to the resident controller. For one thread at a time; close it, or use it as a context manager.

    Use :meth:`connect`.
    """

    def __init__(self, peer: socket.socket, *, build: str = "", pid: int = 0) -> None:
        self._socket = peer
        self._buffer = bytearray()
        self._next_id = 1
        #: Notifications that came while an answer was waited for; :meth:`notification` hands them out first.
        self._notifications: list[dict[str, Any]] = []
        #: Build and process of the controller.
        self.build, self.pid = build, pid

    @classmethod
    def connect(
        cls,
        endpoint: Endpoint,
        *,
        role: str = "operator",
        directory: str | None = None,
        session: str | None = None,
        token: str | None = None,
        build: str | None = None,
        timeout_seconds: float = GREETING_SECONDS,
    ) -> Self:
        """Connect and greet.

        Parameters
        ----------
        role, directory, session, token
            Who calls, and from where.
        build
            The build that the controller must be of; None for any.

        Raises
        ------
        ControllerUnavailable
            If nobody answers.
        RemoteError
            If the controller does not take the connection; ``code`` says why.
        """
        path = endpoint.find_socket()
        if path is None:
            raise ControllerUnavailable(f"No controller runs for {endpoint.home}.")
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client = cls(peer)
        try:
            peer.settimeout(timeout_seconds)
            peer.connect(path)
            greeting = {"bridge": 1, "build": build, "role": role, "token": token}
            # One that takes nobody has perhaps said so already, and closed.
            with suppress(BrokenPipeError, ConnectionResetError):
                client._send({**greeting, "directory": directory, "session": session})
            answer = client._receive()
            peer.settimeout(None)
        except (OSError, ControllerLost) as error:
            peer.close()
            raise ControllerUnavailable(f"The controller at {path} does not answer.") from error
        except BaseException:
            peer.close()
            raise
        if not answer.get("ok"):
            peer.close()
            raise RemoteError(answer.get("error", {}))
        client.build, client.pid = str(answer.get("build")), int(answer.get("pid", 0))
        return client

    def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout_seconds: float | None = None
    ) -> Any:
        """Call a method and return its result.

        Raises
        ------
        RemoteError
            If the call is answered with an error.
        ControllerLost
            If the connection ended before the answer; whether it was done is not known then.
        TimeoutError
            If no answer came in time. The connection is of no use after that.
        """
        identity, self._next_id = self._next_id, self._next_id + 1
        self._socket.settimeout(timeout_seconds)
        try:
            self._send({"jsonrpc": "2.0", "id": identity, "method": method, "params": dict(params or {})})
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ControllerLost(f"The controller was lost at {method}.") from error
        while True:
            answer = self._receive()
            if answer.get("id") == identity and "method" not in answer:
                break
            self._notifications.append(answer)
        if "error" in answer:
            raise RemoteError(answer["error"])
        return answer.get("result")

    def notification(self, *, timeout_seconds: float | None = None) -> dict[str, Any]:
        """Return the next notification; raises like :meth:`call`."""
        if self._notifications:
            return self._notifications.pop(0)
        self._socket.settimeout(timeout_seconds)
        return self._receive()

    def relay(self, input_descriptor: int, output_descriptor: int) -> None:
        """Pass lines on, both ways and as they are, until the input has ended and all is answered.

        Raises
        ------
        BrokenPipeError
            If nobody reads the output any more.
        """
        self._socket.settimeout(0)
        pending, is_within_line, has_ended = bytearray(), False, False
        if self._buffer:
            _write_all(output_descriptor, bytes(self._buffer))
        with selectors.PollSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(input_descriptor, selectors.EVENT_READ)
            while True:
                for key, events in selector.select():
                    if key.fileobj is not self._socket:
                        data = os.read(input_descriptor, _CHUNK)
                        # On standard input the last line needs no end of its own.
                        pending += data if data or not is_within_line else b"\n"
                        is_within_line, has_ended = not data.endswith(b"\n"), not data
                        # Nothing more is read until this is sent, and answers are taken meanwhile.
                        selector.unregister(input_descriptor)
                        selector.modify(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
                    if key.fileobj is self._socket and events & selectors.EVENT_READ:
                        data = self._take()
                        if not data:
                            return
                        _write_all(output_descriptor, data)
                    if key.fileobj is self._socket and events & selectors.EVENT_WRITE:
                        del pending[: self._socket.send(pending)]
                        if not pending:
                            selector.modify(self._socket, selectors.EVENT_READ)
                            if has_ended:
                                self._socket.shutdown(socket.SHUT_WR)
                            else:
                                selector.register(input_descriptor, selectors.EVENT_READ)

    def detach(self) -> tuple[socket.socket, bytes]:
        """Return the socket, and what came over it and was not read yet; both are the caller's from here on."""
        return self._socket, bytes(self._buffer)

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode("ascii") + b"\n")

    def _receive(self) -> dict[str, Any]:
        searched = 0
        while (place := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            data = self._take()
            if not data:
                raise ControllerLost("The controller ended the connection.")
            self._buffer += data
        line = bytes(self._buffer[:place])
        del self._buffer[: place + 1]
        answer = json.loads(line)
        return answer if isinstance(answer, dict) else {}

    def _take(self) -> bytes:
        try:
            return self._socket.recv(_CHUNK)
        except ConnectionResetError:
            return b""


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
