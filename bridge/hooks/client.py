"""The program that a coding agent calls at its hooks: ``bridge-hook HOST``, with one event as JSON on stdin.

A copy of this file lies in the state directory, under a name that never changes (see ``placing``); so it is run by its
path and imports the standard library alone, and little of it. It hands the event to the resident controller, starts
one in the background where none answers, and prints what the host is to know: exactly one object with keys that this
host accepts at this event, or not a single byte.

The agent's work comes first. Whatever happens, it ends with status 0, and within the time that a person set for it,
0.3 s unless they did. An event that nobody takes is written, without secrets, to a folder from which a controller takes
it later; one that cannot even be kept is counted. Outside of registered checkouts, and for agents that Bridge runs
itself, nothing is done at all.
"""

from __future__ import annotations

import os
import sys
import time

# Of json, signal and socket their C halves alone, where this interpreter has them: the rest of the three takes twice
# as long to import as all of this process should.
try:
    import _signal as signals  # type: ignore[import-not-found] # typeshed has none
    import _socket as sockets
    from _json import encode_basestring_ascii as _quoted
    from _json import make_scanner as _scanner
except ImportError:
    import signal as signals
    import socket as sockets  # type: ignore[no-redef] # has all that the other has
    from json.encoder import encode_basestring_ascii as _quoted
    from json.scanner import make_scanner as _scanner

# typing is not imported for these: it costs more than the rest together.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any, BinaryIO

#: How long the host may be kept waiting, in seconds, unless the settings say otherwise; and what of it is not spent on
#: waiting for the controller, but on starting this process, and on keeping the event if nobody takes it.
PATIENCE_SECONDS = 0.3
START_SECONDS = 0.03
KEEP_SECONDS = 0.07
#: Largest event that is handed on, in bytes; the rest of a larger one is read and thrown away, and it is counted.
MAX_EVENT_BYTES = 4 * 1024 * 1024
#: Longest text that is passed on to an agent and to a person, in characters; hosts cut longer ones in their own ways.
MAX_TEXT_CHARACTERS = 2_000
MAX_NOTICE_CHARACTERS = 500
#: Events that the folder holds, and the bytes of one in it: longer texts in it are cut first.
MAX_SPOOLED = 2_000
MAX_SPOOLED_BYTES = 64 * 1024
MAX_SPOOLED_TEXT = 4_000
#: Seconds between two attempts to start a controller.
START_PAUSE_SECONDS = 10.0
#: In the environment of agents that Bridge runs itself: their conversations are recorded as it is.
CHILD_VARIABLE = "BRIDGE_CHILD"

#: The events whose answer reaches the model, by host.
HEARD_EVENTS: Mapping[str, frozenset[str]] = {
    "claude-code": frozenset({"SessionStart", "UserPromptSubmit"}),
    "codex": frozenset({"SessionStart", "UserPromptSubmit"}),
    "gemini": frozenset({"SessionStart", "BeforeAgent"}),
}
#: Names in the folder of this program; the controller knows them too.
SETTINGS_FILE = "client.json"
PLACES_FILE = "places.json"
FORMATS_FILE = "formats.json"
SPOOL_FOLDER = "spool"
LOST_PREFIX = "lost-"
STARTED_FILE = "started"

_begun = time.monotonic()


def main(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdin: BinaryIO | None,
    stdout: BinaryIO | None,
    folder: str,
) -> int:
    """Hand on one event and return 0, whatever happens."""
    try:
        host = arguments[0] if len(arguments) == 1 and arguments[0] in HEARD_EVENTS else ""
        data = _read(stdin)
        answer = _answer(host, environment, data, folder) if host else b""
        if answer and stdout is not None:
            stdout.write(answer)
            stdout.flush()
    except BaseException:  # noqa: BLE001 - an error must reach nobody: hosts block prompts and show what is printed
        return 0
    return 0


