"""Stamps for appends: one observation of a worktree serves every request made before it began.

A caller that asks while an observation runs may know of changes that this one has passed already, so it waits
for the next; all who wait share that. However many writers a worktree has, two observations are enough for them.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from bridge.foundation.clock import Clock
from bridge.git.digestcache import DigestCache, MemoryDigestCache
from bridge.git.errors import GitError
from bridge.git.observe import Look, Observation, observe
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.git.repository import discover
from bridge.storage.store import Store
from bridge.workspaces.store import find_workspace


@dataclass
class _Flight:
    """One observation. It may be joined until it begins; without a result it came to nothing."""

    done: threading.Event = field(default_factory=threading.Event)
    result: Observation | None = None


@dataclass
class _Lane:
    """What is under way for one worktree: the observation that runs, and the one that waits for it to end."""

    running: _Flight | None = None
    waiting: _Flight | None = None


class Observer:
    """Observes worktrees for any number of threads. Blocking, and never to be called under a database lock.

    Parameters
    ----------
    clock
        Tells when an observation began.
    timeout_seconds
        Time limit of one observation; past it the state is unknown (``timed_out``). A caller may first have
        to wait for the end of one that runs.
    look
        What observes.
    digests
        Remembers the digests of files between stamps; one of this observer's own unless given.
    """

    def __init__(
        self,
        clock: Clock,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        *,
        look: Look = observe,
        digests: DigestCache | None = None,
    ) -> None:
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._look = look
        self._digests = MemoryDigestCache() if digests is None else digests
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}

    def observe(self, path: Path | None) -> Observation:
        """Return the state of the worktree that a path lies in, observed after this call began.

        Calls for one worktree share observations, by whatever path they reach it. None, what a session
        without a workspace has, is unknown (``no_path``).
        """
        if path is None:
            return self._look(None, clock=self._clock, timeout_seconds=self._timeout_seconds)
        key = self._key(path)
        while True:
            flight, is_pilot, before = self._board(key)
            if is_pilot:
                return self._fly(key, flight, before, path)
            flight.done.wait()
            if flight.result is not None:
                return flight.result

    def observe_exactly(self, path: Path | None) -> Observation:
        """Return the state at a path, observed anew and alone, with the paths that the index hides.

        For evidence, adoption and ``status``, which never rest on a hint: every listed file is read, whatever the
        file system says of it. The digests found are remembered, so that the next stamp agrees.
        """
        return self._look(
            path,
            clock=self._clock,
            timeout_seconds=self._timeout_seconds,
            include_unobserved=True,
            digests=self._digests,
            read_all=True,
        )

    def stamp_session(self, store: Store, workspace_id: str | None) -> Observation:
        """Return the state of a session's worktree; ``no_path`` if it has no workspace or that is not known.

        Opens a read of its own and closes it before observing.
        """
        return self.observe(session_folder(store, workspace_id))

    def _key(self, path: Path) -> str:
        try:
            location = discover(path, timeout_seconds=self._timeout_seconds)
        except GitError:  # no worktree to share: the observation itself will say why
            return os.path.realpath(path)
        return str(location.git_dir)

    def _board(self, key: str) -> tuple[_Flight, bool, _Flight | None]:
        """Return the flight to take, whether the caller is to make it, and the one to let land before it."""
        with self._lock:
            lane = self._lanes.setdefault(key, _Lane())
            if lane.waiting is not None:
                return lane.waiting, False, None
            lane.waiting = _Flight()
            return lane.waiting, True, lane.running

    def _fly(self, key: str, flight: _Flight, before: _Flight | None, path: Path) -> Observation:
        try:
            if before is not None:
                before.done.wait()
            with self._lock:
                # From here on nobody boards: whoever asks now may know of changes that this look misses.
                lane = self._lanes[key]
                lane.waiting, lane.running = None, flight
            flight.result = self._look(
                path, clock=self._clock, timeout_seconds=self._timeout_seconds, digests=self._digests
            )
            return flight.result
        finally:
            # Also when interrupted: those who wait look for themselves then.
            with self._lock:
                lane = self._lanes[key]
                if lane.waiting is flight:
                    lane.waiting = None
                if lane.running is flight:
                    lane.running = None
                if lane.waiting is None and lane.running is None:
                    del self._lanes[key]
            flight.done.set()


def session_folder(store: Store, workspace_id: str | None) -> Path | None:
    """Return the folder of a session's workspace; None if it has none."""
    if workspace_id is None:
        return None
    with store.read() as connection:
        workspace = find_workspace(connection, workspace_id)
    return None if workspace is None else workspace.folder
