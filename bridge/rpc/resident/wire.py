"""One peer's socket: lines in, lines out, and the file descriptors that come with them.

Written on the event loop's readiness calls because asyncio's transports do not hand on file descriptors. What a peer
does, or does not do, costs nobody else anything: a line above the limit is passed over without being kept, a line
that is begun has to be finished in time, and what a peer does not read is kept up to one message and for a while.
"""

from __future__ import annotations

import array
import asyncio
import os
import select
import socket
from collections import deque
from contextlib import suppress
from typing import Final

#: Bytes taken from a socket at once.
_CHUNK: Final = 256 * 1024
#: File descriptors that may come with a line: stdin, stdout and stderr.
MAX_DESCRIPTORS: Final = 3
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
#: No child that is started at that moment shall get them.
_RECEIVE_FLAGS: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
#: Seconds that a line which was begun may take to its end.
LINE_SECONDS: Final = 60.0
#: Seconds that a peer may take to read what was sent to it before it is given up.
SEND_SECONDS: Final = 30.0


class LineTooLong(Exception):
    """Raised in place of a line above the limit; the next call goes on behind it."""


class PeerStalled(Exception):
    """Raised when a peer began a line and did not finish it in time, or did not begin one by a deadline."""


class Wire:
    """A connected stream socket in the running event loop. To be read by one task, and written by one at a time.

    Parameters
    ----------
    peer
        The socket; owned from here on.
    max_bytes
        Longest line, in bytes without its line feed.
    line_seconds, send_seconds
        How long a begun line, and sending, may take.
    """

    def __init__(
        self,
        peer: socket.socket,
        *,
        max_bytes: int,
        line_seconds: float = LINE_SECONDS,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        peer.settimeout(0)
        self._socket = peer
        self._descriptor = peer.fileno()
        self._loop = asyncio.get_running_loop()
        self._max_bytes = max_bytes
        self._line_seconds = line_seconds
        self._send_seconds = send_seconds
        self._buffer = bytearray()
        self._lines: deque[bytes | None] = deque()
        self._searched = 0
        self._is_passing_over = False
        # When the line that was begun has to be there; None between lines.
        self._line_due: float | None = None
        self._is_at_end = False
        self._is_reading = False
        self._descriptors: list[int] = []
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False

    # -- lines in ----------------------------------------------------------------------------------------------

    async def receive(self, *, within_seconds: float | None = None) -> bytes | None:
        """Return the next line without its line feed; None at the end. What is left without a line feed is no line.

        Parameters
        ----------
        within_seconds
            Until when the whole line has to be there; None to wait for its beginning as long as it takes.

        Raises
        ------
        LineTooLong
            If the line has more than the permitted bytes.
        PeerStalled
            If it did not come in time.
        """
        while not self._lines:
            if self._is_at_end or self._is_closed:
                return None
            await self._wait_for_more(within_seconds)
        line = self._lines.popleft()
        if line is None:
            raise LineTooLong
        return line

    def take_descriptors(self) -> list[int]:
        """Return the file descriptors that came so far; the caller closes them."""
        taken, self._descriptors = self._descriptors, []
        return taken

    async def _wait_for_more(self, within_seconds: float | None) -> None:
        seconds = within_seconds
        if self._line_due is not None:
            left = max(self._line_due - self._loop.time(), 0.0)
            seconds = left if seconds is None else min(seconds, left)
        self._waiter = self._loop.create_future()
        # Reading goes on between lines, so that most lines cost no call of the selector.
        if not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(self._descriptor, self._on_readable)
        try:
            if seconds is None:
                await self._waiter
            else:
                async with asyncio.timeout(seconds):
                    await self._waiter
        except TimeoutError as error:
            raise PeerStalled from error
        finally:
            self._waiter = None

    def _on_readable(self) -> None:
        if self._waiter is None:
            # Nobody asks for a line: let the kernel hold the peer back.
            self._stop_reading()
            return
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(_CHUNK, _ANCILLARY_BYTES, _RECEIVE_FLAGS)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, ancillary = b"", []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._keep_descriptors(content)
        if data:
            self._take(data)
        else:
            self._is_at_end = True
            self._stop_reading()
        is_begun = bool(self._buffer) or self._is_passing_over
        is_new = is_begun and self._line_due is None
        if is_new or not is_begun:
            self._line_due = self._loop.time() + self._line_seconds if is_begun else None
        # With a line that has just begun the wait goes on, but no longer for ever.
        if (self._lines or self._is_at_end or is_new) and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self, data: bytes) -> None:
        """Split what came into lines; of one that grows too long nothing is kept but that there was one."""
        if not self._buffer and not self._is_passing_over and data.find(b"\n") == len(data) - 1:
            # One whole line, as nearly always.
            self._lines.append(data[:-1] if len(data) - 1 <= self._max_bytes else None)
            return
        self._buffer += data
        while True:
            place = self._buffer.find(b"\n", self._searched)
            if place < 0:
                break
            is_fit = not self._is_passing_over and place <= self._max_bytes
            self._lines.append(bytes(self._buffer[:place]) if is_fit else None)
            del self._buffer[: place + 1]
            self._searched = 0
            self._is_passing_over = False
            self._line_due = None
        if self._is_passing_over or len(self._buffer) > self._max_bytes:
            self._is_passing_over = True
            self._buffer.clear()
        self._searched = len(self._buffer)

    def _keep_descriptors(self, content: bytes) -> None:
        numbers = array.array("i")
        numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
        for number in numbers:
            if len(self._descriptors) < MAX_DESCRIPTORS:
                os.set_inheritable(number, False)  # noqa: FBT003 - the standard library's signature
                self._descriptors.append(number)
            else:
                os.close(number)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._descriptor)

    def has_gone(self) -> bool:
        """Tell whether the peer has closed its side already, also where that was not read yet."""
        if self._is_at_end or self._is_closed:
            return True
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def is_cut(self) -> bool:
        """Tell whether the peer has closed both directions: then nothing can reach it any more."""
        if self._is_closed:
            return True
        watch = select.poll()
        watch.register(self._descriptor, 0)
        return bool(watch.poll(0))

    # -- lines out ---------------------------------------------------------------------------------------------

    async def send(self, line: bytes) -> None:
        """Send one line, and return when the kernel has all of it.

        Raises
        ------
        OSError
            If the peer is gone, or did not read for ``send_seconds``: then nothing more can be sent to it.
        """
        if self._is_closed:
            raise BrokenPipeError("the connection is closed")
        data = line + b"\n"
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent < len(data):
            try:
                async with asyncio.timeout(self._send_seconds):
                    await self._loop.sock_sendall(self._socket, memoryview(data)[sent:])
            except BaseException:
                # Half a line is out: whatever came behind it would be read as its end.
                self.close()
                raise

    def close(self) -> None:
        """Close the socket and what came with it. Safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_reading()
        self._loop.remove_writer(self._descriptor)
        for number in self.take_descriptors():
            os.close(number)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