def answer_object(host: str, event: str, answer: Mapping[str, Any]) -> bytes:
    """Return an answer in the one form that every host accepts, and of which none drops anything; empty for nothing."""
    if event not in HEARD_EVENTS[host]:
        return b""
    told: list[str] = []
    context, notice = answer.get("context"), answer.get("notice")
    if isinstance(context, str) and 0 < len(context) <= MAX_TEXT_CHARACTERS:
        names = f'{{"hookEventName": {_quoted(event)}, "additionalContext": {_quoted(context)}}}'
        told.append(f'"hookSpecificOutput": {names}')
    if isinstance(notice, str) and 0 < len(notice) <= MAX_NOTICE_CHARACTERS:
        told.append(f'"systemMessage": {_quoted(notice)}')
    return f"{{{', '.join(told)}}}".encode("ascii") if told else b""


def _answer(host: str, environment: Mapping[str, str], data: bytes, folder: str) -> bytes:
    if environment.get(CHILD_VARIABLE):
        return b""
    if not data:
        _count(folder, host)
        return b""
    event = _parsed(data)
    name = event["hook_event_name"]
    if not isinstance(name, str) or not _is_within(event.get("cwd"), folder):
        return b""
    settings = _load(os.path.join(folder, SETTINGS_FILE))
    patience = settings["patience"]
    signals.setitimer(signals.ITIMER_REAL, max(patience - START_SECONDS - (time.monotonic() - _begun), 0.001))
    delivery = {
        "id": f"{time.time_ns():x}-{os.getpid():x}",
        "host": host,
        "at": time.time(),
        "parent": os.getppid(),
        "patience": patience - START_SECONDS - KEEP_SECONDS,
    }
    _pending.append((folder, host))
    answer = _ask(settings, delivery, data)
    if answer is None:
        _keep(folder, delivery, event)
        _start(folder, settings, environment)
    _pending.clear()
    return b"" if answer is None else answer_object(host, name, answer)


def _read(stdin: BinaryIO | None) -> bytes:
    if stdin is None:
        return b""
    data = stdin.read(MAX_EVENT_BYTES + 1)
    # A host that writes to a pipe nobody reads may take that for a failure.
    while len(data) > MAX_EVENT_BYTES and stdin.read(1024 * 1024):
        continue
    return data if len(data) <= MAX_EVENT_BYTES else b""


def _is_within(directory: Any, folder: str) -> bool:
    """Tell whether a folder lies in a registered checkout; what the controller decides exactly, it decides later."""
    if not isinstance(directory, str) or not os.path.isabs(directory):
        return False
    places = _load(os.path.join(folder, PLACES_FILE))
    current = os.path.realpath(directory)
    while True:
        if current in places:
            return True
        above = os.path.dirname(current)
        if above == current:
            return False
        current = above


def _load(path: str) -> Any:
    with open(path, "rb") as file:
        return _parsed(file.read())


class _Options:
    """What a scanner goes by: plain JSON."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner in Python keeps the names of members here


def _parsed(data: bytes) -> Any:
    """Return one JSON value. Raises ValueError, or StopIteration, if it is none."""
    text = data.decode("utf-8").strip(" \t\r\n")
    value, end = _scanner(_Options)(text, 0)  # type: ignore[arg-type] # it takes whatever has these attributes
    if end != len(text):
        raise ValueError
    return value


# -- the controller ------------------------------------------------------------------------------------------------


def _ask(settings: Mapping[str, Any], delivery: Mapping[str, Any], data: bytes) -> dict[str, Any] | None:
    """Return the controller's answer; None if it did not take the event, or has not said so in time."""
    path = _socket_path(settings)
    if path is None:
        return None
    greeting = b'{"bridge":1,"build":null,"role":"hook","token":null,"directory":null,"session":null}\n'
    head = (
        f'{{"id":{_quoted(str(delivery["id"]))},"host":{_quoted(str(delivery["host"]))},'
        f'"at":{delivery["at"]!r},"parent":{delivery["parent"]!r},"patience":{delivery["patience"]!r}'
    ).encode("ascii")
    deadline = _begun + delivery["patience"]
    peer = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        peer.settimeout(max(deadline - time.monotonic(), 0.001))
        peer.connect(path)
        # The event as it came: it is a JSON object, and need not be written anew. No line feed may stay in it.
        body = data.replace(b"\n", b" ").replace(b"\r", b" ")
        peer.sendall(greeting + head + b',"event":' + body + b"}\n")
        received = b""
        while received.count(b"\n") < 2:
            peer.settimeout(max(deadline - time.monotonic(), 0.001))
            more = peer.recv(65536)
            if not more:
                return None
            received += more
        answer = _parsed(received.split(b"\n")[1])
        return answer if isinstance(answer, dict) and answer.get("taken") is True else None
    except (OSError, ValueError, StopIteration):
        return None
    finally:
        peer.close()


