"""A chat without a terminal: standard input is what is said, all of it at once or line by line."""

from __future__ import annotations

import sys
from typing import Final

from anyio import to_thread

from bridge.cli.chat.acting import Actions
from bridge.cli.chat.driving import take_turn
from bridge.cli.chat.lines import Message, Mistyped, Verb, parse
from bridge.cli.chat.showing import TurnDisplay
from bridge.cli.chat.summing import sum_up
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid
from bridge.control.conversing.chatting import Chat
from bridge.control.conversing.looking import Outlook
from bridge.conversations.errors import HeadMoved
from bridge.workspaces.divergence import Divergence
from bridge.workspaces.wording import one_line

#: Bytes of standard input that are one message.
MAX_INPUT_BYTES: Final = 2 * 2**20
#: How often a message is offered anew when somebody else's got there first.
MAX_MOVES: Final = 5


class PipedChat:
    """Reads messages from standard input until it ends.

    Parameters
    ----------
    by_line
        Whether each line is a message or a verb; else the whole input is one message.
    """

    def __init__(self, cli: Cli, chat: Chat, actions: Actions, display: TurnDisplay, *, by_line: bool) -> None:
        self._cli = cli
        self._chat = chat
        self._actions = actions
        self._display = display
        self._by_line = by_line
        self._warned: str | None = None

    async def run(self) -> int:
        """Return 0 if every turn completed, else 1."""
        if not self._by_line:
            text = await to_thread.run_sync(_read_all, abandon_on_cancel=True)
            return await self._take(text)
        status = 0
        while line := await to_thread.run_sync(_read_line, abandon_on_cancel=True):
            asked = parse(line)
            if asked == Verb("quit", ""):
                break
            status = max(status, await self._take(line))
        return status

    async def _take(self, text: str) -> int:
        asked = parse(text)
        match asked:
            case None:
                return 0
            case Mistyped():
                raise UsageInvalid(asked.problem[0].upper() + asked.problem[1:])
            case Verb(name="checkpoint" | "compact"):
                return await sum_up(self._cli, self._chat, self._display, is_compact=asked.name == "compact")
            case Verb():
                if asked.name != "quit":
                    await to_thread.run_sync(self._actions.perform, asked)
                return 0
            case Message():
                return await self._say(asked.text)

    async def _say(self, text: str) -> int:
        for _ in range(MAX_MOVES):
            outlook = await self._chat.look()
            self._warn(outlook)
            try:
                ended = await take_turn(self._cli, self._chat, self._display, text, outlook=outlook)
            except HeadMoved:
                continue  # nothing was sent; nobody here has seen the place, so the message follows the head
            return 0 if ended is not None and ended.status == "completed" else 1
        ended = await take_turn(self._cli, self._chat, self._display, text)
        return 0 if ended is not None and ended.status == "completed" else 1

    def _warn(self, outlook: Outlook) -> None:
        if outlook.found is None or outlook.key == self._warned:
            return
        self._warned = outlook.key
        is_unknown = outlook.divergence is Divergence.UNKNOWN
        line = one_line(outlook.found.report, was_agent_told=not is_unknown)
        self._cli.output.warn(line, code=str(outlook.divergence), details={"divergence": str(outlook.divergence)})


def _read_all() -> str:
    data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise UsageInvalid(f"Standard input has more than {MAX_INPUT_BYTES} bytes. Nothing was sent.")
    return _decoded(data)


def _read_line() -> str:
    data = sys.stdin.buffer.readline(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise UsageInvalid(f"A line has more than {MAX_INPUT_BYTES} bytes. It was not sent.")
    return _decoded(data)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageInvalid("Standard input is not UTF-8. Nothing was sent.") from error
