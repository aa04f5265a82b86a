"""Has anything happened to a worktree since? The only answer that counts is "nothing".

A watch hears of changes from the kernel, before the call that made them returns. To be asked, it makes a file in a
folder of its own and reads events until it comes to that file's: whatever was reported before the file was made
has been read by then, since all events stand in one queue. Anything else than silence (an event, a lost event, a
limit, a folder that is another one now, a clock that jumped) is taken for a change, and the files are looked at.

What is not heard: a store through a memory map whose file was closed before, a write through a hard link from
outside the worktree, and the loss of objects.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from bridge.git.errors import GitError
from bridge.git.inotify import IN_CREATE, IN_Q_OVERFLOW, Inotify, WatchFailed
from bridge.git.meaning import are_settled, identities, outside_files
from bridge.git.mounts import Mount, MountTable, mounts_of
from bridge.git.process import child_environment
from bridge.git.repository import RepositoryLocation
from bridge.git.watchtree import MAX_FOLDERS, WatchTree

#: Time limit of walking the folders of a worktree.
WALK_SECONDS = 10.0
#: How long the event of our own file may take. It is there before the file's maker goes on; more means none comes.
COOKIE_SECONDS = 0.05
#: How often a queue that was full is emptied before it is given up.
COOKIE_ATTEMPTS = 3
#: How often the folders are walked anew when more of them come meanwhile.
CATCH_UP_ATTEMPTS = 3
#: Pause after a watch failed before it is tried again; doubled at each failure in a row, up to the longest.
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 300.0
#: How far the clocks may part between two questions. More means that the machine slept, or that a clock was set.
CLOCK_TOLERANCE_SECONDS = 1.0

_Identities = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The clocks at one moment, in seconds: running (stops in sleep), running since boot, wall."""

    monotonic: float
    boot: float
    wall: float

    def has_jumped(self, earlier: ClockReading) -> bool:
        """Whether the machine slept, or the wall clock was set, since an earlier reading."""
        slept = (self.boot - earlier.boot) - (self.monotonic - earlier.monotonic)
        stepped = (self.wall - earlier.wall) - (self.boot - earlier.boot)
        return abs(slept) > CLOCK_TOLERANCE_SECONDS or abs(stepped) > CLOCK_TOLERANCE_SECONDS


def read_clocks() -> ClockReading:
    """Return what the machine's clocks say."""
    monotonic = time.monotonic()
    boot = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else monotonic
    return ClockReading(monotonic, boot, time.time())


@dataclass(frozen=True, slots=True)
class Mark:
    """A point in the course of events; made by a watch, and good for that watch alone."""

    generation: int
    outside: tuple[str, ...]
    outside_identities: _Identities
    environment: dict[str, str]


@dataclass
class _Standing:
    """What a watch holds of the system while it works."""

    queue: Inotify
    mounts: MountTable
    tree: WatchTree
    cookies: str
    #: All mounts when they were last looked at, which was before the folders were walked.
    mounts_seen: tuple[Mount, ...]
    #: The mounts that matter, and what they were chosen for.
    mounted: tuple[Mount, ...] = ()
    rests_on: tuple[tuple[bytes, ...], tuple[str, ...]] = ((), ())


