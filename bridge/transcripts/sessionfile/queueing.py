"""A queue of operations of one object: one at a time, in the order in which they came."""

from __future__ import annotations

from collections import deque
from threading import Condition


class Turns:
    """A lock that is given out in the order in which it was asked for; whoever fails inside gives it on as well."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: deque[object] = deque()

    def __enter__(self) -> None:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is ticket)
            except BaseException:
                # Interrupted while it waited: those behind it must not wait for it.
                self._waiting.remove(ticket)
                self._changed.notify_all()
                raise

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._waiting.popleft()
            self._changed.notify_all()
