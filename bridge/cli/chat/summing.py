"""``/checkpoint`` and ``/compact``: the agent sums up, Bridge checks and records it."""

from __future__ import annotations

from bridge.cli.chat.showing import TurnDisplay
from bridge.cli.context import Cli
from bridge.control.conversing.chatting import Chat


async def sum_up(cli: Cli, chat: Chat, display: TurnDisplay, *, is_compact: bool) -> int:
    """Ask for a checkpoint and record it; with ``is_compact`` the agent goes on from it alone. Return 0 if it was."""
    raise NotImplementedError
