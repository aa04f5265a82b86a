"""Counting what a task uses, by what its harness reports, against what it may use. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.adapters.events import tokens_of


class Meter:
    """The tokens of one attempt: those of its turns so far, and of the running one what is known at least.

    Parameters
    ----------
    limit
        What the attempt may use; None: no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._before = 0
        self._running = 0
        self._is_told = False

    @property
    def used(self) -> int | None:
        """What was used; None if the harness has reported nothing."""
        return self._before + self._running if self._is_told else None

    @property
    def is_exceeded(self) -> bool:
        """Whether more was used than may be; exactly as much as may be is no more."""
        return self.limit is not None and self._before + self._running > self.limit

    def running(self, tokens: int) -> bool:
        """Take note of what the running turn used at least; return whether that is too much."""
        self._is_told = True
        self._running = max(self._running, tokens)
        return self.is_exceeded

    def turn_ended(self, tokens: Mapping[str, int]) -> bool:
        """Take note of what a turn used in all; return whether all turns used too much."""
        self._is_told = True
        self._before += max(self._running, tokens_of(tokens))
        self._running = 0
        return self.is_exceeded
