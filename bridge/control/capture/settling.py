"""When a turn is over: hooks of others, formatters above all, run beside Bridge's own and change files after it.

A turn that ended is closed once two looks in a row found the files alike and a while has passed, or at the next thing
that its host reports. What changes until then is the turn's own doing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger

#: Seconds between two looks, from a turn's end to its closing at least, and at most.
LOOK_SECONDS: Final = 0.5
LEAST_SECONDS: Final = 2.0
MOST_SECONDS: Final = 15.0
Key = tuple[str, str]
_log = get_logger(__name__)


@dataclass
class _Waiting:
    """A turn that ended: since when, what the last look found, and the timer of the next."""

    since: float
    digest: str | None
    timer: threading.Timer | None = None


class Settling:
    """The turns that have ended and wait for quiet. Safe to share between threads.

    Parameters
    ----------
    settle
        Looks at the files of a turn, and returns whether it closed it.
    """

    def __init__(self, settle: Callable[[Key], bool]) -> None:
        self._settle = settle
        self._lock = threading.Lock()
        self._waiting: dict[Key, _Waiting] = {}
        self._is_stopped = False

    def begin(self, key: Key, digest: str | None) -> None:
        """Let a turn wait, from now on; ``digest`` is the state of the files at its end."""
        with self._lock:
            self._drop(key)
            self._waiting[key] = _Waiting(time.monotonic(), digest)
            self._arm(key)

    def forget(self, key: Key) -> bool:
        """Take a turn off; return whether it was waiting."""
        with self._lock:
            return self._drop(key)

    def is_waiting(self, key: Key) -> bool:
        """Tell whether a turn waits: a look that was begun may come after it went on."""
        with self._lock:
            return key in self._waiting

    def is_quiet(self, key: Key, digest: str | None) -> bool:
        """Tell whether a turn may be closed, given what a look just found."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                return False
            waited = time.monotonic() - waiting.since
            is_alike, waiting.digest = digest is not None and digest == waiting.digest, digest
            return waited >= MOST_SECONDS or (is_alike and waited >= LEAST_SECONDS)

    def stop(self) -> list[Key]:
        """Stop all timers and return the turns that were waiting."""
        with self._lock:
            self._is_stopped = True
            keys = list(self._waiting)
            for key in keys:
                self._drop(key)
            return keys

    def _drop(self, key: Key) -> bool:
        waiting = self._waiting.pop(key, None)
        if waiting is not None and waiting.timer is not None:
            waiting.timer.cancel()
        return waiting is not None

    def _arm(self, key: Key) -> None:
        waiting = self._waiting.get(key)
        if waiting is None or self._is_stopped:
            return
        waiting.timer = threading.Timer(LOOK_SECONDS, self._look, (key,))
        waiting.timer.daemon = True
        waiting.timer.start()

    def _look(self, key: Key) -> None:
        try:
            is_closed = self._settle(key)
        except BridgeError:
            _log.exception("a turn could not be closed", action="settling_failed", host=key[0])
            is_closed = False
        if not is_closed:
            with self._lock:
                self._arm(key)
