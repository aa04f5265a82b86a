"""The text difference of two contents, by libgit2's diff: in memory, without a repository, without programs."""

from __future__ import annotations

from dataclasses import dataclass

#: Unchanged lines shown around each change.
CONTEXT_LINES = 3


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


def text_patch(old: bytes, new: bytes) -> TextPatch:
    """Return the difference of two contents line by line."""
    # Imported here because libgit2 takes 30 ms to load, and few commands show text.
    import pygit2

    patch = pygit2.Patch.create_from(old, new, context_lines=CONTEXT_LINES)
    if patch.delta.is_binary:
        return TextPatch(is_binary=True, hunks=(), additions=0, deletions=0)
    hunks = tuple(
        Hunk(
            hunk.old_start,
            hunk.old_lines,
            hunk.new_start,
            hunk.new_lines,
            tuple(_line(line.origin, line.raw_content) for line in hunk.lines),
        )
        for hunk in patch.hunks
    )
    _, additions, deletions = patch.line_stats
    return TextPatch(is_binary=False, hunks=hunks, additions=additions, deletions=deletions)


def _line(origin: str, content: bytes) -> Line:
    # libgit2 has a letter of its own for each way in which the last line end can be missing.
    if origin in "<>=":
        return Line("\\", b" No newline at end of file")
    return Line(origin, content.removesuffix(b"\n"))


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"
