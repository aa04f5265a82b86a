"""Speaking with an agent program that has no tools: what each program's way of speaking has to give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from bridge.adapters.models.port import ModelTrouble, Trouble, Usage
from bridge.process.talking import Lines, LineTooLong

#: Status of an answer that says that the account may not spend more now.
QUOTA_STATUSES: Final = (402, 429)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a program's model said, and what that cost."""

    text: str
    usage: Usage


class Dialogue(Protocol):
    """One way of speaking."""

    async def ready(self) -> None:
        """Return when the program is ready for a question.

        Raises
        ------
        ModelTrouble
            If it is not, or has tools.
        """

    async def turn(self, text: str) -> Reply:
        """Say something and return what the program's model answers.

        Raises
        ------
        ModelTrouble
            If it does not answer, or nothing shows that it was offered no tool.
        """


class Talk:
    """The lines of a program, as JSON objects."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def send(self, value: dict[str, Any]) -> None:
        try:
            await self._lines.send(orjson.dumps(value))
        except OSError as error:
            raise ModelTrouble(Trouble.FAILED, f"it cannot be spoken to: {error}") from error

    async def receive(self) -> dict[str, Any]:
        """Return the next object; what a program prints beside its protocol is left out."""
        while True:
            try:
                line = await self._lines.receive()
            except (OSError, LineTooLong) as error:
                raise ModelTrouble(Trouble.FAILED, f"it cannot be spoken to: {error}") from error
            if line is None:
                raise ModelTrouble(Trouble.FAILED, "it ended without an answer")
            value = parsed(line)
            if value:
                return value


def parsed(line: bytes) -> dict[str, Any]:
    """Return the object in a line; an empty one if it is something else."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def require_none(tools: object, servers: object = None) -> None:
    """Check that a program has said that it has no tools and no servers that could bring some.

    Raises
    ------
    ModelTrouble
        If it has, or said something else.
    """
    if tools != [] or servers not in ([], None):
        raise ModelTrouble(Trouble.NOT_TOOL_FREE, f"it has tools all the same: {str(tools)[:200]}")
