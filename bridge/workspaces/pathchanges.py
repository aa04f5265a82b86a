"""What became of each path between two moments. Pure: manifests, commits and a few facts in, differences out.

A path that a manifest lists is as its row says. One that it does not list is as that moment's HEAD has it: clean,
or absent. What the two HEADs have is known from the commits between them. So every path has a before and an
after, whichever of the three it was found in, and appears once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from bridge.foundation.hashing import digest_hex
from bridge.git.history import ChangedPath
from bridge.git.manifest import CLEAN_DIRTY_HASH, ContentKind, Manifest, ManifestRow

_EMPTY_FILE = sha256(b"").hexdigest().encode()
#: Ids of the empty blob: equal emptiness says nothing about where a file came from.
_EMPTY_BLOBS = frozenset(
    {
        "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
        "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
    }
)
_NO_MODE = "000000"
_REPOSITORY_MODE = "160000"


class Change(StrEnum):
    """What became of a path."""

    #: It was not there and is now.
    APPEARED = "appeared"
    #: It was there and is, with other content, mode or status.
    CHANGED = "changed"
    #: It was there and is not.
    VANISHED = "vanished"
    #: It was deleted and is back, or was modified and is as HEAD has it.
    RESTORED = "restored"
    #: What differs, or differed from HEAD then, is in HEAD now.
    COMMITTED = "committed"
    #: It is on the disk still, but git ignores it now.
    IGNORED = "ignored"
    #: It has another name; ``old_path`` is the former one.
    RENAMED = "renamed"


class Status(StrEnum):
    """How a path stood at one moment."""

    CLEAN = "clean"
    ABSENT = "absent"
    MODIFIED = "modified"
    STAGED = "staged"
    STAGED_AND_MODIFIED = "staged and modified"
    UNTRACKED = "untracked"
    DELETED = "deleted"
    CONFLICTED = "conflicted"
    IGNORED = "ignored"
    UNKNOWN = "unknown"


class Standing(StrEnum):
    """Where a path that is not as it was stands now, as people ask for it."""

    #: As HEAD has it, or gone as HEAD has it, by commits between the two HEADs.
    COMMITTED = "committed"
    #: Other than HEAD has it: modified, staged, deleted, conflicted.
    UNCOMMITTED = "uncommitted"
    UNTRACKED = "untracked"
    IGNORED = "ignored"
    #: As HEAD has it, and had it: what was uncommitted or untracked then is no more.
    AS_HEAD = "as in HEAD"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PathDifference:
    """One path that is not as it was.

    Parameters
    ----------
    path, old_path
        Raw bytes, relative to the top level; ``old_path`` for a rename only.
    before, after
        How it stood then and stands now.
    is_committed
        Whether commits between the two HEADs touch it.
    is_content_changed
        Whether what is on the disk differs (being there or not counts); False if only git's view of it does.
    """

    path: bytes
    change: Change
    before: Status
    after: Status
    old_path: bytes | None = None
    is_committed: bool = False
    is_content_changed: bool = True

    @property
    def standing(self) -> Standing:
        """Where the path stands now."""
        if self.after in _STANDINGS:
            return _STANDINGS[self.after]
        return Standing.COMMITTED if self.is_committed else Standing.AS_HEAD


_STANDINGS = {
    Status.MODIFIED: Standing.UNCOMMITTED,
    Status.STAGED: Standing.UNCOMMITTED,
    Status.STAGED_AND_MODIFIED: Standing.UNCOMMITTED,
    Status.DELETED: Standing.UNCOMMITTED,
    Status.CONFLICTED: Standing.UNCOMMITTED,
    Status.UNTRACKED: Standing.UNTRACKED,
    Status.IGNORED: Standing.IGNORED,
    Status.UNKNOWN: Standing.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class DiskFact:
    """What is on the disk now at a path that git status does not list.

    ``digest`` is as in a manifest row; empty where nothing was digested.
    """

    is_present: bool
    kind: ContentKind = ContentKind.ABSENT
    digest: bytes = b""
    is_ignored: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a comparison rests on.

    Parameters
    ----------
    then, now
        The two manifests.
    commits
        Paths that differ between the two HEADs; None when that cannot be told (a commit is missing).
    disk
        Facts about paths that are not listed now and were then, or are not in HEAD any more.
    blobs
        Ids that files listed now would have as blobs; need not be complete.
    telling
        Untracked files long enough for equal content to mean that they were moved, not written twice.
    """

    then: Manifest
    now: Manifest
    commits: Sequence[ChangedPath] | None = ()
    disk: Mapping[bytes, DiskFact] = field(default_factory=dict)
    blobs: Mapping[bytes, str] = field(default_factory=dict)
    telling: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class _Version:
    """A path in one commit."""

    mode: str
    object_id: str


