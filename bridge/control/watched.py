"""Observing in a process that stays: what nothing happened to is not looked at again."""

from __future__ import annotations

from pathlib import Path

from bridge.control.observing import Observer
from bridge.foundation.clock import Clock
from bridge.git.digestcache import DigestCache
from bridge.git.observe import Look, Observation, observe
from bridge.git.process import DEFAULT_TIMEOUT_SECONDS
from bridge.git.remembering import RememberingLook, WatchFigures

#: Folder in the state directory for the files by which watches are asked.
COOKIE_FOLDER = "watch"


class CachedObserver(Observer):
    """An observer that recalls the last exact observation of a worktree while a watch vouches for it.

    A recalled observation has a ``confirmed_at``; its ``observed_at`` stays the time when the files were looked at.
    :meth:`observe_exactly` never recalls. To be closed when the process ends.

    Parameters
    ----------
    state_directory
        Where Bridge keeps its state; the watches make files in a folder of it, and nowhere else.
    """

    def __init__(
        self,
        clock: Clock,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        *,
        state_directory: Path,
        look: Look = observe,
        memory: RememberingLook | None = None,
        digests: DigestCache | None = None,
    ) -> None:
        self._memory = RememberingLook(state_directory / COOKIE_FOLDER, look=look) if memory is None else memory
        super().__init__(clock, timeout_seconds, look=self._memory, digests=digests)

    def observe(self, path: Path | None) -> Observation:
        """Return the state of a worktree: the last one observed if nothing was reported to happen since, or anew.

        Right for every change that was reported before this call.
        """
        if path is not None:
            recalled = self._memory.recall(path, clock=self._clock)
            if recalled is not None:
                return recalled
        return super().observe(path)

    def figures(self) -> WatchFigures:
        """Return how often an answer was recalled and made, and why watches cannot vouch at present."""
        return self._memory.figures()

    def close(self) -> None:
        """Stop all watches."""
        self._memory.close()
