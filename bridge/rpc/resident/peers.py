"""Whether the process at the other end of the controller's socket is a worker's, which may not be the operator.

A confined worker can still connect to a socket of the file system. So the operator's role is refused to a process
that carries the mark of a worker, or descends from one that does. The mark is a variable, which a worker could drop
for what it starts, and a process can leave its parents; but that it can gain no privileges stays with everything that
was ever confined. Where that holds, the first ancestor that is free of it decides: a controller, or nobody but the
first process of the machine, means a worker.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Final

from bridge.process.confinement import is_privileges_sealed
from bridge.process.identity import MARKER_VARIABLE

#: Ancestors that are looked at.
MAX_ANCESTORS: Final = 64
#: Stands for this process at the end of a line of ancestors; no process has the number.
_OWN_CHILD: Final = -1
_MARK: Final = b"\0" + MARKER_VARIABLE.encode("ascii") + b"="
_CREDENTIALS: Final = struct.Struct("3i")


def peer_process(peer: socket.socket) -> int | None:
    """Return the process at the other end of a Unix socket; None where the system does not tell, or it is gone."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0]) or None


def is_workers(pid: int) -> bool:
    """Tell whether a process is a worker's or was started by one, as far as the system shows it (Linux)."""
    own = os.getpid()
    chain = _ancestry(pid, own)
    if any(_is_marked(process) for process in chain):
        return True
    if not is_privileges_sealed(pid) or is_privileges_sealed(own):
        # A controller inside a container or a hardened service is sealed itself, and so is everybody around it.
        return False
    # A sandbox of the user's own, such as a terminal in one, has somebody free around it who is not this controller.
    return not any(process > 1 and is_privileges_sealed(process) is False for process in chain[1:])


def _ancestry(pid: int, own: int) -> list[int]:
    """Return a process and its ancestors, the nearest first, up to this one; one that is gone ends the list."""
    found: list[int] = []
    while pid > 0 and pid != own and len(found) < MAX_ANCESTORS:
        found.append(pid)
        try:
            # The name in brackets may hold anything, brackets too.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            pid = int(fields[1])
        except (OSError, IndexError, ValueError):
            break
    if pid == own:
        found.append(_OWN_CHILD)
    return found


def _is_marked(pid: int) -> bool:
    if pid == _OWN_CHILD:
        return False
    try:
        return _MARK in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