@dataclass(frozen=True, slots=True)
class _Step:
    """A path in the two HEADs; None where it is not."""

    old: _Version | None
    new: _Version | None


@dataclass(frozen=True, slots=True)
class _Side:
    """A path at one moment. ``row`` is what stands on the disk, if listed; ``is_present`` None is unknown."""

    status: Status
    is_present: bool | None
    row: ManifestRow | None = None
    rows: tuple[ManifestRow, ...] = ()


# How a path stands that is not listed: as HEAD has it, not in HEAD, or nobody knows.
_CLEAN = _Side(Status.CLEAN, is_present=True)
_ABSENT = _Side(Status.ABSENT, is_present=False)
_UNKNOWN = _Side(Status.UNKNOWN, is_present=None)


def differences(facts: Facts) -> list[PathDifference]:
    """Return every path that is not as it was, in the order of the paths; renames stand under the new name."""
    comparison = _Comparison(facts)
    found = {path: difference for path in comparison.candidates if (difference := comparison.of(path)) is not None}
    for old, new in comparison.renames(found):
        vanished, appeared = found.pop(old), found[new]
        found[new] = PathDifference(
            new,
            Change.RENAMED,
            vanished.before,
            appeared.after,
            old_path=old,
            is_committed=vanished.is_committed or appeared.is_committed,
        )
    return [found[path] for path in sorted(found)]


def unlisted_now(then: Manifest, now: Manifest, commits: Sequence[ChangedPath] | None) -> set[bytes]:
    """Return the paths about which :attr:`Facts.disk` should know: gone from the list, or from HEAD."""
    listed = {row.path for row in now.rows}
    wanted = {row.path for row in then.rows}
    for changed in commits or ():
        if changed.status == "D":
            wanted.add(changed.path)
        elif changed.old_path is not None:
            wanted.add(changed.old_path)
    return wanted - listed


