"""The kernel's file events, as they are: one queue, in order, with its overflow told.

A thin layer over the three system calls. What a library on top of them would add (a thread that drains the queue,
events merged into sets) is what a proof that nothing happened cannot have between it and the kernel; see
docs/decisions/0030-watching-without-a-watcher-library.md.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

IN_MODIFY = 0x0000_0002
IN_ATTRIB = 0x0000_0004
IN_CLOSE_WRITE = 0x0000_0008
IN_MOVED_FROM = 0x0000_0040
IN_MOVED_TO = 0x0000_0080
IN_CREATE = 0x0000_0100
IN_DELETE = 0x0000_0200
IN_DELETE_SELF = 0x0000_0400
IN_MOVE_SELF = 0x0000_0800
IN_UNMOUNT = 0x0000_2000
IN_Q_OVERFLOW = 0x0000_4000
IN_IGNORED = 0x0000_8000
IN_ONLYDIR = 0x0100_0000
IN_DONT_FOLLOW = 0x0200_0000
IN_ISDIR = 0x4000_0000

#: Most that one read takes from the queue; some 2,000 events.
READ_BYTES = 65_536

_HEADER = struct.Struct("iIII")
_WORDS = {
    errno.ENOSPC: "the limit of watched folders is reached (fs.inotify.max_user_watches)",
    errno.EMFILE: "the limit of watchers is reached (fs.inotify.max_user_instances)",
    errno.ENFILE: "the limit of open files is reached",
}


class WatchFailed(Exception):
    """Raised when a watch cannot be set up or can no longer be trusted; the text says why.

    Never leaves this package: whoever watches falls back to looking.
    """


@dataclass(frozen=True, slots=True)
class Event:
    """One event: the watch it came from, what happened, and the name in the watched folder (empty: the folder)."""

    watch: int
    mask: int
    name: bytes


@cache
def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "inotify_init1"):
        raise WatchFailed("this system has no inotify")
    library.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
    library.inotify_rm_watch.argtypes = (ctypes.c_int, ctypes.c_int)
    return library


class Inotify:
    """One queue of events of any number of folders.

    The kernel appends an event before the system call that caused it returns, and events of one queue keep their
    order whichever of its folders they came from.

    Raises
    ------
    WatchFailed
        If there is no such queue to be had.
    """

    def __init__(self) -> None:
        # The two flags have the values of O_NONBLOCK and O_CLOEXEC on every platform.
        self._descriptor: int = _library().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _failed("no watcher could be made")
        self._poller = select.poll()
        self._poller.register(self._descriptor, select.POLLIN)

    def close(self) -> None:
        """Let go of the queue and of all its folders. Harmless when done twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def add(self, folder: bytes, mask: int) -> int | None:
        """Watch a folder (not what lies deeper) and return the watch's number; None if there is no such folder.

        A folder that is watched already keeps its number.

        Raises
        ------
        WatchFailed
            If it exists and cannot be watched.
        """
        number: int = _library().inotify_add_watch(self._descriptor, folder, mask | IN_ONLYDIR | IN_DONT_FOLLOW)
        if number >= 0:
            return number
        if ctypes.get_errno() in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
            return None
        raise _failed(f"{os.fsdecode(folder)!r} cannot be watched")

    def remove(self, number: int) -> bool:
        """Stop a watch; False if it has ended by itself. What it reported before may still be in the queue."""
        return bool(_library().inotify_rm_watch(self._descriptor, number) == 0)

    def read(self, timeout_seconds: float = 0.0) -> list[Event]:
        """Return events in their order; an empty list if none came within the time limit.

        Raises
        ------
        WatchFailed
            If the queue cannot be read.
        """
        try:
            if timeout_seconds > 0 and not self._poller.poll(timeout_seconds * 1_000):
                return []
            buffer = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise WatchFailed(f"the events cannot be read: {error.strerror}") from error
        events: list[Event] = []
        position = 0
        while position < len(buffer):
            number, mask, _, length = _HEADER.unpack_from(buffer, position)
            position += _HEADER.size
            events.append(Event(number, mask, buffer[position : position + length].rstrip(b"\0")))
            position += length
        return events


def _failed(what: str) -> WatchFailed:
    number = ctypes.get_errno()
    return WatchFailed(f"{what}: {_WORDS.get(number) or os.strerror(number)}")
