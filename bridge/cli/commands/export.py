"""``bridge export``: a session as a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.exchange.exporting import Export


@command()
def export(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    format_: Annotated[
        Literal["jsonl", "session-file", "markdown", "html", "raw"], typer.Option("--format", help="Form of the file.")
    ] = ("jsonl"),
    scope: Annotated[
        Literal["forest", "active"], typer.Option("--scope", help="All branches, or the active path alone.")
    ] = "forest",
    hidden: Annotated[bool, typer.Option("--hidden", help="Show hidden entries as well; see below.")] = False,
    output: Annotated[str | None, typer.Option("--output", "-o", help="File to write; - or none means stdout.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> int:
    """Write a session as a file

    jsonl is for programs, and what bridge import takes: a header, one line for each entry as it was stored, with the
    repository states that entries name, and a footer with their digest. markdown and html are for people; the HTML
    is one file that needs nothing else.

    session-file is a smaller form that other programs may write as well, without hashes and stamps: see
    docs/session-files.md. Hidden entries are always in it.

    raw is the transcript of another program that the session was imported from, as its lines were kept: byte for byte
    if no secret in it was masked, which exact in the result says.

    A fork comes with the path that it shares with its origin. A forest as jsonl always holds hidden entries: without
    them no hash could be recomputed. Elsewhere they are left out unless --hidden is given; the active path as jsonl
    can then be read but not imported. Look through a file before you pass it on.

    The file appears under its name when it is complete. With --json and --output, what was written is told on stdout.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.exchange.exporting import ExportRequest, export_session

    request = ExportRequest(session=session, format=format_, scope=scope, hidden=hidden)
    if output in (None, "-"):
        if force:
            raise UsageInvalid("--force replaces a file: name one with --output.")
        with open_existing(cli) as controller:
            done = export_session(controller, standpoint_of(cli), request, cli.output.write)
        _warn_of_changes(cli, done)
        return 0
    from bridge.cli.outputfile import whole_file

    path = cli.directory / str(output)
    with open_existing(cli) as controller, whole_file(path, force=force) as write:
        done = export_session(controller, standpoint_of(cli), request, write)
    _warn_of_changes(cli, done)
    cli.output.emit({**done.to_json(), "path": path, "format": format_, "scope": scope}, None)
    cli.output.status(f"wrote {done.entries} entries of {done.session_id} to {path}")
    return 0


def _warn_of_changes(cli: Cli, done: Export) -> None:
    if done.rebuilt is not None and not done.rebuilt.is_exact:
        lines = done.rebuilt.changed_lines
        cli.output.warn(f"{lines} lines are not as they were: secrets are masked in them", code="lines_changed")