class _Comparison:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.then = _by_path(facts.then)
        self.now = _by_path(facts.now)
        self.steps = _steps(facts.commits or ())
        self.candidates = sorted(self.then.keys() | self.now.keys() | self.steps.keys())

    def of(self, path: bytes) -> PathDifference | None:
        rows_then, rows_now, step = self.then.get(path, ()), self.now.get(path, ()), self.steps.get(path)
        if rows_then == rows_now and step is None:
            return None
        before = self._before(path, rows_then, rows_now)
        after = self._after(path, rows_then, rows_now)
        same = self._is_same_content(path, before, after)
        change = _change(before, after, is_committed=step is not None, same=same)
        if change is None:
            return None
        return PathDifference(
            path, change, before.status, after.status, is_committed=step is not None, is_content_changed=not same
        )

    def _before(self, path: bytes, rows: tuple[ManifestRow, ...], others: tuple[ManifestRow, ...]) -> _Side:
        step = self.steps.get(path)
        if rows:
            return _listed(rows)
        if step is not None:
            return _ABSENT if step.old is None else _CLEAN
        if self.facts.commits is None:
            return _UNKNOWN
        return _CLEAN if any(row.is_in_head for row in others) else _ABSENT

    def _after(self, path: bytes, others: tuple[ManifestRow, ...], rows: tuple[ManifestRow, ...]) -> _Side:
        step = self.steps.get(path)
        if rows:
            return _listed(rows)
        fact = self.facts.disk.get(path)
        if fact is not None:
            if fact.is_ignored:
                return _Side(Status.IGNORED, is_present=True)
            if not fact.is_present:  # whatever HEAD has: the index may hide that it is missing
                return _ABSENT
        if step is not None:
            return _ABSENT if step.new is None else _CLEAN
        if self.facts.commits is None:
            # Not listed, on the disk and not ignored: HEAD has it, and has it like that.
            return _UNKNOWN if fact is None else _CLEAN
        return _CLEAN if any(row.is_in_head for row in others) else _ABSENT

    def _is_same_content(self, path: bytes, before: _Side, after: _Side) -> bool:
        """Return whether the disk is known to hold at the path what it held then."""
        if before.is_present is False and after.is_present is False:
            return True
        if not before.is_present or not after.is_present:
            return False
        if before.row is not None and after.row is not None:
            return _content(before.row) == _content(after.row)
        step = self.steps.get(path)
        if before.row is not None:
            return self._is_same_unlisted(path, before.row, step)
        # Clean then: what HEAD had. A reset that keeps the files, or taking them out of the index, changes none.
        version = self._version_then(path)
        return (
            after.row is not None and version is not None and _is_blob(after.row, version, self.facts.blobs.get(path))
        )

    def _version_then(self, path: bytes) -> _Version | None:
        """Return what HEAD had then at a path that was not listed then."""
        step = self.steps.get(path)
        if step is not None:
            return step.old
        rows = self.now.get(path, ())
        return next((_Version(_text(row.modes[0]), _head_id(row)) for row in rows if _head_id(row)), None)

    def _is_same_unlisted(self, path: bytes, row: ManifestRow, step: _Step | None) -> bool:
        mode = step.new.mode if step is not None and step.new is not None else _head_mode(row)
        if mode not in {None, _text(row.worktree_mode)}:
            return False
        if row.content_kind is ContentKind.REPOSITORY:
            if step is None or step.new is None:
                return False
            clean = digest_hex(f"{step.new.object_id}\n{CLEAN_DIRTY_HASH}".encode())
            return row.content_digest == clean.encode()
        fact = self.facts.disk.get(path)
        return fact is not None and (fact.kind, fact.digest) == (row.content_kind, row.content_digest)

    def renames(self, found: Mapping[bytes, PathDifference]) -> list[tuple[bytes, bytes]]:
        """Return pairs (old, new): as the commits have them, then where content went from one name to another."""
        old_free = {path for path, difference in found.items() if difference.change is Change.VANISHED}
        new_free = {path for path, difference in found.items() if difference.change is Change.APPEARED}
        pairs: list[tuple[bytes, bytes]] = []
        for changed in self.facts.commits or ():
            if changed.old_path in old_free and changed.path in new_free:
                pairs.append((changed.old_path, changed.path))
                old_free.remove(changed.old_path)
                new_free.remove(changed.path)
        for old, new in _matches(self._marks_then(old_free), self._marks_now(new_free)):
            if old in old_free and new in new_free:
                pairs.append((old, new))
                old_free.remove(old)
                new_free.remove(new)
        return pairs

    def _marks_then(self, paths: Iterable[bytes]) -> dict[bytes, set[str]]:
        """Return by what each path's content of then can be known again: blob id, content digest."""
        marks: dict[bytes, set[str]] = {}
        for path in paths:
            own: set[str] = set()
            row = _present(self.then.get(path, ()))
            step = self.steps.get(path)
            if row is not None:
                own.add(_text(row.content_digest))
            elif step is not None and step.old is not None:
                own.add(step.old.object_id)
            else:
                own.update(_head_id(row) for row in self.now.get(path, ()))
            marks[path] = own - {"", _EMPTY_FILE.decode(), *_EMPTY_BLOBS}
        return marks

    def _marks_now(self, paths: Iterable[bytes]) -> dict[bytes, set[str]]:
        marks: dict[bytes, set[str]] = {}
        for path in paths:
            row = _present(self.now.get(path, ()))
            if row is not None and row.is_untracked and path not in self.facts.telling:
                continue
            own = {self.facts.blobs.get(path, "")}
            if row is not None:
                own.add(_text(row.content_digest))
                if len(row.object_ids) == 2 and row.worktree_status == b".":
                    own.add(_text(row.object_ids[1]))
            marks[path] = own - {"", _EMPTY_FILE.decode(), *_EMPTY_BLOBS}
        return marks


