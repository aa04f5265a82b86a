"""Being the controller of a state directory: one lock, one socket, nothing left that a person must remove.

The lock is the kernel's and goes with the process, however that ends. What a kill leaves is a socket nobody answers
at and a page of facts; the next controller replaces both, under the lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import socket
import stat
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bridge.control.errors import ControllerRunning
from bridge.foundation.errors import InvalidConfiguration
from bridge.rpc.errors import ControllerUnavailable
from bridge.rpc.resident.endpoint import Endpoint, is_short_enough

#: Names the user's folder for sockets and the like, which is short and on a local file system.
RUNTIME_VARIABLE: Final = "XDG_RUNTIME_DIR"
#: Connections that may wait until they are accepted.
BACKLOG: Final = 128
_RETRY_SECONDS: Final = 0.02
_CREDENTIALS: Final = struct.Struct("3i")
_PRIVATE: Final = 0o700


class Hold:
    """The place of the one controller; release it, or let it go with the process. Use :meth:`take`."""

    def __init__(self, endpoint: Endpoint, lock: int) -> None:
        self.endpoint = endpoint
        self._lock: int | None = lock
        self._socket_path: str | None = None

    @classmethod
    def take(cls, endpoint: Endpoint, *, timeout_seconds: float = 0.0) -> Hold:
        """Take the place, waiting for one that is about to end.

        Raises
        ------
        ControllerRunning
            If another process has held it for ``timeout_seconds``.
        ControllerUnavailable
            If the folder or its lock cannot be made.
        """
        try:
            make_private(Path(endpoint.folder))
            lock = os.open(endpoint.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ControllerUnavailable(f"{endpoint.folder} cannot be used: {error.strerror}.") from error
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() < deadline:
                    time.sleep(_RETRY_SECONDS)
                    continue
                os.close(lock)
                raise running_elsewhere(endpoint) from error
            except OSError as error:
                os.close(lock)
                raise ControllerUnavailable(
                    f"{endpoint.lock_path} cannot be locked: {error.strerror}.",
                    hint="Put the state directory on a file system with locks: BRIDGE_HOME",
                ) from error
            return cls(endpoint, lock)

    def listen(self, environment: Mapping[str, str]) -> socket.socket:
        """Return a listening socket in the place where clients look.

        Where the path is too long for a socket, or the file system has none, it lies in the runtime directory, or in
        a folder of this user's in ``/tmp``, and the page of facts says where.

        Raises
        ------
        ControllerUnavailable
            If no socket can be made in any of these places.
        """
        problems = []
        for path in self._places(environment):
            try:
                listener = _bind(path)
            except (OSError, InvalidConfiguration) as error:
                problems.append(f"{path}: {error}")
            else:
                self._socket_path = path
                return listener
        raise ControllerUnavailable(f"No socket can be made. {'; '.join(problems)}.")

    def _places(self, environment: Mapping[str, str]) -> list[str]:
        name = f"{digest_of(self.endpoint)}.sock"
        places = [self.endpoint.socket_path]
        runtime = environment.get(RUNTIME_VARIABLE, "")
        if os.path.isabs(runtime):
            places.append(os.path.join(runtime, "bridge", name))
        places.append(f"/tmp/bridge-{os.getuid()}/{name}")  # noqa: S108 - made private, or refused
        return [place for place in places if is_short_enough(place + ".new")]

    def announce(self, facts: Mapping[str, Any]) -> None:
        """Write down who the controller is and where its socket lies."""
        record = {**facts, "socket": self._socket_path, "host": platform.node(), "pid": os.getpid()}
        draft = Path(self.endpoint.info_path + ".new")
        draft.write_text(json.dumps(record) + "\n", encoding="utf-8")
        draft.chmod(0o600)
        draft.replace(self.endpoint.info_path)

    def withdraw(self) -> None:
        """Take socket and facts away, so that nobody new finds the way here. The place stays taken."""
        path, self._socket_path = self._socket_path, None
        if path is not None:
            for gone in (path, self.endpoint.info_path):
                with suppress(FileNotFoundError):
                    os.unlink(gone)

    def is_lost(self) -> bool:
        """Tell whether the place is not there any more: somebody removed the state directory, or put another there."""
        if self._lock is None:
            return True
        try:
            there = os.stat(self.endpoint.lock_path)
        except FileNotFoundError:
            return True
        held = os.fstat(self._lock)
        return (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino)

    def release(self) -> None:
        """Give the place up. Safe to call twice."""
        self.withdraw()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def running_elsewhere(endpoint: Endpoint) -> ControllerRunning:
    """Return the error that says who has the place."""
    info = endpoint.read_info() or {}
    who = f" (process {info['pid']} on {info.get('host')})" if "pid" in info else ""
    return ControllerRunning(
        f"A controller runs for {endpoint.home} already{who}.",
        details={name: info.get(name) for name in ("pid", "host", "build", "started_at")},
    )


def make_private(folder: Path) -> None:
    """Make a folder that only this user can enter, or see that it is one.

    Raises
    ------
    InvalidConfiguration
        If it is a link, or another user's: what lies in it could be theirs.
    OSError
        If it cannot be made.
    """
    # The state directory itself may be missing, and is private too.
    folder.parent.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    folder.mkdir(mode=_PRIVATE, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise InvalidConfiguration(f"{folder} is not a folder of this user's own.", hint="Remove it, or rename it.")
    if stat.S_IMODE(facts.st_mode) & 0o077:
        folder.chmod(_PRIVATE)


def peer_user(peer: socket.socket) -> int | None:
    """Return the user id at the other end of a Unix socket; None where the system does not tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def _bind(path: str) -> socket.socket:
    """Bind under another name first and rename: at no moment is there a socket with the wrong mode, or none."""
    make_private(Path(path).parent)
    draft = path + ".new"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(draft)
        os.chmod(draft, 0o600)
        listener.listen(BACKLOG)
        listener.settimeout(0)
        os.rename(draft, path)
    except BaseException:
        listener.close()
        raise
    return listener


def digest_of(endpoint: Endpoint) -> str:
    """Return what the socket of a controller is called where it lies beside those of others."""
    from hashlib import sha256

    place = os.fsencode(os.path.realpath(endpoint.home)) + b"\0" + endpoint.name.encode()
    return sha256(place).hexdigest()[:24]
