"""Parsing ``git status --porcelain=v2 -z --branch``: pure, byte-exact, strict.

Format: https://git-scm.com/docs/git-status#_porcelain_format_version_2. With ``-z`` names are raw bytes ended by
NUL, so quoting, line feeds and arrows in them mean nothing. Renames are switched off where this is used: a
rename is then one deletion and one addition, each under its own name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: What ``# branch.oid`` says before the first commit.
INITIAL = b"(initial)"
#: What ``# branch.head`` says when HEAD is on no branch.
DETACHED = b"(detached)"


class PorcelainMalformed(ValueError):
    """Raised when status output does not have the documented form."""


@dataclass(frozen=True, slots=True)
class StatusRow:
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


@dataclass(frozen=True, slots=True)
class StatusOutput:
    """What a status call said: commit and branch (None where there is none), and the listed paths."""

    head: bytes | None
    branch: bytes | None
    rows: list[StatusRow] = field(default_factory=list)


def parse_status(output: bytes) -> StatusOutput:
    """Return the parsed form of a status output.

    Raises
    ------
    PorcelainMalformed
        If a line has an unknown type, too few fields, or the commit header is missing.
    """
    head: bytes | None = None
    branch: bytes | None = None
    has_head = False
    rows: list[StatusRow] = []
    lines = output.split(b"\0")
    if lines.pop() != b"":
        raise PorcelainMalformed("the status output is cut off")
    for line in lines:
        kind = line[:2]
        if kind == b"? ":
            rows.append(_untracked(line[2:]))
        elif kind == b"1 ":
            rows.append(_ordinary(line))
        elif kind == b"u ":
            rows.append(_unmerged(line))
        elif kind == b"# ":
            name, _, value = line[2:].partition(b" ")
            if name == b"branch.oid":
                has_head = True
                head = None if value == INITIAL else value
            elif name == b"branch.head":
                branch = None if value == DETACHED else value
        else:
            raise PorcelainMalformed(f"unknown line in the status output: {line[:60]!r}")
    if not has_head:
        raise PorcelainMalformed("the status output does not name the commit")
    return StatusOutput(head, branch, rows)


def _untracked(path: bytes) -> StatusRow:
    is_nested = path.endswith(b"/")
    return StatusRow(b"?", path.removesuffix(b"/"), b"?", b"?", b"N...", (), (), b"", is_nested)


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
