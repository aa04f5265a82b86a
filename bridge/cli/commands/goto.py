"""``bridge goto`` and ``bridge back``: move a session's head; files stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.conversations.models import HeadMove

ExpectHead = Annotated[
    str | None, typer.Option("--expect-head", help="Only if the head is this entry; else nothing is changed.")
]


@command()
def goto(
    cli: Cli,
    session: Annotated[str, typer.Argument(help="Session, as id, tail or label; @ for the current one.")],
    entry: Annotated[
        str | None, typer.Argument(help="Entry of that session, as id, tail, number or label.", show_default=False)
    ] = None,
    *,
    expect_head: ExpectHead = None,
) -> int:
    """Go to another entry of a session; no file is touched

    The next append goes on from there. Only the head moves: cursors, files, refs and the index stay.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.sessions import go_to

    if entry is None:
        known = session.rpartition(".")[0] or "SESSION"
        hint = f"Name both: bridge goto {known} {session}"
        raise UsageInvalid("The session and the entry to go to are both needed. Nothing was changed.", hint=hint)
    with open_existing(cli) as controller:
        move = go_to(controller, standpoint_of(cli), session, entry, expected_head=expect_head)
    _tell(cli, move)
    return 0


@command()
def back(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    steps: Annotated[int, typer.Option("--steps", "-n", min=1, help="By so many entries.")] = 1,
    expect_head: ExpectHead = None,
) -> int:
    """Go back to the entry before the head; no file is touched

    From the first entry this leads to the beginning, where the next append starts over. If fewer entries lie before
    the head than --steps says, nothing is changed.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.sessions import go_back
    from bridge.conversations.errors import SessionNotFound

    with open_existing(cli) as controller:
        try:
            move = go_back(controller, standpoint_of(cli), session, steps=steps, expected_head=expect_head)
        except SessionNotFound as error:
            if session is None or not session.isdigit():
                raise
            # What people type who mean a number of steps.
            hint = f"To go back by {session} entries: bridge back --steps {session}"
            raise SessionNotFound(error.message, hint=hint, details=error.details) from error
    _tell(cli, move)
    return 0


def _tell(cli: Cli, move: HeadMove) -> None:
    from bridge.foundation.ids import short_entry, short_session

    session = short_session(move.session_id)
    if move.from_entry_id != move.to_entry_id:
        text = f"{session} is at {short_entry(move.to_entry_id)} now; it was at {short_entry(move.from_entry_id)}"
    else:
        text = f"{session} is at {short_entry(move.to_entry_id)} already"
    cli.output.emit(move.to_json(), text)
    cli.output.status(f"files stay as they are; compare them with: bridge status {session}")
