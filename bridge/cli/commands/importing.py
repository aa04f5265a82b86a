"""``bridge import``: a portable session file is taken in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from bridge.cli import oldstate
from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.exchange.imported import Imported, Progress

#: Stands for standard input.
STDIN = "-"


@command(progress=True, exits={1: "Something was damaged, in conflict or refused; the rest was taken in."})
def import_(
    cli: Cli,
    path: Annotated[str, typer.Argument(metavar="FILE", help="File that bridge export wrote; - for stdin.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and compare everything, write nothing.")] = False,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="What the file is. Default: what it looks like.")
    ] = None,
) -> int:
    """Take in a session that was exported as jsonl

    Ids, hashes, times, branches, labels and repository states stay what they were. All of the file is checked before
    anything is written, and all of it is written or nothing. What is here already changes nothing; a copy that has
    grown continues the session that is here; one that went on differently is refused.

    A fork comes with the part of its origin that it shares, and that part only becomes a session of its own id; the
    origin's own file, imported before or after, makes it whole.

    A session file (bridge export --format session-file, or another program's) becomes a session of its own, whose id
    follows from the file: the same file again adds nothing, and one that has grown adds what is new.

    --format yaml-sessions takes in a folder of an older kind of notes: see docs/lineage.md.
    """
    if format_ == oldstate.FORMAT:
        return oldstate.import_folder(cli, cli.directory / path, dry_run=dry_run)
    if format_ is not None:
        raise UsageInvalid(f"There is no format {format_!r}; known: {oldstate.FORMAT}.")
    from bridge.cli.composition import open_controller
    from bridge.control.exchange.formats import take_in
    from bridge.control.exchange.imported import ImportRequest
    from bridge.control.exchange.sources import Source

    request = ImportRequest(dry_run=dry_run, progress=_told(cli))
    with _opened(cli, path) as stream, open_controller(cli) as controller:
        done = take_in(controller, Source(stream=stream, name=path), request, format_name=format_)
    for session in done.sessions:
        for name in session.kept_labels:
            cli.output.warn(f"the label {name} names another entry here, and still does", code="label_kept")
    cli.output.emit(done.to_json(), _text(done))
    return 0


@contextmanager
def _opened(cli: Cli, path: str) -> Iterator[BinaryIO]:
    """Open a file that can be read twice; what comes through a pipe is kept on the disk meanwhile."""
    from bridge.control.errors import ImportUnreadable

    try:
        source: BinaryIO = sys.stdin.buffer if path == STDIN else (cli.directory / path).open("rb")
        try:
            if source.seekable() and path != STDIN:
                yield source
                return
            with TemporaryFile() as kept:
                copyfileobj(source, kept)
                kept.seek(0)
                yield kept
        finally:
            if path != STDIN:
                source.close()
    except OSError as error:
        raise ImportUnreadable(
            f"{path!r} cannot be read: {error.strerror}. Nothing was written.", details={"path": path}
        ) from error


def _told(cli: Cli) -> Progress:
    words = {"check": "checked", "write": "written"}

    def tell(what: str, done: int, total: int) -> None:
        if cli.output.json_lines:
            cli.output.progress({"event": words[what], "entries": done, "total": total or None})
        elif cli.output.stderr_is_terminal:
            cli.output.status(f"{done}{f' of {total}' if total else ''} entries {words[what]}")

    return tell


def _text(done: Imported) -> str:
    would = "would be " if done.is_dry_run else ""
    lines = []
    for session in done.sessions:
        if session.status == "unchanged":
            lines.append(f"{session.session_id}: all {session.entries} entries are here already; nothing changes")
            continue
        part = "" if session.complete else ", a part of the session"
        word = {"created": "taken in", "continued": "continued"}[session.status]
        lines.append(f"{session.session_id}: {would}{word}, {session.added} entries added{part}")
    return "\n".join(lines)
