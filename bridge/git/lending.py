"""A shared git directory of a worker's own: it writes objects there, and the repository borrows them until it has them.

A worker that may write into the repository's object directory may also delete there. So while it works, the file
``commondir`` of its worktree leads to a *lent* folder: one with an object directory of its own that borrows from the
repository's, and links to the refs, the configuration and the hooks, which it may read. No variable is needed for
that, so that a tool which drops ``GIT_*``, or a test which makes a repository, is not misled. The lent folder itself is
writable, because git takes the lock of the packed refs there even where no ref changes. The repository names the lent
objects in ``objects/info/alternates``, so that ``gc``, ``fsck`` and ``log --all`` find what the worktree's HEAD names.

Borrowing has a price: git writes no object that it finds in an alternate. Something that the user added meanwhile may
be in the lent folder alone. So *everything* in it is brought over before it goes, whether a ref needs it or not.
Each step can be repeated; a crash between two of them leaves an object in two places, never in none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.git.errors import ObjectsNotTaken
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS, feed_git, pin, run_git, unpin
from bridge.git.repository import RepositoryLocation, read_pointer

#: Loose objects that are copied one by one; more become a pack. An object above the size goes into a pack too.
MAX_COPIED_OBJECTS: Final = 200
MAX_COPIED_BYTES: Final = 8 * 2**20
#: Held while the alternates are rewritten, so that two workers' lines do not undo each other.
LOCK_NAME: Final = "bridge-alternates.lock"

#: What of the repository's shared directory the worker sees as it is: it may read it.
_SHARED: Final = (
    "HEAD",
    "branches",
    "config",
    "config.worktree",
    "description",
    "hooks",
    "info",
    "lfs",
    "logs",
    "modules",
    "refs",
    "reftable",
    "shallow",
    "svn",
    "worktrees",
)
_FOLDER: Final = re.compile(r"[0-9a-f]{2}")
_REST: Final = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_OBJECT_ID: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
#: Beginning of the name of a pack made on the way over.
_DRAFT: Final = "bridge-taken"
_PACK: Final = re.compile(r"pack-[0-9a-f]+\.pack")
_PIECE_BYTES: Final = 2**20
_KINDS: Final = frozenset({b"blob", b"tree", b"commit", b"tag"})


@dataclass(frozen=True, slots=True)
class Taken:
    """What was brought into the repository: objects copied one by one, and packs made of more."""

    objects: int
    packs: int


def make_lent(location: RepositoryLocation, folder: Path) -> None:
    """Make a lent folder from which the repository borrows, before there is a worktree for it; repeatable.

    What :func:`lend` does before the worktree takes part, for callers who can do that while git writes the worktree.

    Raises
    ------
    ObjectsNotTaken
        If the folder's name cannot stand among the alternates, or something cannot be written.
    """
    if "\n" in str(folder) or '"' in str(folder):
        raise ObjectsNotTaken(
            f"git cannot name {str(folder)!r} as a place for objects. Nothing was started.",
            details={"path": str(folder)},
        )
    common, own = location.common_dir, folder / "objects"
    try:
        for name in ("objects/info", "objects/pack", "rr-cache"):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in _SHARED:
            if not os.path.lexists(folder / name):
                (folder / name).symlink_to(common / name)
        # git locks the packed refs wherever a link leads, even where none of them changes (a rebase takes back its
        # CHERRY_PICK_HEAD so). A copy it may lock; and it holds all refs, should the user pack theirs meanwhile.
        _put(folder / "packed-refs", _all_refs(common), is_durable=False)
        _put(own / "info" / "alternates", os.fsencode(common / "objects") + b"\n", is_durable=False)
        with _alternates(location) as lines:
            if os.fsencode(own) not in lines:
                lines.append(os.fsencode(own))
    except OSError as error:
        raise _not_lent(location, folder, error) from error


def lend(location: RepositoryLocation, folder: Path) -> None:
    """Give a linked worktree a shared git directory of its own at ``folder``, from which the repository borrows.

    Repeatable: what exists stays as it is. From here on Bridge's own git, in this process, takes no notice of where
    the worktree's pointers lead (:func:`bridge.git.process.pin`).

    Raises
    ------
    ObjectsNotTaken
        As :func:`make_lent`, which need not have been called.
    """
    make_lent(location, folder)
    try:
        pin(location.root, git_dir=location.git_dir, common_dir=location.common_dir)
        _put(location.git_dir / "commondir", os.fsencode(folder) + b"\n")
    except OSError as error:
        raise _not_lent(location, folder, error) from error


def _not_lent(location: RepositoryLocation, folder: Path, error: OSError) -> ObjectsNotTaken:
    return ObjectsNotTaken(
        f"{str(location.common_dir)!r} cannot borrow objects from {str(folder)!r}: {error.strerror}.",
        details={"path": str(folder)},
    )


def take_back(location: RepositoryLocation, folder: Path, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> Taken:
    """Bring every object of a lent folder into the repository, stop borrowing from it, and remove it.

    Nothing may write into the folder any more. Repeatable after a crash at any point, for a folder that is gone, and
    for a worktree that is.

    Parameters
    ----------
    location
        The worktree; one whose git directory is gone, or any other of the repository, does as well: then only the
        objects are dealt with.

    Raises
    ------
    ObjectsNotTaken
        If an object is damaged, is not what its name says, or cannot be written. The folder stays, and the repository
        goes on borrowing from it.
    GitFailed, GitTimedOut
        If git could not pack them; the same holds then.
    """
    taken = Taken(0, 0)
    try:
        if location.is_linked and location.git_dir.is_dir():
            # Whatever the worker made of it.
            _put(location.git_dir / "commondir", b"../..\n")
        if (folder / "objects").is_dir():
            taken = _take(location, folder / "objects", timeout_seconds)
        with _alternates(location) as lines:
            while os.fsencode(folder / "objects") in lines:
                lines.remove(os.fsencode(folder / "objects"))
        if folder.is_dir():
            shutil.rmtree(folder)
    except OSError as error:
        raise ObjectsNotTaken(
            f"The objects in {str(folder)!r} cannot be brought into {str(location.common_dir)!r}: {error.strerror}. "
            "They are still there.",
            details={"path": str(folder)},
        ) from error
    if location.worktree_root is not None:
        unpin(location.worktree_root)
    return taken


def location_of(common_dir: Path, worktree: Path) -> RepositoryLocation:
    """Return the location of a linked worktree by what its repository knows of it, not by the worktree's own pointers.

    If the repository does not know it (any more), its git directory is one that does not exist.
    """
    wanted = os.path.join(os.path.realpath(worktree), ".git")
    known = common_dir / "worktrees"
    git_dir = known / "bridge-unknown"
    for name in _names(known):
        pointer = read_pointer(known / name / "gitdir")
        if pointer is not None and os.path.realpath(os.fsdecode(pointer.rstrip(b"\r\n"))) == wanted:
            git_dir = known / name
    root = Path(os.path.realpath(worktree))
    return RepositoryLocation(root, git_dir, Path(os.path.realpath(common_dir)), root)


def is_lent(location: RepositoryLocation, folder: Path) -> bool:
    """Return whether a repository borrows from a lent folder."""
    return os.fsencode(folder / "objects") in _read(location.common_dir / "objects" / "info" / "alternates")


def _take(location: RepositoryLocation, folder: Path, timeout_seconds: float) -> Taken:
    loose = list(_loose(folder))
    has_packs = any(_PACK.fullmatch(name) for name in _names(folder / "pack"))
    is_small = len(loose) <= MAX_COPIED_OBJECTS and all(size <= MAX_COPIED_BYTES for _, _, size in loose)
    if has_packs or not is_small:
        return Taken(0, _take_as_pack(location, folder, timeout_seconds))
    objects = location.common_dir / "objects"
    for name, path, _ in loose:
        _copy(objects, name, path)
    for outer in sorted({name[:2] for name, _, _ in loose}):
        _flush(objects / outer)
    return Taken(len(loose), 0)


def _flush(folder: Path) -> None:
    """See to it that the names in a folder outlast a power cut: what they were copied from is about to go."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _loose(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Yield the loose objects of a folder: name, file, bytes. Whatever else lies there is not an object's file."""
    for outer in _names(folder):
        if _FOLDER.fullmatch(outer) and not (folder / outer).is_symlink():
            for inner in _names(folder / outer):
                if _REST.fullmatch(inner):
                    path = folder / outer / inner
                    yield outer + inner, path, path.lstat().st_size


