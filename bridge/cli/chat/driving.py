"""Taking a turn to its end while signals come: once cancels, twice kills."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import anyio
from anyio.abc import TaskStatus

from bridge.cli.chat.errors import ChatStopped
from bridge.cli.chat.showing import TurnDisplay
from bridge.cli.context import Cli
from bridge.control.conversing.chatting import Chat, TurnEnded
from bridge.control.conversing.looking import Outlook
from bridge.control.taskgroups import sole_error_group


async def take_turn(
    cli: Cli,
    chat: Chat,
    display: TurnDisplay,
    text: str,
    *,
    outlook: Outlook | None = None,
    expected_head: str | None = None,
) -> TurnEnded | None:
    """Say something and show the turn; return how it ended, None if it was called off before it began.

    Ctrl-C asks the agent to stop, a second one ends it. Raises what ``Chat.send`` raises.
    """
    ended: TurnEnded | None = None
    async with (
        cancelled_by_signals(cli, chat),
        aclosing(chat.send(text, outlook=outlook, expected_head=expected_head)) as reports,
    ):
        async for report in reports:
            display.report(report)
            if isinstance(report, TurnEnded):
                ended = report
    return ended


@asynccontextmanager
async def cancelled_by_signals(cli: Cli, chat: Chat) -> AsyncIterator[None]:
    """Let Ctrl-C ask the agent to stop, and a second one end it; before it was asked anything, call it all off."""
    async with sole_error_group() as group:

        async def watch(*, task_status: TaskStatus[None]) -> None:
            asked = False
            with anyio.open_signal_receiver(signal.SIGINT) as signals:
                task_status.started()
                async for _ in signals:
                    if not chat.turn_is_running:
                        cli.output.status("called off; nothing was sent")
                        group.cancel_scope.cancel()
                    elif asked:
                        cli.output.status("ending the agent")
                        await chat.kill()
                    else:
                        asked = True
                        cli.output.status("cancelling; Ctrl-C again ends the agent")
                        await chat.cancel()

        # Only once the receiver is there: a Ctrl-C before would be nobody's.
        await group.start(watch)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def stopped_by_signals() -> AsyncIterator[None]:
    """End what is inside in order when SIGTERM or SIGHUP comes.

    Raises
    ------
    ChatStopped
        If one came.
    """
    came: list[int] = []
    async with sole_error_group() as group:

        async def watch() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
                async for number in signals:
                    came.append(int(number))
                    group.cancel_scope.cancel()

        group.start_soon(watch)
        yield
        group.cancel_scope.cancel()
    if came:
        name = signal.Signals(came[0]).name
        raise ChatStopped(f"{name} ended the chat.", details={"signal": name})
