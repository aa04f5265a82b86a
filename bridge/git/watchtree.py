"""The folders that a watch covers, and what an event in one of them means.

Covered are every folder of the worktree, and of each git directory that a status reads (the worktree's own, the
shared one, those of repositories below) the folder itself and the few within it that matter. Objects are not:
they never change, they only come and go.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import IntEnum, auto
from pathlib import Path

from bridge.git.inotify import (
    IN_ATTRIB,
    IN_CLOSE_WRITE,
    IN_CREATE,
    IN_DELETE,
    IN_DELETE_SELF,
    IN_IGNORED,
    IN_ISDIR,
    IN_MODIFY,
    IN_MOVE_SELF,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_Q_OVERFLOW,
    IN_UNMOUNT,
    Event,
    Inotify,
    WatchFailed,
)
from bridge.git.repository import RepositoryLocation, git_dirs_at, read_pointer

#: Folders that one worktree may have; each costs the kernel about a kilobyte that cannot be swapped out.
MAX_FOLDERS = 50_000
#: Repositories within a worktree that are watched with it.
MAX_REPOSITORIES = 64
#: New or moved folders that are taken up one by one; beyond it the whole tree is walked.
MAX_PENDING = 64

#: Everything that can change what a status says. Closing a file that was open for writing is the only thing that is
#: heard of one written through a memory map.
MASK = (
    IN_MODIFY
    | IN_ATTRIB
    | IN_CLOSE_WRITE
    | IN_MOVED_FROM
    | IN_MOVED_TO
    | IN_CREATE
    | IN_DELETE
    | IN_DELETE_SELF
    | IN_MOVE_SELF
)
COOKIE_MASK = IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF

#: Folders of a git directory that a status, or our reading of an operation in progress, looks into.
GIT_PARTS = frozenset({b"info", b"refs", b"reftable", b"rebase-apply", b"rebase-merge", b"sequencer"})
#: Files at the top of a git directory that come and go without meaning for a status.
MEANINGLESS = frozenset({b"COMMIT_EDITMSG", b"FETCH_HEAD", b"ORIG_HEAD", b"gc.log", b"gc.pid"})
#: Further such files in a shared git directory: they are the main worktree's own.
OWN_TO_MAIN = frozenset(
    {
        b"AUTO_MERGE",
        b"BISECT_LOG",
        b"CHERRY_PICK_HEAD",
        b"HEAD",
        b"MERGE_HEAD",
        b"MERGE_MODE",
        b"MERGE_MSG",
        b"REVERT_HEAD",
        b"SQUASH_MSG",
        b"index",
    }
)
_LOCK = b".lock"
_DOT_GIT = b".git"
_COMMON_DIR = b"commondir"


class Kind(IntEnum):
    """What a watched folder is; of what is several things at once, the greatest counts, as it has most to tell."""

    COOKIES = auto()
    GIT_SHARED = auto()
    GIT_TOP = auto()
    GIT_PART = auto()
    WORKTREE = auto()


@dataclass(frozen=True, slots=True)
class Folder:
    """A watched folder, by the path under which it was found."""

    path: bytes
    kind: Kind


@dataclass
class Pending:
    """What the next walk has to take up."""

    everything: bool = True
    added: set[Folder] = field(default_factory=set)
    moved: set[bytes] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.everything or self.added or self.moved)

    def all_anew(self) -> None:
        self.everything = True
        self.added.clear()
        self.moved.clear()


class WatchTree:
    """Keeps the watches of one worktree in step with its folders.

    Parameters
    ----------
    queue
        Where the events come from.
    location
        The worktree; its git commands must run at its top level.
    cookies
        Our own folder, real path.
    max_folders
        Limit of watched folders.
    """

    def __init__(
        self, queue: Inotify, location: RepositoryLocation, cookies: bytes, *, max_folders: int = MAX_FOLDERS
    ) -> None:
        self._queue = queue
        self._location = location
        self._root = os.fsencode(location.root)
        self._cookies = cookies
        self._max_folders = max_folders
        self._folders: dict[int, Folder] = {}
        self._dropped: set[int] = set()
        self._pending = Pending()
        #: The repositories below the top level, by their folder.
        self.nested: dict[bytes, RepositoryLocation] = {}
        #: Folders that must stay the same ones: the top level and the git directories.
        self.roots: tuple[bytes, ...] = ()
        self._root_identities: dict[bytes, tuple[int, int] | None] = {}
        self.cookie_watch = self._watch_cookies()

    @property
    def folder_count(self) -> int:
        """How many folders are watched."""
        return len(self._folders)

    @property
    def is_in_step(self) -> bool:
        """Whether no folder is known to have come or moved since the last walk."""
        return self._pending.is_empty

    def has_same_roots(self) -> bool:
        """Whether the folders at the roots' paths are those that are watched (true before the first walk)."""
        return all(_identity(path) == identity for path, identity in self._root_identities.items())

    def lose_track(self) -> None:
        """Let the next walk take up everything."""
        self._pending.all_anew()

    def apply(self, event: Event) -> bool:
        """Note what an event means for the watches; return whether it may mean a change of the worktree."""
        if event.mask & (IN_Q_OVERFLOW | IN_UNMOUNT):
            self._pending.all_anew()
            return True
        folder = self._folders.get(event.watch)
        if folder is None:
            # Of a watch that was given up, after which nothing more is owed; or of none that we know.
            if event.mask & IN_IGNORED and event.watch in self._dropped:
                self._dropped.discard(event.watch)
                return False
            return True
        if event.mask & IN_IGNORED:
            del self._folders[event.watch]
        if event.mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF) and (
            folder.kind is Kind.COOKIES or folder.path in self.roots
        ):
            self._pending.all_anew()
            return True
        if folder.kind is Kind.COOKIES:
            return False
        if _is_meaningless(folder, event):
            return False
        self._note(folder, event)
        return True

    def _note(self, folder: Folder, event: Event) -> None:
        is_top = folder.kind in {Kind.GIT_TOP, Kind.GIT_SHARED}
        if is_top and (folder.path not in self.roots or event.name == _COMMON_DIR):
            # It may have become a repository just now, or one with another shared directory.
            self._pending.all_anew()
            return
        if event.name == _DOT_GIT and folder.kind is Kind.WORKTREE:
            if event.mask & ~(IN_ATTRIB | IN_ISDIR):
                self._pending.all_anew()
            return
        if not event.mask & IN_ISDIR or self._pending.everything:
            return
        path = os.path.join(folder.path, event.name)
        if event.mask & IN_MOVED_FROM:
            self._pending.moved.add(path)
        elif event.mask & (IN_CREATE | IN_MOVED_TO):
            if not is_top:
                self._pending.added.add(Folder(path, folder.kind))
            elif event.name in GIT_PARTS:
                self._pending.added.add(Folder(path, Kind.GIT_PART))
        if len(self._pending.added) + len(self._pending.moved) > MAX_PENDING:
            self._pending.all_anew()

    def catch_up(self, deadline: float) -> None:
        """Watch every folder that came since the last walk.

        Whatever happens in one of them from here on is reported; what happened before, the caller has yet to see.

        Parameters
        ----------
        deadline
            Monotonic time.

        Raises
        ------
        WatchFailed
            If a folder cannot be watched, the limits are reached, or the time is up.
        """
        pending, self._pending = self._pending, Pending(everything=False)
        try:
            if pending.everything or self._holds_repository(pending.moved):
                self._walk_all(deadline)
                return
            self._drop_below(pending.moved)
            for folder in pending.added:
                self._walk(folder, deadline, None)
        except BaseException:
            self._pending.all_anew()
            raise

    def _walk_all(self, deadline: float) -> None:
        self.nested = {}
        self._root_identities = {}
        location = self._location
        _require_plain_pointer(self._root)
        own = [os.fsencode(location.git_dir), os.fsencode(location.common_dir)]
        self.roots = tuple(dict.fromkeys([self._root, *own]))
        seen: set[int] = {self._watch_cookies()}
        self._walk(Folder(self._root, Kind.WORKTREE), deadline, seen)
        self._walk_git_dirs(own[0], own[1], deadline, seen)
        for number in self._folders.keys() - seen:
            self._drop(number)

    def _walk(self, top: Folder, deadline: float, seen: set[int] | None) -> None:
        """Watch a folder and all below it: first the watch, then the look at what is there, so that none is missed."""
        stack = [top.path]
        while stack:
            path = stack.pop()
            if not self._watch(Folder(path, top.kind), seen):
                continue
            if time.monotonic() > deadline:
                raise WatchFailed("the folders could not be walked in time")
            for entry in _entries(path):
                if entry.is_dir(follow_symlinks=False):
                    if entry.name == _DOT_GIT and top.kind is Kind.WORKTREE:
                        self._take_repository(path, deadline, seen)
                    elif entry.path != self._cookies:
                        stack.append(entry.path)
                elif top.kind is Kind.GIT_PART:
                    _require_own(entry)
                elif entry.name == _DOT_GIT:
                    self._take_repository(path, deadline, seen)

    def _take_repository(self, folder: bytes, deadline: float, seen: set[int] | None) -> None:
        """Watch the git directories of a repository below the top level."""
        if folder == self._root:
            return
        if seen is None:
            # It came with a folder that is taken up by itself: what is nested is only told by walking all.
            self._pending.all_anew()
            return
        name = os.fsdecode(folder)
        found = git_dirs_at(name)
        if found is None:
            # git takes it for no repository, and never looks into a folder of that name; but it may become one.
            dot_git = os.path.join(folder, _DOT_GIT)
            if os.path.islink(dot_git) or not os.path.isdir(dot_git):
                raise WatchFailed(f"{os.fsdecode(dot_git)!r} leads to no repository")
            self._walk_git_dirs(dot_git, dot_git, deadline, seen)
            return
        if len(self.nested) >= MAX_REPOSITORIES:
            raise WatchFailed(f"more than {MAX_REPOSITORIES} repositories within the worktree")
        _require_plain_pointer(folder)
        git_dir, common = found
        self.nested[folder] = RepositoryLocation(Path(name), Path(git_dir), Path(common), Path(name))
        paths = (os.fsencode(git_dir), os.fsencode(common))
        self.roots = tuple(dict.fromkeys((*self.roots, *paths)))
        self._walk_git_dirs(*paths, deadline, seen)

    def _walk_git_dirs(self, git_dir: bytes, common: bytes, deadline: float, seen: set[int]) -> None:
        self._walk_git_dir(Folder(git_dir, Kind.GIT_TOP), deadline, seen)
        if common != git_dir:
            self._walk_git_dir(Folder(common, Kind.GIT_SHARED), deadline, seen)

    def _walk_git_dir(self, folder: Folder, deadline: float, seen: set[int]) -> None:
        git_dir = folder.path
        if not self._watch(folder, seen):
            raise WatchFailed(f"{os.fsdecode(git_dir)!r} is gone")
        for entry in _entries(git_dir):
            if entry.is_dir(follow_symlinks=False):
                if entry.name in GIT_PARTS:
                    self._walk(Folder(entry.path, Kind.GIT_PART), deadline, seen)
            elif entry.name not in MEANINGLESS:
                _require_own(entry)

    def _watch(self, folder: Folder, seen: set[int] | None) -> bool:
        is_root = folder.path in self.roots
        if is_root:
            self._root_identities[folder.path] = _identity(folder.path)
        number = self._queue.add(folder.path, MASK)
        if is_root and (number is None or _identity(folder.path) != self._root_identities[folder.path]):
            raise WatchFailed(f"{os.fsdecode(folder.path)!r} is gone")
        if number is None:
            return False  # it went again, and its parent will have told so
        if number == self.cookie_watch:
            raise WatchFailed("our own folder lies in the worktree under another name")
        known = self._folders.get(number)
        if known is None or known.path != folder.path or known.kind < folder.kind:
            self._folders[number] = folder
        if seen is not None:
            seen.add(number)
        if len(self._folders) > self._max_folders:
            raise WatchFailed(f"more than {self._max_folders} folders")
        return True

    def _watch_cookies(self) -> int:
        number = self._queue.add(self._cookies, COOKIE_MASK)
        if number is None:
            raise WatchFailed(f"{os.fsdecode(self._cookies)!r} is gone")
        self._folders[number] = Folder(self._cookies, Kind.COOKIES)
        self.cookie_watch = number
        return number

    def _holds_repository(self, paths: Collection[bytes]) -> bool:
        below = tuple(path + b"/" for path in paths)
        return any(folder in paths or folder.startswith(below) for folder in (*self.nested, *self.roots))

    def _drop_below(self, gone: Collection[bytes]) -> None:
        """Give up the watches of folders that were moved away; where they moved to, they are taken up anew."""
        if not gone:
            return
        below = tuple(path + b"/" for path in gone)
        for number, folder in list(self._folders.items()):
            if folder.path in gone or folder.path.startswith(below):
                self._drop(number)

    def _drop(self, number: int) -> None:
        del self._folders[number]
        if self._queue.remove(number):
            self._dropped.add(number)


