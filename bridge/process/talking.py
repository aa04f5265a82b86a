"""Speaking with a child in lines: bounded, without blocking the event loop, and without a thread per child."""

from __future__ import annotations

import contextlib
import os
from typing import Final

import anyio

from bridge.process.children import Piped

#: Bytes taken from a pipe at once.
_CHUNK: Final = 64 * 1024


class LineTooLong(Exception):
    """Raised when a child sends a line above the limit. What follows on the pipe is not usable any more."""


class Lines:
    """The two pipes of a child, as lines.

    Parameters
    ----------
    piped
        The child with its pipes; closed by :meth:`close`, which does not end the child.
    max_line_bytes
        Longest line that is taken, without its line feed.
    """

    def __init__(self, piped: Piped, *, max_line_bytes: int) -> None:
        self._input: int | None = piped.input_descriptor
        self._output: int | None = piped.output_descriptor
        self._max_line_bytes = max_line_bytes
        self._buffer = bytearray()
        self._is_at_end = False
        self._sending = anyio.Lock()

    async def receive(self) -> bytes | None:
        """Return the next line without its line feed; None once the child has closed its end. A last line needs none.

        Raises
        ------
        LineTooLong
            If it is longer than ``max_line_bytes``.
        """
        searched = 0
        while True:
            place = self._buffer.find(b"\n", searched)
            if place >= 0:
                self._check(place)
                line = bytes(self._buffer[:place])
                del self._buffer[: place + 1]
                return line
            self._check(len(self._buffer))
            searched = len(self._buffer)
            if self._is_at_end:
                line = bytes(self._buffer)
                self._buffer.clear()
                return line or None
            self._buffer += await self._read()

    async def send(self, line: bytes) -> None:
        """Write a line, a line feed added; returns once the pipe has taken all of it. Lines never mix.

        Raises
        ------
        BrokenPipeError
            If the child does not read any more, or the pipe was closed here.
        """
        async with self._sending:
            view = memoryview(line + b"\n")
            while view:
                if self._input is None:
                    raise BrokenPipeError
                try:
                    view = view[os.write(self._input, view) :]
                except BlockingIOError:
                    await self._wait_writable()
                except OSError as error:
                    raise BrokenPipeError from error

    def close_input(self) -> None:
        """Let the child see the end of its input: a program that serves a pipe ends then."""
        if self._input is not None:
            anyio.notify_closing(self._input)
            os.close(self._input)
            self._input = None

    def close(self) -> None:
        """Close both pipes. Whoever waits on them is woken."""
        self.close_input()
        if self._output is not None:
            anyio.notify_closing(self._output)
            os.close(self._output)
            self._output = None

    def _check(self, length: int) -> None:
        if length > self._max_line_bytes:
            self._buffer.clear()
            raise LineTooLong

    async def _wait_writable(self) -> None:
        if self._input is None:
            raise BrokenPipeError
        try:
            await anyio.wait_writable(self._input)
        except anyio.ClosedResourceError as error:
            raise BrokenPipeError from error

    async def _read(self) -> bytes:
        """Return what is there to read, waiting for it; nothing at the end, or once the pipe was closed here."""
        data: bytes | None = None
        while data is None:
            if self._output is None:
                data = b""
                break
            try:
                data = os.read(self._output, _CHUNK)
            except BlockingIOError:
                # A pipe that was closed here meanwhile is seen on the next round.
                with contextlib.suppress(anyio.ClosedResourceError):
                    await anyio.wait_readable(self._output)
        self._is_at_end = not data
        return data
