"""The one place that writes to standard output and standard error.

Data goes to stdout, everything else to stderr. JSON is always UTF-8, whatever the locale says: one compact line
when stdout is a pipe or a file, indented when it is a terminal. Text for people has its control characters
escaped, so that a recorded message or a file name cannot drive the terminal; exact bytes are a matter for
``--json`` and ``--raw``.
"""

from __future__ import annotations

import json
import os
import re
import select
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from io import StringIO, UnsupportedOperation
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from bridge.cli.errors import OutputFailed
from bridge.foundation.canonical import FloatLiteral
from bridge.foundation.clock import format_timestamp

if TYPE_CHECKING:
    from rich.console import Console

#: Width of tables when stdout is not a terminal: nothing is folded or cut in a pipe.
PIPE_WIDTH = 4000
#: Width of a terminal that does not tell its own.
DEFAULT_WIDTH = 80
#: Exit status after a reader went away: what a shell reports for a program ended by SIGPIPE.
BROKEN_PIPE_STATUS = 141

#: C0 and C1 controls but tab and newline, DEL, and the characters that reorder text (CVE-2021-42574).
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

#: What a command gives for people: text, something rich can render, or a function that prints to a console.
Human = Any


class ReaderGone(Exception):
    """The reader of stdout closed it; the command ends quietly. Not an error anyone needs to read about."""


def printable(text: str) -> str:
    r"""Return text with control characters, bidirectional overrides and lone surrogates as ``\x1b``, ``\u202e``."""
    return _CONTROL.sub(lambda match: _escape(match.group()), text)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _plain(value: object) -> Any:
    if isinstance(value, FloatLiteral):
        return orjson.Fragment(value.literal)
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def json_bytes(value: Any, *, indent: bool = False) -> bytes:
    """Return a value as JSON in UTF-8 without a final newline; keys stay in the order given.

    Lone surrogates (a name that is not UTF-8 on disk) are written as ``\\udcxx`` escapes rather than refused.
    """
    options = orjson.OPT_PASSTHROUGH_DATETIME | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, default=_plain, option=options)
    except orjson.JSONEncodeError:
        separators = None if indent else (",", ":")
        # A second, slower way for what orjson refuses: lone surrogates. A type without a JSON form fails here too.
        text = json.dumps(value, default=_fallback, indent=2 if indent else None, separators=separators)
        return text.encode()


def _fallback(value: object) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return _plain(value)


