"""``bridge context``: what an agent gets when it goes on with a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.reading import RestoredContext


@command()
def context(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
) -> int:
    """Print the context that a session's active path restores

    Hidden entries, stamps and bookkeeping are left out; a compaction stands for what lies before it. Refused if
    the path holds an entry that this Bridge cannot read.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading import read_context

    with open_existing(cli) as controller:
        found = read_context(controller, standpoint_of(cli), session)
    cli.output.emit(found.to_json(), _as_text(found) or None)
    return 0


def _as_text(found: RestoredContext) -> str:
    from bridge.cli.output import json_bytes
    from bridge.foundation.ids import short_entry

    parts = []
    for message in found.projection.messages:
        text = next((message.payload[name] for name in ("text", "summary", "message") if name in message.payload), None)
        body = text if isinstance(text, str) else json_bytes(message.payload, indent=True).decode()
        parts.append(f"--- {message.kind} ({short_entry(message.entry_id)})\n{body}")
    return "\n\n".join(parts)
