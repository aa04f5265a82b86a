"""Digests of contents, remembered by what the file system says of a file, in memory and across restarts.

A remembered digest is used only while device, inode, size, modification time, change time and mode are as they
were; it is remembered only if both times lay safely before the moment at which the file was read, for a file that
changes twice within one tick of its clock looks the same before and after; and all of a worktree are forgotten
when the clock was set back, for then the same times come round again. The change time cannot be set by ``utime``,
so a restored modification time hides nothing. What no file system tells (a write through a mapping that is
writable already) is why evidence, adoption and ``status`` read the files all the same.

Nothing here is needed: a cache that is lost, damaged or somebody else's costs reading the files once more.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import struct
import threading
import time
from binascii import hexlify, unhexlify
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import nlargest
from pathlib import Path
from typing import Final, Protocol

from bridge.git.manifest import Manifest, ManifestRow

#: How much older than now a file's times must be, in nanoseconds: more than the coarsest tick of a file system
#: that keeps parts of seconds, and some for a file server whose clock is behind.
SETTLING_NS: Final = 2_000_000_000
#: Files remembered in one process, over all worktrees; the worktrees used longest ago are forgotten first.
MAX_ENTRIES: Final = 200_000
#: Worktrees whose digests are kept on the disk; the files written longest ago are removed first.
MAX_WORKTREES: Final = 64
#: Largest cache file that is written or read, in bytes.
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
#: A file is rewritten when its new entries are at least one in so many …
REWRITE_SHARE: Final = 16
#: … or when they spare the reading of so many bytes.
REWRITE_BYTES: Final = 1_048_576

_SECOND_NS = 1_000_000_000
#: First bytes of a cache file; another layout needs another line.
_MAGIC = b"bridge digests 1\n"
_SUFFIX = ".digests"
#: Latest moment (ns), number of entries, length of the worktree's path.
_HEAD = struct.Struct(">qIH")
#: Device, inode, size, mtime, ctime (ns), mode, SHA-256.
_RECORD = struct.Struct(">QQQqqI32s")

#: Device, inode, size, mtime (ns), ctime (ns), mode.
Identity = tuple[int, int, int, int, int, int]
#: Identity and digest (SHA-256, lower-case hex) by path in the worktree.
Digests = Mapping[bytes, tuple[Identity, bytes]]
#: Row and identity by the line in which git listed the path; no identity where the line alone says it all.
Rows = Mapping[bytes, tuple[Identity | None, ManifestRow]]


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of one worktree.

    Parameters
    ----------
    digests
        Of the files that git listed.
    rows
        Whole rows, which spare making them again; in memory only.
    settings_digest
        The settings under which the rows were made.
    manifest
        Of the last observation.
    """

    digests: Digests = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    settings_digest: str | None = None
    manifest: Manifest | None = None

    @property
    def size(self) -> int:
        """How many files and rows this is about."""
        return max(len(self.digests), len(self.rows))


_NOTHING: Final = Memory()


