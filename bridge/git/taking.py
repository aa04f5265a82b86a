"""Taking contents from a work tree for keeping: which ones, and reading them so that only what is right counts.

What is read is digested on the way: a file that is no longer what was stamped is noted as changed, and never taken
for it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from bridge.git.contents import DeadlinePassed, open_unfollowed
from bridge.git.manifest import ContentKind
from bridge.git.objects import CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class Wanted:
    """One content to be kept: where it stands, and the SHA-256 (hex) that it had when it was stamped."""

    path: bytes
    digest: str
    kind: ContentKind


@dataclass(frozen=True, slots=True)
class KeptObject:
    """Where a content is in the store, and how long it is."""

    object_id: str
    size: int


@dataclass
class Selection:
    """What is to be taken for one stamp, and what became of the rest.

    Parameters
    ----------
    new
        Contents to be read, with their sizes.
    held
        What is kept already, by digest.
    over_limit
        Digests and sizes of what is left out because of a limit.
    changed
        Digests of what is not there any more, or is another content; more join while contents are read.
    """

    new: list[tuple[int, Wanted]] = field(default_factory=list)
    held: dict[str, KeptObject] = field(default_factory=dict)
    over_limit: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    @property
    def new_bytes(self) -> int:
        return sum(size for size, _ in self.new)


def select(
    root: bytes, wanted: Sequence[Wanted], known: Mapping[str, KeptObject], *, limit_bytes: int, max_files: int
) -> Selection:
    """Choose what to take: each content once, the smallest first, up to the limits.

    Parameters
    ----------
    known
        What is kept already, by digest; it counts towards the limits and is not read.
    """
    selection = Selection()
    sizes: dict[str, tuple[int, Wanted]] = {}
    for content in wanted:
        if content.digest in sizes:
            continue
        kept = known.get(content.digest)
        try:
            size = os.lstat(root + b"/" + content.path).st_size if kept is None else kept.size
        except OSError:
            selection.changed.add(content.digest)
            continue
        sizes[content.digest] = (size, content)
    selection.changed -= sizes.keys()  # gone in one place, still there in another
    remaining = limit_bytes
    for size, content in sorted(sizes.values(), key=lambda pair: (pair[0], pair[1].path)):
        if size > remaining or len(selection.new) + len(selection.held) >= max_files:
            selection.over_limit[content.digest] = size
            continue
        remaining -= size
        if content.digest in known:
            selection.held[content.digest] = known[content.digest]
        else:
            selection.new.append((size, content))
    return selection


def read_whole(root: bytes, content: Wanted, size: int, deadline: float) -> bytes | None:
    """Return a content if it still is what was stamped, else None.

    Raises
    ------
    DeadlinePassed
        If reading goes on past the deadline, a reading of :func:`time.monotonic`.
    """
    with contextlib.ExitStack() as stack:
        source = _open(stack, root + b"/" + content.path, content.kind, size)
        if source is None:
            return None
        found = b"".join(_exactly(source, size, deadline))
    return found if sha256(found).hexdigest() == content.digest else None


class Import:
    """The input of one ``git fast-import``, for contents that are many or large."""

    def __init__(self, root: bytes, selection: Selection, deadline: float) -> None:
        self._root = root
        self._selection = selection
        self._deadline = deadline
        self._marks = 0
        #: Mark and size of what was read and is right, by digest.
        self.taken: dict[str, tuple[int, int]] = {}

    def stream(self, ref: str, moment: int) -> Iterator[bytes]:
        """Yield the blobs, then a commit that holds those that are right, and a ref that holds it."""
        yield b"feature done\n"
        for size, content in self._selection.new:
            yield from self._blob(content, size)
        held = self._selection.held
        if self.taken or held:
            yield f"commit {ref}\ncommitter Bridge <bridge@localhost> {moment} +0000\ndata 0\n".encode()
            for digest in sorted(self.taken.keys() | held.keys()):
                source = held[digest].object_id if digest in held else f":{self.taken[digest][0]}"
                # A folder level, so that a change among thousands does not rewrite one long tree.
                yield f"M 100644 {source} {digest[:2]}/{digest[2:]}\n".encode()
        yield b"done\n"

    def _blob(self, content: Wanted, size: int) -> Iterator[bytes]:
        with contextlib.ExitStack() as stack:
            source = _open(stack, self._root + b"/" + content.path, content.kind, size)
            if source is None:
                self._selection.changed.add(content.digest)
                return
            self._marks += 1
            digest = sha256()
            yield f"blob\nmark :{self._marks}\ndata {size}\n".encode()
            for chunk in _exactly(source, size, self._deadline):
                digest.update(chunk)
                yield chunk
        yield b"\n"
        if digest.hexdigest() == content.digest:
            self.taken[content.digest] = (self._marks, size)
        else:  # the blob stays without a name, and goes with the next gc
            self._selection.changed.add(content.digest)


def _open(stack: contextlib.ExitStack, absolute: bytes, kind: ContentKind, size: int) -> Iterator[bytes] | None:
    """Return what stands at a path in chunks, or None if it is not what was listed any more."""
    try:
        if kind is ContentKind.LINK:
            return iter([os.readlink(absolute)])
        descriptor = open_unfollowed(absolute)
    except OSError:
        return None
    stack.callback(os.close, descriptor)
    found = os.fstat(descriptor)
    return _chunks(descriptor) if stat.S_ISREG(found.st_mode) and found.st_size == size else None


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except OSError:  # what cannot be read ends here, and will not have the digest
            return
        if not chunk:
            return
        yield chunk


def _exactly(chunks: Iterator[bytes], size: int, deadline: float) -> Iterator[bytes]:
    """Yield exactly as many bytes as were announced: the rest of a file that shrank is filled up, and then no match."""
    remaining = size
    for chunk in chunks:
        if time.monotonic() > deadline:
            raise DeadlinePassed
        part = chunk[:remaining]
        remaining -= len(part)
        yield part
        if not remaining:
            break
    while remaining:
        part = bytes(min(remaining, CHUNK_BYTES))
        remaining -= len(part)
        yield part