def _socket_path(settings: Mapping[str, Any]) -> str | None:
    path = settings["socket"]
    if os.path.exists(path):
        return str(path)
    try:
        place = _load(settings["info"])["socket"]
    except (OSError, ValueError, StopIteration, KeyError, TypeError):
        return None
    return place if isinstance(place, str) else None


def _start(folder: str, settings: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Start a controller in the background and do not wait, unless somebody just did."""
    mark = os.path.join(folder, STARTED_FILE)
    try:
        age = time.time() - os.stat(mark).st_mtime
    except OSError:
        age = START_PAUSE_SECONDS
    if 0 <= age < START_PAUSE_SECONDS:
        return
    with open(mark, "ab"):
        os.utime(mark)
    words = settings["start"]
    kept = {name: value for name, value in environment.items() if not name.startswith(("GIT_", "BRIDGE_"))}
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    os.posix_spawn(words[0], words, {**kept, **settings["environment"]}, file_actions=actions, setsid=True)


# -- what nobody took ----------------------------------------------------------------------------------------------


def _keep(folder: str, delivery: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    """Write an event, without secrets and shortened, for a controller to take later; count it if that cannot be."""
    spool = os.path.join(folder, SPOOL_FOLDER)
    try:
        if len(os.listdir(spool)) >= MAX_SPOOLED:
            raise OSError
        import json  # as above; here it has to write whatever came

        kept = {**delivery, "event": _masked(event, _patterns(folder))}
        data = json.dumps(kept).encode("ascii")
        if len(data) > MAX_SPOOLED_BYTES:
            raise OSError
        name = os.path.join(spool, str(delivery["id"]))
        with open(os.open(name + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        os.rename(name + ".new", name + ".json")
    except Exception:  # noqa: BLE001 - whatever kept it from being kept: it is counted, and nobody is troubled
        _count(folder, str(delivery["host"]))


def _patterns(folder: str) -> list[Any]:
    """Return the formats of secrets, as the controller's own; only those whose mark a text has are compiled."""
    return list(_load(os.path.join(folder, FORMATS_FILE))["formats"])


def _masked(value: Any, formats: list[Any]) -> Any:
    if isinstance(value, str):
        return _masked_text(value[:MAX_SPOOLED_TEXT], formats)
    if isinstance(value, dict):
        return {_masked_text(key, formats): _masked(item, formats) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, formats) for item in value]
    return value


def _masked_text(text: str, formats: list[Any]) -> str:
    for known in formats:
        if known["trigger"] not in text:
            continue
        import re  # 7 ms, which only a text that may hold a secret costs

        pattern = re.compile(known["pattern"], known["flags"])
        found = list(pattern.finditer(text))
        for match in reversed(found):
            start, end = match.span(known["group"])
            text = f"{text[:start]}[redacted:{known['label']}]{text[end:]}"
    return text


def _count(folder: str, host: str) -> None:
    """Count an event that is lost: the size of a file is their number."""
    with open(os.path.join(folder, LOST_PREFIX + host), "ab") as file:
        file.write(b".")


_pending: list[tuple[str, str]] = []


def _end_at_once(_signal: int, _frame: FrameType | None) -> None:
    for folder, host in _pending:
        try:
            _count(folder, host)
        except OSError:
            continue
    os._exit(0)


if __name__ == "__main__":
    for number in (signals.SIGALRM, signals.SIGTERM, signals.SIGINT, signals.SIGHUP):
        signals.signal(number, _end_at_once)
    signals.setitimer(signals.ITIMER_REAL, PATIENCE_SECONDS - START_SECONDS)
    main(
        sys.argv[1:],
        os.environ,
        None if sys.stdin is None else sys.stdin.buffer,
        None if sys.stdout is None else sys.stdout.buffer,
        os.path.dirname(os.path.abspath(__file__)),
    )
    # Not sys.exit: what the interpreter flushes on its way out could fail, and would be told with another status.
    os._exit(0)
