"""Bridge's own object store for the contents behind stamps: a bare repository in the state directory, per repository.

What is kept are the bytes as they stood on the disk, not what git's clean filters would make of them: a stamp
digests the former, and only they can be put back exactly. Each is a blob; the blobs of one dirty manifest hang in
the tree of a commit, under the SHA-256 by which the manifest knows them, and a ref under ``refs/bridge/kept/``
holds the commit. So the store is complete in itself: a gc here removes nothing that is named, and a gc in the
user's repository cannot take anything from it. Nothing is written there, not even the time stamp of an object
that both have, which is why the user's objects are not borrowed for writing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from bridge.git.contents import DeadlinePassed, open_unfollowed
from bridge.git.manifest import ContentKind
from bridge.git.objects import CHUNK_BYTES, Blob, read_blobs
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, feed_git, run_git
from bridge.git.repository import RepositoryLocation

#: Where the refs of kept contents are, in Bridge's own store.
KEPT_NAMESPACE = "refs/bridge/kept/"
#: Contents kept for one stamp; more, as a build folder that is not ignored has, are left out and marked so.
MAX_KEPT_FILES = 10_000
#: A ref that no row names is left alone for so long: its row may be about to be written.
ORPHAN_GRACE_SECONDS = 3_600.0

_LOCK_FILE = "bridge.lock"


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


@dataclass(frozen=True)
class KeptContents:
    """What one call kept.

    Parameters
    ----------
    ref
        The ref that holds everything kept; None when nothing was.
    objects
        What is held, by content digest; including what had been kept before.
    over_limit
        Digests and sizes of what was left out because of a limit.
    changed
        Digests of what was no longer there, or was another content, when it was read.
    """

    ref: str | None
    objects: Mapping[str, KeptObject]
    over_limit: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()


class ContentStore:
    """The contents kept for one repository.

    Parameters
    ----------
    path
        Folder of the bare repository; made when something is kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        return (self.path / "HEAD").exists()

    def keep(
        self,
        location: RepositoryLocation,
        wanted: Sequence[Wanted],
        known: Mapping[str, KeptObject],
        *,
        label: str,
        limit_bytes: int,
        moment: float,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> KeptContents:
        """Keep contents of a work tree that still are what they were when it was stamped.

        The smallest come first, so that one huge file keeps nothing but itself out.

        Parameters
        ----------
        known
            What earlier calls kept, by digest; it is held again and not read.
        label
            First part of the ref's name below :data:`KEPT_NAMESPACE`: the dirty hash.
        limit_bytes
            Most that is held for this call, what was known included.
        moment
            Time of the ref's commit, in seconds since 1970.

        Raises
        ------
        GitFailed, GitTimedOut, GitMissing
            If the store cannot be written; what was there before stays.
        OSError
            If its folder cannot be made.
        DeadlinePassed
            If reading went on past the time limit.
        """
        self._ensure(location, timeout_seconds)
        deadline = time.monotonic() + timeout_seconds
        taking = _Taking(os.fsencode(location.root), known, limit_bytes, deadline)
        ref = f"{KEPT_NAMESPACE}{label}/{secrets.token_hex(6)}"
        with self._locked(fcntl.LOCK_SH), tempfile.TemporaryDirectory(prefix="bridge-marks-") as folder:
            marks = Path(folder) / "marks"
            feed_git(
                [f"--git-dir={self.path}", "fast-import", "--quiet", "--done", f"--export-marks={marks}"],
                taking.stream(wanted, ref, int(moment)),
                cwd=self.path,
                timeout_seconds=timeout_seconds,
            )
            ids = dict(line.split(" ") for line in marks.read_text("ascii").splitlines())
        new = {digest: KeptObject(ids[f":{mark}"], size) for digest, (mark, size) in taking.taken.items()}
        held = {digest: known[digest] for digest in taking.held} | new
        return KeptContents(ref if held else None, held, taking.over_limit, frozenset(taking.changed))

    def read(
        self,
        objects: Mapping[str, str],
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> Iterator[tuple[str, Blob | None]]:
        """Yield digest and content of objects given by digest; None where the store lacks one.

        Whether a content has its digest is for the reader to check: only that proves it.
        """
        if not self.exists:
            yield from ((digest, None) for digest in objects)
            return
        digests = list(objects)
        names = [objects[digest].encode("ascii") for digest in digests]
        found = read_blobs(names, cwd=self.path, git_dir=self.path, timeout_seconds=timeout_seconds)
        for digest, (_, blob) in zip(digests, found, strict=True):
            yield digest, blob

    def reachable(self, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> frozenset[str]:
        """Return the ids of all objects that a ref holds."""
        output = run_git(
            [f"--git-dir={self.path}", "rev-list", "--objects", "--no-object-names", "--all"],
            cwd=self.path,
            timeout_seconds=timeout_seconds,
        )
        return frozenset(output.text.split())

    def drop(
        self, keep: frozenset[str], *, now: float, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> tuple[str, ...]:
        """Remove all refs but those of ``keep`` and those too young to judge; return what was removed.

        Raises
        ------
        GitFailed, GitTimedOut, GitMissing
            If the refs cannot be read or removed.
        """
        if not self.exists:
            return ()
        output = run_git(
            [f"--git-dir={self.path}", "for-each-ref", "--format=%(refname) %(committerdate:unix)", KEPT_NAMESPACE],
            cwd=self.path,
            timeout_seconds=timeout_seconds,
        )
        refs = (line.rsplit(" ", 1) for line in output.text.splitlines())
        gone = tuple(ref for ref, time_ in refs if ref not in keep and int(time_) <= now - ORPHAN_GRACE_SECONDS)
        if gone:
            run_git(
                [f"--git-dir={self.path}", "update-ref", "--stdin", "-z"],
                cwd=self.path,
                timeout_seconds=timeout_seconds,
                stdin=b"".join([b"delete " + ref.encode() + b"\0\0" for ref in gone]),
            )
        return gone

    def collect(self, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Remove what no ref holds, at once, and pack the rest. Nobody may keep anything meanwhile (see ``locked``)."""
        run_git(
            [f"--git-dir={self.path}", "-c", "gc.packRefs=true", "gc", "--quiet", "--prune=now"],
            cwd=self.path,
            timeout_seconds=timeout_seconds,
        )
        for left in self.path.glob("fast_import_crash_*"):
            left.unlink(missing_ok=True)

    def size(self) -> int:
        """Return how many bytes the store takes on the disk."""
        total = 0
        for root, _, files in os.walk(self.path):
            for name in files:
                with contextlib.suppress(FileNotFoundError):  # git renames its temporary files
                    total += os.lstat(os.path.join(root, name)).st_size
        return total

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all others from keeping contents here, in whatever process, until the block is left."""
        with self._locked(fcntl.LOCK_EX):
            yield

    def remove(self) -> None:
        """Remove the whole store."""
        shutil.rmtree(self.path)

    @contextlib.contextmanager
    def _locked(self, kind: int) -> Iterator[None]:
        # Adding is safe beside adding; only a gc between "is known" and "is held again" would take objects away.
        descriptor = os.open(self.path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)

    def _ensure(self, location: RepositoryLocation, timeout_seconds: float) -> None:
        if self.exists:
            return
        form = run_git(
            ["rev-parse", "--show-object-format"], cwd=location.run_directory, timeout_seconds=timeout_seconds
        ).text
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made beside its place and moved there: whoever sees it sees all of it.
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=self.path.parent))
        try:
            run_git(
                ["init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(made)],
                cwd=self.path.parent,
                timeout_seconds=timeout_seconds,
            )
            with contextlib.suppress(OSError):  # another process was quicker
                made.rename(self.path)
        finally:
            shutil.rmtree(made, ignore_errors=True)


class _Taking:
    """One import: what goes to git, and what became of each content."""

    def __init__(self, root: bytes, known: Mapping[str, KeptObject], limit_bytes: int, deadline: float) -> None:
        self._root = root
        self._known = known
        self._remaining = limit_bytes
        self._deadline = deadline
        self._marks = 0
        self.taken: dict[str, tuple[int, int]] = {}
        self.held: set[str] = set()
        self.over_limit: dict[str, int] = {}
        self.changed: set[str] = set()

    def stream(self, wanted: Sequence[Wanted], ref: str, moment: int) -> Iterator[bytes]:
        """Yield the input of ``git fast-import``: the blobs, then a commit that holds those that are right."""
        yield b"feature done\n"
        for size, content in self._sized(wanted):
            if size > self._remaining or len(self.taken) + len(self.held) >= MAX_KEPT_FILES:
                self.over_limit[content.digest] = size
            elif content.digest in self._known:
                self.held.add(content.digest)
                self._remaining -= size
            else:
                yield from self._blob(content, size)
        if self.taken or self.held:
            yield f"commit {ref}\ncommitter Bridge <bridge@localhost> {moment} +0000\ndata 0\n".encode()
            for digest in sorted(self.taken.keys() | self.held):
                source = self._known[digest].object_id if digest in self.held else f":{self.taken[digest][0]}"
                # A folder level, so that a change among thousands does not rewrite one long tree.
                yield f"M 100644 {source} {digest[:2]}/{digest[2:]}\n".encode()
        yield b"done\n"

    def _sized(self, wanted: Sequence[Wanted]) -> list[tuple[int, Wanted]]:
        """Return each content once, with its size, in the order of sizes; what is gone is noted."""
        sizes: dict[str, tuple[int, Wanted]] = {}
        for content in wanted:
            if content.digest in sizes:
                continue
            known = self._known.get(content.digest)
            try:
                size = os.lstat(self._root + b"/" + content.path).st_size if known is None else known.size
            except OSError:
                self.changed.add(content.digest)
                continue
            sizes[content.digest] = (size, content)
        self.changed -= sizes.keys()  # gone in one place, still there in another
        return sorted(sizes.values(), key=lambda pair: (pair[0], pair[1].path))

    def _blob(self, content: Wanted, size: int) -> Iterator[bytes]:
        with contextlib.ExitStack() as stack:
            source = _open(stack, self._root + b"/" + content.path, content.kind, size)
            if source is None:
                self.changed.add(content.digest)
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
            self._remaining -= size
        else:  # the blob stays without a name, and goes with the next gc
            self.changed.add(content.digest)


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
