"""``bridge context``: what an agent gets when it goes on with a session."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli


@command()
def context(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    budget: Annotated[
        int | None, typer.Option("--budget", metavar="TOKENS", min=1, help="Only what fits, the newest first.")
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Look past checkpoints, as for an agent that still runs.")
    ] = False,
    without_files: Annotated[
        bool, typer.Option("--without-files", help="Do not look whether the files have moved on.")
    ] = False,
) -> int:
    """Print the context that a session's active path restores

    Hidden entries, stamps and bookkeeping are left out; a compaction or a checkpoint stands for what lies before it.
    If the files have moved on, what changed comes first. Tokens are estimated, three bytes each. Refused if the path
    holds an entry that this Bridge cannot read.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.contexts.building import build_context
    from bridge.foundation.ids import short_session
    from bridge.workspaces.divergence import Divergence
    from bridge.workspaces.wording import one_line

    with open_existing(cli) as controller:
        found = build_context(
            controller,
            standpoint_of(cli),
            session,
            budget=budget,
            cold_start=not whole,
            with_files=not without_files,
        )
    cli.output.emit(found.to_json(), found.text().rstrip("\n") or None)
    if found.divergence is not None and found.divergence.divergence is Divergence.UNKNOWN:
        cli.output.warn(
            one_line(found.divergence, reference=short_session(found.session.id)), code="divergence_unknown"
        )
    if found.projection.is_oversized:
        tokens = found.projection.tokens
        cli.output.warn(f"the newest part alone takes {tokens} tokens, more than asked for; it is never torn")
    return 0
