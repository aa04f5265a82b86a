"""The files behind a stamp, as a new worktree: what is known is put there exactly, what is not is listed.

In three steps. Everything is looked up, proven by its digest and copied aside; then a worktree is made, detached
at the stamped commit, and what differed from it is applied; then the result is looked at with the same eyes as the
stamp. Before the second step nothing is written anywhere but aside, and a failure within it removes what it made.
A path whose content is not known is absent: the commit's content in its place would be a guess.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bridge.foundation.clock import Clock
from bridge.foundation.errors import BridgeError
from bridge.git.applying import Blocked, apply_file, clear_path
from bridge.git.contentstore import ContentStore
from bridge.git.errors import NotARepository
from bridge.git.gathering import Gathered, Source, gather
from bridge.git.history import existing_commits
from bridge.git.manifest import ContentKind, Manifest, ManifestRow
from bridge.git.objects import submodules_at
from bridge.git.observe import observe
from bridge.git.paths import plain_path
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.staging import StagedEntry, stage
from bridge.git.worktrees import add_detached, remove_worktree
from bridge.semantics.stamps import UNBORN, RepositoryState
from bridge.workspaces.errors import DestinationUnusable, FilesNotWritten
from bridge.workspaces.models import KeptState, KeptStatus

#: Unknown paths that the JSON of a report lists; all are counted.
MAX_LISTED_MISSING: Final = 1_000
_WITH_CONTENT: Final = (ContentKind.FILE, ContentKind.LINK)


class MissingReason(StrEnum):
    """Why a path is not as it was."""

    #: Contents were not kept when the stamp was taken, and nothing has them now.
    NOT_KEPT = "not_kept"
    #: It was left out because of the limits on what is kept for one stamp.
    OVER_LIMIT = "over_limit"
    #: It was no longer what had been stamped when it was to be kept.
    CHANGED = "changed"
    #: It was kept, and the store does not have it any more.
    DAMAGED = "damaged"
    #: A submodule or nested repository: its files are its own.
    REPOSITORY = "repository"
    #: The stamped commit is not in the repository any more, and with it everything that was not changed then.
    COMMIT = "commit_missing"
    #: What was staged is not in the repository any more; the file itself is there.
    STAGED = "staged_missing"
    #: It cannot be put there, because of what stands in its way.
    BLOCKED = "blocked"
    #: It was put there and git sees it otherwise: settings or filters are not what they were.
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that is not as it was; ``path`` is None where no path can be named."""

    path: bytes | None
    reason: MissingReason
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        path = None if self.path is None else plain_path(self.path)
        return {"path": path, "reason": str(self.reason), "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Materialised:
    """What stands at the new place.

    Parameters
    ----------
    is_worktree
        Whether it is a worktree of the repository; else a plain folder, since there is no commit to make one at.
    applied
        Paths that differed from the commit and are as they were: written, or absent.
    sources
        How many contents came from where.
    missing
        Everything that is not as it was.
    """

    path: Path
    is_worktree: bool
    applied: int
    sources: Mapping[str, int]
    missing: tuple[Missing, ...]

    def to_json(self, *, max_missing: int = MAX_LISTED_MISSING) -> dict[str, Any]:
        return {
            "path": plain_path(os.fsencode(self.path)),
            "worktree": self.is_worktree,
            "complete": not self.missing,
            "applied": self.applied,
            "sources": dict(self.sources),
            "missing": [missing.to_json() for missing in self.missing[:max_missing]],
            "missing_count": len(self.missing),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What a stamp knows about the files, and where their contents may be.

    Parameters
    ----------
    state, manifest
        What was stamped.
    location
        The repository, at a checkout of it if there is one.
    kept
        What was kept for the state; None if nothing was.
    objects
        Object ids in ``store`` by content digest.
    """

    state: RepositoryState
    manifest: Manifest
    location: RepositoryLocation
    store: ContentStore
    kept: KeptState | None
    objects: Mapping[str, str]

    def why_missing(self, digest: str, gathered: Gathered) -> MissingReason:
        """Return why a content that the manifest names is not known."""
        if digest in gathered.damaged:
            return MissingReason.DAMAGED
        if self.kept is None:
            return MissingReason.NOT_KEPT
        reasons = {
            KeptStatus.OVER_LIMIT: MissingReason.OVER_LIMIT,
            KeptStatus.INCOMPLETE: MissingReason.CHANGED,
            KeptStatus.COMPLETE: MissingReason.DAMAGED,
        }
        return reasons[self.kept.status]


def require_destination(path: Path) -> Path:
    """Return the absolute path if new files may be put there.

    Raises
    ------
    DestinationUnusable
        If something is there other than an empty folder, or it lies inside a repository's worktree or git directory.
    """
    # The folder it goes into is resolved, its own name is not: a symlink there is something that is there.
    absolute = path.absolute()
    target = absolute.resolve() if absolute.name in {"", ".."} else absolute.parent.resolve() / absolute.name
    shown = plain_path(os.fsencode(target))
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir() or any(target.iterdir())):
        raise DestinationUnusable(
            f"{shown} exists and is not an empty folder. Nothing was written.",
            details={"path": shown, "reason": "exists"},
        )
    ancestor = target
    while not ancestor.is_dir():
        ancestor = ancestor.parent
    try:
        around = discover(ancestor)
    except NotARepository:
        return target
    inside = plain_path(os.fsencode(around.worktree_root or around.git_dir))
    raise DestinationUnusable(
        f"{shown} lies inside the repository {inside}, which would see it as changed. Nothing was written.",
        details={"path": shown, "reason": "inside_repository", "repository": inside},
    )


def materialise(
    behind: Behind, into: Path, *, aside: Path, clock: Clock, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> Materialised:
    """Put the files behind a stamp into a new place. The checkout, its index, branch and refs stay as they are.

    Parameters
    ----------
    into
        Where to; must not exist, or be an empty folder.
    aside
        An empty folder of the caller's own for copies; they may be removed afterwards.
    timeout_seconds
        Time limit of each question to git; checking files out has its own.

    Raises
    ------
    DestinationUnusable
        As :func:`require_destination`.
    FilesNotWritten
        If writing fails; what had been made is removed.
    GitFailed, GitTimedOut, GitMissing
        If git cannot make the worktree; nothing is left of it.
    """
    target = require_destination(into)
    state, location = behind.state, behind.location
    has_commit = state.head != UNBORN and bool(
        existing_commits(location, [state.head], timeout_seconds=timeout_seconds)
    )
    missing: list[Missing] = []
    if state.head != UNBORN and not has_commit:
        missing.append(Missing(None, MissingReason.COMMIT, f"commit {state.head} is not in the repository"))
    gathered = gather(
        behind.manifest.rows,
        aside,
        store=behind.store,
        kept=behind.objects,
        location=location,
        head=head_now(location, timeout_seconds),
        timeout_seconds=timeout_seconds,
    )
    plan = _Plan(behind, gathered)
    missing += plan.missing
    if has_commit:
        missing += _clean_submodules(behind, timeout_seconds)
    written = _write(behind, target, plan, is_worktree=has_commit, timeout_seconds=timeout_seconds)
    missing += written
    if has_commit:
        missing += _differences(behind, target, missing, clock=clock, timeout_seconds=timeout_seconds)
    counts = {str(source): 0 for source in Source}
    for source in gathered.sources.values():
        counts[str(source)] += 1
    unknown = {item.path for item in missing}
    applied = len({row.path for row in behind.manifest.rows} - unknown)
    return Materialised(target, has_commit, applied, counts, tuple(missing))


class _Plan:
    """What is to be done at the new place, decided before anything is."""

    def __init__(self, behind: Behind, gathered: Gathered) -> None:
        self.clear: list[bytes] = []
        self.files: list[tuple[ManifestRow, Path]] = []
        self.staged: list[StagedEntry] = []
        self.missing: list[Missing] = []
        for path, rows in _by_path(behind.manifest.rows).items():
            self._plan_file(path, rows, behind, gathered)
            self.staged += [StagedEntry(row) for row in rows if row.modes]

    def _plan_file(self, path: bytes, rows: Sequence[ManifestRow], behind: Behind, gathered: Gathered) -> None:
        present = next((row for row in rows if row.is_present), None)
        if present is None:
            self.clear.append(path)
        elif present.content_kind in _WITH_CONTENT:
            self.clear.append(path)
            digest = present.content_digest.decode("ascii")
            copy = gathered.files.get(digest)
            if copy is None:
                self.missing.append(Missing(path, behind.why_missing(digest, gathered)))
            else:
                self.files.append((present, copy))
        elif present.content_kind is ContentKind.REPOSITORY:
            self.missing.append(Missing(path, MissingReason.REPOSITORY, "a repository of its own"))


def _by_path(rows: Iterable[ManifestRow]) -> dict[bytes, list[ManifestRow]]:
    found: dict[bytes, list[ManifestRow]] = {}
    for row in rows:
        found.setdefault(row.path, []).append(row)
    return found


def head_now(location: RepositoryLocation, timeout_seconds: float) -> str | None:
    """Return the commit that a checkout is at; None before the first one."""
    from_head = existing_commits(location, ["HEAD"], timeout_seconds=timeout_seconds)
    return next(iter(from_head), None)


def _clean_submodules(behind: Behind, timeout_seconds: float) -> list[Missing]:
    """Return the submodules of the commit that were not listed: a worktree has an empty folder for each."""
    listed = {row.path for row in behind.manifest.rows}
    found = submodules_at(behind.location, behind.state.head, timeout_seconds=timeout_seconds)
    return [Missing(path, MissingReason.REPOSITORY, "a submodule") for path in found if path not in listed]


def _write(behind: Behind, target: Path, plan: _Plan, *, is_worktree: bool, timeout_seconds: float) -> list[Missing]:
    """Make the new place and fill it; on any failure nothing of it is left."""
    try:
        if target.is_dir():
            target.rmdir()
        if is_worktree:
            made = add_detached(behind.location, target, behind.state.head)
        else:
            target.mkdir(parents=True)
    except OSError as error:
        raise _not_written(target, error) from error
    try:
        missing = _fill(target, plan)
        if is_worktree:
            absent = stage(made, plan.staged, timeout_seconds=timeout_seconds)
            missing += [Missing(path, MissingReason.STAGED) for path in absent]
    except BaseException as error:
        # It is ours, made a moment ago, and holds copies only.
        if is_worktree:
            remove_worktree(behind.location, target, is_forced=True)
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise _not_written(target, error) from error
        raise
    return missing


def _fill(target: Path, plan: _Plan) -> list[Missing]:
    root = os.fsencode(target)
    missing: list[Missing] = []
    # All of what is in the way first: a folder may have become a file, or a file a folder.
    for path in plan.clear:
        clear_path(root, path)
    for row, copy in plan.files:
        try:
            apply_file(root, row, copy)
        except Blocked as blocked:
            missing.append(Missing(row.path, MissingReason.BLOCKED, str(blocked)))
    return missing


def _not_written(target: Path, error: OSError) -> FilesNotWritten:
    shown = plain_path(os.fsencode(target))
    return FilesNotWritten(
        f"{shown} could not be written: {error.strerror or error}. What had been made there was removed.",
        details={"path": shown, "reason": str(error.strerror or error)},
    )


def _differences(
    behind: Behind, target: Path, missing: Iterable[Missing], *, clock: Clock, timeout_seconds: float
) -> list[Missing]:
    """Look at the new worktree as the stamp did, and return what differs beyond what is known to be missing."""
    try:
        seen = observe(target, clock=clock, timeout_seconds=timeout_seconds)
    except BridgeError as error:
        return [Missing(None, MissingReason.DIFFERS, f"it could not be compared: {error.message}")]
    if seen.manifest is None:
        return [Missing(seen.unknown_path, MissingReason.DIFFERS, f"it could not be compared: {seen.detail}")]
    known = {item.path for item in missing}
    then, now = _by_path(behind.manifest.rows), _by_path(seen.manifest.rows)
    paths = sorted(path for path in then.keys() | now.keys() if then.get(path) != now.get(path))
    return [Missing(path, MissingReason.DIFFERS) for path in paths if path not in known]
