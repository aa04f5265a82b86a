"""The last exact observation of each worktree, for as long as a watch vouches that nothing happened since.

For a process that stays. What is remembered is always an exact observation; a watch that hears anything, or cannot
be sure, makes the next one exact again.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bridge.foundation.clock import Clock
from bridge.git.digestcache import DigestCache
from bridge.git.errors import GitError
from bridge.git.observe import Look, Observation, observe
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.watching import Mark, WorktreeWatch, sweep

#: Worktrees watched at a time, the last used ones; each takes one of the system's watchers (128 per user by default).
MAX_WATCHED_WORKTREES = 32
#: Paths known to lead to a watched worktree; beyond it the memory of them starts anew.
MAX_REMEMBERED_PATHS = 1_024
#: The request at which a worktree begins to be watched: walking its folders is for those that are asked about again.
WATCH_AT_REQUEST = 2


class Watch(Protocol):
    """What is asked of a watch; see :class:`bridge.git.watching.WorktreeWatch`."""

    failure: str | None

    def mark(self, *, timeout_seconds: float) -> Mark | None: ...

    def is_quiet_since(self, mark: Mark) -> bool: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Known:
    """An observation, the point before which it began, and the real paths that lead to its worktree since then."""

    mark: Mark
    observation: Observation
    paths: set[str] = field(default_factory=set)


@dataclass
class _Worktree:
    location: RepositoryLocation
    requests: int = 0
    watch: Watch | None = None
    known: _Known | None = None


@dataclass
class WatchFigures:
    """How often an answer was remembered, and how often one had to be made."""

    recalled: int = 0
    observed: int = 0
    failures: dict[str, str] = field(default_factory=dict)


class RememberingLook:
    """Observes exactly, remembers, and recalls while a watch vouches for it. For any number of threads.

    Parameters
    ----------
    cookie_folder
        A folder in the state directory, for the files by which watches are asked.
    look
        What observes.
    watch_at_request
        The request for a worktree at which it begins to be watched.
    make_watch
        Makes the watch of a worktree.
    """

    def __init__(
        self,
        cookie_folder: Path,
        *,
        look: Look = observe,
        watch_at_request: int = WATCH_AT_REQUEST,
        max_worktrees: int = MAX_WATCHED_WORKTREES,
        make_watch: Callable[[RepositoryLocation, Path], Watch] | None = None,
    ) -> None:
        self._cookie_folder = cookie_folder
        self._look = look
        self._watch_at_request = watch_at_request
        self._max_worktrees = max_worktrees
        self._make_watch = _watch_of if make_watch is None else make_watch
        self._lock = threading.Lock()
        self._worktrees: OrderedDict[Path, _Worktree] = OrderedDict()
        #: Which worktree a path led to when it was last asked about; to be verified.
        self._hints: dict[str, Path] = {}
        self._recalled = 0
        self._observed = 0
        sweep(cookie_folder)

    def recall(self, path: Path, *, clock: Clock) -> Observation | None:
        """Return the last exact observation if nothing was reported since it began, else None.

        The answer holds for everything that was reported before this call. Its ``observed_at`` is when the files
        were looked at, its ``confirmed_at`` when this call began.
        """
        confirmed_at = clock.now()
        reached = os.path.realpath(path)
        worktree = self._find(reached)
        if worktree is None:
            return None
        known, watch = worktree.known, worktree.watch
        if known is None or watch is None:
            return None
        is_new = reached not in known.paths
        if is_new and not _leads_to(reached, worktree.location):
            return None
        if not watch.is_quiet_since(known.mark):
            if worktree.known is known:
                worktree.known = None
            return None
        if is_new and len(known.paths) < MAX_REMEMBERED_PATHS:
            known.paths.add(reached)
        with self._lock:
            self._recalled += 1
        return replace(known.observation, confirmed_at=confirmed_at)

    def __call__(
        self,
        path: Path | None,
        *,
        clock: Clock,
        timeout_seconds: float,
        include_unobserved: bool = False,
        digests: DigestCache | None = None,
        read_all: bool = False,
    ) -> Observation:
        """Observe exactly, and remember the answer if a watch stands. Parameters as for ``observe``."""
        worktree = None if path is None or include_unobserved else self._worktree_of(path)
        mark = None
        if worktree is not None and worktree.watch is not None:
            mark = worktree.watch.mark(timeout_seconds=timeout_seconds)
        self._observed += 1
        observation = self._look(
            path,
            clock=clock,
            timeout_seconds=timeout_seconds,
            include_unobserved=include_unobserved,
            digests=digests,
            read_all=read_all,
        )
        if path is None or worktree is None or mark is None:
            return observation
        # Whatever happens from the mark on, also while the files were looked at, speaks against it when asked.
        if observation.state is not None and observation.location == worktree.location:
            worktree.known = _Known(mark, observation)
            with self._lock:
                if len(self._hints) >= MAX_REMEMBERED_PATHS:
                    self._hints.clear()
                self._hints[os.path.realpath(path)] = worktree.location.git_dir
        return observation

    def figures(self) -> WatchFigures:
        """Return counts, and by git directory why watches cannot vouch at present."""
        with self._lock:
            watches = [(key, worktree.watch) for key, worktree in self._worktrees.items()]
        failures = {str(key): watch.failure for key, watch in watches if watch is not None and watch.failure}
        return WatchFigures(self._recalled, self._observed, failures)

    def close(self) -> None:
        """Stop all watches and forget everything."""
        with self._lock:
            worktrees = list(self._worktrees.values())
            self._worktrees.clear()
            self._hints.clear()
        for worktree in worktrees:
            if worktree.watch is not None:
                worktree.watch.close()

    def _worktree_of(self, path: Path) -> _Worktree | None:
        """Return what is known of the worktree that a path lies in; begins a watch when it is time."""
        try:
            location = discover(path)
        except GitError:  # the observation itself will say why
            return None
        if location.worktree_root is None:
            return None
        evicted: list[_Worktree] = []
        with self._lock:
            worktree = self._worktrees.get(location.git_dir)
            if worktree is None or worktree.location != location:
                if worktree is not None:
                    evicted.append(worktree)
                worktree = self._worktrees[location.git_dir] = _Worktree(location)
            self._worktrees.move_to_end(location.git_dir)
            worktree.requests += 1
            if worktree.watch is None and worktree.requests >= self._watch_at_request:
                worktree.watch = self._make_watch(location, self._cookie_folder)
            while len(self._worktrees) > self._max_worktrees:
                evicted.append(self._worktrees.popitem(last=False)[1])
        for old in evicted:
            if old.watch is not None:
                old.watch.close()
        return worktree

    def _find(self, reached: str) -> _Worktree | None:
        with self._lock:
            git_dir = self._hints.get(reached)
            if git_dir is not None:
                return self._worktrees.get(git_dir)
            near = [tree for tree in self._worktrees.values() if _is_within(reached, str(tree.location.root))]
        return max(near, key=lambda tree: len(str(tree.location.root)), default=None)


def _leads_to(reached: str, location: RepositoryLocation) -> bool:
    # From outside the worktree something unwatched could come to lie between the path and the repository.
    if not _is_within(reached, str(location.root)):
        return False
    try:
        return discover(Path(reached)) == location
    except GitError:  # the observation will say why
        return False


def _is_within(reached: str, root: str) -> bool:
    return reached == root or reached.startswith(root.rstrip("/") + "/")


def _watch_of(location: RepositoryLocation, cookie_folder: Path) -> WorktreeWatch:
    return WorktreeWatch(location, cookie_folder=cookie_folder)