def _identity(path: bytes) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_meaningless(folder: Folder, event: Event) -> bool:
    if folder.kind is Kind.WORKTREE or event.mask & IN_ISDIR or not event.name:
        return False
    if event.name.endswith(_LOCK):
        return True
    if folder.kind is Kind.GIT_PART:
        return False
    return event.name in MEANINGLESS or (folder.kind is Kind.GIT_SHARED and event.name in OWN_TO_MAIN)


def _entries(path: bytes) -> Iterator[os.DirEntry[bytes]]:
    try:
        with os.scandir(path) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return  # it went while we came; its parent tells
    except OSError as error:
        raise WatchFailed(f"{os.fsdecode(path)!r} cannot be looked into: {error.strerror}") from error


def _require_own(entry: os.DirEntry[bytes]) -> None:
    """Refuse a symlink in a git directory: what it leads to changes elsewhere (a HEAD of old is one, and no matter)."""
    if entry.is_symlink() and not (entry.name == b"HEAD" and os.readlink(entry.path).startswith(b"refs/")):
        raise WatchFailed(f"{os.fsdecode(entry.path)!r} is a symlink")


def _require_plain_pointer(folder: bytes) -> None:
    """Refuse a ``.git`` that leads through symlinks to its git directories: these could be turned elsewhere unseen."""
    dot_git = os.path.join(folder, _DOT_GIT)
    git_dir = dot_git
    content = read_pointer(os.fsdecode(dot_git))
    if content is not None and content.startswith(b"gitdir:"):
        git_dir = os.path.join(folder, content.removeprefix(b"gitdir:").strip(b" \r\n"))
    common = read_pointer(os.fsdecode(os.path.join(git_dir, _COMMON_DIR)))
    for path in (git_dir, git_dir if common is None else os.path.join(git_dir, common.rstrip(b"\r\n"))):
        if os.path.realpath(path) != os.path.normpath(path):
            raise WatchFailed(f"{os.fsdecode(dot_git)!r} leads through a symlink")
