"""The first line of a connection to the controller's socket, and its answer."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from bridge.foundation.errors import BridgeError
from bridge.rpc.errors import PeerRefused
from bridge.rpc.messages import error_object

#: Version of the greeting. It is the one thing that all builds must understand of each other.
GREETING_VERSION: Final = 1
#: Longest greeting, in bytes.
MAX_GREETING_BYTES: Final = 64 * 1024
_MEMBERS: Final = frozenset({"bridge", "build", "role", "token", "directory", "session"})


@dataclass(frozen=True, slots=True)
class Greeting:
    """Who a client is.

    Parameters
    ----------
    role
        As whom it calls.
    build
        Its build; None for a program that is not Bridge's own, and takes the controller as it is.
    token
        Proof of being what it says, for roles that need one.
    directory, session
        Where it stands.
    """

    role: str
    build: str | None = None
    token: str | None = None
    directory: str | None = None
    session: str | None = None

    def line(self) -> bytes:
        """Return the greeting without its line feed."""
        record = {"bridge": GREETING_VERSION, "build": self.build, "role": self.role, "token": self.token}
        return json.dumps({**record, "directory": self.directory, "session": self.session}).encode("ascii")


def read_greeting(line: bytes) -> Greeting:
    """Return what a greeting says.

    Raises
    ------
    PeerRefused
        If it is none.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _not_understood("it is not JSON") from error
    if not isinstance(record, dict) or record.get("bridge") != GREETING_VERSION:
        raise _not_understood(f'it is no object with "bridge": {GREETING_VERSION}')
    unknown = sorted(set(record) - _MEMBERS)
    if unknown:
        raise _not_understood(f"it has no member {unknown[0][:40]!r}")
    texts: dict[str, Any] = {name: record.get(name) for name in _MEMBERS - {"bridge"}}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise _not_understood(f"{name} is a text or null")
    directory = texts["directory"]
    if directory is not None and (not PurePath(directory).is_absolute() or "\0" in directory):
        raise _not_understood("directory is an absolute path")
    if texts["role"] is None:
        raise _not_understood("role is missing")
    return Greeting(**texts)


def _not_understood(why: str) -> PeerRefused:
    return PeerRefused(f"The greeting is not understood: {why}.", details={"reason": "greeting"})


def accepted(build: str) -> bytes:
    """Return the answer to a greeting that is taken."""
    return json.dumps({"bridge": GREETING_VERSION, "build": build, "pid": os.getpid(), "ok": True}).encode("ascii")


def refused(error: BridgeError) -> bytes:
    """Return the answer to a greeting that is not taken; the connection ends with it."""
    return json.dumps({"bridge": GREETING_VERSION, "ok": False, "error": error_object(error)}).encode("ascii")
