"""Parsing ``git status --porcelain=v2 -z --branch``: pure, byte-exact, strict.

Format: https://git-scm.com/docs/git-status#_porcelain_format_version_2. With ``-z`` names are raw bytes ended by
NUL, so quoting, line feeds and arrows in them mean nothing. Renames are switched off where this is used: a
rename is then one deletion and one addition, each under its own name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

#: What ``# branch.oid`` says before the first commit.
INITIAL = b"(initial)"
#: What ``# branch.head`` says when HEAD is on no branch.
DETACHED = b"(detached)"


class PorcelainMalformed(ValueError):
    """Raised when status output does not have the documented form."""


class StatusRow(NamedTuple):
    """One listed path.

    Parameters
    ----------
    kind
        ``1`` ordinary, ``u`` unmerged, ``?`` untracked: the first byte of the line.
    path
        Raw bytes, relative to the top level; an untracked nested repository has no trailing slash here.
    index_status, worktree_status
        The letters X and Y of git; ``?`` twice for untracked.
    submodule
        ``N...`` for what is no submodule, else ``S`` with ``C``, ``M``, ``U`` where they apply.
    modes, object_ids
        Of HEAD and index; of stages 1, 2, 3 when unmerged; empty when untracked.
    worktree_mode
        As git sees it under the user's settings; ``000000`` when absent, empty when untracked.
    is_nested
        Whether an untracked path is a repository of its own.
    """

    kind: bytes
    path: bytes
    index_status: bytes
    worktree_status: bytes
    submodule: bytes
    modes: tuple[bytes, ...]
    object_ids: tuple[bytes, ...]
    worktree_mode: bytes
    is_nested: bool = False


@dataclass(frozen=True)
class StatusOutput:
    """What a status call said: commit and branch (None where there is none), and one line per listed path."""

    head: bytes | None
    branch: bytes | None
    lines: list[bytes] = field(default_factory=list)

    @cached_property
    def rows(self) -> list[StatusRow]:
        """The parsed lines. Raises PorcelainMalformed as :func:`parse_row`."""
        return [parse_row(line) for line in self.lines]


def parse_status(output: bytes) -> StatusOutput:
    """Return a status output with its headers parsed and its lines told apart.

    Raises
    ------
    PorcelainMalformed
        If the output is cut off or the commit header is missing.
    """
    head: bytes | None = None
    branch: bytes | None = None
    has_head = False
    lines = output.split(b"\0")
    if lines.pop() != b"":
        raise PorcelainMalformed("the status output is cut off")
    count = 0
    for line in lines:
        if not line.startswith(b"# "):
            break
        count += 1
        name, _, value = line[2:].partition(b" ")
        if name == b"branch.oid":
            has_head = True
            head = None if value == INITIAL else value
        elif name == b"branch.head":
            branch = None if value == DETACHED else value
    if not has_head:
        raise PorcelainMalformed("the status output does not name the commit")
    return StatusOutput(head, branch, lines[count:])


def parse_row(line: bytes) -> StatusRow:
    """Return the parsed form of one line, its NUL left out.

    Raises
    ------
    PorcelainMalformed
        If the line has an unknown type or too few fields.
    """
    kind = line[:2]
    if kind == b"? ":
        is_nested = line.endswith(b"/")
        path = line[2:-1] if is_nested else line[2:]
        return StatusRow(b"?", path, b"?", b"?", b"N...", (), (), b"", is_nested)
    if kind == b"1 ":
        return _ordinary(line)
    if kind == b"u ":
        return _unmerged(line)
    raise PorcelainMalformed(f"unknown line in the status output: {line[:60]!r}")


def _ordinary(line: bytes) -> StatusRow:
    # 1 <XY> <sub> <mH> <mI> <mW> <hH> <hI> <path>
    fields = line.split(b" ", 8)
    if len(fields) != 9 or len(fields[1]) != 2 or not fields[8]:
        raise PorcelainMalformed(f"malformed line in the status output: {line[:60]!r}")
    _, letters, submodule, head_mode, index_mode, worktree_mode, head_id, index_id, path = fields
    return StatusRow(
        b"1",
        path,
        letters[:1],
        letters[1:],
        submodule,
        (head_mode, index_mode),
        (head_id, index_id),
        worktree_mode,
    )


def _unmerged(line: bytes) -> StatusRow:
    # u <XY> <sub> <m1> <m2> <m3> <mW> <h1> <h2> <h3> <path>
    fields = line.split(b" ", 10)
    if len(fields) != 11 or len(fields[1]) != 2 or not fields[10]:
        raise PorcelainMalformed(f"malformed line in the status output: {line[:60]!r}")
    letters = fields[1]
    return StatusRow(
        b"u",
        fields[10],
        letters[:1],
        letters[1:],
        fields[2],
        tuple(fields[3:6]),
        tuple(fields[7:10]),
        fields[6],
    )
