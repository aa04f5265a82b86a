"""``bridge note`` and ``bridge notes``: what a session leaves for the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid
from bridge.cli.oldstate import show_notes

if TYPE_CHECKING:
    from bridge.control.lineage.notes import Note

#: Who says a note that is given on the command line.
SENDER = "operator"
#: Notes that are listed unless another number is asked for, and at most; as ``bridge.control.lineage.notes`` has them.
DEFAULT_LIMIT, MAX_LIMIT = 20, 200


@command()
def note(
    cli: Cli,
    text: Annotated[str, typer.Argument(help="What to remember.")],
    *,
    session: Annotated[str, typer.Option("--session", help="Session, as id, tail or label. Default: @.")] = "@",
    recipient: Annotated[str, typer.Option("--to", help="An agent's id; * is for whoever reads the session.")] = "*",
    type_: Annotated[str, typer.Option("--type", help="What kind of remark it is.")] = "inform",
) -> int:
    """Leave a note in a session

    It is an entry like any other, stamped and kept; bridge notes lists it, and the next bridge wake begins with it.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.lineage.notes import write_note
    from bridge.foundation.ids import short_entry

    with open_existing(cli) as controller:
        found = write_note(
            controller, standpoint_of(cli), session, text, sender=SENDER, recipient=recipient, note_type=type_
        )
    cli.output.emit(found.to_json(), short_entry(found.id))
    return 0


@command()
def notes(
    cli: Cli,
    *,
    session: Annotated[
        str | None,
        typer.Option("--session", help="Session, as id, tail or label; previous for the one that @ continues."),
    ] = None,
    include_previous: Annotated[
        bool, typer.Option("--include-previous", help="Go on with the sessions before, while the limit has room.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MAX_LIMIT, help="At most so many together; the newest are kept.")
    ] = DEFAULT_LIMIT,
    old_state: Annotated[
        str | None,
        typer.Option("--old-state", metavar="DIR", help="Read a folder of YAML sessions or signals instead."),
    ] = None,
) -> int:
    """List the notes of a session, and of those it continues

    Of all its branches, oldest first; an earlier session's come before a later one's. --old-state shows the notes of a
    folder of an older kind without taking them in: of all its sessions, or with --session of one.
    """
    if old_state is not None:
        if include_previous:
            raise UsageInvalid("--include-previous goes through sessions here; --old-state has none of them.")
        return show_notes(cli, cli.directory / old_state, session, limit=limit)
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.lineage.notes import PREVIOUS, read_notes

    with open_existing(cli) as controller:
        here = standpoint_of(cli)
        is_previous = session == PREVIOUS
        found = read_notes(
            controller,
            here,
            None if is_previous else session,
            of=PREVIOUS if is_previous else None,
            include_previous=include_previous,
            limit=limit,
        )
    lines = [_line(one) for one in found.notes] + [f"{_line(one)} (received)" for one in found.received]
    cli.output.emit(found.to_json(), "\n".join(lines))
    if found.has_older:
        cli.output.status(f"older notes were left out; --limit shows up to {MAX_LIMIT}")
    return 0


def _line(found: Note) -> str:
    from bridge.cli.output import printable
    from bridge.cli.rendering import local_time
    from bridge.foundation.ids import short_entry

    sender = "" if found.sender is None else f"{printable(found.sender)}: "
    return f"{short_entry(found.id)}  {local_time(found.created_at)}  {sender}{printable(found.text)}"
