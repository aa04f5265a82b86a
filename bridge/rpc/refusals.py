"""How many of an agent's refusals are recorded one by one: what is refused must not fill the store.

Of one session the first :data:`IN_FULL` of a minute are, then only the 40th, 80th, 160th, ... of that minute. The
``count`` of each record says how many there were by then.
"""

from __future__ import annotations

import threading
from typing import Final
from weakref import WeakKeyDictionary

from bridge.control.controller import Controller

#: Refusals of one session within :data:`WINDOW_SECONDS` that are all recorded.
IN_FULL: Final = 20
WINDOW_SECONDS: Final = 60.0
#: Sessions remembered before those whose minute is over are forgotten.
_REMEMBERED: Final = 1000


class Tally:
    """Counts refusals by session. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: When a session's minute began, how many there were in it, and which is recorded next.
        self._windows: dict[str, tuple[float, int, int]] = {}

    def count(self, session_id: str, now: float) -> int | None:
        """Count a refusal at a time in monotonic seconds; return its number if it is to be recorded, else None."""
        with self._lock:
            begun, seen, due = self._windows.get(session_id, (now, 0, 1))
            if now - begun >= WINDOW_SECONDS:
                begun, seen, due = now, 0, 1
            seen += 1
            is_due = seen >= due
            if is_due:
                due = seen + 1 if seen < IN_FULL else seen * 2
            self._windows[session_id] = (begun, seen, due)
            if len(self._windows) > _REMEMBERED:
                self._windows = {key: one for key, one in self._windows.items() if now - one[0] < WINDOW_SECONDS}
        return seen if is_due else None


_tallies: WeakKeyDictionary[Controller, Tally] = WeakKeyDictionary()
_making = threading.Lock()


def tally_of(controller: Controller) -> Tally:
    """Return the tally of a controller, which all its connections share: a new one is no fresh start."""
    with _making:
        found = _tallies.get(controller)
        if found is None:
            found = _tallies[controller] = Tally()
        return found