def _names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def _copy(objects: Path, name: str, source: Path) -> None:
    """Bring one object over; its content must be what its name says, since a worker wrote it."""
    target = objects / name[:2] / name[2:]
    if target.exists():
        return
    content = _read_regular(source)
    if not _is_sound(name, content):
        raise ObjectsNotTaken(
            f"The object {name} in {str(source.parent.parent)!r} is damaged, so none is brought over. "
            "They are still there.",
            details={"object": name, "path": str(source)},
        )
    if not target.parent.is_dir():
        target.parent.mkdir(exist_ok=True)
        # As the user shares it: a repository of a group has the bits for that on its folders.
        os.chmod(target.parent, stat.S_IMODE(objects.stat().st_mode))
    draft = target.parent / f"tmp_obj_{secrets.token_hex(6)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _read_regular(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return file.read(MAX_COPIED_BYTES + 1)


def _is_sound(name: str, content: bytes) -> bool:
    digest = hashlib.sha1(usedforsecurity=False) if len(name) == 40 else hashlib.sha256()
    unpacker = zlib.decompressobj()
    head, size, data = b"", 0, content
    try:
        while not unpacker.eof:
            # In pieces: a few bytes may stand for a great many.
            part = unpacker.decompress(data, _PIECE_BYTES)
            data = unpacker.unconsumed_tail
            if not part and not data:
                return False
            if b"\0" not in head:
                head += part
            digest.update(part)
            size += len(part)
    except zlib.error:
        return False
    kind, _, rest = head.partition(b" ")
    length, nul, _ = rest.partition(b"\0")
    if nul != b"\0" or kind not in _KINDS or not length.isdigit():
        return False
    return int(length) == size - len(kind) - len(length) - 2 and digest.hexdigest() == name


