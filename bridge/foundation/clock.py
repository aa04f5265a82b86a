"""Time as Bridge writes it: UTC, microseconds, ``Z``; injected everywhere so that tests own it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What Bridge asks of a clock."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        ...

    def timestamp(self) -> str:
        """Return the current time as :func:`format_timestamp` writes it."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary point that never goes backwards."""
        ...


class SystemClock:
    """The machine's clock."""

    def __init__(self) -> None:
        # A second and its text: each write asks for the time, and writing it out takes three times as long as the rest.
        self._second = (-1, "")

    def now(self) -> datetime:
        return datetime.now(UTC)

    def timestamp(self) -> str:
        second, rest = divmod(time.time_ns(), 1_000_000_000)
        known, text = self._second
        if second != known:
            text = datetime.fromtimestamp(second, UTC).isoformat()[: -len("+00:00")]
            self._second = second, text
        return f"{text}.{rest // 1000:06d}Z"

    def monotonic(self) -> float:
        return time.monotonic()


class FixedClock:
    """A clock for tests: starts at ``start`` and moves by ``step_seconds`` at each reading."""

    def __init__(self, start: datetime, step_seconds: float = 1.0) -> None:
        self._now = start.astimezone(UTC)
        self._step = timedelta(seconds=step_seconds)
        self._monotonic = 0.0

    def now(self) -> datetime:
        current = self._now
        self._now += self._step
        return current

    def timestamp(self) -> str:
        return format_timestamp(self.now())

    def monotonic(self) -> float:
        self._monotonic += self._step.total_seconds()
        return self._monotonic


def format_timestamp(moment: datetime) -> str:
    """Return ``YYYY-MM-DDTHH:MM:SS.ffffffZ``: always six digits, so that text order is time order."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    # The offset is cut off: taking the zone away first costs twice as much, on every write.
    return utc.isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"


def parse_timestamp(text: str) -> datetime:
    """Read a timestamp written by :func:`format_timestamp`, or any ISO 8601 time with an offset.

    Raises
    ------
    ValueError
        If the text is not such a time, or carries no offset.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp without offset: {text!r}")
    return moment.astimezone(UTC)
