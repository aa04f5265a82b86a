"""How much the door over HTTP is used, so that a controller does not end while it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Use:
    """Counts who is connected for long, and passes on that something was asked.

    Parameters
    ----------
    touch
        Called at every call.
    """

    def __init__(self, touch: Callable[[], None] = lambda: None) -> None:
        self.touch = touch
        self._lasting = 0

    @property
    def is_lasting(self) -> bool:
        """Whether somebody is connected for long: by a WebSocket or a stream of events."""
        return self._lasting > 0

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Be somebody who is connected for long."""
        self._lasting += 1
        try:
            yield
        finally:
            self._lasting -= 1
            self.touch()
