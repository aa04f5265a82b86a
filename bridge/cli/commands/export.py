"""``bridge export``: a session as a portable file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import OutputFailed, UsageInvalid


@command()
def export(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    format_: Annotated[Literal["jsonl"], typer.Option("--format", help="Form of the file.")] = "jsonl",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="File to write; it must not exist. Default: stdout.")
    ] = None,
) -> int:
    """Write a session as a portable file

    jsonl: one line for the session, one for each entry of all its branches as it was stored, one with their digest.
    Of a fork the path that it shares with its origin comes first. Hidden entries are part of it; look through it
    before you pass it on. With --json and --output, what was written is told on stdout.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.exporting import export_session

    with open_existing(cli) as controller:
        if output is None:
            export_session(controller, standpoint_of(cli), session, cli.output.write)
            return 0
        path = cli.directory / output
        with _new_file(path) as write:
            done = export_session(controller, standpoint_of(cli), session, write)
    cli.output.emit({**done.to_json(), "path": path, "format": format_}, None)
    cli.output.status(f"wrote {done.entries} entries of {done.session_id} to {path}")
    return 0


@contextmanager
def _new_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Open a file that must not exist yet; it is removed again if what is to fill it fails."""
    try:
        file = path.open("xb")
    except FileExistsError as error:
        raise UsageInvalid(f"--output: {str(path)!r} exists already. Nothing was written.") from error
    except OSError as error:
        raise OutputFailed(f"{str(path)!r} cannot be written: {error.strerror}.") from error
    try:
        with file:
            yield file.write
    except OSError as error:
        path.unlink(missing_ok=True)
        raise OutputFailed(f"{str(path)!r} could not be written: {error.strerror}. It was removed again.") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise
