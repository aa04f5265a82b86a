"""The door on standard input and output: one message a line, nothing else on either."""

from __future__ import annotations

import os
from typing import Final

import anyio
from anyio import to_thread

from bridge.control.controller import Controller
from bridge.control.resident import end_resident
from bridge.rpc.connection import Connection
from bridge.rpc.messages import MAX_MESSAGE_BYTES, too_large
from bridge.rpc.roles import Caller

_CHUNK: Final = 64 * 1024


class LineTooLong(Exception):
    """Raised in place of a line above the limit; the next call goes on behind it."""


class LineReader:
    """Reads lines from a file descriptor without blocking the event loop, and without keeping more than a limit."""

    def __init__(self, descriptor: int, *, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._is_at_end = False

    async def receive(self) -> bytes | None:
        """Return the next line without its line feed; None at the end. A last line needs none.

        Raises
        ------
        LineTooLong
            If the line has more than ``max_bytes``; it is passed over to its end.
        """
        searched = 0
        is_too_long = False
        while True:
            place = self._buffer.find(b"\n", searched)
            if place >= 0:
                line = bytes(self._buffer[:place])
                del self._buffer[: place + 1]
                return self._within(line, is_too_long=is_too_long)
            if len(self._buffer) > self._max_bytes:
                is_too_long = True
                self._buffer.clear()
            searched = len(self._buffer)
            if self._is_at_end:
                line = bytes(self._buffer)
                self._buffer.clear()
                return self._within(line, is_too_long=is_too_long) if line or is_too_long else None
            self._buffer += await self._read()

    def _within(self, line: bytes, *, is_too_long: bool) -> bytes:
        if is_too_long or len(line) > self._max_bytes:
            raise LineTooLong
        return line

    async def _read(self) -> bytes:
        try:
            await anyio.wait_readable(self._descriptor)
        except PermissionError:
            # The event loop cannot wait for a plain file, which never makes anybody wait.
            await anyio.lowlevel.checkpoint()
        data = os.read(self._descriptor, _CHUNK)
        self._is_at_end = not data
        return data


async def serve(controller: Controller, caller: Caller, *, input_descriptor: int, output_descriptor: int) -> None:
    """Answer messages until the input ends, then what is still open; or until nobody reads the output any more.

    What was delegated over it and still runs then ends with it, recorded as cancelled.
    """

    async def send(message: bytes) -> None:
        await to_thread.run_sync(_write_all, output_descriptor, message + b"\n")

    lines = LineReader(input_descriptor)
    connection = Connection(controller, caller, send)
    try:
        while not connection.is_closed:
            try:
                line = await lines.receive()
            except LineTooLong:
                await connection.send(too_large())
                continue
            if line is None:
                break
            if line.strip():
                await connection.receive(line)
        await connection.drain()
    finally:
        await connection.aclose()
        await end_resident(controller)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
