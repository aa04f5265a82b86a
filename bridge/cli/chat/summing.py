"""``/checkpoint`` and ``/compact``: the agent sums up, Bridge checks and records it."""

from __future__ import annotations

from bridge.cli.chat.driving import cancelled_by_signals
from bridge.cli.chat.showing import TurnDisplay
from bridge.cli.context import Cli
from bridge.control.contexts.checkpoints import Checkpoint
from bridge.control.conversing.chatting import Chat
from bridge.foundation.ids import short_entry


async def sum_up(cli: Cli, chat: Chat, display: TurnDisplay, *, is_compact: bool) -> int:
    """Have the agent sum up and show what was recorded; with ``is_compact`` it goes on from that. Return 0.

    Raises what ``Chat.checkpoint`` raises; the failure is recorded by then.
    """
    with display.silent():
        async with cancelled_by_signals(cli, chat):
            done = await (chat.compact() if is_compact else chat.checkpoint())
    cli.output.emit(done.entry.to_json(), _as_text(done))
    cli.output.status(f"recorded as {short_entry(done.entry.id)}" + (", after one repair" if done.was_repaired else ""))
    if is_compact:
        cli.output.status("the next message starts an agent that knows this and the newest part alone")
    return 0


def _as_text(done: Checkpoint) -> str:
    payload = done.entry.payload
    lines = [str(payload["summary"])]
    for name, title in (("decisions", "decided"), ("files_touched", "files"), ("open_work", "open")):
        lines += [f"{title}: {item}" for item in payload[name]]
    return "\n".join(lines)
