"""Free ports for running workers: no two of this machine's user get the same, and each ends with its worker.

A port is held by a lock on a file, which the system lets go of when the controller ends, however it ends.
Blocking, but short.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bridge.control.errors import NoFreePort

#: Ports that are given out. Below what the system gives to outgoing connections by itself, which could take any.
FIRST_PORT: Final = 20_000
LAST_PORT: Final = 32_000


class Ports:
    """The ports of one worker, by variable; :meth:`release` gives them back."""

    def __init__(self, numbers: dict[str, int], locks: list[int]) -> None:
        self.numbers = numbers
        self._locks = locks

    @property
    def environment(self) -> dict[str, str]:
        return {name: str(number) for name, number in self.numbers.items()}

    def release(self) -> None:
        """Let others have them. Safe to call twice."""
        while self._locks:
            os.close(self._locks.pop())


def reserve_ports(folder: Path, names: Sequence[str], *, first: int = FIRST_PORT, last: int = LAST_PORT) -> Ports:
    """Reserve a port for each name: nobody listens on it, and no other worker has it.

    Parameters
    ----------
    folder
        Where the locks are; one for all controllers of a state directory.
    first, last
        The range, both included.

    Raises
    ------
    NoFreePort
        If there are not enough; none is held then.
    """
    numbers: dict[str, int] = {}
    locks: list[int] = []
    if not names:
        return Ports(numbers, locks)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    candidates = list(range(first, last + 1))
    # At random, so that a port that was just given back is not the next to be given out.
    random.shuffle(candidates)
    wanted = list(names)
    for number in candidates:
        lock = _hold(folder / str(number))
        if lock is None:
            continue
        if not _is_free(number):
            os.close(lock)
            continue
        locks.append(lock)
        numbers[wanted.pop(0)] = number
        if not wanted:
            return Ports(numbers, locks)
    Ports(numbers, locks).release()
    raise NoFreePort(
        f"Of the ports {first} to {last} not {len(names)} are free. Nothing was started.",
        details={"wanted": len(names), "first": first, "last": last},
    )


def _hold(path: Path) -> int | None:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _is_free(number: int) -> bool:
    """Return whether nobody listens on a port, on any address of either family."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104 - bound and let go
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, number))
        except OSError as error:
            if family == socket.AF_INET6 and not _is_taken(error):
                continue  # a machine without that family
            return False
    return True


def _is_taken(error: OSError) -> bool:

    return error.errno in (errno.EADDRINUSE, errno.EACCES)
