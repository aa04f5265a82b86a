"""A model behind an agent program that the user has anyway, started without any tool of its own.

Only programs are taken that can be started so and say so themselves: before the first word of an answer is believed,
the program must have named its tools and servers, and there must be none. Look-ups are asked for in the text, one JSON
object a turn, and Bridge runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from bridge.adapters.models.port import (
    INSTRUCTIONS,
    LOOKUPS,
    MAX_LOOKUPS,
    Answer,
    Lookup,
    ModelTrouble,
    Trouble,
    Usage,
    picks_of,
)
from bridge.foundation.errors import BridgeError
from bridge.process.children import spawn_piped
from bridge.process.talking import Lines, LineTooLong

#: How a program is started without tools, and speaks lines of JSON on both ends.
TOOL_FREE: Final[Mapping[str, tuple[str, ...]]] = {
    "claude-code": (
        "claude",
        "--print",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--tools=",
        "--strict-mcp-config",
        "--disable-slash-commands",
        "--no-session-persistence",
    ),
}
#: Longest line that is taken from a program, in bytes.
MAX_LINE_BYTES: Final = 1024 * 1024
#: How long an ended program may take to go, in seconds.
_GRACE_SECONDS: Final = 1.0
_PROTOCOL: Final = (
    ' Answer with one JSON object and nothing else: to look something up {"lookup": NAME, "argument": TEXT}, and'
    ' to answer {"chats": [{"mark": "c1", "why": TEXT}]}. Look-ups: '
)


@dataclass(frozen=True, slots=True)
class ToolFreeModel:
    """An agent program by the name of its harness.

    Parameters
    ----------
    directory
        An empty folder that it runs in: it finds no instructions of a project there.
    environment
        All of its environment.
    command
        The program, in the place of the one that is known for the harness; its arguments stay.
    """

    name: str
    directory: Path
    environment: Mapping[str, str]
    command: Sequence[str] = field(default=())

    async def start(self) -> ToolFreeSession:
        known = TOOL_FREE.get(self.name)
        if known is None:
            raise ModelTrouble(
                Trouble.NOT_TOOL_FREE,
                f"{self.name} cannot be held to having no tools; these can: {', '.join(sorted(TOOL_FREE))}",
            )
        argv = [*(self.command or known[:1]), *known[1:]]
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            piped = await spawn_piped(
                argv, cwd=self.directory, environment=self.environment, stderr_path=self.directory / "stderr"
            )
        except (BridgeError, OSError) as error:
            raise ModelTrouble(Trouble.START_FAILED, str(error)) from error
        return ToolFreeSession(piped)


class ToolFreeSession:
    """A running program, ready for one question."""

    def __init__(self, piped: Any) -> None:
        self._child = piped.child
        self._lines = Lines(piped, max_line_bytes=MAX_LINE_BYTES)
        self._is_proven = False
        self._usage = Usage()

    async def ask(self, question: str, lookup: Lookup) -> Answer:
        names = "; ".join(f"{name}: {summary}" for name, summary in LOOKUPS.items())
        text = f"{INSTRUCTIONS}{_PROTOCOL}{names}\n\n{question}"
        try:
            for _ in range(MAX_LOOKUPS + 2):
                reply = await self._turn(text)
                asked = _lookup_of(reply)
                if asked is None:
                    picks = picks_of(reply)
                    if picks is None:
                        raise ModelTrouble(Trouble.BROKEN, "it answered something else than was asked for")
                    return Answer(picks, self._usage)
                text = await lookup(*asked)
            raise ModelTrouble(Trouble.GREEDY, "it went on looking things up")
        except ModelTrouble as trouble:
            trouble.usage = self._usage
            raise

    async def close(self) -> None:
        self._lines.close()
        await self._child.cancel(_GRACE_SECONDS)

    async def _turn(self, text: str) -> str:
        """Say something and return what the program answers."""
        message = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
        try:
            await self._lines.send(orjson.dumps(message))
            while (line := await self._lines.receive()) is not None:
                value = _parsed(line)
                if value.get("type") == "system" and value.get("subtype") == "init":
                    self._prove(value)
                elif value.get("type") == "assistant" and not self._is_proven:
                    raise ModelTrouble(Trouble.NOT_TOOL_FREE, "it answered before it said that it has no tools")
                elif value.get("type") == "result":
                    return self._result(value)
        except (OSError, LineTooLong) as error:
            raise ModelTrouble(Trouble.FAILED, f"it cannot be spoken to: {error}") from error
        raise ModelTrouble(Trouble.FAILED, "it ended without an answer")

    def _prove(self, value: Mapping[str, Any]) -> None:
        tools, servers = value.get("tools"), value.get("mcp_servers")
        if tools != [] or servers not in ([], None):
            raise ModelTrouble(Trouble.NOT_TOOL_FREE, f"it has tools all the same: {str(tools)[:200]}")
        self._is_proven = True

    def _result(self, value: Mapping[str, Any]) -> str:
        if not self._is_proven:
            raise ModelTrouble(Trouble.NOT_TOOL_FREE, "it did not say which tools it has")
        used = value.get("usage")
        if isinstance(used, dict):
            self._usage = Usage(
                self._usage.requests + 1,
                (self._usage.input_tokens or 0) + int(used.get("input_tokens") or 0),
                (self._usage.output_tokens or 0) + int(used.get("output_tokens") or 0),
            )
        text = str(value.get("result", ""))
        if value.get("is_error"):
            reason = Trouble.QUOTA if "limit" in text.lower() else Trouble.FAILED
            raise ModelTrouble(reason, text[:200])
        return text


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}  # what a program prints beside its protocol is no part of it
    return value if isinstance(value, dict) else {}


def _lookup_of(text: str) -> tuple[str, str] | None:
    """Return the look-up that a reply asks for, None if it asks for none."""
    start, end = text.find("{"), text.rfind("}")
    value = _parsed(text[start : end + 1].encode()) if start >= 0 else {}
    name = value.get("lookup")
    return (str(name), str(value.get("argument", ""))) if name is not None else None
