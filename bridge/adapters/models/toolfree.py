"""A model behind an agent program that the user has anyway, started without any tool of its own.

Only programs are taken that can be started so and say so themselves: before an answer is believed, the program must
have named its tools, and there must be none. Look-ups are asked for in the text, one JSON object a turn, and Bridge
runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio

from bridge.adapters.models import claude, pi
from bridge.adapters.models.dialogue import Dialogue, Talk, parsed
from bridge.adapters.models.port import (
    INSTRUCTIONS,
    LOOKUPS,
    MAX_LOOKUPS,
    MAX_TOTAL_TOKENS,
    Answer,
    Lookup,
    ModelTrouble,
    Trouble,
    Usage,
    picks_of,
)
from bridge.foundation.errors import BridgeError
from bridge.process.children import Piped, spawn_piped
from bridge.process.talking import Lines


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is started without tools.

    Parameters
    ----------
    arguments
        The last of them takes the instructions for the model as its value.
    environment
        Variables it gets besides.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    dialogue: Callable[[Talk], Dialogue]


#: Programs that can be held to having no tools, by their harness; tried with the real ones (decision 0140).
TOOL_FREE: Final[Mapping[str, Program]] = MappingProxyType(
    {
        "claude-code": Program("claude", claude.ARGUMENTS, claude.ENVIRONMENT, claude.ClaudeDialogue),
        "pi": Program("pi", pi.ARGUMENTS, pi.ENVIRONMENT, pi.PiDialogue),
    }
)
#: Programs that were tried and cannot be, and why.
REFUSED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "codex": "with everything switched off it still offers its model request_user_input, and does not say so",
        "gemini": "it keeps the question among its own chats, and does not say what it offers its model",
        "opencode": "it keeps the question among its own chats, and does not say what it offers its model",
    }
)
#: Longest line that is taken from a program, in bytes.
MAX_LINE_BYTES: Final = 1024 * 1024
#: How long an ended program may take to go, in seconds.
_GRACE_SECONDS: Final = 1.0
_PROTOCOL: Final = (
    ' Answer with one JSON object and nothing else: to look something up {"lookup": NAME, "argument": TEXT}, and'
    ' to answer {"chats": [{"mark": "c1", "why": TEXT}]}. Look-ups: '
)
_TOLD: Final = INSTRUCTIONS + _PROTOCOL + "; ".join(f"{name}: {summary}" for name, summary in LOOKUPS.items())


@dataclass(frozen=True, slots=True)
class ToolFreeModel:
    """An agent program by the name of its harness.

    Parameters
    ----------
    directory
        An empty folder that it runs in.
    environment
        All of its environment.
    program
        Where it is; None: looked up by its own name.
    """

    name: str
    directory: Path
    environment: Mapping[str, str]
    program: str | None = field(default=None)

    async def start(self) -> ToolFreeSession:
        known = TOOL_FREE.get(self.name)
        if known is None:
            why = REFUSED.get(self.name, "nobody has tried what it does without them")
            raise ModelTrouble(
                Trouble.NOT_TOOL_FREE,
                f"{self.name} cannot be held to having no tools: {why}; these can: {', '.join(sorted(TOOL_FREE))}",
            )
        piped = await self._spawn((self.program or known.name, *known.arguments, _TOLD), known.environment)
        lines = Lines(piped, max_line_bytes=MAX_LINE_BYTES)
        session = ToolFreeSession(piped, lines, known.dialogue(Talk(lines)))
        try:
            await session.ready()
        except BaseException:
            # Also if nobody waits any longer: it must not stay behind.
            with anyio.CancelScope(shield=True):
                await session.close()
            raise
        return session

    async def _spawn(self, argv: Sequence[str], additions: Mapping[str, str]) -> Piped:
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            return await spawn_piped(
                argv,
                cwd=self.directory,
                environment={**self.environment, **additions},
                stderr_path=self.directory / "stderr",
            )
        except (BridgeError, OSError) as error:
            raise ModelTrouble(Trouble.START_FAILED, str(error)) from error


class ToolFreeSession:
    """A running program, ready for one question."""

    def __init__(self, piped: Piped, lines: Lines, dialogue: Dialogue) -> None:
        self._child = piped.child
        self._lines = lines
        self._dialogue = dialogue
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        return self._usage

    async def ready(self) -> None:
        """Wait until the program is ready; see ``Dialogue.ready``."""
        try:
            await self._dialogue.ready()
        except ModelTrouble as trouble:
            if trouble.reason is Trouble.FAILED:
                raise ModelTrouble(Trouble.START_FAILED, str(trouble)) from trouble
            raise

    async def ask(self, question: str, lookup: Lookup) -> Answer:
        text = question
        for _ in range(MAX_LOOKUPS + 2):
            reply = await self._turn(text)
            asked = _lookup_of(reply)
            if asked is None:
                picks = picks_of(reply)
                if picks is None:
                    raise ModelTrouble(Trouble.BROKEN, "it answered something else than was asked for")
                return Answer(picks)
            text = await lookup(*asked)
        raise ModelTrouble(Trouble.GREEDY, "it went on looking things up")

    async def close(self) -> None:
        self._lines.close()
        await self._child.cancel(_GRACE_SECONDS)

    async def _turn(self, text: str) -> str:
        try:
            reply = await self._dialogue.turn(text)
        except ModelTrouble as trouble:
            self._use(trouble.usage)
            raise
        self._use(reply.usage)
        if (self._usage.input_tokens or 0) + (self._usage.output_tokens or 0) > MAX_TOTAL_TOKENS:
            raise ModelTrouble(Trouble.GREEDY, f"it took more than {MAX_TOTAL_TOKENS} tokens")
        return reply.text

    def _use(self, more: Usage) -> None:
        known = self._usage
        self._usage = Usage(
            known.requests + more.requests,
            (known.input_tokens or 0) + (more.input_tokens or 0),
            (known.output_tokens or 0) + (more.output_tokens or 0),
        )


def _lookup_of(text: str) -> tuple[str, str] | None:
    """Return the look-up that a reply asks for, None if it asks for none."""
    start, end = text.find("{"), text.rfind("}")
    value = parsed(text[start : end + 1].encode("utf-8", "replace")) if start >= 0 else {}
    name = value.get("lookup")
    return (str(name), str(value.get("argument", ""))) if name is not None else None
