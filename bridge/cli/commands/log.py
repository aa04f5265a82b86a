"""``bridge log``: what was said and done, one line per entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.reading.sessions import Log
    from bridge.conversations.facets import Facet

#: What --facet takes; the same as ``bridge.conversations.facets``, which is not imported for the help.
FACETS = ("messages", "thinking", "tools", "turns", "usage", "approvals", "delegation")


@command()
def log(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only so many of these entries, the last ones.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", help="Only what lies before this entry; with --limit, the next page back.")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", help="Only what lies behind this entry; --limit counts from there.")
    ] = None,
    facet: Annotated[
        list[str] | None, typer.Option("--facet", help=f"Only one side: {', '.join(FACETS)}; may be repeated.")
    ] = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="Only what went wrong: failed tools, errors, denials, bad results.")
    ] = False,
    turn: Annotated[str | None, typer.Option("--turn", help="Only the turn that this entry belongs to.")] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All branches, in the order in which they were recorded.")
    ] = False,
) -> int:
    """List the entries of a session's active path

    The newest comes last. * marks the head, ! what went wrong or cannot be read. A fork's path begins with what it
    shares with the session it was forked from. Times are local; --json has them in UTC, and of every entry its turn
    (the entry that began it), its facet and its problem.
    """
    from bridge.cli.rendering import entry_lines, line_width
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading.sessions import read_log

    facets = _facets(facet)
    with open_existing(cli) as controller:
        found = read_log(
            controller,
            standpoint_of(cli),
            session,
            limit=limit,
            all_branches=all_,
            before=before,
            after=after,
            facets=facets,
            problems_only=problems,
            turn=turn,
        )
        value = found.to_json() if cli.output.as_json else None
    lines = entry_lines(
        found.rows, found.labels, head_entry_id=found.session.active_entry_id, width=line_width(cli.output)
    )
    cli.output.emit(value, "\n".join(lines) if lines else None)
    is_filtered = bool(facets or problems or turn or before or after)
    _tell(cli, found, is_filtered=is_filtered, is_forward=after is not None)
    return 0


def _facets(names: list[str] | None) -> list[Facet]:
    from bridge.conversations.facets import Facet

    for name in names or ():
        if name not in FACETS:
            raise UsageInvalid(f"--facet: {name!r} is not a facet. Use one of: {', '.join(FACETS)}.")
    return [Facet(name) for name in names or ()]


def _tell(cli: Cli, found: Log, *, is_filtered: bool, is_forward: bool) -> None:
    from bridge.cli.rendering import session_title
    from bridge.foundation.ids import short_entry

    if not found.rows:
        what = "no such entries" if is_filtered else "no entries"
        cli.output.status(f"{session_title(found.session)} has {what} on its active path")
    elif found.has_more and is_forward:
        cli.output.status(f"there are more: --after {short_entry(found.rows[-1].entry.id)}")
    elif found.has_more:
        cli.output.status(f"there are more: --before {short_entry(found.rows[0].entry.id)}")