class WorktreeWatch:
    """Watches one worktree. For any number of threads; does nothing between questions and has no thread.

    Parameters
    ----------
    location
        The worktree.
    cookie_folder
        A folder of Bridge's own, made if missing; the watch makes one for itself in it.
    clocks
        Read at each question.
    max_folders
        Limit of watched folders.
    """

    def __init__(
        self,
        location: RepositoryLocation,
        *,
        cookie_folder: Path,
        clocks: Callable[[], ClockReading] = read_clocks,
        max_folders: int = MAX_FOLDERS,
    ) -> None:
        self.location = location
        self._cookie_folder = cookie_folder
        self._clocks = clocks
        self._max_folders = max_folders
        self._lock = threading.Lock()
        self._standing: _Standing | None = None
        self._generation = 0
        self._cookie_number = 0
        self._last_clocks = clocks()
        self._retry_at = 0.0
        self._retry_seconds = RETRY_SECONDS
        self._is_closed = False
        #: Why the watch cannot vouch for anything at present; None while it can.
        self.failure: str | None = None

    @property
    def folder_count(self) -> int:
        """How many folders are watched at present."""
        standing = self._standing
        return 0 if standing is None else standing.tree.folder_count

    def close(self) -> None:
        """Give everything back; a closed watch vouches for nothing."""
        with self._lock:
            self._is_closed = True
            self._fall("closed")

    def mark(self, *, timeout_seconds: float) -> Mark | None:
        """Return the present point, for an observation that begins after this; None if the watch cannot vouch.

        Sets the watch up if need be, which takes a walk through all folders.
        """
        with self._lock:
            try:
                return self._mark(timeout_seconds)
            except (WatchFailed, GitError, OSError) as error:
                self._fall(str(error))
                return None

    def is_quiet_since(self, mark: Mark) -> bool:
        """Whether nothing that was reported before this call began can have changed the worktree since a mark.

        False means that something did, or that it cannot be told.
        """
        with self._lock:
            try:
                return self._is_quiet_since(mark)
            except (WatchFailed, OSError) as error:
                self._fall(str(error))
                return False

    def _mark(self, timeout_seconds: float) -> Mark | None:
        clocks = self._clocks()
        if self._standing is None:
            if self._is_closed or clocks.boot < self._retry_at:
                return None
            self._standing = self._set_up()
        standing = self._standing
        deadline = time.monotonic() + min(timeout_seconds, WALK_SECONDS)
        self._check_surroundings(standing, clocks)
        self._drain(standing)
        for _ in range(CATCH_UP_ATTEMPTS):
            if standing.tree.is_in_step:
                break
            standing.tree.catch_up(deadline)
            self._drain(standing)
        if not standing.tree.is_in_step:
            self.failure = "folders come faster than they can be followed"
            return None
        environment = child_environment()
        outside = self._outside(standing, environment, timeout_seconds)
        found = () if outside is None else identities(outside)
        if outside is None or not are_settled(found, clocks.wall):
            self.failure = "the settings cannot be told for sure, or were written just now"
            return None
        self._remember_mounts(standing, outside)
        self.failure = None
        self._retry_seconds = RETRY_SECONDS
        return Mark(self._generation, outside, found, environment)

    def _is_quiet_since(self, mark: Mark) -> bool:
        standing = self._standing
        if standing is None or mark.generation != self._generation:
            return False
        self._check_surroundings(standing, self._clocks())
        self._drain(standing)
        return (
            mark.generation == self._generation
            and mark.environment == child_environment()
            and mark.outside_identities == identities(mark.outside)
        )

    def _set_up(self) -> _Standing:
        if self.location.run_directory != self.location.root:
            raise WatchFailed("the work tree is not where its .git is")
        self._cookie_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        cookies = os.path.realpath(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self._cookie_folder))
        queue = mounts = None
        try:
            queue = Inotify()
            mounts = MountTable()
            seen = mounts.read()
            tree = WatchTree(queue, self.location, os.fsencode(cookies), max_folders=self._max_folders)
        except BaseException:
            _release(queue, mounts, cookies)
            raise
        # Marks of an earlier standing must not hold for this one.
        self._generation += 1
        return _Standing(queue, mounts, tree, cookies, seen)

    def _fall(self, why: str) -> None:
        """Let go of everything; until the watch stands again nothing is vouched for."""
        standing, self._standing = self._standing, None
        self._generation += 1
        self.failure = why
        self._retry_at = self._clocks().boot + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)
        if standing is not None:
            _release(standing.queue, standing.mounts, standing.cookies)

    def _drain(self, standing: _Standing) -> None:
        """Read all events up to that of a file that is made now."""
        for _ in range(COOKIE_ATTEMPTS):
            if self._drain_once(standing):
                return
        raise WatchFailed("events come faster than they can be read")

    def _drain_once(self, standing: _Standing) -> bool:
        """Return whether our own file's event was found; a full queue takes in no more, and loses that one too."""
        self._cookie_number += 1
        name = str(self._cookie_number)
        path = os.path.join(standing.cookies, name)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.unlink(path)
        awaited = name.encode()
        is_found = has_lost = False
        while not is_found:
            events = standing.queue.read() or standing.queue.read(COOKIE_SECONDS)
            if not events and has_lost:
                return False
            if not events:
                raise WatchFailed("the event of our own file did not come")
            for event in events:
                has_lost = has_lost or bool(event.mask & IN_Q_OVERFLOW)
                if event.watch == standing.tree.cookie_watch and event.mask & IN_CREATE:
                    is_found = is_found or event.name == awaited
                elif standing.tree.apply(event):
                    self._generation += 1
        return True

    def _check_surroundings(self, standing: _Standing, clocks: ClockReading) -> None:
        """Take a jump of the clocks, a mount that matters, or another folder in a root's place for a change of all."""
        earlier, self._last_clocks = self._last_clocks, clocks
        has_changed = clocks.has_jumped(earlier)
        if standing.mounts.has_changed():
            standing.mounts_seen = standing.mounts.read()
            before, standing.mounted = standing.mounted, _mounts_for(standing)
            has_changed = has_changed or standing.mounted != before
        if has_changed or not standing.tree.has_same_roots():
            self._generation += 1
            standing.tree.lose_track()

    def _remember_mounts(self, standing: _Standing, outside: tuple[str, ...]) -> None:
        """Take down on which mounts the answers rest; they must be local."""
        rests_on = (standing.tree.roots, outside)
        if rests_on != standing.rests_on:
            standing.rests_on = rests_on
            standing.mounted = _mounts_for(standing)

    def _outside(
        self, standing: _Standing, environment: dict[str, str], timeout_seconds: float
    ) -> tuple[str, ...] | None:
        found: dict[str, None] = {}
        for location in (self.location, *standing.tree.nested.values()):
            files = outside_files(location, environment, timeout_seconds=timeout_seconds)
            if files is None:
                return None
            found.update(dict.fromkeys(files))
        return tuple(found)


def _mounts_for(standing: _Standing) -> tuple[Mount, ...]:
    roots, outside = standing.rests_on
    files = [os.path.realpath(os.fsencode(path)) for path in outside if os.path.exists(path)]
    return mounts_of(standing.mounts_seen, (*roots, *files, os.fsencode(standing.cookies)))


def _release(queue: Inotify | None, mounts: MountTable | None, cookies: str) -> None:
    if queue is not None:
        queue.close()
    if mounts is not None:
        mounts.close()
    with contextlib.suppress(OSError):  # an empty folder of ours that stays is swept up later
        os.rmdir(cookies)


def sweep(cookie_folder: Path) -> None:
    """Remove the folders that watches of processes which ended badly left behind."""
    try:
        names = os.listdir(cookie_folder)
    except OSError:  # not made yet
        return
    for name in names:
        owner = name.partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(cookie_folder / name, ignore_errors=True)
