"""The program that a coding agent calls at its hooks: ``python -I -S client.py HOST PROGRAM``.

It reads one event as JSON on stdin and answers on stdout, or says nothing. The agent's work comes first: whatever
happens, it ends with status 0, within a time limit, and writes either exactly the one object that all hosts accept
or not a single byte. It is run by its path, imports the standard library alone, and asks Bridge in a child process.

It speaks when a session starts or resumes, for a conversation that Bridge knows: the one that ``BRIDGE_SESSION``
names in its environment. Without that variable it does nothing at all. It is silent at prompts and after tools:
to be right there, and quick enough, takes a controller that has seen the agent's own edits.
"""

from __future__ import annotations

import json
import os
import signal
import sys

# typing and subprocess cost more than the rest together, and most events need neither.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any, BinaryIO

#: Names the session the agent's conversation is recorded in.
SESSION_VARIABLE = "BRIDGE_SESSION"
#: Longest answer of Bridge that is waited for, and longest life of this process, in seconds.
ANSWER_SECONDS = 4.0
LIFE_SECONDS = 5.0
#: Largest event that is looked at, in bytes; the rest of a larger one is read and thrown away.
MAX_EVENT_BYTES = 4 * 1024 * 1024
#: Longest text that is passed on, in characters; hosts cut longer ones in their own ways.
MAX_TEXT_CHARACTERS = 2_000

#: The events whose answer reaches the model, by host: a session's start, a prompt, the end of a tool.
HOST_EVENTS: Mapping[str, tuple[str, str, str]] = {
    "claude-code": ("SessionStart", "UserPromptSubmit", "PostToolUse"),
    "codex": ("SessionStart", "UserPromptSubmit", "PostToolUse"),
    "gemini": ("SessionStart", "BeforeAgent", "AfterTool"),
}
#: Why a session may start for its agent to have a past; some hosts name no reason.
SPOKEN_SOURCES = frozenset({None, "startup", "resume", "fork"})


def main(
    arguments: Sequence[str], environment: Mapping[str, str], stdin: BinaryIO | None, stdout: BinaryIO | None
) -> int:
    """Answer one event and return 0, whatever happens."""
    try:
        answer = _answer(arguments, environment, _read(stdin))
        if answer and stdout is not None:
            stdout.write(answer)
            stdout.flush()
    except BaseException:  # noqa: BLE001 - an error must reach nobody: hosts block prompts and show what is printed
        return 0
    return 0


def answer_object(event: str, text: str) -> bytes:
    """Return the one form of an answer that every host accepts, and of which none drops anything."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}).encode("ascii")


def _answer(arguments: Sequence[str], environment: Mapping[str, str], data: bytes) -> bytes:
    session = environment.get(SESSION_VARIABLE)
    if len(arguments) != 2 or not session:
        return b""
    host, program = arguments
    event = json.loads(data)
    start = HOST_EVENTS[host][0]
    if event["hook_event_name"] != start or event.get("source") not in SPOKEN_SOURCES:
        return b""
    text = _ask(program, session, event.get("cwd"), environment)
    return answer_object(start, text) if text else b""


def _read(stdin: BinaryIO | None) -> bytes:
    if stdin is None:
        return b""
    data = stdin.read(MAX_EVENT_BYTES + 1)
    # A host that writes to a pipe nobody reads may take that for a failure.
    while stdin.read(1024 * 1024):
        continue
    return data if len(data) <= MAX_EVENT_BYTES else b""


def _ask(program: str, session: str, directory: Any, environment: Mapping[str, str]) -> str:
    """Return what Bridge has to say about a session at its start; empty for nothing, or if it takes too long."""
    import subprocess  # as above

    if not os.path.isabs(program):
        return ""
    question = {"jsonrpc": "2.0", "id": 1, "method": "divergence/report", "params": {"moment": "start"}}
    child = subprocess.Popen(
        [program, "rpc", "--stdio", "--role", "agent", "--session", session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=directory if isinstance(directory, str) and os.path.isdir(directory) else None,
        env=dict(environment),
        start_new_session=True,
    )
    _children.append(child.pid)
    try:
        printed, _ = child.communicate(json.dumps(question).encode("ascii") + b"\n", timeout=ANSWER_SECONDS)
    finally:
        _end(child)
    result = json.loads(printed)["result"]
    text = result["agent_text"]
    # What cannot be told is for the person to hear, not for the agent.
    if result["divergence"] != "diverged" or not isinstance(text, str) or len(text) > MAX_TEXT_CHARACTERS:
        return ""
    return text


_children: list[int] = []


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child with all it started, unless it has ended."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    _children.remove(child.pid)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()


def _end_at_once(_signal: int, _frame: FrameType | None) -> None:
    for pid in _children:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            continue
    os._exit(0)


if __name__ == "__main__":
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end_at_once)
    signal.setitimer(signal.ITIMER_REAL, LIFE_SECONDS)
    main(
        sys.argv[1:],
        os.environ,
        None if sys.stdin is None else sys.stdin.buffer,
        None if sys.stdout is None else sys.stdout.buffer,
    )
    # Not sys.exit: what the interpreter flushes on its way out could fail, and would be told with another status.
    os._exit(0)
