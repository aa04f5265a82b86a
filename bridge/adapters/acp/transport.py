"""The messages of one agent process, bounded: what is no message, and what is too large, never gets further."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bridge.adapters.base import FailureClass
from bridge.process.talking import Lines, LineTooLong

#: Characters kept of a line that is no message.
MAX_MALFORMED_SHOWN: Final = 500


class BoundedTransport:
    """A transport for ``acp.connection.Connection``: a message a line, over the pipes of a child.

    It never raises while receiving: the end of the pipe, of whatever kind, is an end, and ``failure`` says why.

    Parameters
    ----------
    lines
        The pipes.
    max_malformed
        Lines that are no JSON object before the conversation is given up.
    may_read
        Awaited before each message: holds the agent back while nobody takes its events.
    """

    def __init__(self, lines: Lines, *, max_malformed: int, may_read: Callable[[], Awaitable[None]]) -> None:
        self._lines = lines
        self._max_malformed = max_malformed
        self._may_read = may_read
        #: Why nothing more comes; None while the agent is there, and after an orderly end.
        self.failure: FailureClass | None = None
        self.detail = ""
        self.malformed: list[str] = []
        self.has_ended = False
        #: When the last message came (monotonic seconds), and the bytes of all of them.
        self.heard_at = time.monotonic()
        self.received_bytes = 0
        self._is_closed = False

    async def send(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode()
        try:
            await self._lines.send(line)
        except BrokenPipeError as error:
            if "method" not in message:
                return  # an answer to somebody who is gone: nobody waits for it
            raise ConnectionError("the agent does not read any more") from error

    async def receive(self) -> dict[str, Any] | None:
        while not self._is_closed:
            await self._may_read()
            try:
                line = await self._lines.receive()
            except LineTooLong:
                self._end(FailureClass.PROTOCOL_BROKEN, "The agent sent a message above the limit.")
                return None
            if line is None:
                self._end(FailureClass.CRASHED, "The agent closed its output.")
                return None
            self.heard_at = time.monotonic()
            self.received_bytes += len(line)
            if not line.strip():
                continue
            message = _message(line)
            if message is not None:
                return message
            self.malformed.append(line[:MAX_MALFORMED_SHOWN].decode("utf-8", "backslashreplace"))
            if len(self.malformed) > self._max_malformed:
                count = len(self.malformed)
                self._end(
                    FailureClass.PROTOCOL_BROKEN, f"The agent sent {count} lines that are no messages of the protocol."
                )
                return None
        return None

    async def close(self) -> None:
        self._is_closed = True
        self._lines.close()

    def _end(self, failure: FailureClass, detail: str) -> None:
        if not self._is_closed and self.failure is None:
            self.failure, self.detail = failure, detail
        self.has_ended = True


def _message(line: bytes) -> dict[str, Any] | None:
    """Return a line as a message; None if it is not one that the protocol's library can go on with."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    method, identity = value.get("method"), value.get("id")
    if method is not None:
        return value if isinstance(method, str) and (identity is None or isinstance(identity, (int, str))) else None
    # An answer: its id is one of ours, its error has the form that errors have.
    if not isinstance(identity, int) or isinstance(identity, bool):
        return None
    error = value.get("error")
    is_error = isinstance(error, dict) and isinstance(error.get("code", 0), int)
    return value if "result" in value or is_error else None
