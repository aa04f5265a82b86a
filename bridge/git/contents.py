"""Digests of what stands on the disk, in bounded memory, never through a symlink, never of a moving file."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from hashlib import sha256
from types import TracebackType
from typing import NamedTuple, Self

from bridge.git.digestcache import Digests, Identity, identity_of
from bridge.git.manifest import ContentKind

#: Bytes of a file that are in memory at a time.
CHUNK_BYTES = 1_048_576
#: How often a file that changes while it is read is read anew before it is given up.
READ_ATTEMPTS = 3

# What open says when nothing is there.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
_NEITHER = "it is neither a file nor a symlink"
# A FIFO put in a file's place must not block the open; a symlink put there must not be followed.
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Only to look at what is in it; Linux then asks for no permission to list it.
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ContentUnreadable(Exception):
    """Raised when a path's content cannot be told; ``path`` is relative to the top level."""

    def __init__(self, path: bytes, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


class ContentVanished(Exception):
    """Raised when a path that was listed as present is not there, or is of another type; ``why`` is for people."""

    def __init__(self, path: bytes, why: str = "it changes while it is read") -> None:
        super().__init__(why)
        self.path = path
        self.why = why


class DeadlinePassed(Exception):
    """Raised when reading goes on past the time limit."""


class Content(NamedTuple):
    """What stands at a path: ``kind`` FILE or LINK, its SHA-256 (hex), and its permission and type bits.

    ``identity`` is what the file system said of the file after it was read; None for a symlink.
    """

    kind: ContentKind
    digest: bytes
    mode: int
    identity: Identity | None = None


class ContentReader:
    """Digests what stands at paths of one worktree; use it as a context manager.

    Parameters
    ----------
    root
        The top level, absolute.
    deadline
        Reading of :func:`time.monotonic` after which reading stops.
    digests
        Remembered digests that may be used.
    """

    def __init__(self, root: bytes, deadline: float, digests: Digests) -> None:
        self._root = root
        self._prefix = root + b"/"
        self._deadline = deadline
        self._digests = digests
        self._folder: bytes | None = None
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave_folder()

    def content(self, path: bytes) -> Content:
        """Return what stands at a path, by its remembered digest if it is unchanged. Raises as digest_content."""
        known = self._digests.get(path)
        if known is not None and self.is_unchanged(path, known[0]):
            return Content(ContentKind.FILE, known[1], known[0][5], known[0])
        return digest_content(self._root, path, self._deadline)

    def is_unchanged(self, path: bytes, identity: Identity) -> bool:
        """Return whether the file system says of a path what it said of the file with this identity."""
        folder, _, name = path.rpartition(b"/")
        try:
            if folder != self._folder:
                self._leave_folder()
                self._folder = folder
                status = os.lstat(self._prefix + path)
            else:
                # Neighbours are asked for through their open folder, which takes half the time.
                if self._descriptor is None:
                    self._descriptor = os.open(self._prefix + folder, _FOLDER_FLAGS)
                status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return identity_of(status) == identity

    def has_repository(self, path: bytes) -> bool:
        """Return whether a folder with a ``.git`` stands at a path, and no symlink on the way to it."""
        absolute = self._prefix + path
        return os.path.lexists(absolute + b"/.git") and os.path.realpath(absolute) == absolute

    def _leave_folder(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._folder = self._descriptor = None


def digest_content(root: bytes, path: bytes, deadline: float) -> Content:
    """Return the digest of a file's bytes or of a symlink's target text.

    Parameters
    ----------
    root
        The top level, absolute.
    deadline
        Reading of :func:`time.monotonic` after which reading stops.

    Raises
    ------
    ContentVanished
        If nothing is there, or something that is neither file nor symlink.
    ContentUnreadable
        If it cannot be read, or changed during each of :data:`READ_ATTEMPTS` readings.
    DeadlinePassed
        If the deadline passed.
    """
    absolute = root + b"/" + path
    for _ in range(READ_ATTEMPTS):
        try:
            descriptor = os.open(absolute, _OPEN_FLAGS)
        except OSError as error:
            found = _after_failed_open(absolute, path, error)
        else:
            try:
                found = _read_file(descriptor, path, deadline)
            except OSError as error:
                raise ContentUnreadable(path, error.strerror or "cannot be read") from error
            finally:
                os.close(descriptor)
        if found is not None:
            return found
    raise ContentUnreadable(path, "it changes while it is read")


def _after_failed_open(absolute: bytes, path: bytes, error: OSError) -> Content | None:
    """Return the content of a symlink, which is why the open failed; None if it is one no longer."""
    if error.errno in _GONE:
        raise ContentVanished(path) from error
    if error.errno in {errno.ENXIO, errno.EOPNOTSUPP}:  # a socket, on Linux and elsewhere
        raise ContentVanished(path, _NEITHER) from error
    if error.errno != errno.ELOOP:
        raise ContentUnreadable(path, error.strerror or "cannot be read") from error
    try:
        text = os.readlink(absolute)
    except OSError as second:
        if second.errno in _GONE or second.errno == errno.EINVAL:
            return None
        raise ContentUnreadable(path, second.strerror or "cannot be read") from second
    return Content(ContentKind.LINK, sha256(text).hexdigest().encode(), stat.S_IFLNK | 0o777)


def _read_file(descriptor: int, path: bytes, deadline: float) -> Content | None:
    """Return the content of an open file, or None if it changed under the reading."""
    before = os.fstat(descriptor)
    if not stat.S_ISREG(before.st_mode):
        raise ContentVanished(path, _NEITHER)
    digest, size = _digest_descriptor(descriptor, before.st_size, deadline)
    after = os.fstat(descriptor)
    # A change of mode, owner or content moves the change time; the size is compared for writers within one tick.
    if size != before.st_size or after.st_size != size or after.st_ctime_ns != before.st_ctime_ns:
        return None
    return Content(ContentKind.FILE, digest.encode(), after.st_mode, identity_of(after))


def read_content(root: bytes, path: bytes) -> Iterator[bytes]:
    """Return a file's bytes, in chunks, or a symlink's target text; a file that cannot be read further ends early.

    Whoever reads must know by a digest whether it was all.

    Raises
    ------
    OSError
        At once, if it cannot be opened.
    """
    absolute = root + b"/" + path
    if stat.S_ISLNK(os.lstat(absolute).st_mode):
        return iter([os.readlink(absolute)])
    return descriptor_chunks(open_unfollowed(absolute))


def descriptor_chunks(descriptor: int) -> Iterator[bytes]:
    """Yield what an open file holds and close it; what cannot be read ends it early."""
    try:
        while chunk := os.read(descriptor, CHUNK_BYTES):
            yield chunk
    except OSError:
        return
    finally:
        os.close(descriptor)


def open_unfollowed(absolute: bytes) -> int:
    """Open a file for reading, and never something else in its place: no symlink, no FIFO that would block."""
    return os.open(absolute, _OPEN_FLAGS)


def _digest_descriptor(descriptor: int, size: int, deadline: float) -> tuple[str, int]:
    """Return the digest and the number of bytes it covers."""
    if time.monotonic() > deadline:
        raise DeadlinePassed
    if size < CHUNK_BYTES:
        # One byte more than expected shows a file that grew; a full chunk would cost more than the reading.
        content = os.read(descriptor, size + 1)
        return sha256(content).hexdigest(), len(content)
    digest = sha256()
    buffer = memoryview(bytearray(CHUNK_BYTES))
    total = 0
    while count := os.readv(descriptor, [buffer]):
        digest.update(buffer[:count])
        total += count
        if time.monotonic() > deadline:
            raise DeadlinePassed
    return digest.hexdigest(), total