def _take_as_pack(location: RepositoryLocation, folder: Path, timeout_seconds: float) -> int:
    """Bring everything over as one pack; git recomputes each object's name from its content on the way in."""
    where = location.common_dir
    # Its own alternates are of no use here, and the worker may have written anything there.
    (folder / "info" / "alternates").unlink(missing_ok=True)
    own = {"GIT_OBJECT_DIRECTORY": str(folder)}
    with_ours = own | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": _listed(location.common_dir / "objects")}
    listed = run_git(
        ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"],
        cwd=where,
        timeout_seconds=timeout_seconds,
        extra_environment=own,
    ).stdout
    if not listed:
        return 0
    made = run_git(
        ["pack-objects", "--quiet", str(folder / _DRAFT)],
        cwd=where,
        timeout_seconds=timeout_seconds,
        extra_environment=with_ours,
        stdin=listed,
    ).text
    draft = folder / f"{_DRAFT}-{made}.pack"
    feed_git(["index-pack", "--stdin"], _pieces(draft), cwd=where, timeout_seconds=timeout_seconds)
    _require_all(location, listed, timeout_seconds)
    return 1


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _require_all(location: RepositoryLocation, listed: bytes, timeout_seconds: float) -> None:
    """Prove that the repository's own folder holds the objects, without what it borrows."""
    objects = location.common_dir / "objects"
    with contextlib.ExitStack() as stack:
        bare = objects / f"bridge-proof-{secrets.token_hex(6)}"
        # A folder that sees the repository's packs and loose objects, and no alternates.
        bare.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, bare)
        (bare / "pack").symlink_to(objects / "pack")
        for name in _names(objects):
            if _FOLDER.fullmatch(name):
                (bare / name).symlink_to(objects / name)
        answer = run_git(
            ["cat-file", "--batch-check=%(objectname)"],
            cwd=location.common_dir,
            timeout_seconds=timeout_seconds,
            extra_environment={"GIT_OBJECT_DIRECTORY": str(bare)},
            stdin=listed,
        ).stdout
    missing = [line for line in answer.splitlines() if line.endswith(b" missing")]
    if missing:
        raise ObjectsNotTaken(
            f"{len(missing)} objects did not arrive in {str(objects)!r}. They are still where they were.",
            details={"missing": len(missing)},
        )


@contextlib.contextmanager
def _alternates(location: RepositoryLocation) -> Iterator[list[bytes]]:
    """Yield the lines of ``objects/info/alternates`` for a change, and put the new list in place if there was one."""
    info = location.common_dir / "objects" / "info"
    info.mkdir(exist_ok=True)
    target = info / "alternates"
    lock = os.open(info / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = _read(target)
        lines = list(before)
        yield lines
        if lines == before:
            return
        if not lines:
            target.unlink(missing_ok=True)
            return
        _put(target, b"".join(line + b"\n" for line in lines))
    finally:
        os.close(lock)


def _read(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except FileNotFoundError:
        return []


def _all_refs(common_dir: Path) -> bytes:
    """Return the refs of a repository in the form of packed ones, without those of Bridge's own that are not packed."""
    found: dict[bytes, bytes] = {}
    for line in _read(common_dir / "packed-refs"):
        object_id, _, name = line.partition(b" ")
        if name and not line.startswith((b"#", b"^")):
            found[name] = object_id
    root = os.fsencode(common_dir)
    for folder, folders, files in os.walk(os.path.join(root, b"refs")):
        if folder == os.path.join(root, b"refs"):
            folders[:] = [name for name in folders if name != b"bridge"]
        for name in files:
            content = (read_pointer(os.fsdecode(os.path.join(folder, name))) or b"").strip()
            if _OBJECT_ID.fullmatch(content):
                found[os.path.relpath(os.path.join(folder, name), root)] = content
    return b"".join(b"%s %s\n" % (found[name], name) for name in sorted(found))


def _put(target: Path, content: bytes, *, is_durable: bool = True) -> None:
    """Put a file in the place of another in one step; ``is_durable``: such that a power cut does not take it back."""
    draft = target.parent / f"{target.name}.{secrets.token_hex(6)}.tmp"
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        if is_durable:
            os.fsync(file.fileno())
    draft.replace(target)


def _listed(path: Path) -> str:
    """Return a path for a list that is separated by colons."""
    text = str(path)
    if not any(character in text for character in ':"\\'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
