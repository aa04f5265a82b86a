"""Handing a command line to the resident controller: standard library only, before anything else is imported.

The controller gets the words, the directory, the variables that commands read, and this process's stdin, stdout and
stderr themselves; what it prints never passes through here. What it answers is an exit status. Wherever it cannot
serve (none runs, it is of another build, the command is not for it) nothing has happened, and the command runs in
this process. Only where a controller is lost while it works is that not known, and then the command is not repeated.
"""

from __future__ import annotations

import os
import sys

from bridge.cli.registry import RESIDENT
from bridge.rpc.resident.builds import build_id
from bridge.rpc.resident.endpoint import Endpoint

# typing is not imported for these: it would cost a command more than most of this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from typing import Any

#: What comes of an attempt that gives no exit status: nobody answered, or the controller would not have the command;
#: the command may have been carried out or not; the person stopped it.
REFUSED = "refused"
LOST = "lost"
INTERRUPTED = "interrupted"
#: Names of the variables and the values with which a controller is looked for.
MODE_VARIABLE, HOME_VARIABLE, DATABASE_VARIABLE = "BRIDGE_CONTROLLER", "BRIDGE_HOME", "BRIDGE_DATABASE_URL"
_MODES = frozenset({"", "auto", "start", "required"})
#: Variables that are sent: those that commands read, and those that must be the controller's own for its answer to be
#: the one that would be given here.
_NAMES = frozenset(
    {"COLORTERM", "COLUMNS", "FORCE_COLOR", "HOME", "LINES", "NO_COLOR", "TERM", "TZ", "XDG_CONFIG_HOME"}
    | {"XDG_STATE_HOME"}
)
_PREFIXES = ("BRIDGE_", "GIT_")
#: Words with which a command line asks for something else than the command's work, or for work that lasts.
_SPECIAL = frozenset({"--help", "-h", "--version", "--verbose", "--follow", "-f"})
#: Errors with which a controller leaves a command line to its client.
_NOT_BEGUN = frozenset({"command_not_taken", "invalid_params", "invalid_request", "method_not_found"})
#: Seconds that a controller may take to greet back.
_GREETING_SECONDS = 5.0
#: Seconds that a controller may take to end a command that was interrupted.
_CANCEL_SECONDS = 5.0
_CHUNK = 65536


def is_fit(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Tell whether a command line is one that a controller may run."""
    if not _SPECIAL.isdisjoint(words) or environment.get("BRIDGE_LOG"):
        return False
    named = [word for word in words[:3] if word not in {"--json", "--quiet", "-q"}]
    if named[:1] == ["find"] and "--deep" in words:
        return False  # a model is asked with the keys and programs of whoever asks, and its library stays with them
    return bool(named) and (named[0] in RESIDENT or " ".join(named[:2]) in RESIDENT)


def attempt(words: Sequence[str], environment: Mapping[str, str]) -> int | str | None:
    """Let the controller run a command line.

    Returns
    -------
    int or str or None
        The exit status; :data:`REFUSED`, :data:`LOST` or :data:`INTERRUPTED`; None if there was nobody to ask.
    """
    if environment.get(MODE_VARIABLE, "") not in _MODES or not is_fit(words, environment):
        return None
    home = home_of(environment)
    if home is None:
        return None
    path = Endpoint(home, environment.get(DATABASE_VARIABLE)).find_socket()
    if path is None:
        return None
    try:
        streams, descriptors = _streams()
        directory = os.getcwd()
    except (OSError, ValueError):
        return None
    import socket  # from here on it is worth its five milliseconds

    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            peer.settimeout(_GREETING_SECONDS)
            peer.connect(path)
        except OSError:
            return None
        return _converse(peer, _request(words, environment, directory, streams), descriptors)
    finally:
        peer.close()


def home_of(environment: Mapping[str, str]) -> str | None:
    """Return the state directory of an environment; None where it can be none."""
    named = environment.get(HOME_VARIABLE)
    if named:
        return os.path.normpath(named) if os.path.isabs(named) else None
    if sys.platform != "linux":
        # Other platforms have rules of their own, and a library that knows them.
        from bridge.foundation.config import state_directory

        return str(state_directory(environment))
    base = environment.get("XDG_STATE_HOME", "")
    if not base.strip():
        base = os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "bridge") if os.path.isabs(base) else None


def _streams() -> tuple[list[str | None], list[int]]:
    """Return the encodings of stdin, stdout and stderr (None: closed), and the descriptors of those that are open."""
    encodings: list[str | None] = []
    descriptors = []
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None:
            encodings.append(None)
        else:
            descriptors.append(stream.fileno())
            encodings.append(stream.encoding)
    return encodings, descriptors


def _request(words: Sequence[str], environment: Mapping[str, str], directory: str, streams: list[str | None]) -> bytes:
    program = os.path.basename(sys.argv[0])
    params: dict[str, Any] = {
        "arguments": list(words),
        "directory": directory,
        "environment": {
            name: value for name, value in environment.items() if name in _NAMES or name.startswith(_PREFIXES)
        },
        "program": program if program in {"bridge", "brg"} else "bridge",
        "streams": streams,
    }
    return _line({"jsonrpc": "2.0", "id": 1, "method": "commands/run", "params": params})


def _line(message: dict[str, Any]) -> bytes:
    import json

    return json.dumps(message).encode("ascii") + b"\n"


def _converse(peer: socket.socket, request: bytes, descriptors: list[int]) -> int | str:
    """Greet, send the command line, and return what comes of it.

    The streams are sent only to a controller that has answered: one that hangs would keep them from ever ending.
    """
    import array
    from socket import SCM_RIGHTS, SOL_SOCKET

    answers = bytearray()
    try:
        peer.sendall(_line({"bridge": 1, "build": build_id(), "role": "operator"}))
        _receive_lines(peer, answers, 1)
        if not _is_welcome(answers):
            return REFUSED
        sent = peer.sendmsg([request], [(SOL_SOCKET, SCM_RIGHTS, array.array("i", descriptors))])
    except OSError:
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        peer.settimeout(None)
        peer.sendall(request[sent:])
        _receive_lines(peer, answers, 2)
        return _outcome(answers)
    except KeyboardInterrupt:
        return _cancel(peer, answers)
    except OSError:
        return LOST


def _is_welcome(answers: bytearray) -> bool:
    import json

    line, end, _ = bytes(answers).partition(b"\n")
    return bool(end) and bool(json.loads(line).get("ok"))


def _receive_lines(peer: socket.socket, answers: bytearray, lines: int) -> None:
    while answers.count(b"\n") < lines:
        data = peer.recv(_CHUNK)
        if not data:
            return
        answers += data


def _outcome(answers: bytearray) -> int | str:
    """Return what the answer to the command line says."""
    import json

    lines = answers.split(b"\n")
    if len(lines) < 3:
        return LOST
    answer = json.loads(lines[1])
    if "result" in answer:
        return int(answer["result"]["exit_status"])
    code = answer["error"].get("data", {}).get("code")
    # Only what was certainly not begun may be run here instead.
    return REFUSED if code in _NOT_BEGUN else LOST


def _cancel(peer: socket.socket, answers: bytearray) -> int | str:
    """Tell the controller that the person stopped the command, and wait a moment for it to print nothing more."""
    try:
        peer.settimeout(_CANCEL_SECONDS)
        peer.sendall(b'{"jsonrpc":"2.0","method":"$/cancel","params":{"id":1}}\n')
        _receive_lines(peer, answers, 2)
    except (OSError, KeyboardInterrupt):
        return INTERRUPTED
    return INTERRUPTED
