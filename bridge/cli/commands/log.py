"""``bridge log``: what was said and done, one line per entry."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli


@command()
def log(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only so many entries, the last ones.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All branches, in the order in which they were recorded.")
    ] = False,
) -> int:
    """List the entries of a session's active path

    The newest comes last. * marks the head, ! an entry that this Bridge cannot read. A fork's path begins with
    what it shares with the session it was forked from. Times are local; --json has them in UTC.
    """
    from bridge.cli.rendering import entry_lines, line_width, session_title
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading import read_log

    with open_existing(cli) as controller:
        found = read_log(controller, standpoint_of(cli), session, limit=limit, all_branches=all_)
        value = found.to_json() if cli.output.as_json else None
    lines = entry_lines(
        found.entries, found.labels, head_entry_id=found.session.active_entry_id, width=line_width(cli.output)
    )
    cli.output.emit(value, "\n".join(lines) if lines else None)
    if not lines:
        cli.output.status(f"{session_title(found.session)} has no entries on its active path")
    return 0
