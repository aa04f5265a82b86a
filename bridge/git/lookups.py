"""Small questions about paths of a worktree that git answers for many at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git
from bridge.git.repository import RepositoryLocation


def ignored_paths(
    location: RepositoryLocation, paths: Collection[bytes], *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> frozenset[bytes]:
    """Return those paths that git ignores; a tracked path is never ignored, nor is one that is not this repository's.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot answer.
    """
    # git refuses to say anything about the others as soon as one of them is beyond a symlink or in a submodule.
    own = [path for path in paths if is_own(location, path)]
    if not own:
        return frozenset()
    output = run_git(
        ["check-ignore", "-z", "--stdin"],
        cwd=location.root,
        timeout_seconds=timeout_seconds,
        stdin=b"".join([_safe(path) + b"\0" for path in own]),
        accepted=(0, 1),
    )
    return frozenset(path.removeprefix(b"./") for path in output.stdout.split(b"\0") if path)


def blob_ids(
    location: RepositoryLocation, paths: Collection[bytes], *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> dict[bytes, str]:
    """Return the blob id that each file would get if it were added now, after the user's filters.

    Every path must be a regular file; nothing is written to the object database.

    Raises
    ------
    GitFailed
        If one of them cannot be read, or its filter fails.
    GitTimedOut, GitMissing
        If git does not answer.
    """
    if not paths:
        return {}
    ordered = list(paths)
    output = run_git(
        ["hash-object", "--stdin-paths"],
        cwd=location.root,
        timeout_seconds=timeout_seconds,
        stdin=b"".join([_quoted(_safe(path)) + b"\n" for path in ordered]),
    )
    return dict(zip(ordered, output.text.splitlines(), strict=True))


def matching_untracked(
    location: RepositoryLocation, pattern_file: Path, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> tuple[bytes, ...]:
    """Return the files that are not tracked, ignored or not, and match gitignore-style patterns; sorted.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot answer.
    """
    output = run_git(
        ["ls-files", "-z", "--others", "--ignored", "--exclude-from", str(pattern_file)],
        cwd=location.root,
        timeout_seconds=timeout_seconds,
    )
    return tuple(sorted(path for path in output.stdout.split(b"\0") if path))


def _safe(path: bytes) -> bytes:
    # A leading colon would be pathspec magic, and a leading dash an option.
    return b"./" + path if path.startswith((b":", b"-")) else path


def _quoted(path: bytes) -> bytes:
    """Return a name in C quotes, as git reads them where a line holds one name."""
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in path):
        return path
    return b'"' + b"".join(_octal(path)) + b'"'


def _octal(path: bytes) -> Iterable[bytes]:
    return (b"\\%03o" % byte if byte < 0x20 or byte >= 0x7F or byte in b'"\\' else bytes([byte]) for byte in path)


def is_own(location: RepositoryLocation, path: bytes) -> bool:
    """Return whether a path can be this worktree's: no folder of it is a symlink or a repository of its own."""
    folder = os.fsencode(location.root)
    for part in path.split(b"/")[:-1]:
        folder = os.path.join(folder, part)
        if os.path.islink(folder) or os.path.lexists(os.path.join(folder, b".git")):
            return False
    return True


def is_plain_file(location: RepositoryLocation, path: bytes) -> bool:
    """Return whether a regular file, not a symlink to one, stands at a path."""
    absolute = os.path.join(os.fsencode(location.root), path)
    return os.path.isfile(absolute) and not os.path.islink(absolute)


def size_of(location: RepositoryLocation, path: bytes) -> int:
    """Return the size of what stands at a path, in bytes; 0 if nothing does. Symlinks are not followed."""
    try:
        return os.lstat(os.path.join(os.fsencode(location.root), path)).st_size
    except OSError:
        return 0
