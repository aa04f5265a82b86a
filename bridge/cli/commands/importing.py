"""``bridge import``: sessions are taken in, Bridge's own and those of other programs."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli import oldstate
from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.controller import Controller
    from bridge.control.exchange.foreign.transcripts import ForeignFormat
    from bridge.control.exchange.imported import Imported, ImportRequest, Progress
    from bridge.control.exchange.sources import Source

#: Stands for standard input.
STDIN = "-"
#: Findings that are shown to people; --json has all that are kept.
_SHOWN_FINDINGS = 20


@command(progress=True, exits={1: "Something was damaged, in conflict or refused; the rest was taken in."})
def import_(
    cli: Cli,
    path: Annotated[
        str | None, typer.Argument(metavar="PATH", help="A file, or a folder of transcripts; - for stdin.")
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and compare everything, write nothing.")] = False,
    format_: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="What the file is. Default: what it looks like.")
    ] = None,
    discover: Annotated[bool, typer.Option("--discover", help="Take in what the agents here have recorded.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with what is added, until Ctrl-C.")] = False,
) -> int:
    """Take in sessions: exported ones, and transcripts of other programs

    Transcripts of Claude Code, Codex, Pi (versions 1 to 3), Gemini CLI and OpenCode are told by what they hold. Their
    branches, ids, times, tool calls, usage and git facts are kept; damage and conflicts are reported with line and byte
    offset, and the rest is taken in. The same again adds nothing, in whatever order; what has grown is continued;
    copies and forks are recognised. --discover finds the agents' own folders: see docs/importing.md.

    A session that bridge export wrote as jsonl: ids, hashes, times, branches, labels and repository states stay what
    they were. All of the file is checked before anything is written, and all of it is written or nothing. What is here
    already changes nothing; a copy that has grown continues the session that is here; one that went on differently
    becomes a fork of it. One that was exported as sqlite is taken in alike.

    A fork comes with the part of its origin that it shares, and that part only becomes a session of its own id; the
    origin's own file, imported before or after, makes it whole.

    A session file (bridge export --format session-file, or another program's) becomes a session of its own, whose id
    follows from the file: the same file again adds nothing, and one that has grown adds what is new.

    --format yaml-sessions takes in a folder of an older kind of notes: see docs/lineage.md.
    """
    if format_ == oldstate.FORMAT and path is not None and not (discover or watch):
        return oldstate.import_folder(cli, cli.directory / path, dry_run=dry_run)
    if (path is None) == (not discover):
        raise UsageInvalid("Name a file or folder, or say --discover.")
    if watch and (dry_run or path == STDIN):
        raise UsageInvalid("--watch goes on with files that grow: it takes neither --dry-run nor stdin.")
    folder = None if path in (None, STDIN) else cli.directory / str(path)
    if discover or watch or (folder is not None and folder.is_dir() and format_ is None):
        return _many(cli, folder, dry_run=dry_run, format_name=format_, watch=watch)
    return _one(cli, str(path), dry_run=dry_run, format_name=format_)


def _one(cli: Cli, path: str, *, dry_run: bool, format_name: str | None) -> int:
    from bridge.cli.composition import open_controller
    from bridge.control.exchange.formats import take_in

    with _opened(cli, path) as source, open_controller(cli) as controller, _progress(cli, source) as progress:
        done = take_in(controller, source, _request(controller, progress, dry_run=dry_run), format_name=format_name)
    for session in done.sessions:
        for name in session.kept_labels:
            cli.output.warn(f"the label {name} names another entry here, and still does", code="label_kept")
    cli.output.emit(done.to_json(), _text(done))
    return 1 if done.problems else 0


def _request(controller: Controller, progress: Progress | None, *, dry_run: bool) -> ImportRequest:
    from bridge.control.exchange.imported import ImportRequest
    from bridge.foundation.config import RawMode

    keep_raw = controller.settings.import_raw is RawMode.UNREDACTED
    return ImportRequest(dry_run=dry_run, keep_raw=keep_raw, progress=progress)


def _many(cli: Cli, path: Path | None, *, dry_run: bool, format_name: str | None, watch: bool) -> int:
    """Take in all transcripts of a folder, or of all agents."""
    from bridge.cli.composition import open_controller
    from bridge.control.exchange.foreign.folders import host_folders, oldest_first, transcripts_below
    from bridge.control.exchange.foreign.gathering import Watch, files_of, take_in_all

    form = _form_named(format_name)

    def files() -> Iterator[tuple[Path, ForeignFormat | None]]:
        if path is None:
            hosts = host_folders(cli.environment)
            yield from files_of(host for host in hosts if form is None or host.form is form)
        elif path.is_dir():
            yield from ((one, form) for one in oldest_first(transcripts_below(path, form)))
        else:
            yield path, form

    gathered = _Gathered(cli)
    if path is not None and not path.exists():
        from bridge.control.errors import ImportUnreadable

        raise ImportUnreadable(
            f"{str(path)!r} cannot be read: there is no such file. Nothing was written.", details={"path": str(path)}
        )
    with open_controller(cli) as controller:
        request = _request(controller, None, dry_run=dry_run)
        if watch:
            with _until_signal() as pause:
                cli.output.status("following; Ctrl-C ends it")
                Watch(controller, files, request, gathered.add, pause).run()
        else:
            take_in_all(controller, files(), request, gathered.add)
    cli.output.emit(gathered.to_json(dry_run=dry_run), gathered.text())
    return 1 if gathered.problems else 0


def _form_named(name: str | None) -> ForeignFormat | None:
    from bridge.control.exchange.foreign.forms import LINE_FORMS, OPENCODE

    if name is None:
        return None
    found = next((form for form in (*LINE_FORMS, OPENCODE) if form.name == name), None)
    if found is None:
        names = ", ".join(form.name for form in (*LINE_FORMS, OPENCODE))
        raise UsageInvalid(f"Of folders, and with --watch, the formats are {names}; not {name!r}.")
    return found


class _Gathered:
    """What became of many files: counted, and told as it happens."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._results: dict[str, Imported] = {}
        self.files = self.added = self.problems = 0
        self.sessions: set[str] = set()

    def add(self, done: Imported) -> None:
        self.files += 1
        self.problems += done.problems
        self.sessions.update(session.session_id for session in done.sessions)
        self._results[str(done.path)] = done
        self._cli.output.progress({"event": "file", **done.to_json()})
        for finding in done.findings[:_SHOWN_FINDINGS]:
            at = "" if finding.line is None else f":{finding.line} (byte {finding.offset})"
            self._cli.output.warn(f"{finding.path}{at}: {finding.kind}: {finding.message}", code=finding.kind)
        if done.added:
            self._cli.output.status(f"{done.path}: {done.added} entries so far")

    def to_json(self, *, dry_run: bool) -> dict[str, Any]:
        files = [done.to_json() for done in self._results.values()]
        return {
            "dry_run": dry_run,
            "files": files,
            "added": sum(done.added for done in self._results.values()),
            "sessions": len(self.sessions),
            "problems": self.problems,
        }

    def text(self) -> str:
        added = sum(done.added for done in self._results.values())
        what = f"{len(self._results)} files, {len(self.sessions)} sessions, {added} entries added"
        return f"{what}; {self.problems} findings" if self.problems else what


@contextmanager
def _until_signal() -> Iterator[Callable[[float], bool]]:
    """Yield a pause that a signal ends for good."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in numbers}
    try:
        yield ended.wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _opened(cli: Cli, path: str) -> Iterator[Source]:
    """Open a file that can be read twice; what comes through a pipe is kept on the disk meanwhile."""
    from bridge.control.errors import ImportUnreadable
    from bridge.control.exchange.sources import Source

    where = cli.directory / path
    try:
        if path != STDIN and where.is_file():
            # Closed again: whether it can be read is told before a store is opened, or made.
            where.open("rb").close()
            yield Source(where, name=path)
            return
        if path != STDIN and where.is_dir():
            yield Source(where, name=path)
            return
        with ExitStack() as stack:
            stream = sys.stdin.buffer if path == STDIN else stack.enter_context(where.open("rb"))
            kept = stack.enter_context(TemporaryFile())
            copyfileobj(stream, kept)
            yield Source(stream=kept, name=path)
    except OSError as error:
        raise ImportUnreadable(
            f"{path!r} cannot be read: {error.strerror}. Nothing was written.", details={"path": path}
        ) from error


@contextmanager
def _progress(cli: Cli, source: Source) -> Iterator[Progress | None]:
    """Yield who is told of progress: typed lines, or a bar on a terminal, or nobody."""
    words = {"check": "checked", "write": "written", "read": "read"}
    if cli.output.json_lines:

        def tell(what: str, done: int, total: int) -> None:
            unit = "bytes" if what == "read" else "entries"
            cli.output.progress({"event": words[what], unit: done, "total": total or None})

        yield tell
        return
    if not cli.output.stderr_is_terminal or cli.output.quiet or cli.output.as_json:
        yield None
        return
    # Only where it is seen: it takes 40 ms to import.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(source.name, total=None)
        yield lambda what, done, total: bar.update(
            task, description=f"{source.name}: {words[what]}", completed=done, total=total or None
        )


def _text(done: Imported) -> str:
    would = "would be " if done.is_dry_run else ""
    lines = []
    for session in done.sessions:
        if session.status == "unchanged":
            lines.append(f"{session.session_id}: all {session.entries or ''} entries are here already; nothing changes")
            continue
        if session.status == "recorded":
            lines.append(f"{session.session_id}: recorded by hooks from its beginning; nothing changes")
            continue
        if session.status == "copy":
            lines.append(f"{session.session_id}: a copy of its first {session.entries} entries; nothing changes")
            continue
        part = "" if session.complete else ", a part of the session"
        word = {"created": "taken in", "continued": "continued", "forked": "forked, since both copies went on"}[
            session.status
        ]
        lines.append(f"{session.session_id}: {would}{word}, {session.added} entries added{part}")
    if not done.sessions and not done.problems:
        lines.append("nothing to take in")
    for finding in done.findings[:_SHOWN_FINDINGS]:
        at = "" if finding.line is None else f"line {finding.line}, byte {finding.offset}: "
        lines.append(f"{at}{finding.kind}: {finding.message}")
    if done.problems > _SHOWN_FINDINGS:
        lines.append(f"{done.problems} findings in all")
    return "\n".join(line.replace("  ", " ") for line in lines)
