"""Writes of an event loop: handed to the writer together, answered together.

A future of the writer's thread for each write, wrapped for the loop, costs more than the write itself: a lock, two
callbacks and a byte through the loop's wake-up socket. Here all that the loop's tasks ask for during one of its turns
goes to the writer at once, which then finds it as one batch, and comes back in one call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from bridge.foundation.errors import BridgeError
from bridge.storage.errors import DatabaseBusy
from bridge.storage.store import Store
from bridge.storage.transaction import Transaction
from bridge.storage.writer import Job

#: Writes of one loop that may wait for a place in the writer's queue; further ones wait for room (back-pressure).
MAX_WAITING: Final = 4096
#: How long a write waits for that.
ROOM_TIMEOUT_SECONDS: Final = 15.0
_LOOK_AGAIN_SECONDS = 0.005

T = TypeVar("T")


class LoopQueue:
    """The writes of one event loop. Used on that loop's thread only, but for :meth:`deliver`."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._store = store
        self._waiting: deque[Job[Any]] = deque()
        self._will_hand_over = False

    async def write(self, fn: Callable[[Transaction], T], *, is_repeatable: bool = False) -> T:
        """Run a function in a write transaction; return its result once it is durable.

        Cancelled before it began, nothing happens; later it is written as a whole, and only the result is lost.

        Raises
        ------
        StoreClosed
            If the store was closed.
        DatabaseBusy
            If there was no room within :data:`ROOM_TIMEOUT_SECONDS`.
        """
        if len(self._waiting) >= MAX_WAITING:
            await self._room()
        future: asyncio.Future[T] = self.loop.create_future()
        self._waiting.append(Job(fn, _Ticket(future), is_repeatable=is_repeatable, mailbox=self))
        if not self._will_hand_over:
            self._will_hand_over = True
            self.loop.call_soon(self._hand_over)
        return await future

    def deliver(self, answers: list[_Ticket[Any]], /) -> None:
        """Take the answers of one batch, on the writer's thread."""
        # A loop that was closed has nobody left who waits.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._resolve, answers)

    def _hand_over(self) -> None:
        self._will_hand_over = False
        try:
            self._store.offer(self._waiting)
        except BridgeError as error:
            for job in self._waiting:
                job.answer.set_exception(error)
            self._resolve([job.answer for job in self._waiting])
            self._waiting.clear()
        if self._waiting:
            self._will_hand_over = True
            self.loop.call_later(_LOOK_AGAIN_SECONDS, self._hand_over)

    def _resolve(self, answers: list[Any]) -> None:
        for ticket in answers:
            ticket.resolve()

    async def _room(self) -> None:
        deadline = self.loop.time() + ROOM_TIMEOUT_SECONDS
        while len(self._waiting) >= MAX_WAITING:
            if self.loop.time() > deadline:
                raise DatabaseBusy(f"{MAX_WAITING} writes are waiting already. Nothing was written.")
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


class _Ticket(Generic[T]):
    """Keeps an outcome until the loop takes it."""

    __slots__ = ("_error", "_future", "_result")
    _result: T

    def __init__(self, future: asyncio.Future[T]) -> None:
        self._future = future
        self._error: BaseException | None = None

    def set_running_or_notify_cancel(self) -> bool:
        return not self._future.cancelled()

    def set_result(self, result: T) -> None:
        self._result = result

    def set_exception(self, exception: BaseException | None) -> None:
        self._error = exception

    def resolve(self) -> None:
        if self._future.done():
            return
        if self._error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(self._error)
