"""Reading objects by the hundred, in bounded memory: one ``git cat-file --batch`` whose answer is streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bridge.git.errors import GitFailed
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, run_git, stream_git
from bridge.git.repository import RepositoryLocation

#: Bytes of an object that are in memory at a time.
CHUNK_BYTES = 1_048_576
# 200 names of the greatest length that Linux allows are well below what a command line holds.
_PATHS_PER_CALL = 200
#: Nothing is fetched from a partial clone's remote to find out what is here.
NO_FETCH = {"GIT_NO_LAZY_FETCH": "1"}


@dataclass(frozen=True, slots=True)
class Blob:
    """An object that is being read: ``chunks`` yields its content once, before the next object is asked for."""

    object_id: str
    size: int
    chunks: Iterator[bytes]


def read_blobs(
    names: Sequence[bytes],
    *,
    cwd: Path,
    git_dir: Path | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Iterator[tuple[bytes, Blob | None]]:
    """Yield each name with its blob, in order; None where there is no such object, or it is none.

    Parameters
    ----------
    names
        Object ids, or names such as ``HEAD:path``.
    git_dir
        The repository; by default the one that ``cwd`` lies in.

    Raises
    ------
    GitFailed
        If git stops before the last name.
    GitTimedOut, GitMissing
        If git does not answer.
    """
    if not names:
        return
    where = [] if git_dir is None else [f"--git-dir={git_dir}"]
    arguments = [*where, "cat-file", "--batch", "-z"]
    asked = b"".join([name + b"\0" for name in names])
    with stream_git(
        arguments, cwd=cwd, timeout_seconds=timeout_seconds, stdin=asked, extra_environment=NO_FETCH
    ) as output:
        for name in names:
            head = output.readline()
            if not head.endswith(b"\n"):
                raise _stopped(cwd)
            blob = _blob(head, name, output, cwd)
            yield name, blob
            if blob is not None:  # what the reader left unread
                for _ in blob.chunks:
                    pass


def _blob(head: bytes, name: bytes, output: IO[bytes], cwd: Path) -> Blob | None:
    rest = name.count(b"\n")
    if rest and head.startswith(name.partition(b"\n")[0]):
        # A name that spans lines is repeated as it is where there is no such object.
        whole = head + b"".join([output.readline() for _ in range(rest)])
        if whole[: len(name)] == name:
            return None
        raise _stopped(cwd)
    fields = head.rstrip(b"\n").rsplit(b" ", 2)
    if len(fields) != 3 or not fields[2].isdigit():
        return None  # "missing" or "ambiguous": nothing follows
    size = int(fields[2])
    chunks = _chunks(output, size, cwd)
    if fields[1] != b"blob":
        for _ in chunks:
            pass
        return None
    return Blob(fields[0].decode("ascii"), size, chunks)


def _chunks(output: IO[bytes], size: int, cwd: Path) -> Iterator[bytes]:
    remaining = size
    while remaining:
        chunk = output.read(min(remaining, CHUNK_BYTES))
        if not chunk:
            raise _stopped(cwd)
        remaining -= len(chunk)
        yield chunk
    if output.read(1) != b"\n":
        raise _stopped(cwd)


def _stopped(cwd: Path) -> GitFailed:
    return GitFailed(f"git cat-file in {str(cwd)!r} stopped before its end.")


def filtered(
    location: RepositoryLocation,
    object_id: str,
    path: bytes,
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> bytes | None:
    """Return a blob as git would write it to a path of the work tree: line ends and smudge filters applied.

    The attributes and filters are those of now. None if there is no such blob or the filter fails.

    Raises
    ------
    GitTimedOut, GitMissing
        If git does not answer.
    """
    found = run_git(
        ["cat-file", "--filters", b"--path=" + path, object_id],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        extra_environment=NO_FETCH,
        accepted=range(256),
        may_prompt=True,
    )
    return found.stdout if found.status == 0 else None


def entries_at(
    location: RepositoryLocation,
    commit: str,
    paths: Sequence[bytes],
    *,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Mapping[bytes, tuple[str, str]]:
    """Return mode and object id of those paths that a commit has, files, symlinks and submodules alike.

    Raises
    ------
    GitFailed
        If there is no such commit.
    GitTimedOut, GitMissing
        If git does not answer.
    """
    found: dict[bytes, tuple[str, str]] = {}
    # Names are arguments here: as many as surely fit on a command line.
    for start in range(0, len(paths), _PATHS_PER_CALL):
        wanted = paths[start : start + _PATHS_PER_CALL]
        output = run_git(
            ["--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--", *wanted],
            cwd=location.run_directory,
            timeout_seconds=timeout_seconds,
            extra_environment=NO_FETCH,
        )
        for line in output.stdout.split(b"\0"):
            facts, tab, path = line.partition(b"\t")
            if tab:
                mode, kind, object_id = facts.decode("ascii").split(" ")
                if kind != "tree":
                    found[path] = (mode, object_id)
    return found


def submodules_at(
    location: RepositoryLocation, commit: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> list[bytes]:
    """Return where a commit has submodules: paths whose content is another repository's."""
    output = run_git(
        ["ls-tree", "-r", "-z", "--full-tree", commit],
        cwd=location.run_directory,
        timeout_seconds=timeout_seconds,
        extra_environment=NO_FETCH,
    )
    lines = (line for line in output.stdout.split(b"\0") if line.startswith(b"160000 "))
    return [line.partition(b"\t")[2] for line in lines]
