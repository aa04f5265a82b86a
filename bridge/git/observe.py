"""Taking a stamp: one git status, the contents of what it lists, and what the git directory says about HEAD.

git's answer is the truth about which paths differ; contents are digested here. What cannot be told exactly makes
the observation unknown, with a reason and a path, and never "clean".
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from bridge.foundation.clock import Clock, format_timestamp
from bridge.foundation.hashing import digest_hex
from bridge.git import contents, porcelain
from bridge.git.digestcache import DigestCache, Identity, Memory, is_settled
from bridge.git.errors import GitFailed, GitMissing, GitTimedOut, NotARepository
from bridge.git.manifest import ABSENT_MODE, ContentKind, Manifest, ManifestRow
from bridge.git.meaning import MeaningSettings, meaning_settings
from bridge.git.paths import display_path, plain_path
from bridge.git.process import (
    DEFAULT_TIMEOUT_SECONDS,
    GitOutput,
    begin_git,
    child_environment,
    run_git,
    stderr_tail,
)
from bridge.git.repository import RepositoryLocation, discover, read_pointer
from bridge.git.unobserved import begin_unobserved
from bridge.semantics.stamps import UNBORN, RepositoryState, Stamp, UnknownReason

#: How often the whole observation is made anew when files change under it.
OBSERVE_ATTEMPTS = 3
#: How deep repositories within repositories are followed.
MAX_NESTED_DEPTH = 16

STATUS_COMMAND = (
    "-c",
    "status.showStash=false",
    "-c",
    "status.relativePaths=false",
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--no-ahead-behind",
    "--untracked-files=all",
    "--ignored=no",
    "--ignore-submodules=none",
    "--no-renames",
)
_REPOSITORY_MODE = b"160000"
_LINK_MODE = b"120000"
_FILE_MODES = (b"100644", b"100755")
_UNOPENED = re.compile(rb"^warning: could not open directory '(.*)': (.*)$", re.MULTILINE)
# What git prints (by perror) when it cannot look at a listed path, and then leaves it out. Only these: filters
# write to the same place whatever they like.
_UNSEEN_ERRORS = "|".join(
    re.escape(os.strerror(getattr(errno, name)))
    for name in (
        "EACCES",
        "EPERM",
        "EIO",
        "ELOOP",
        "ENAMETOOLONG",
        "EOVERFLOW",
        "ESTALE",
        "ENOTCONN",
        "ENODEV",
        "ENXIO",
        "ETIMEDOUT",
        "EHOSTDOWN",
        "ENOMEM",
        "EMFILE",
        "ENFILE",
        "EREMOTEIO",
        "EBADMSG",
        "EUCLEAN",
    )
    if hasattr(errno, name)
)
_UNSEEN = re.compile(rb"^(?!warning: |error: |fatal: |hint: )(.+): (" + _UNSEEN_ERRORS.encode() + rb")$", re.MULTILINE)
_DOUBTFUL = re.compile(rb"^(?:error|fatal): .*$", re.MULTILINE)


@dataclass(frozen=True)
class Observation:
    """What was seen at a path.

    Exactly one of ``state`` and ``unknown`` is set; ``manifest`` goes with ``state``.

    Parameters
    ----------
    unknown_path
        Bytes of the path, relative to the top level, that could not be told.
    detail
        What git or the system said about it; text for people.
    observed_at
        When the observation began.
    unobserved
        Paths that the index hides from status; empty unless asked for.
    location
        Where the repository is, as far as it was found.
    confirmed_at
        Until when a watch vouches that nothing happened since; None for an answer that was made for its request.
    """

    state: RepositoryState | None
    manifest: Manifest | None
    observed_at: datetime
    unknown: UnknownReason | None = None
    unknown_path: bytes | None = None
    detail: str | None = None
    unobserved: tuple[bytes, ...] = ()
    location: RepositoryLocation | None = None
    confirmed_at: datetime | None = None

    @property
    def is_clean(self) -> bool:
        """Whether the state is known and git status prints nothing."""
        return self.manifest is not None and self.manifest.is_clean

    @property
    def stamp(self) -> Stamp:
        """The observation as an entry carries it."""
        return Stamp(
            state_digest=None if self.state is None else self.state.state_digest,
            unknown_reason=self.unknown,
            unknown_path=None if self.unknown_path is None else plain_path(self.unknown_path),
            unknown_detail=self.detail,
            observed_at=format_timestamp(self.observed_at),
        )


class Look(Protocol):
    """What observes: :func:`observe`, something that remembers for it, or a test's stand-in."""

    def __call__(
        self,
        path: Path | None,
        *,
        clock: Clock,
        timeout_seconds: float,
        include_unobserved: bool = False,
        digests: DigestCache | None = None,
        read_all: bool = False,
    ) -> Observation: ...


