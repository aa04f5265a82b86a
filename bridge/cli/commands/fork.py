"""``bridge fork``: a session of its own that goes on from an entry."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli


@command()
def fork(
    cli: Cli,
    entry: Annotated[str, typer.Argument(help="Entry, as id, tail (9f3a.31), number, label; @ for the head.")],
    *,
    label: Annotated[str | None, typer.Option("--label", help="A name for people; free text.")] = None,
    harness: Annotated[str | None, typer.Option("--harness", help="The agent program; only shown.")] = None,
) -> int:
    """Start a session that goes on from an entry of another one

    The fork shares what lies before, down to ids, times and hashes; nothing is copied, and nothing said later in the
    other session belongs to it. It has the same workspace. To try another way within one session, no fork is needed:
    bridge goto, and append.
    """
    from bridge.cli.composition import open_controller
    from bridge.cli.rendering import session_title
    from bridge.cli.standing import standpoint_of
    from bridge.control.reading.sessions import session_details
    from bridge.control.sessions import SessionRequest, start_session
    from bridge.foundation.ids import short_entry

    with open_controller(cli) as controller:
        started = start_session(
            controller, standpoint_of(cli), SessionRequest(label=label, harness=harness, from_entry=entry)
        )
        details = session_details(controller, standpoint_of(cli), started.session.id)
    cli.output.emit(details.to_json(), started.session.id)
    if details.origin is not None:
        cli.output.status(
            f"started {session_title(started.session)}, which goes on from {short_entry(details.origin.entry_id)}"
        )
    return 0
