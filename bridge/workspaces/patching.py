"""The text of what differs between a stamp and now, where both contents are known. Nothing is guessed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bridge.git.contents import open_unfollowed
from bridge.git.gathering import Gathered, gather
from bridge.git.history import existing_commits
from bridge.git.manifest import ContentKind, ManifestRow
from bridge.git.objects import entries_at, filtered, read_blobs
from bridge.git.patches import TextPatch, text_patch
from bridge.git.paths import join, plain_path
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.semantics.stamps import UNBORN
from bridge.workspaces.materialising import Behind, head_now
from bridge.workspaces.pathchanges import PathDifference

#: Largest content, on either side, whose text is compared (1 MiB).
MAX_PATCH_FILE_BYTES: Final = 1024 * 1024
#: Paths whose text is compared; the others are counted.
MAX_PATCH_FILES: Final = 300
#: Text of all patches together (4 MiB); the paths after it are named without text.
MAX_PATCH_BYTES: Final = 4 * 1024 * 1024

_LINK_MODE: Final = "120000"
_REPOSITORY_MODE: Final = "160000"


class PatchStatus(StrEnum):
    """Whether a path has text to show, or why not."""

    TEXT = "text"
    #: At least one side is no text.
    BINARY = "binary"
    #: The bytes are the same; something else about the path differs.
    SAME = "same"
    #: The content of one side is not known; ``reason`` says why.
    UNKNOWN = "unknown"
    #: One side is larger than what is compared, or all patches before it took the room.
    TOO_LARGE = "too_large"
    #: A submodule or nested repository.
    REPOSITORY = "repository"


@dataclass(frozen=True, slots=True)
class Side:
    """A path at one moment. ``content`` is None when absent or not known; ``problem`` says which."""

    content: bytes | None = None
    mode: str | None = None
    problem: PatchStatus | None = None
    reason: str = ""

    @property
    def is_absent(self) -> bool:
        return self.content is None and self.problem is None


@dataclass(frozen=True, slots=True)
class PathPatch:
    """How the content of one path differs from then to now; ``patch`` goes with the status TEXT."""

    difference: PathDifference
    status: PatchStatus
    then: Side
    now: Side
    patch: TextPatch | None = None

    @property
    def reason(self) -> str:
        return self.then.reason or self.now.reason

    def to_json(self) -> dict[str, Any]:
        difference, patch = self.difference, self.patch
        return {
            "path": plain_path(difference.path),
            "old_path": None if difference.old_path is None else plain_path(difference.old_path),
            "status": str(self.status),
            "reason": self.reason or None,
            "old_mode": self.then.mode,
            "new_mode": self.now.mode,
            "additions": None if patch is None else patch.additions,
            "deletions": None if patch is None else patch.deletions,
            "hunks": None if patch is None else [_hunk_json(hunk) for hunk in patch.hunks],
        }


def _hunk_json(hunk: Any) -> dict[str, Any]:
    return {
        "old_start": hunk.old_start,
        "old_lines": hunk.old_lines,
        "new_start": hunk.new_start,
        "new_lines": hunk.new_lines,
        "lines": [line.origin + line_text(line.content) for line in hunk.lines],
    }


def line_text(content: bytes) -> str:
    r"""Return a line as text; bytes that are not UTF-8 are shown as ``\xff``: for reading, not for applying."""
    return content.decode("utf-8", "backslashreplace")


def patches(
    behind: Behind,
    differences: Sequence[PathDifference],
    *,
    aside: Path,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> list[PathPatch]:
    """Return the text differences of paths between a stamp and the checkout as it is now.

    Contents of then come from the same places as for restoring files; of a path that was as committed, from the
    commit, as git's filters write it. Contents of now are read from the disk.

    Parameters
    ----------
    differences
        At most :data:`MAX_PATCH_FILES`; what is beyond is the caller's to count.
    aside
        An empty folder of the caller's own.

    Raises
    ------
    ValueError
        If there are more differences.
    GitFailed, GitTimedOut, GitMissing
        If git cannot be asked.
    """
    if len(differences) > MAX_PATCH_FILES:
        raise ValueError(f"at most {MAX_PATCH_FILES} paths are compared at once")
    old = [difference.old_path or difference.path for difference in differences]
    then = _Then(behind, old, aside, timeout_seconds)
    root = behind.location.root
    found: list[PathPatch] = []
    room = MAX_PATCH_BYTES
    for difference, path in zip(differences, old, strict=True):
        patch = _compare(difference, then.side(path), _now(root, difference.path), room)
        found.append(patch)
        if patch.patch is not None:
            room -= sum(len(line.content) for hunk in patch.patch.hunks for line in hunk.lines)
    return found


def _compare(difference: PathDifference, then: Side, now: Side, room: int) -> PathPatch:
    for side in (then, now):
        if side.problem is not None:
            return PathPatch(difference, side.problem, then, now)
    if then.content == now.content:
        return PathPatch(difference, PatchStatus.SAME, then, now)
    if room <= 0:
        full = Side(problem=PatchStatus.TOO_LARGE, reason="the patches before it took all the room", mode=now.mode)
        return PathPatch(difference, PatchStatus.TOO_LARGE, then, full)
    patch = text_patch(then.content or b"", now.content or b"")
    if patch.is_binary:
        return PathPatch(difference, PatchStatus.BINARY, then, now)
    return PathPatch(difference, PatchStatus.TEXT, then, now, patch)


class _Then:
    """What stood at some paths when the stamp was taken."""

    def __init__(self, behind: Behind, paths: Iterable[bytes], aside: Path, timeout_seconds: float) -> None:
        self._behind = behind
        self._timeout_seconds = timeout_seconds
        wanted = set(paths)
        self._rows: dict[bytes, list[ManifestRow]] = {}
        for row in behind.manifest.rows:
            if row.path in wanted:
                self._rows.setdefault(row.path, []).append(row)
        self._gathered = gather(
            (row for rows in self._rows.values() for row in rows),
            aside,
            store=behind.store,
            kept=behind.objects,
            location=behind.location,
            head=head_now(behind.location, timeout_seconds),
            timeout_seconds=timeout_seconds,
        )
        self._is_commit_missing = False
        self._committed = self._at_commit(sorted(wanted - self._rows.keys()))

    def side(self, path: bytes) -> Side:
        """Return the content of then at a path, or why it is not known."""
        rows = self._rows.get(path)
        if rows is not None:
            return self._listed(rows)
        if self._is_commit_missing:
            return Side(problem=PatchStatus.UNKNOWN, reason="commit_missing")
        entry = self._committed.get(path)
        return Side() if entry is None else self._from_commit(path, *entry)

    def _listed(self, rows: Sequence[ManifestRow]) -> Side:
        row = next((row for row in rows if row.is_present), None)
        if row is None:
            return Side()
        mode = row.worktree_mode.decode("ascii")
        if row.content_kind not in (ContentKind.FILE, ContentKind.LINK):
            return Side(mode=mode, problem=PatchStatus.REPOSITORY)
        digest = row.content_digest.decode("ascii")
        return _read_copy(self._gathered, digest, mode, str(self._behind.why_missing(digest, self._gathered)))

    def _at_commit(self, paths: Sequence[bytes]) -> Mapping[bytes, tuple[str, str]]:
        head = self._behind.state.head
        if head == UNBORN or not paths:
            return {}
        if not existing_commits(self._behind.location, [head], timeout_seconds=self._timeout_seconds):
            self._is_commit_missing = True
            return {}
        return entries_at(self._behind.location, head, paths, timeout_seconds=self._timeout_seconds)

    def _from_commit(self, path: bytes, mode: str, object_id: str) -> Side:
        if mode == _REPOSITORY_MODE:
            return Side(mode=mode, problem=PatchStatus.REPOSITORY)
        location = self._behind.location
        raw: bytes | None = None
        name = object_id.encode("ascii")
        for _, blob in read_blobs([name], cwd=location.run_directory, timeout_seconds=self._timeout_seconds):
            if blob is not None and blob.size > MAX_PATCH_FILE_BYTES:
                return Side(mode=mode, problem=PatchStatus.TOO_LARGE)
            raw = None if blob is None else b"".join(blob.chunks)
        if raw is None:
            return Side(mode=mode, problem=PatchStatus.UNKNOWN, reason="object_missing")
        if mode == _LINK_MODE:
            return Side(raw, mode)
        written = filtered(location, object_id, path, timeout_seconds=self._timeout_seconds)
        if written is None:
            return Side(mode=mode, problem=PatchStatus.UNKNOWN, reason="filter_failed")
        if len(written) > MAX_PATCH_FILE_BYTES:
            return Side(mode=mode, problem=PatchStatus.TOO_LARGE)
        return Side(written, mode)


def _read_copy(gathered: Gathered, digest: str, mode: str, reason: str) -> Side:
    copy = gathered.files.get(digest)
    if copy is None:
        return Side(mode=mode, problem=PatchStatus.UNKNOWN, reason=reason)
    if copy.stat().st_size > MAX_PATCH_FILE_BYTES:
        return Side(mode=mode, problem=PatchStatus.TOO_LARGE)
    return Side(copy.read_bytes(), mode)


def _now(root: Path, path: bytes) -> Side:
    """Read what stands at a path; symlinks are not followed."""
    absolute = join(root, path)
    try:
        found = os.lstat(absolute)
        if stat.S_ISLNK(found.st_mode):
            return Side(os.fsencode(Path(os.fsdecode(absolute)).readlink()), _LINK_MODE)
        if stat.S_ISDIR(found.st_mode):
            return Side(mode=_REPOSITORY_MODE, problem=PatchStatus.REPOSITORY)
        mode = "100755" if found.st_mode & stat.S_IXUSR else "100644"
        if not stat.S_ISREG(found.st_mode):
            return Side(problem=PatchStatus.UNKNOWN, reason="not_a_file")
        with os.fdopen(open_unfollowed(absolute), "rb") as file:
            content = file.read(MAX_PATCH_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Side()
    except OSError as error:
        return Side(problem=PatchStatus.UNKNOWN, reason=error.strerror or "unreadable")
    if len(content) > MAX_PATCH_FILE_BYTES:
        return Side(mode=mode, problem=PatchStatus.TOO_LARGE)
    return Side(content, mode)
