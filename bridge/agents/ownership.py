"""Owned paths: prefixes, counted in whole path segments, that a worker may change.

A claim on ``src`` covers ``src`` and everything below it, but not ``src2``. No claim covers nothing, and so overlaps
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from bridge.agents.errors import InvalidOwnedPath

#: The claim on the whole repository, in its normal form.
WHOLE_REPOSITORY = "."


def normalise(path: str) -> str:
    """Return the normal form of an owned path: no ``./``, no empty segment, no slash or ``/**`` at the end.

    Raises
    ------
    InvalidOwnedPath
        If it is empty, absolute, has a ``..`` segment (which through a link may lead anywhere), lies in ``.git``,
        holds a NUL, or is a pattern. ``details["reason"]`` says which.
    """
    if not path.strip():
        raise _invalid(path, "is empty; write . for the whole repository")
    if "\0" in path:
        raise _invalid(path, "holds a NUL byte")
    if path.startswith(("/", "~/")):
        raise _invalid(path, "must be relative to the repository root")
    prefix = path.removesuffix("/**")
    segments = [segment for segment in prefix.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise _invalid(path, "must not contain '..'")
    # git refuses these names in any spelling of case, since some file systems do not tell them apart.
    if segments and segments[0].lower() == ".git":
        raise _invalid(path, "lies in git's own folder")
    if any("*" in segment or "?" in segment for segment in segments):
        raise _invalid(path, "is a pattern; owned paths are prefixes")
    return "/".join(segments) or WHOLE_REPOSITORY


def covers(owned_paths: Iterable[str], path: str | bytes) -> bool:
    """Tell whether a changed path, as git names it, lies under one of the owned paths (in their normal form)."""
    segments = _segments(path)
    return any(segments[: len(prefix)] == prefix for prefix in map(_segments, owned_paths))


def first_overlap(ours: Iterable[str], theirs: Iterable[str]) -> tuple[str, str] | None:
    """Return the first pair, one of each side, of which one is a prefix of the other; None if there is none."""
    others = [(path, _segments(path)) for path in theirs]
    for path in ours:
        segments = _segments(path)
        for other, other_segments in others:
            shared = min(len(segments), len(other_segments))
            if segments[:shared] == other_segments[:shared]:
                return path, other
    return None


def _segments(path: str | bytes) -> list[bytes]:
    raw = os.fsencode(path)
    return [] if raw == os.fsencode(WHOLE_REPOSITORY) else raw.split(b"/")


def _invalid(path: str, reason: str) -> InvalidOwnedPath:
    return InvalidOwnedPath(f"The owned path {path[:200]!r} {reason}.", details={"path": path[:200], "reason": reason})
