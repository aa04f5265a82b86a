"""Messages in groups that are never torn: a tool call, its result, and what was said between them. Pure.

A path is read from its leaf up, so a result comes before its call. The two belong together if one bears the other's
id and no more than :data:`MAX_CALL_DISTANCE` messages lie between them; of several calls with one id the nearest is
meant. What has no other half gets one that says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bridge.conversations.contextmessages import CALL, RESULT, ContextMessage, no_call, no_result

#: Messages of a path after which the search for a result's call ends. A torn pair must not make one group of a whole
#: conversation; agents wait for their tools, so what belongs together lies close together.
MAX_CALL_DISTANCE: Final = 256
#: Kinds that begin or end a call.
TOOL_KINDS: Final = frozenset({CALL, RESULT})


class Group(NamedTuple):
    """Messages that are told together or not at all.

    Parameters
    ----------
    messages
        Oldest first.
    newest_position
        Place on the path of the last one.
    """

    messages: tuple[ContextMessage, ...]
    newest_position: int


class Grouping:
    """Takes messages newest first and gives them back in whole groups, newest first."""

    def __init__(self) -> None:
        self._held: list[tuple[ContextMessage, int]] = []
        #: Results that wait for their call, by its id: their places among what is held.
        self._open: dict[str, list[int]] = {}
        #: For a place among what is held, the place of the call that it belongs to.
        self._calls: dict[int, int] = {}
        #: Places among what is held that lack their other half.
        self._torn: set[int] = set()
        #: The call last seen of an id and when, to tell a repeated report of it from another call.
        self._last_call: dict[str, tuple[ContextMessage, int]] = {}
        self._taken = 0

    @property
    def is_between(self) -> bool:
        """Whether some result still waits for its call."""
        return bool(self._open)

    def add(self, message: ContextMessage, position: int) -> Sequence[Group]:
        """Take the next older message, which lies at a place of the path; return what became whole."""
        kind = message.kind
        self._taken += 1
        if not self._open and kind not in TOOL_KINDS:
            # Most of a conversation: nothing is under way, and nothing begins.
            return (Group((message,), position),)
        place = len(self._held)
        self._held.append((message, position))
        if kind == RESULT:
            self._open.setdefault(message.payload["tool_call_id"], []).append(place)
        elif kind == CALL:
            self._take_call(message, place)
        self._give_up(place)
        return () if self._open else list(self._release())

    def finish(self) -> Sequence[Group]:
        """Return what is left: there is nothing older."""
        for places in self._open.values():
            self._torn.update(places)
        self._open.clear()
        return list(self._release())

    def _take_call(self, message: ContextMessage, place: int) -> None:
        call_id = message.payload["tool_call_id"]
        waiting = self._open.pop(call_id, None)
        if waiting is not None:
            for result in waiting:
                self._calls[result] = place
        elif not self._is_repeated(call_id, message):
            self._torn.add(place)
        self._last_call[call_id] = message, self._taken

    def _is_repeated(self, call_id: str, call: ContextMessage) -> bool:
        """Return whether a call is reported again soon after: the later report, with its result, stands for both."""
        later, taken = self._last_call.get(call_id, (None, 0))
        if later is None or self._taken - taken > MAX_CALL_DISTANCE:
            return False
        return all(call.payload.get(name) == later.payload.get(name) for name in ("name", "input"))

    def _give_up(self, place: int) -> None:
        while self._open:
            oldest = next(iter(self._open))
            if place - self._open[oldest][0] <= MAX_CALL_DISTANCE:
                return
            self._torn.update(self._open.pop(oldest))

    def _release(self) -> Iterator[Group]:
        held, end, start = self._held, 0, 0
        for place in range(len(held)):
            end = max(end, self._calls.get(place, place))
            if place == end:
                yield self._group(start, place)
                start = end = place + 1
        self._held = []
        self._calls.clear()
        self._torn.clear()

    def _group(self, start: int, end: int) -> Group:
        messages: list[ContextMessage] = []
        for place in range(end, start - 1, -1):
            message = self._held[place][0]
            if place in self._torn and message.kind == RESULT:
                messages.append(no_call(message))
            messages.append(message)
            if place in self._torn and message.kind == CALL:
                messages.append(no_result(message))
        return Group(tuple(messages), self._held[start][1])
