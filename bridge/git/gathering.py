"""Finding the contents behind a manifest again: known by their SHA-256, whatever place still has them.

Nothing is guessed. A place only proposes bytes; they count if they have the digest that was stamped. Places, in
this order: Bridge's own store, the file at the same path, the blob that was staged, the blob that HEAD has there
now, and these two as git's filters would write them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from bridge.git.contents import ContentUnreadable, ContentVanished, DeadlinePassed, digest_content, read_content
from bridge.git.contentstore import ContentStore
from bridge.git.manifest import ContentKind, ManifestRow
from bridge.git.objects import entries_at, filtered, read_blobs
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.git.repository import RepositoryLocation

#: Contents for which git's filters are tried, one git call each.
MAX_FILTERED_FILES = 500


class Source(StrEnum):
    """Where a content was found."""

    KEPT = "kept"
    DISK = "disk"
    OBJECTS = "objects"


@dataclass(frozen=True, slots=True)
class Gathered:
    """Contents that were found and proven.

    Parameters
    ----------
    files
        A private copy of each, by digest.
    sources
        Where each was found.
    damaged
        Digests of what is recorded as kept and is not, or is something else.
    """

    files: dict[str, Path] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)


def gather(
    rows: Iterable[ManifestRow],
    folder: Path,
    *,
    store: ContentStore,
    kept: Mapping[str, str],
    location: RepositoryLocation | None,
    head: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> Gathered:
    """Copy the contents of manifest rows into a private folder, as far as they can be found.

    Parameters
    ----------
    folder
        Exists and is the caller's alone; one file per content is made in it.
    kept
        Object ids in the store, by content digest.
    location
        The checkout whose files and objects may have them; None if there is none.
    head
        Commit that the checkout is at; None if it has none.

    Raises
    ------
    GitFailed, GitTimedOut, GitMissing
        If git cannot be asked at all.
    OSError
        If the copies cannot be written.
    """
    wanted: dict[str, ManifestRow] = {}
    for row in rows:
        if row.content_kind in (ContentKind.FILE, ContentKind.LINK):
            wanted.setdefault(row.content_digest.decode("ascii"), row)
    gathering = _Gathering(wanted, folder, timeout_seconds)
    gathering.from_store(store, {digest: kept[digest] for digest in wanted if digest in kept})
    if location is not None:
        if location.worktree_root is not None:
            gathering.from_disk(os.fsencode(location.worktree_root))
        gathering.from_objects(location, head)
    return gathering.found


class _Gathering:
    def __init__(self, wanted: Mapping[str, ManifestRow], folder: Path, timeout_seconds: float) -> None:
        self._wanted = wanted
        self._folder = folder
        self._timeout_seconds = timeout_seconds
        self.found = Gathered()

    @property
    def missing(self) -> dict[str, ManifestRow]:
        return {digest: row for digest, row in self._wanted.items() if digest not in self.found.files}

    def from_store(self, store: ContentStore, kept: Mapping[str, str]) -> None:
        for digest, blob in store.read(kept, timeout_seconds=self._timeout_seconds):
            if blob is None or not self._take(digest, blob.chunks, Source.KEPT):
                self.found.damaged.add(digest)

    def from_disk(self, root: bytes) -> None:
        deadline = time.monotonic() + self._timeout_seconds
        for digest, row in self.missing.items():
            try:
                found = digest_content(root, row.path, deadline)
                if found.kind is not row.content_kind or found.digest != row.content_digest:
                    continue
                chunks = read_content(root, row.path)
            except (ContentVanished, ContentUnreadable, OSError):  # whatever it is: this place does not have it
                continue
            except DeadlinePassed:
                return
            self._take(digest, chunks, Source.DISK)

    def from_objects(self, location: RepositoryLocation, head: str | None) -> None:
        candidates = self._candidates(location, head)
        by_object: dict[str, list[str]] = {}
        for digest, objects in candidates.items():
            for object_id in objects:
                by_object.setdefault(object_id, []).append(digest)
        names = [object_id.encode("ascii") for object_id in by_object]
        absent: set[str] = set()
        for name, blob in read_blobs(names, cwd=location.run_directory, timeout_seconds=self._timeout_seconds):
            object_id = name.decode("ascii")
            if blob is None:
                absent.add(object_id)
            else:
                self._take_one_of(by_object[object_id], blob.chunks)
        tried = 0
        for digest, row in self.missing.items():
            if row.content_kind is ContentKind.LINK:
                continue
            for object_id in candidates.get(digest, []):
                if object_id in absent or tried >= MAX_FILTERED_FILES:
                    continue
                tried += 1
                content = filtered(location, object_id, row.path, timeout_seconds=self._timeout_seconds)
                if content is not None and self._take(digest, [content], Source.OBJECTS):
                    break

    def _candidates(self, location: RepositoryLocation, head: str | None) -> dict[str, list[str]]:
        """Return the blobs that may be, or become, each missing content: what was staged, and what HEAD has now."""
        missing = self.missing
        at_head: Mapping[bytes, tuple[str, str]] = {}
        if head is not None and missing:
            paths = sorted({row.path for row in missing.values()})
            at_head = entries_at(location, head, paths, timeout_seconds=self._timeout_seconds)
        found: dict[str, list[str]] = {}
        for digest, row in missing.items():
            ids = [object_id.decode("ascii") for object_id in row.object_ids[::-1]]
            if row.path in at_head:
                ids.append(at_head[row.path][1])
            found[digest] = [object_id for object_id in dict.fromkeys(ids) if object_id.strip("0")]
        return found

    def _take_one_of(self, digests: Iterable[str], chunks: Iterable[bytes]) -> None:
        """Take bytes for whichever content they are; several may hope for one blob."""
        remaining = [digest for digest in digests if digest not in self.found.files]
        if not remaining:
            return
        copy = self._folder / "proposed"
        digest = _write(copy, chunks)
        if digest in remaining:
            self._accept(digest, copy, Source.OBJECTS)
        else:
            copy.unlink()

    def _take(self, digest: str, chunks: Iterable[bytes], source: Source) -> bool:
        copy = self._folder / "proposed"
        if _write(copy, chunks) != digest:
            copy.unlink()
            return False
        self._accept(digest, copy, source)
        return True

    def _accept(self, digest: str, copy: Path, source: Source) -> None:
        target = self._folder / digest
        copy.rename(target)
        self.found.files[digest] = target
        self.found.sources[digest] = source
        self.found.damaged.discard(digest)


def _write(path: Path, chunks: Iterable[bytes]) -> str:
    digest = sha256()
    with path.open("wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()