def identity_of(status: os.stat_result) -> Identity:
    """Return what tells one version of a file from another."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_mode,
    )


def is_settled(identity: Identity, moment_ns: int) -> bool:
    """Return whether a file that looks so at a moment, or later, must look otherwise after its next change.

    A change time of whole seconds is that of a file system that keeps no parts of them; one in a thousand million
    files on another is read anew for it.
    """
    mtime, ctime = identity[3], identity[4]
    limit = moment_ns - SETTLING_NS
    return mtime < limit and ctime < limit and ctime % _SECOND_NS != 0


class DigestCache(Protocol):
    """What remembers digests between observations. Safe to share between threads."""

    def now_ns(self) -> int:
        """Return the wall clock, by which files have their times."""

    def recall(self, root: bytes) -> Memory:
        """Return what is remembered of a worktree; not to be changed by the caller."""

    def remember(self, root: bytes, memory: Memory) -> None:
        """Replace what is remembered of a worktree; each identity was settled when its file was read."""


@dataclass
class _Table:
    """A memory, and what its cache must know of it.

    Parameters
    ----------
    latest_ns
        When it was last replaced. A clock that shows less was set back, and the same times come round again.
    stored
        What the file on the disk holds.
    """

    memory: Memory
    latest_ns: int
    stored: Digests = field(default_factory=dict)


class MemoryDigestCache:
    """A cache that lives as long as its process.

    Parameters
    ----------
    now_ns
        The wall clock in nanoseconds.
    max_entries
        Files remembered, over all worktrees.
    """

    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns, max_entries: int = MAX_ENTRIES) -> None:
        self.now_ns = now_ns
        self._max_entries = max_entries
        self._lock = threading.Lock()
        self._tables: OrderedDict[bytes, _Table] = OrderedDict()

    def recall(self, root: bytes) -> Memory:
        with self._lock:
            table = self._table(root)
            if table is None:
                return _NOTHING
            self._tables.move_to_end(root)
            return table.memory

    def remember(self, root: bytes, memory: Memory) -> None:
        with self._lock:
            self._keep(root, _Table(self._bounded(memory), self.now_ns()))

    def _bounded(self, memory: Memory) -> Memory:
        if memory.size <= self._max_entries:
            return memory
        # The largest are the dearest to read again.
        largest = nlargest(self._max_entries, memory.digests.items(), key=lambda item: item[1][0][2])
        return Memory(dict(largest))

    def _table(self, root: bytes) -> _Table | None:
        table = self._tables.get(root)
        if table is not None and self.now_ns() < table.latest_ns:
            del self._tables[root]
            return None
        return table

    def _keep(self, root: bytes, table: _Table) -> None:
        self._tables[root] = table
        self._tables.move_to_end(root)
        count = sum(known.memory.size for known in self._tables.values())
        while count > self._max_entries:
            _, forgotten = self._tables.popitem(last=False)
            count -= forgotten.memory.size


class FileDigestCache(MemoryDigestCache):
    """A cache that also keeps one file per worktree in a folder of its own.

    Files are replaced as a whole, so readers and other processes see the old one or the new one. Failing to read
    or write one changes no answer.

    Parameters
    ----------
    folder
        Made when first needed, if its parent exists.
    max_worktrees
        Files kept.
    """

    def __init__(
        self,
        folder: Path,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        max_entries: int = MAX_ENTRIES,
        max_worktrees: int = MAX_WORKTREES,
    ) -> None:
        super().__init__(now_ns=now_ns, max_entries=max_entries)
        self._folder = folder
        self._max_worktrees = max_worktrees

    def remember(self, root: bytes, memory: Memory) -> None:
        with self._lock:
            table = self._table(root)
            fresh = _Table(self._bounded(memory), self.now_ns(), {} if table is None else table.stored)
            if _is_worth_writing(fresh.memory.digests, fresh.stored):
                self._write(root, fresh)
                fresh.stored = fresh.memory.digests
            self._keep(root, fresh)

    def file_of(self, root: bytes) -> Path:
        """Return where the digests of a worktree are kept."""
        return self._folder / (sha256(root).hexdigest()[:32] + _SUFFIX)

    def _table(self, root: bytes) -> _Table | None:
        if root not in self._tables:
            found = decode(_read(self.file_of(root)), root)
            if found is not None:
                digests, latest_ns = found
                self._keep(root, _Table(Memory(digests), latest_ns, digests))
        return super()._table(root)

    def _write(self, root: bytes, table: _Table) -> None:
        content = encode(root, table.memory.digests, table.latest_ns)
        if len(content) > MAX_FILE_BYTES:
            return
        target = self.file_of(root)
        temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        # A full disk or a state directory that cannot be written must not keep anybody from a stamp.
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            is_new = not target.exists()
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(descriptor, "wb") as file:
                    file.write(content)
                # Not synced: what a power cut leaves fails the check sum, or is the old file.
                os.replace(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            if is_new:
                self._prune()

    def _prune(self) -> None:
        """Remove the files written longest ago beyond the limit, and with them what a killed process left."""
        with os.scandir(self._folder) as found:
            files = sorted(
                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path) for entry in found if _SUFFIX in entry.name
            )
        for _, path in files[: -self._max_worktrees]:
            os.unlink(path)


def encode(root: bytes, digests: Digests, latest_ns: int) -> bytes:
    """Return the content of a cache file."""
    parts = [_HEAD.pack(latest_ns, len(digests), len(root)), root]
    parts += [_RECORD.pack(*identity, unhexlify(digest)) for identity, digest in digests.values()]
    parts.append(b"\0".join(digests))
    body = b"".join(parts)
    return _MAGIC + sha256(body).digest() + body


def decode(content: bytes, root: bytes) -> tuple[Digests, int] | None:
    """Return the digests of a worktree and when they were kept; None if the content is anything else."""
    start = len(_MAGIC) + 32
    body = memoryview(content)[start:]
    if not content.startswith(_MAGIC) or sha256(body).digest() != content[len(_MAGIC) : start]:
        return None
    try:
        latest_ns, count, length = _HEAD.unpack_from(body)
        records = _HEAD.size + length
        names = records + count * _RECORD.size
        if bytes(body[_HEAD.size : records]) != root:
            return None
        paths = bytes(body[names:]).split(b"\0") if count else []
        fields = _RECORD.iter_unpack(body[records:names])
        digests = {path: (record[:6], hexlify(record[6])) for path, record in zip(paths, fields, strict=True)}
    except (struct.error, ValueError):
        return None
    return digests, latest_ns


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_plainly) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return b""  # nothing there, or nothing that is of use
    return content if len(content) <= MAX_FILE_BYTES else b""


def _open_plainly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _is_worth_writing(digests: Digests, stored: Digests) -> bool:
    """Return whether a new file spares enough reading: rewriting thousands of entries for one costs more."""
    fresh = [known[0][2] for path, known in digests.items() if stored.get(path) != known]
    if not fresh:
        return len(stored) > REWRITE_SHARE * max(1, len(digests))
    return len(fresh) * REWRITE_SHARE >= len(digests) or sum(fresh) >= REWRITE_BYTES