def _change(before: _Side, after: _Side, *, is_committed: bool, same: bool) -> Change | None:
    if after.status is Status.IGNORED:
        return Change.IGNORED if before.is_present else None
    if before.is_present is None or after.is_present is None:
        return Change.CHANGED
    if before.is_present and after.is_present:
        return _change_of_present(before, after, is_committed=is_committed, same=same)
    if after.is_present:
        return Change.RESTORED if before.rows else Change.APPEARED
    if before.is_present:
        return Change.VANISHED
    if before.rows and not after.rows:
        # The deletion is in HEAD now, or what was deleted was never in it.
        return Change.COMMITTED if is_committed else None
    return Change.CHANGED if before.status is not after.status or is_committed else None


def _change_of_present(before: _Side, after: _Side, *, is_committed: bool, same: bool) -> Change:
    if after.rows:
        return Change.CHANGED
    if not before.rows or (is_committed and same):
        return Change.COMMITTED
    return Change.CHANGED if is_committed else Change.RESTORED


def _by_path(manifest: Manifest) -> dict[bytes, tuple[ManifestRow, ...]]:
    """Return the rows of each path: two where it is deleted in the index and untracked on the disk."""
    found: dict[bytes, tuple[ManifestRow, ...]] = {}
    for row in manifest.rows:
        found[row.path] = (*found.get(row.path, ()), row)
    return found


def _steps(commits: Iterable[ChangedPath]) -> dict[bytes, _Step]:
    steps: dict[bytes, _Step] = {}
    for changed in commits:
        old = None if changed.old_mode == _NO_MODE else _Version(changed.old_mode, changed.old_id)
        new = None if changed.new_mode == _NO_MODE else _Version(changed.new_mode, changed.new_id)
        if changed.old_path is not None and changed.status == "R":
            steps[changed.old_path] = _Step(old, None)
            old = None
        steps[changed.path] = _Step(old, new)
    return steps


def _listed(rows: tuple[ManifestRow, ...]) -> _Side:
    present = _present(rows)
    status = _status(rows[0] if present is None else present)
    return _Side(status, present is not None, present, rows)


def _present(rows: Iterable[ManifestRow]) -> ManifestRow | None:
    return next((row for row in rows if row.is_present), None)


def _status(row: ManifestRow) -> Status:
    if row.is_untracked:
        return Status.UNTRACKED
    if row.is_unmerged:
        return Status.CONFLICTED
    if not row.is_present:
        return Status.DELETED
    if not row.is_staged:
        return Status.MODIFIED
    return Status.STAGED if row.worktree_status == b"." else Status.STAGED_AND_MODIFIED


def _content(row: ManifestRow) -> tuple[ContentKind, bytes, bytes]:
    return row.content_kind, row.content_digest, row.worktree_mode


def _is_blob(row: ManifestRow, version: _Version, blob: str | None) -> bool:
    if version.mode != _text(row.worktree_mode):
        return False
    if row.content_kind is ContentKind.REPOSITORY:
        clean = digest_hex(f"{version.object_id}\n{CLEAN_DIRTY_HASH}".encode())
        return version.mode == _REPOSITORY_MODE and row.content_digest == clean.encode()
    if row.worktree_status == b"." and len(row.object_ids) == 2:
        return _text(row.object_ids[1]) == version.object_id
    return blob == version.object_id


def _text(value: bytes) -> str:
    return value.decode("ascii")


def _head_mode(row: ManifestRow) -> str | None:
    return _text(row.modes[0]) if len(row.modes) == 2 and row.is_in_head else None


def _head_id(row: ManifestRow) -> str:
    return _text(row.object_ids[0]) if len(row.object_ids) == 2 and row.is_in_head else ""


def _matches(old: Mapping[bytes, set[str]], new: Mapping[bytes, set[str]]) -> list[tuple[bytes, bytes]]:
    """Return pairs of paths that share a mark; equal file names first, then in the order of the paths."""
    by_mark: dict[str, list[bytes]] = {}
    for path in sorted(old):
        for mark in old[path]:
            by_mark.setdefault(mark, []).append(path)
    likely: list[tuple[bool, bytes, bytes]] = []
    for path in sorted(new):
        name = path.rpartition(b"/")[2]
        for mark in new[path]:
            # Where many share one content any pairing is a guess: the first of each name and the first of all do.
            sources = by_mark.get(mark, [])
            same_name = [source for source in sources if source.rpartition(b"/")[2] == name]
            likely.extend((source not in same_name, source, path) for source in [*same_name[:1], *sources[:8]])
    return [(source, path) for _, source, path in sorted(set(likely))]