@dataclass(frozen=True, slots=True)
class _Seen:
    """One reading of a worktree."""

    location: RepositoryLocation
    status: porcelain.StatusOutput
    manifest: Manifest
    settings: MeaningSettings
    operation: str | None
    hidden: tuple[bytes, ...]


class _Unknown(Exception):
    """Carries the reason out of the depths of an observation."""

    def __init__(self, reason: UnknownReason, *, path: bytes | None = None, detail: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path
        self.detail = detail


@dataclass(slots=True)
class _Run:
    """What all parts of one observation share."""

    deadline: float
    timeout_seconds: float
    digests: DigestCache | None = None
    is_relying: bool = True
    #: Whether what the index hides is asked for too, of the outermost repository.
    with_hidden: bool = False
    environment: dict[str, str] = field(default_factory=child_environment)
    #: Where the outermost repository is, once that is known.
    location: RepositoryLocation | None = None

    def remaining(self) -> float:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise _Unknown(UnknownReason.TIMED_OUT, detail=self.limit_text())
        return seconds

    def limit_text(self) -> str:
        return f"not done within {self.timeout_seconds:g} s"


def observe(
    path: Path | None,
    *,
    clock: Clock,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    include_unobserved: bool = False,
    digests: DigestCache | None = None,
    read_all: bool = False,
) -> Observation:
    """Return the exact state of the worktree that ``path`` lies in, or why it cannot be told; never raises for it.

    Parameters
    ----------
    path
        The top level or anything below it, also through symlinks; None when a session has no workspace.
    timeout_seconds
        Time limit of the whole observation.
    include_unobserved
        Also list what the index hides (assume-unchanged, skip-worktree); one more git call unless remembered.
    digests
        Remembers the digests of files; without it every listed file is read.
    read_all
        Read every listed file although a digest is remembered, and remember the new one.
    """
    observed_at = clock.now()
    run = _Run(time.monotonic() + timeout_seconds, timeout_seconds, digests, not read_all, include_unobserved)
    if path is None or not os.path.exists(path):
        detail = None if path is None else f"{str(path)!r} does not exist"
        return Observation(None, None, observed_at, UnknownReason.NO_PATH, detail=detail)
    try:
        seen = _look(path if os.path.isdir(path) else path.parent, run, depth=0)
    except _Unknown as unknown:
        return Observation(None, None, observed_at, unknown.reason, unknown.path, unknown.detail, location=run.location)
    return Observation(_state(seen), seen.manifest, observed_at, unobserved=seen.hidden, location=seen.location)


def _discover(path: Path, run: _Run) -> RepositoryLocation:
    try:
        location = discover(path, timeout_seconds=run.remaining())
    except NotARepository as error:
        raise _Unknown(UnknownReason.NOT_A_REPOSITORY, detail=error.message) from error
    if run.location is None:
        run.location = location
    if location.is_bare:
        raise _Unknown(UnknownReason.BARE_REPOSITORY, detail=f"{str(path)!r} has no work tree")
    return location


def _state(seen: _Seen) -> RepositoryState:
    return RepositoryState(
        repository_id=seen.location.repository_id,
        worktree_id=seen.location.worktree_id,
        head=UNBORN if seen.status.head is None else seen.status.head.decode("ascii"),
        ref=_ref(seen.location, seen.status.branch),
        operation=seen.operation,
        dirty_hash=seen.manifest.dirty_hash,
        settings_digest=seen.settings.digest,
    )


def _ref(location: RepositoryLocation, branch: bytes | None) -> str | None:
    if branch is None:
        return None
    if branch.startswith(b"refs/") or branch == b"(null)":
        # A branch may be called "refs/…", and HEAD may point outside refs/heads (for which git 2.39 may print
        # "(null)"): the file tells them apart.
        head = read_pointer(location.git_dir / "HEAD") or b""
        if head.startswith(b"ref:"):
            return plain_path(head[4:].strip())
    return plain_path(b"refs/heads/" + branch)


def operation_in_progress(location: RepositoryLocation) -> str | None:
    """Return ``merge``, ``rebase``, ``am``, ``cherry-pick``, ``revert`` or ``bisect`` if one was begun, else None."""
    names = frozenset(os.listdir(location.git_dir))
    if "MERGE_HEAD" in names:
        return "merge"
    if "rebase-merge" in names:
        return "rebase"
    if "rebase-apply" in names:
        return "am" if (location.git_dir / "rebase-apply" / "applying").exists() else "rebase"
    if "CHERRY_PICK_HEAD" in names:
        return "cherry-pick"
    if "REVERT_HEAD" in names:
        return "revert"
    if "sequencer" in names:
        todo = read_pointer(location.git_dir / "sequencer" / "todo") or b""
        return "revert" if todo.startswith(b"revert") else "cherry-pick"
    return "bisect" if "BISECT_LOG" in names else None


def _look(folder: Path, run: _Run, *, depth: int) -> _Seen:
    """Read the worktree that a folder lies in; anew, a few times, when a listed path moves under the reading."""
    previous = b""
    for attempt in range(1, OBSERVE_ATTEMPTS + 1):
        try:
            location, settings, operation, output, hidden = _ask(
                folder, run, with_hidden=run.with_hidden and depth == 0
            )
            is_stable, previous = output == previous, output
            status = porcelain.parse_status(output)
            manifest = _manifest(status.lines, location, run, settings, depth=depth, is_stable=is_stable)
            return _Seen(location, status, manifest, settings, operation, hidden)
        except (GitFailed, GitTimedOut, GitMissing) as error:
            raise _from_git(error, run) from error
        except porcelain.PorcelainMalformed as error:
            raise _Unknown(UnknownReason.GIT_FAILED, detail=str(error)) from error
        except contents.DeadlinePassed as error:
            raise _Unknown(UnknownReason.TIMED_OUT, detail=run.limit_text()) from error
        except contents.ContentUnreadable as error:
            raise _Unknown(UnknownReason.UNREADABLE_PATH, path=error.path, detail=error.why) from error
        except contents.ContentVanished as error:
            if attempt == OBSERVE_ATTEMPTS:
                raise _Unknown(UnknownReason.UNREADABLE_PATH, path=error.path, detail=error.why) from error
    raise AssertionError("unreachable")


def _ask(
    folder: Path, run: _Run, *, with_hidden: bool
) -> tuple[RepositoryLocation, MeaningSettings, str | None, bytes, tuple[bytes, ...]]:
    """Run git status, and while it works find out what takes reading a few small files, or another git."""
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(begin_git(STATUS_COMMAND, cwd=folder, environment=run.environment))
        location = _discover(folder, run)
        asking = stack.enter_context(begin_unobserved(location, run.environment)) if with_hidden else None
        settings = meaning_settings(location, run.environment, timeout_seconds=run.remaining())
        try:
            operation = operation_in_progress(location)
        except OSError as error:
            raise _Unknown(UnknownReason.GIT_FAILED, detail=f"{location.git_dir}: {error.strerror}") from error
        output = _checked(running.finish(run.remaining()))
        hidden = () if asking is None else asking.finish(run.remaining())
        return location, settings, operation, output, hidden


def read_status(
    location: RepositoryLocation, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> porcelain.StatusOutput:
    """Return git's status without contents, for callers that need the list and not the stamp.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git gives no answer, or one that leaves something out.
    BareRepository
        If there is no work tree.
    """
    root = location.root
    run = _Run(time.monotonic() + timeout_seconds, timeout_seconds)
    try:
        output = run_git(
            STATUS_COMMAND, cwd=location.run_directory, timeout_seconds=timeout_seconds, environment=run.environment
        )
        status = porcelain.parse_status(_checked(output))
        _ = status.rows  # parsed here, where what is wrong with a line gets a type
    except _Unknown as unknown:
        name = "" if unknown.path is None else f" about {display_path(unknown.path)}"
        raise GitFailed(
            f"git status in {str(root)!r} cannot tell the state of all files{name}: {unknown.detail}.",
            details={"stderr": unknown.detail, "path": None if unknown.path is None else plain_path(unknown.path)},
        ) from unknown
    except porcelain.PorcelainMalformed as error:
        raise GitFailed(f"git status in {str(root)!r} gave an answer that cannot be read: {error}.") from error
    return status


def _checked(output: GitOutput) -> bytes:
    if output.stderr:
        _check_warnings(output.stderr)
    return output.stdout


def _check_warnings(stderr: bytes) -> None:
    """Refuse an answer that git itself qualified: it then leaves paths out, or compares without a filter."""
    match = _UNOPENED.search(stderr) or _UNSEEN.search(stderr)
    if match is not None:
        raise _Unknown(
            UnknownReason.UNREADABLE_PATH,
            path=match[1].removesuffix(b"/"),
            detail=match[2].decode("utf-8", "backslashreplace"),
        )
    doubt = _DOUBTFUL.search(stderr)
    if doubt is not None:
        raise _Unknown(UnknownReason.GIT_FAILED, detail=stderr_tail(doubt[0]))


def _manifest(
    lines: list[bytes],
    location: RepositoryLocation,
    run: _Run,
    settings: MeaningSettings,
    *,
    depth: int,
    is_stable: bool,
) -> Manifest:
    """Return the manifest of what git listed, and have the cache remember it."""
    root, cache = os.fsencode(location.root), run.digests
    started_ns = 0 if cache is None else cache.now_ns()
    past = Memory() if cache is None else cache.recall(root)
    digests = past.digests if run.is_relying else {}
    known = past.rows if run.is_relying and past.settings_digest == settings.digest else {}
    rows: list[ManifestRow] = []
    kept: dict[bytes, tuple[Identity | None, ManifestRow]] = {}
    misses = 0
    with contents.ContentReader(root, run.deadline, digests) as reader:
        reading = _Reading(root, reader, run, settings, depth, is_stable)
        for line in lines:
            found = known.get(line)
            if found is None or not _stands(found, reader):
                misses += 1
                found = _row(porcelain.parse_row(line), reading)
                if not _is_lasting(found, started_ns):
                    rows.append(found[1])
                    continue
            kept[line] = found
            rows.append(found[1])
    if past.manifest is not None and not misses and len(rows) == len(known) == len(past.manifest.rows):
        return past.manifest
    manifest = Manifest.of(rows)
    if cache is not None and (misses or len(kept) != len(known)):
        by_path = {row.path: (identity, row.content_digest) for identity, row in kept.values() if identity is not None}
        cache.remember(root, Memory(by_path, kept, settings.digest, manifest))
    return manifest


def _stands(found: tuple[Identity | None, ManifestRow], reader: contents.ContentReader) -> bool:
    """Return whether a remembered row is what would be made now, given that git printed the same line."""
    identity, row = found
    return not reader.has_repository(row.path) if identity is None else reader.is_unchanged(row.path, identity)


def _is_lasting(found: tuple[Identity | None, ManifestRow], started_ns: int) -> bool:
    """Return whether a row may be remembered: a file's that is at rest, and that of a path that git calls deleted."""
    identity, row = found
    if identity is not None:
        return is_settled(identity, started_ns)
    return row.worktree_mode == ABSENT_MODE and not row.is_present


@dataclass(frozen=True, slots=True)
class _Reading:
    """What all rows of one reading share; ``is_stable`` if git has now said the same twice."""

    root: bytes
    reader: contents.ContentReader
    run: _Run
    settings: MeaningSettings
    depth: int
    is_stable: bool


def _row(row: porcelain.StatusRow, reading: _Reading) -> tuple[Identity | None, ManifestRow]:
    """Return the manifest's row of a listed path, and by what its file can be known again."""
    kind, digest, mode, identity = _content(row, reading)
    return identity, ManifestRow(
        row.path,
        row.index_status,
        row.worktree_status,
        row.submodule,
        row.modes,
        row.object_ids,
        mode,
        kind,
        digest,
    )


def _content(row: porcelain.StatusRow, reading: _Reading) -> tuple[ContentKind, bytes, bytes, Identity | None]:
    """Return what stands at a listed path: kind, digest, mode, identity."""
    if row.worktree_mode == ABSENT_MODE:
        # git takes no notice of a repository without a commit that stands in a tracked file's place.
        if not reading.reader.has_repository(row.path) or not _is_top_level(reading.root + b"/" + row.path):
            return ContentKind.ABSENT, b"", ABSENT_MODE, None
        kind, digest = _nested(reading.root, row, reading.run, depth=reading.depth + 1)
        return kind, digest, ABSENT_MODE, None
    if row.worktree_mode == _REPOSITORY_MODE or row.is_nested:
        kind, digest = _nested(reading.root, row, reading.run, depth=reading.depth + 1)
        return kind, digest, _REPOSITORY_MODE, None
    try:
        found = reading.reader.content(row.path)
    except contents.ContentVanished:
        if reading.is_stable and row.worktree_status == b".":
            # git said twice that the disk agrees with the index where there is no file: skip-worktree or
            # assume-unchanged. It is absent, and that is what the row says.
            return ContentKind.ABSENT, b"", row.worktree_mode, None
        raise
    if row.kind != b"?":
        return found.kind, found.digest, row.worktree_mode, found.identity
    if found.kind is ContentKind.LINK:
        return found.kind, found.digest, _LINK_MODE, None
    is_executable = reading.settings.has_file_mode and found.mode & 0o100
    return found.kind, found.digest, _FILE_MODES[bool(is_executable)], found.identity


def _is_top_level(folder: bytes) -> bool:
    try:
        return discover(Path(os.fsdecode(folder))).run_directory == Path(os.fsdecode(folder))
    except NotARepository:
        return False  # what is called .git there is none


def _nested(root: bytes, row: porcelain.StatusRow, run: _Run, *, depth: int) -> tuple[ContentKind, bytes]:
    """Return the digest of a submodule or nested repository: its HEAD and its own dirty hash."""
    folder = Path(os.fsdecode(root + b"/" + row.path))
    if depth > MAX_NESTED_DEPTH:
        raise _Unknown(
            UnknownReason.UNSUPPORTED_FEATURE,
            path=row.path,
            detail=f"repositories nest deeper than {MAX_NESTED_DEPTH} levels",
        )
    if not os.path.lexists(folder / ".git"):
        if not os.path.lexists(folder):
            raise contents.ContentVanished(row.path)
        return ContentKind.UNINITIALISED, b""
    try:
        if _discover(folder, run).run_directory != folder.resolve():
            raise _Unknown(UnknownReason.UNSUPPORTED_FEATURE, detail="its .git is not a git directory")
        seen = _look(folder, run, depth=depth)
    except _Unknown as unknown:
        inner = row.path if unknown.path is None else row.path + b"/" + unknown.path
        raise _Unknown(unknown.reason, path=inner, detail=unknown.detail) from unknown
    head = seen.status.head or UNBORN.encode()
    return ContentKind.REPOSITORY, digest_hex(head + b"\n" + seen.manifest.dirty_hash.encode()).encode()


def _from_git(error: GitFailed | GitTimedOut | GitMissing, run: _Run) -> _Unknown:
    if isinstance(error, GitTimedOut):
        return _Unknown(UnknownReason.TIMED_OUT, detail=run.limit_text())
    detail = str(error.details.get("stderr") or error.message)
    if "not a git repository" in detail:
        return _Unknown(UnknownReason.NOT_A_REPOSITORY, detail=detail)
    if "must be run in a work tree" in detail:
        return _Unknown(UnknownReason.BARE_REPOSITORY, detail=detail)
    if "repository extension" in detail or "Expected git repo version" in detail or "unknown object format" in detail:
        return _Unknown(UnknownReason.UNSUPPORTED_FEATURE, detail=detail)
    return _Unknown(UnknownReason.GIT_FAILED, detail=detail)
