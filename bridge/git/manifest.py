"""The content-true dirty manifest: every listed path with what git and the disk say about it. Pure values.

Encoding. A field is its length (four bytes, big endian) and its bytes; a row is its fields in a fixed order with
the counts of the repeated ones, so that no two different rows share an encoding. The dirty hash is SHA-256 over a
version line and all rows in the order of their path bytes. Storage keeps the rows in pages, one per directory,
each named by the SHA-256 of its own encoding: an edit in a folder rewrites that folder's page alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

#: First bytes of what the dirty hash covers; a change of the row encoding needs another line.
_HASH_HEADER = b"bridge manifest 1\n"
#: First bytes of an encoded page.
_PAGE_HEADER = b"bridge manifest page 1\n"
#: The dirty hash of a clean worktree.
CLEAN_DIRTY_HASH = sha256(_HASH_HEADER).hexdigest()
#: Mode of a path that is absent.
ABSENT_MODE = b"000000"
_LENGTH_BYTES = 4
#: Rows that are encoded in one piece for the hash: few enough to keep memory small, enough to spare calls.
_ROWS_AT_A_TIME = 256


#: The encoded lengths of nearly all fields, made once: a manifest may have a hundred thousand of them.
_PREFIXES = tuple(length.to_bytes(_LENGTH_BYTES) for length in range(256))


def _prefix(length: int) -> bytes:
    return _PREFIXES[length] if length < len(_PREFIXES) else length.to_bytes(_LENGTH_BYTES)


class ContentKind(StrEnum):
    """What the content digest of a row covers."""

    #: Nothing: the path is not on the disk.
    ABSENT = "absent"
    #: The bytes of a regular file.
    FILE = "file"
    #: The target text of a symlink.
    LINK = "link"
    #: HEAD and dirty hash of a submodule or nested repository.
    REPOSITORY = "repository"
    #: A submodule's folder without a repository in it.
    UNINITIALISED = "uninitialised"


class ManifestMalformed(ValueError):
    """Raised when bytes are not an encoded manifest page."""


class ManifestRow(NamedTuple):
    """One path that git status lists.

    Parameters
    ----------
    path
        Raw bytes, relative to the top level, without trailing slash.
    index_status, worktree_status
        git's letters X and Y as one byte each: ``.`` unmodified, ``?`` twice for untracked.
    submodule
        git's four letters about a submodule; ``N...`` for anything else.
    modes, object_ids
        Of HEAD and index; of stages 1, 2, 3 for an unmerged path; empty for an untracked one.
    worktree_mode
        File mode in octal as git sees it under the user's settings; ``000000`` when absent.
    content_kind, content_digest
        What is on the disk, as SHA-256 in lower-case hex (empty when there is nothing to digest).
    """

    path: bytes
    index_status: bytes
    worktree_status: bytes
    submodule: bytes
    modes: tuple[bytes, ...]
    object_ids: tuple[bytes, ...]
    worktree_mode: bytes
    content_kind: ContentKind
    content_digest: bytes

    @property
    def status(self) -> str:
        """The two letters of git status, such as ``M.``, ``.D``, ``UU`` or ``??``."""
        return (self.index_status + self.worktree_status).decode("ascii", "replace")

    @property
    def is_untracked(self) -> bool:
        return self.index_status == b"?"

    @property
    def is_unmerged(self) -> bool:
        return len(self.modes) == 3

    @property
    def is_staged(self) -> bool:
        """Whether the index differs from HEAD here (unmerged paths count)."""
        return self.index_status not in {b".", b"?"}

    @property
    def is_present(self) -> bool:
        """Whether the path exists on the disk."""
        return self.content_kind is not ContentKind.ABSENT

    @property
    def is_in_head(self) -> bool:
        """Whether HEAD has the path (for an unmerged one: whether our side has it)."""
        if not self.modes:
            return False
        return self.modes[1 if self.is_unmerged else 0] != ABSENT_MODE

    def encode(self) -> bytes:
        """Return the row as bytes; :func:`decode_page` reads them back."""
        if self.worktree_mode in _UNTRACKED_TAILS and self[1:6] == _UNTRACKED and self.content_kind is ContentKind.FILE:
            # Nearly all rows of a large manifest: what is between path and digest was encoded before.
            path, digest = self.path, self.content_digest
            return b"".join(
                (_prefix(len(path)), path, _UNTRACKED_TAILS[self.worktree_mode], _prefix(len(digest)), digest)
            )
        fields = (
            self.path,
            self.index_status,
            self.worktree_status,
            self.submodule,
            b"%d" % len(self.modes),
            *self.modes,
            *self.object_ids,
            self.worktree_mode,
            self.content_kind.encode(),
            self.content_digest,
        )
        return _encoded(fields)


def _encoded(fields: Iterable[bytes]) -> bytes:
    return b"".join([_prefix(len(value)) + value for value in fields])


#: What untracked rows have in common, and its encoding with each mode of an untracked file.
_UNTRACKED = (b"?", b"?", b"N...", (), ())
_UNTRACKED_TAILS = {
    mode: _encoded((b"?", b"?", b"N...", b"0", mode, ContentKind.FILE.encode())) for mode in (b"100644", b"100755")
}


@dataclass(frozen=True, slots=True)
class ManifestPage:
    """The rows of one directory, encoded; ``digest`` is the SHA-256 (hex) of ``content``."""

    directory: bytes
    digest: str
    content: bytes


@dataclass(frozen=True)
class Manifest:
    """All listed paths of a worktree, in the order of their bytes."""

    rows: tuple[ManifestRow, ...] = ()

    @classmethod
    def of(cls, rows: Iterable[ManifestRow]) -> Manifest:
        """Return the manifest of some rows, whatever their order."""
        return cls(tuple(sorted(rows, key=attrgetter("path"))))

    @property
    def is_clean(self) -> bool:
        return not self.rows

    @cached_property
    def dirty_hash(self) -> str:
        """SHA-256 (hex) over all rows; :data:`CLEAN_DIRTY_HASH` when there are none."""
        digest = sha256(_HASH_HEADER)
        for start in range(0, len(self.rows), _ROWS_AT_A_TIME):
            digest.update(b"".join([row.encode() for row in self.rows[start : start + _ROWS_AT_A_TIME]]))
        return digest.hexdigest()

    @cached_property
    def by_path(self) -> Mapping[bytes, ManifestRow]:
        return {row.path: row for row in self.rows}

    def pages(self) -> list[ManifestPage]:
        """Return one page per directory that has a row, in the order of the directories."""
        by_directory = sorted(self.rows, key=lambda row: (directory_of(row.path), row.path))
        return [
            _page(directory, list(rows))
            for directory, rows in groupby(by_directory, key=lambda row: directory_of(row.path))
        ]

    @classmethod
    def from_pages(cls, contents: Iterable[bytes]) -> Manifest:
        """Return the manifest whose pages have these contents, in any order.

        Raises
        ------
        ManifestMalformed
            If a content is not an encoded page.
        """
        return cls.of(row for content in contents for row in decode_page(content))


def directory_of(path: bytes) -> bytes:
    """Return the part of a path before its last slash; empty at the top level."""
    return path.rpartition(b"/")[0]


def decode_page(content: bytes) -> list[ManifestRow]:
    """Return the rows of an encoded page.

    Raises
    ------
    ManifestMalformed
        If the content is of another version, cut off, or holds what no encoder writes.
    """
    if not content.startswith(_PAGE_HEADER):
        raise ManifestMalformed("the bytes are no manifest page of this version")
    fields = _fields(content, len(_PAGE_HEADER))
    rows: list[ManifestRow] = []
    try:
        for path in fields:
            index_status, worktree_status, submodule, count = (next(fields) for _ in range(4))
            modes = tuple([next(fields) for _ in range(int(count))])
            object_ids = tuple([next(fields) for _ in range(int(count))])
            worktree_mode, kind, digest = (next(fields) for _ in range(3))
            rows.append(
                ManifestRow(
                    path,
                    index_status,
                    worktree_status,
                    submodule,
                    modes,
                    object_ids,
                    worktree_mode,
                    ContentKind(kind.decode()),
                    digest,
                )
            )
    except (StopIteration, RuntimeError, ValueError) as error:
        raise ManifestMalformed("the manifest page is damaged") from error
    return rows


def _page(directory: bytes, rows: list[ManifestRow]) -> ManifestPage:
    content = _PAGE_HEADER + b"".join([row.encode() for row in rows])
    return ManifestPage(directory, sha256(content).hexdigest(), content)


def _fields(content: bytes, position: int) -> Iterator[bytes]:
    while position < len(content):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(content[position:start])
        if position > len(content):
            raise ManifestMalformed("the manifest page is cut off")
        yield content[start:position]


class ChangeKind(StrEnum):
    """How a path's row differs between two manifests."""

    #: Listed now and not before, and HEAD does not have it: a new file.
    APPEARED = "appeared"
    #: Its content, mode or status differs.
    CHANGED = "changed"
    #: It was on the disk and is not now; or it was an untracked or added file and is listed no longer.
    VANISHED = "vanished"
    #: It was absent and is on the disk now; or it was modified and is as HEAD has it now.
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class PathChange:
    """One difference between two manifests; ``before`` and ``after`` are None where the path is not listed."""

    path: bytes
    kind: ChangeKind
    before: ManifestRow | None
    after: ManifestRow | None

    @property
    def before_status(self) -> str | None:
        return None if self.before is None else self.before.status

    @property
    def after_status(self) -> str | None:
        return None if self.after is None else self.after.status


def compare_manifests(old: Manifest, new: Manifest) -> list[PathChange]:
    """Return how each listed path differs from one manifest to another, in the order of the paths.

    A path that is not listed is as that moment's HEAD has it; whether HEAD itself moved in between is for
    :func:`bridge.git.history.changed_paths` to say.
    """
    before, after = old.by_path, new.by_path
    changes: list[PathChange] = []
    for path in sorted(before.keys() | after.keys()):
        was, now = before.get(path), after.get(path)
        if was != now:
            changes.append(PathChange(path, _kind(was, now), was, now))
    return changes


def _kind(was: ManifestRow | None, now: ManifestRow | None) -> ChangeKind:
    if was is None:
        if now is not None and not now.is_present:
            return ChangeKind.VANISHED
        return ChangeKind.CHANGED if now is not None and now.is_in_head else ChangeKind.APPEARED
    if now is None:
        return ChangeKind.RESTORED if was.is_in_head else ChangeKind.VANISHED
    if was.is_present == now.is_present:
        return ChangeKind.CHANGED
    return ChangeKind.RESTORED if now.is_present else ChangeKind.VANISHED
