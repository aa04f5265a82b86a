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
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bridge.git.errors import GitFailed
from bridge.git.looseobjects import LooseWriter
from bridge.git.objects import Blob, read_blobs
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, feed_git, run_git
from bridge.git.repository import RepositoryLocation
from bridge.git.taking import Import, KeptObject, Selection, Wanted, read_whole, select

__all__ = ["ContentStore", "KeptContents", "KeptObject", "Wanted"]

#: Where the refs of kept contents are, in Bridge's own store.
KEPT_NAMESPACE = "refs/bridge/kept/"
#: Contents kept for one stamp; more, as a build folder that is not ignored has, are left out and marked so.
MAX_KEPT_FILES = 10_000
#: Up to so many new contents, and so many bytes of them (8 MiB), are written one by one and without starting git.
MAX_LOOSE_FILES = 100
MAX_LOOSE_BYTES = 8 * 1024 * 1024
#: A ref that no row names is left alone for so long: its row may be about to be written.
ORPHAN_GRACE_SECONDS = 3_600.0

_LOCK_FILE = "bridge.lock"
# Whatever the user's default is: refs of this repository are written by our own code too.
_AS_FILES = ("-c", "init.defaultRefFormat=files")


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
        root = os.fsencode(location.root)
        ref = f"{KEPT_NAMESPACE}{label}/{secrets.token_hex(6)}"
        with self._locked(fcntl.LOCK_SH):
            chosen = select(root, wanted, known, limit_bytes=limit_bytes, max_files=MAX_KEPT_FILES)
            if len(chosen.new) <= MAX_LOOSE_FILES and chosen.new_bytes <= MAX_LOOSE_BYTES:
                new = self._keep_loose(root, chosen, ref, int(moment), deadline)
            else:
                new = self._keep_packed(root, chosen, ref, int(moment), deadline)
        held = chosen.held | new
        return KeptContents(ref if held else None, held, chosen.over_limit, frozenset(chosen.changed))

    def _keep_loose(
        self, root: bytes, chosen: Selection, ref: str, moment: int, deadline: float
    ) -> dict[str, KeptObject]:
        """Keep a few small contents without starting git, which would take longer than the stamp itself."""
        writer = LooseWriter(self.path)
        held = [found.object_id for found in chosen.held.values()]
        if not writer.are_loose(held):
            self._require_objects(held, deadline)
        new: dict[str, KeptObject] = {}
        for size, content in chosen.new:
            found = read_whole(root, content, size, deadline)
            if found is None:
                chosen.changed.add(content.digest)
            else:
                new[content.digest] = KeptObject(writer.write(b"blob", found), size)
        ids = {digest: found.object_id for digest, found in (chosen.held | new).items()}
        if ids:
            writer.write_ref(ref, writer.write_commit(writer.write_tree(ids), moment))
        return new

    def _keep_packed(
        self, root: bytes, chosen: Selection, ref: str, moment: int, deadline: float
    ) -> dict[str, KeptObject]:
        """Keep many or large contents in one pack, in bounded memory."""
        incoming = Import(root, chosen, deadline)
        with tempfile.TemporaryDirectory(prefix="bridge-marks-") as folder:
            marks = Path(folder) / "marks"
            feed_git(
                [f"--git-dir={self.path}", "fast-import", "--quiet", "--done", f"--export-marks={marks}"],
                incoming.stream(ref, moment),
                cwd=self.path,
                timeout_seconds=max(deadline - time.monotonic(), 0.001),
            )
            ids = dict(line.split(" ") for line in marks.read_text("ascii").splitlines())
        return {digest: KeptObject(ids[f":{mark}"], size) for digest, (mark, size) in incoming.taken.items()}

    def _require_objects(self, object_ids: Sequence[str], deadline: float) -> None:
        output = run_git(
            [f"--git-dir={self.path}", "cat-file", "--batch-check=%(objectname) %(objecttype)"],
            cwd=self.path,
            timeout_seconds=max(deadline - time.monotonic(), 0.001),
            stdin="".join(f"{object_id}\n" for object_id in object_ids).encode(),
        )
        present = {line.partition(" ")[0] for line in output.text.splitlines() if line.endswith(" blob")}
        if not present.issuperset(object_ids):
            raise GitFailed(f"Contents that were kept in {str(self.path)!r} are not there any more.")

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

    def forget(self, refs: Sequence[str], *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        """Remove refs, whatever their age; :meth:`collect` then removes what they alone held.

        Raises
        ------
        GitFailed, GitTimedOut, GitMissing
            If they cannot be removed.
        """
        run_git(
            [f"--git-dir={self.path}", "update-ref", "--stdin", "-z"],
            cwd=self.path,
            timeout_seconds=timeout_seconds,
            stdin=b"".join([b"delete " + ref.encode() + b"\0\0" for ref in refs]),
        )

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
                [
                    "-c",
                    "init.defaultRefFormat=files",
                    "init",
                    "--quiet",
                    "--bare",
                    "--template=",
                    f"--object-format={form}",
                    made,
                ],
                cwd=self.path.parent,
                timeout_seconds=timeout_seconds,
            )
            with contextlib.suppress(OSError):  # another process was quicker
                made.rename(self.path)
        finally:
            shutil.rmtree(made, ignore_errors=True)
