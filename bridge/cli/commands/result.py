"""``bridge result``: the result of a worker, as typed, checked evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.delegations.results import ResolvedResult


@command()
def result(
    cli: Cli,
    reference: Annotated[str, typer.Argument(help="Evidence reference (an entry), or a task's name or id.")],
    *,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            help="Session that cites it. Default: $BRIDGE_SESSION, else the result's own. [env var: BRIDGE_SESSION]",
        ),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the exact stored bytes, nothing else.")] = False,
) -> int:
    """Print a worker's result, checked as evidence is

    The reference must name a worker's result that lies on the active branch of the session that cites it; every
    other case has its own error. What --raw prints is what a later worker receives, byte for byte.
    """
    from bridge.cli.standing import open_if_there, standpoint_of
    from bridge.control.delegations.results import no_such_reference, resolve_result

    with open_if_there(cli) as controller:
        if controller is None:
            raise no_such_reference(reference)
        found = resolve_result(controller, standpoint_of(cli), reference, session=session)
    if raw:
        cli.output.write(found.evidence.payload)
    else:
        cli.output.emit(found.to_json(), _lines(found))
    return 0


def _lines(found: ResolvedResult) -> str:
    from bridge.foundation.ids import short_entry

    payload = found.payload
    lines = [
        f"{short_entry(found.evidence.reference)}  {payload.get('status')}  sha256 {found.evidence.digest}",
        str(payload.get("summary", "")),
    ]
    for title, key in (("changed", "files_changed"), ("decided", "decisions"), ("risks", "risks")):
        lines += [f"  {title}: {item}" for item in payload.get(key, ())]
    lines += [f"  test {row['status']}: {row['command']}" for row in payload.get("tests", ())]
    return "\n".join(lines)