class Output:
    """Where a command's words go.

    Parameters
    ----------
    stdout, stderr
        The streams; either may be ``None``, as Python has it when the descriptor was closed.
    as_json
        Whether results, errors and warnings are JSON.
    json_lines
        Whether progress is written to stderr as typed JSON lines. Implies ``as_json``.
    quiet
        Whether status and progress are left out. Warnings and errors are always shown.
    environment
        Consulted for ``NO_COLOR`` and the like by the console.
    """

    def __init__(
        self,
        stdout: TextIO | None,
        stderr: TextIO | None,
        *,
        as_json: bool = False,
        json_lines: bool = False,
        quiet: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.as_json = as_json or json_lines
        self.json_lines = json_lines
        self.quiet = quiet
        self._environment = dict(environment or {})
        self._warnings: list[dict[str, Any]] = []
        for stream in (stdout, stderr):
            # A locale that lacks a character must not turn a message into a traceback.
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")

    # -- facts -------------------------------------------------------------------------------------------------

    @property
    def stdout_is_terminal(self) -> bool:
        return _is_terminal(self.stdout)

    @property
    def stderr_is_terminal(self) -> bool:
        return _is_terminal(self.stderr)

    @property
    def without_colour(self) -> bool:
        return bool(self._environment.get("NO_COLOR"))

    @property
    def columns(self) -> int:
        """Width of the terminal that stdout is, in characters."""
        return self._columns(self.stdout)

    def _columns(self, stream: TextIO | None) -> int:
        # As shutil.get_terminal_size, but for the streams of this output, which need not be those of the process.
        named = self._environment.get("COLUMNS", "")
        if named.isdecimal() and int(named) > 0:
            return int(named)
        try:
            width = 0 if stream is None else os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            width = 0
        return width or DEFAULT_WIDTH

    def console(self, *, stderr: bool = False) -> Console:
        """Return a rich console that writes to stdout, or to stderr for a live display of progress."""
        return self._console(self.stderr if stderr else self.stdout, self.stderr if stderr else self.stdout)

    def _console(self, target: TextIO | None, shown_on: TextIO | None) -> Console:
        # rich costs 60 ms; commands that print plain text or JSON do without.
        from rich.console import Console

        is_terminal = _is_terminal(shown_on)
        return Console(
            file=target,
            force_terminal=is_terminal,
            width=self._columns(shown_on) if is_terminal else PIPE_WIDTH,
            markup=False,
            highlight=False,
            emoji=False,
            _environ=self._environment,
        )

    # -- data --------------------------------------------------------------------------------------------------

    def emit(self, value: Any, human: Human | None = None) -> None:
        """Print a command's result.

        Parameters
        ----------
        value
            What ``--json`` prints: an object for one thing, an array for a list.
        human
            What people see: a string, a rich renderable, or a function that takes a console and prints to it.
            Strings are escaped by :func:`printable`; text inside renderables must be escaped by the command.
            ``None`` prints nothing for people.
        """
        if self.as_json:
            indent = self.stdout_is_terminal and not self.json_lines
            self.write(json_bytes(value, indent=indent) + b"\n")
        elif isinstance(human, str):
            self._write_text(printable(human).rstrip("\n") + "\n")
        elif human is not None:
            self._render(human)

    def write(self, data: bytes) -> None:
        """Write exact bytes to stdout (``--raw``)."""
        stream = self._require_stdout()
        buffer = getattr(stream, "buffer", None)
        try:
            if buffer is None:  # A text-only stand-in, as tests use.
                stream.write(data.decode("utf-8", errors="backslashreplace"))
            else:
                stream.flush()
                buffer.write(data)
            stream.flush()
        except OSError as error:
            raise self._failure(error) from error

    def stream(self, text: str) -> None:
        """Print a piece of a text for people as it comes, its control characters escaped; nothing with ``--json``."""
        if not self.as_json:
            self._write_text(printable(text))

    def style(self, sequence: str) -> None:
        """Change the look of what follows, on a terminal only; the sequence is the command's own, never recorded."""
        if self.stdout_is_terminal and not self.as_json:
            self._write_text(sequence)

    def _write_text(self, text: str) -> None:
        stream = self._require_stdout()
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            raise self._failure(error) from error

    def _render(self, human: Callable[[Console], None] | object) -> None:
        # Rendered into memory first: rich answers a closed pipe by exiting with its own status.
        rendered = StringIO()
        console = self._console(rendered, self.stdout)
        if callable(human):
            human(console)
        else:
            console.print(human)
        lines = (line.rstrip(" ") for line in rendered.getvalue().split("\n"))
        self._write_text("\n".join(lines))

    def _require_stdout(self) -> TextIO:
        if self.stdout is None:
            raise OutputFailed("Standard output is closed, so the result could not be written.")
        return self.stdout

    def _failure(self, error: OSError) -> Exception:
        if isinstance(error, BrokenPipeError):
            return ReaderGone()
        return OutputFailed(f"The result could not be written: {error.strerror or error}.")

    def stdout_fails(self) -> bool:
        """Tell whether stdout holds something that cannot be written, or lost its reader."""
        if self.stdout is None:
            return False
        try:
            self.stdout.flush()
            watch = select.poll()
            watch.register(self.stdout.fileno(), 0)
            return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))
        except UnsupportedOperation:  # a stand-in without a descriptor
            return False
        except (OSError, ValueError):
            return True

    # -- status ------------------------------------------------------------------------------------------------

    def status(self, message: str) -> None:
        """Tell a person on stderr what happens; silent with ``--quiet`` and ``--json``."""
        if not (self.quiet or self.as_json):
            self._write_stderr(printable(message))

    def warn(self, message: str, *, code: str = "warning", details: Mapping[str, Any] | None = None) -> None:
        """Warn on stderr.

        With ``--json`` the warning is kept back until the command ends, so that stderr holds exactly one JSON
        object when it ends in an error; with ``--json-lines`` it is written at once.
        """
        record = {"warning": {"code": code, "message": message, "details": dict(details or {})}}
        if self.json_lines:
            self._write_stderr_json(record)
        elif self.as_json:
            self._warnings.append(record)
        else:
            self._write_stderr("warning: " + printable(message))

    def progress(self, record: Mapping[str, Any]) -> None:
        """Write one typed progress record to stderr; only with ``--json-lines``."""
        if self.json_lines:
            self._write_stderr_json(record)

    def show(self, text: str) -> None:
        """Show a person a long text on stderr, whatever ``--quiet`` says; nothing with ``--json``."""
        if not self.as_json:
            self._write_stderr(printable(text))

    def error(self, record: Mapping[str, Any]) -> None:
        """Write what ended the command, in the shape of ``BridgeError.to_json``; called by the edge only."""
        error = dict(record["error"])
        if self.as_json:
            if self._warnings:
                warnings = [item["warning"] for item in self._warnings]
                error["details"] = {**error["details"], "warnings": warnings}
                self._warnings.clear()
            self._write_stderr_json({"error": error})
            return
        self._write_stderr("error: " + printable(error["message"]))
        if error["hint"]:
            self._write_stderr("hint: " + printable(error["hint"]))

    def finish(self) -> None:
        """Flush everything at the end of a command that succeeded."""
        for record in self._warnings:
            self._write_stderr_json(record)
        self._warnings.clear()
        if self.stdout is not None:
            try:
                self.stdout.flush()
            except OSError as error:
                raise self._failure(error) from error

    def abandon_stdout(self) -> None:
        """Point stdout at nothing, so that Python does not complain about it while it shuts down."""
        if self.stdout is None:
            return
        try:
            descriptor = self.stdout.fileno()
        except (OSError, ValueError):
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)

    def _write_stderr_json(self, record: Mapping[str, Any]) -> None:
        self._write_stderr(json_bytes(record).decode())

    def _write_stderr(self, text: str) -> None:
        if self.stderr is None:
            return
        try:
            self.stderr.write(text + "\n")
            self.stderr.flush()
        except OSError:
            # Nobody can be told that nobody can be told; the exit status still speaks.
            self.stderr = None


def _is_terminal(stream: TextIO | None) -> bool:
    if stream is None:
        return False
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def wants(option: str, arguments: Sequence[str]) -> bool:
    """Tell whether a flag stands anywhere before ``--``: needed before the line is parsed, or cannot be."""
    for argument in arguments:
        if argument == "--":
            return False
        if argument == option:
            return True
    return False


def output_for(
    words: Sequence[str], stdout: TextIO | None, stderr: TextIO | None, environment: Mapping[str, str]
) -> Output:
    """Return the output for a command line, which says also how errors in that line are told."""
    return Output(
        stdout,
        stderr,
        as_json=wants("--json", words),
        json_lines=wants("--json-lines", words),
        environment=environment,
    )
