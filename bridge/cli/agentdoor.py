"""``bridge mcp`` without options: an agent's way to the resident controller. Standard library only while one runs."""

from __future__ import annotations

import json
import os
import socket
import stat
import sys

from bridge.cli.remote import home_of
from bridge.rpc.mcp.proxy import Proxy, Unreachable
from bridge.rpc.resident.builds import build_id
from bridge.rpc.resident.endpoint import Endpoint

# typing is not imported for these: it would cost more than most of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: As ``bridge.control.access.tokens`` has them; tests compare.
TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "BRIDGE_AGENT_TOKEN", "BRIDGE_AGENT_TOKEN_FILE"
DATABASE_VARIABLE = "BRIDGE_DATABASE_URL"
#: Longest file that is read as a token.
_MAX_TOKEN_BYTES = 4096
#: Seconds that a controller may take to greet back.
_GREETING_SECONDS = 10.0
_CHUNK = 65536


def pass_on(environment: Mapping[str, str]) -> int:
    """Serve an agent on standard input and output until it ends; return the exit status.

    What keeps the agent from its tools is answered to its requests, and said once on stderr at the end.
    """
    try:
        problem = Proxy(lambda: _connect(environment), source=0, target=1).run()
    except KeyboardInterrupt:
        return 130
    if problem is None:
        return 0
    sys.stderr.write(f"bridge mcp: {problem['message']}\n")
    code = problem.get("code")
    return code if isinstance(code, int) and 2 < code < 255 else 1


def _connect(environment: Mapping[str, str]) -> tuple[socket.socket, bytes]:
    """Return a socket of the controller's that took the token, and what came behind its greeting."""
    token = _token(environment)
    home = home_of(environment)
    if home is None:
        raise _unreachable("BRIDGE_HOME is not an absolute path.", "invalid_configuration", 3)
    endpoint = Endpoint(home, environment.get(DATABASE_VARIABLE))
    path = endpoint.find_socket()
    if path is not None:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.settimeout(_GREETING_SECONDS)
            peer.connect(path)
            return _greet(peer, token)
        except OSError:
            # Left behind by one that was killed, or about to end: then the careful way decides.
            peer.close()
        except Unreachable as error:
            peer.close()
            if error.error.get("data", {}).get("code") != "other_build":
                raise
    return _start(endpoint, environment, token)


def _greet(peer: socket.socket, token: str) -> tuple[socket.socket, bytes]:
    greeting = {"bridge": 1, "build": build_id(), "role": "mcp", "token": token}
    peer.sendall(json.dumps(greeting).encode("ascii") + b"\n")
    found = b""
    while b"\n" not in found:
        data = peer.recv(_CHUNK)
        if not data:
            raise ConnectionResetError
        found += data
    line, _, rest = found.partition(b"\n")
    answer = json.loads(line)
    if not answer.get("ok"):
        raise Unreachable(answer["error"])
    return peer, rest


def _start(endpoint: Endpoint, environment: Mapping[str, str], token: str) -> tuple[socket.socket, bytes]:
    """Start a controller, or replace an older one, and return a connection to it."""
    # Takes longer than all of the rest, and is needed once in a while.
    from bridge.foundation.errors import BridgeError
    from bridge.rpc.messages import error_object
    from bridge.rpc.resident.starting import connect_or_start

    try:
        return connect_or_start(endpoint, environment, role="mcp", token=token).detach()
    except BridgeError as error:
        raise Unreachable(error_object(error)) from error


def _token(environment: Mapping[str, str]) -> str:
    token = environment.get(TOKEN_VARIABLE, "")
    path = environment.get(TOKEN_FILE_VARIABLE, "")
    if not token and path:
        token = _token_in(path)
    if not token.strip():
        raise _unreachable(
            f"Neither {TOKEN_VARIABLE} nor {TOKEN_FILE_VARIABLE} is set. Nothing was called.",
            "agent_token_refused",
            211,
        )
    return token.strip()


def _token_in(path: str) -> str:
    """Return a token from a file that is this user's and that nobody else may read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
                raise _unreachable(
                    f"{path} is not a file of this user's alone (mode 0600). Nothing was called.",
                    "agent_token_refused",
                    211,
                )
            return os.read(file, _MAX_TOKEN_BYTES).decode("ascii", "replace")
        finally:
            os.close(file)
    except OSError as error:
        raise _unreachable(f"{path} cannot be read: {error.strerror}.", "agent_token_refused", 211) from error


def _unreachable(message: str, code: str, number: int) -> Unreachable:
    hint = "Start the agent through Bridge, or attach it: bridge mcp --attach SESSION"
    data: dict[str, Any] = {"code": code, "hint": hint, "details": {}}
    return Unreachable({"code": number, "message": message, "data": data})
