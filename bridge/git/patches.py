"""The text difference of two contents, by git's own diff, outside any repository."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git

#: Unchanged lines shown around each change.
CONTEXT_LINES = 3
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_LINE_END = b"\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk: ``origin`` is a space, ``+``, ``-``, or a backslash for a missing line end."""

    origin: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that differ, with their surroundings; counted from 1, as in a unified diff."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[Line, ...]

    @property
    def header(self) -> str:
        return f"@@ -{_range(self.old_start, self.old_lines)} +{_range(self.new_start, self.new_lines)} @@"


@dataclass(frozen=True, slots=True)
class TextPatch:
    """How one content differs from another; no hunks if either is binary (has a NUL near its beginning)."""

    is_binary: bool
    hunks: tuple[Hunk, ...]
    additions: int
    deletions: int


def text_patch(old: bytes, new: bytes, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> TextPatch:
    """Return the difference of two contents line by line, as git's own diff has it.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot compare them.
    """
    with tempfile.TemporaryDirectory(prefix="bridge-diff-") as folder:
        for name, content in (("old", old), ("new", new)):
            (Path(folder) / name).write_bytes(content)
        # Neither the user's drivers nor their text conversions nor their taste in presentation.
        output = run_git(
            [
                "-c",
                "core.attributesFile=/dev/null",
                "-c",
                "core.quotePath=true",
                "diff",
                "--no-index",
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--no-renames",
                "--diff-algorithm=default",
                "--inter-hunk-context=0",
                f"--unified={CONTEXT_LINES}",
                "--",
                "old",
                "new",
            ],
            cwd=Path(folder),
            timeout_seconds=timeout_seconds,
            accepted=(0, 1),
        )
    return parse_patch(output.stdout)


def parse_patch(output: bytes) -> TextPatch:
    """Return the patch of one file that ``git diff`` wrote; lines are told apart by the counts in their headers.

    Raises
    ------
    ValueError
        If the output does not have the documented form.
    """
    lines = output.split(b"\n")
    if any(line.startswith(b"Binary files ") for line in lines[:6]):
        return TextPatch(is_binary=True, hunks=(), additions=0, deletions=0)
    hunks: list[Hunk] = []
    position = 0
    while position < len(lines):
        header = _HUNK.match(lines[position])
        position += 1
        if header is None:
            continue
        old_start, old_lines, new_start, new_lines = (
            1 if number is None else int(number) for number in header.groups()
        )
        body, position = _body(lines, position, old_lines, new_lines)
        hunks.append(Hunk(old_start, old_lines, new_start, new_lines, tuple(body)))
    every = [line for hunk in hunks for line in hunk.lines]
    additions, deletions = (sum(line.origin == origin for line in every) for origin in "+-")
    return TextPatch(is_binary=False, hunks=tuple(hunks), additions=additions, deletions=deletions)


def _body(lines: list[bytes], position: int, old_left: int, new_left: int) -> tuple[list[Line], int]:
    """Return the lines of a hunk, and where the next part begins."""
    body: list[Line] = []
    while old_left or new_left or lines[position : position + 1] == [_NO_LINE_END]:
        line = lines[position]
        origin = line[:1].decode("ascii")
        if origin not in " +-\\" or not origin:
            raise ValueError(f"malformed patch line: {line[:60]!r}")
        body.append(Line(origin, line[1:]))
        old_left -= origin in " -"
        new_left -= origin in " +"
        position += 1
    return body, position


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"
