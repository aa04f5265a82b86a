"""``bridge label``: names for entries."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli


@command()
def label(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, tail (9f3a.31), number, label; @ for the head.")],
    name: Annotated[str, typer.Argument(help="The name: letters, digits, - and _, not digits alone.")],
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the name from the entry.")] = False,
) -> int:
    """Name an entry, or take a name from it

    A name is a reference wherever an entry is asked for, and belongs to the entry's session. Given to another
    entry of the session, it moves there.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.sessions import remove_label, set_label
    from bridge.foundation.ids import short_entry

    with open_existing(cli) as controller:
        change = remove_label if remove else set_label
        done = change(controller, standpoint_of(cli), entry, name)
    value = {
        "session_id": done.session_id,
        "entry_id": done.entry_id,
        "label": done.name,
        "previous_entry_id": done.previous_entry_id,
        "removed": done.is_removed,
    }
    words = (
        f"{done.name} removed from {short_entry(done.entry_id)}"
        if remove
        else f"{done.name} is {short_entry(done.entry_id)}"
    )
    cli.output.emit(value, words)
    if not remove and done.previous_entry_id not in {None, done.entry_id}:
        cli.output.status(f"it was {short_entry(str(done.previous_entry_id))} before")
    return 0
