"""One caller's connection, whatever the door: many calls at once, each answered when it is done.

What a caller can rely on:

- Changes (``Mode.CHANGE``) of one connection are made one after the other, in the order in which they were sent. A
  reading call sees every change that was sent before it over the same connection. Everything else runs at the same
  time, and answers come as they are ready; those of a batch come together, in the order of its requests.
- ``$/cancel`` and a deadline give a call up. A change is then either not begun, and never made: its answer is
  ``call_cancelled`` or ``deadline_exceeded``. Or it has begun: it is finished, and answered as if nothing had been
  asked. There is no third case.
- Calls in flight, batches, waiting calls and subscriptions are bounded. At the first two limits the connection is not
  read on until one is done; at the others the call is refused.
- A caller that does not read its answers is not read any more either, and holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from anyio import BrokenResourceError, ClosedResourceError

from bridge.control.controller import Controller
from bridge.control.feed import Event, Interest, Lagged, Subscription, feed_of
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.rpc import messages, threads
from bridge.rpc.dispatch import Gate
from bridge.rpc.errors import CallCancelled, DeadlineExceeded, InvalidRequest, MethodNotFound, TooManyCalls
from bridge.rpc.methods.method import Method, Mode
from bridge.rpc.roles import Caller
from bridge.storage.errors import StoreClosed

#: The method with which a call is given up: params ``{"id": …}``.
CANCEL: Final = "$/cancel"
#: Notifications of subscriptions.
EVENT: Final = "events/event"
LAGGED: Final = "events/lagged"
#: Messages above this size are read in a thread: that takes longer than a loop should be held up.
_PARSE_IN_THREAD_BYTES: Final = 256 * 1024
#: Who can be sent nothing any more: the door finds that out by itself.
_GONE: Final = (OSError, BrokenResourceError, ClosedResourceError)
_KEPT: Final = frozenset({Mode.CHANGE, Mode.ACT, Mode.START})
_COROUTINES: Final = frozenset({Mode.START, Mode.WAIT})

Send = Callable[[bytes], Awaitable[None]]
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may use.

    Parameters
    ----------
    in_flight
        Calls that have begun and are not answered, without waiting ones.
    threads
        Of these, how many block a thread at the same time.
    batches
        Batches that are not answered.
    waiting
        Calls that wait (``Mode.WAIT``).
    subscriptions
        Subscriptions.
    """

    in_flight: int = 64
    threads: int = 16
    batches: int = 4
    waiting: int = 64
    subscriptions: int = 32


DEFAULT: Final = Limits()


class _Running:
    """A call that was let through and is not answered yet."""

    __slots__ = (
        "answering",
        "earlier",
        "error",
        "has_begun",
        "identity",
        "is_answered",
        "is_asked",
        "job",
        "method",
        "own",
        "timer",
    )

    def __init__(self, identity: Any, method: Method, *, is_asked: bool) -> None:
        self.identity = identity
        self.method = method
        #: Whether somebody expects an answer.
        self.is_asked = is_asked
        self.answering: asyncio.Task[bytes | None] | None = None
        self.job: Future[bytes] | None = None
        #: The change sent before it, and for a change what tells the calls after it that it is done.
        self.earlier: asyncio.Future[None] | None = None
        self.own: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        #: Why it was given up.
        self.error: BridgeError | None = None
        #: Whether a coroutine that is finished once begun has begun.
        self.has_begun = False
        self.is_answered = False

    def give_up(self, error: BridgeError) -> bool:
        """Give the call up unless it is answered, or is a change that has begun; return whether that was done."""
        if self.is_answered or self.answering is None:
            return False
        if self.method.mode in _KEPT and (self.has_begun or (self.job is not None and not self.job.cancel())):
            return False
        self.error = self.error or error
        self.answering.cancel()
        return True

    def finish(self) -> None:
        """Say that the call can be given up no more, and let the next change begin."""
        if self.is_answered:
            return
        self.is_answered = True
        if self.timer is not None:
            self.timer.cancel()
        own, earlier = self.own, self.earlier
        if own is None:
            return
        if earlier is None or earlier.done():
            own.set_result(None)
        else:
            # Given up before its turn came: the one after it still waits for the one before it.
            earlier.add_done_callback(lambda _: own.set_result(None))


@dataclass
class _Stream:
    """A subscription, the cursor of what was sent last, and the task that sends."""

    identity: str
    subscription: Subscription
    cursor: str
    pump: asyncio.Task[None] | None = None


class Connection:
    """One caller's connection. Belongs to the event loop on which it is made; close it in the end.

    Parameters
    ----------
    controller
        What the calls are made on.
    caller
        Who calls.
    send
        Sends one message; called by one task at a time. Whoever is gone is told by an ``OSError`` or anyio's errors.
    limits
        What this connection may use.
    is_lasting
        Whether events can be sent over it later; else nothing can be subscribed to.
    """

    def __init__(
        self,
        controller: Controller,
        caller: Caller,
        send: Send,
        *,
        limits: Limits = DEFAULT,
        is_lasting: bool = True,
    ) -> None:
        self._gate = Gate(controller, caller, self if is_lasting else None)
        self._send_message = send
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._sending = asyncio.Lock()
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._threads = asyncio.Semaphore(limits.threads)
        self._batches = asyncio.Semaphore(limits.batches)
        self._waiting = 0
        self._calls: set[_Running] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        # Tasks that send, or wait for their turn to.
        self._senders: set[asyncio.Task[Any]] = set()
        self._last_change: asyncio.Future[None] | None = None
        self._streams: dict[str, _Stream] = {}
        # What was subscribed to by a call that is not answered yet: its events follow the answer.
        self._begun_subscriptions: dict[asyncio.Task[Any] | None, list[str]] = {}
        self._subscribed = 0
        self._is_closed = False

    async def receive(self, message: bytes) -> None:
        """Take one message; return as soon as the next may be read. Never raises for what was sent."""
        if self._is_closed:
            return
        try:
            if len(message) > _PARSE_IN_THREAD_BYTES:
                job = threads.submit(self._loop, lambda: messages.parse(message))
                parsed = await asyncio.wrap_future(job, loop=self._loop)
            else:
                parsed = messages.parse(message)
        except InvalidRequest as error:
            await self.send(messages.failure(None, error))
            return
        if isinstance(parsed, list):
            await self._receive_batch(parsed)
            return
        begun = await self._begin(parsed, is_alone=True)
        if isinstance(begun, bytes):
            await self.send(begun)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or nobody is there any more."""
        return self._is_closed

    async def drain(self) -> None:
        """Wait until everything that was received is answered. Subscriptions go on."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def aclose(self) -> None:
        """Give up what has not begun, finish the changes that have, end the subscriptions. Safe to call twice.

        Nothing is sent any more.
        """
        self._is_closed = True
        for running in list(self._calls):
            running.give_up(CallCancelled("The connection was closed. Nothing was changed."))
        for identity in list(self._streams):
            self.unsubscribe(identity)
        # They wait for somebody who may not be reading.
        for task in self._tasks & self._senders:
            task.cancel()
        await self.drain()

    async def send(self, message: bytes) -> None:
        """Send one message after the others, unless the connection is closed or nobody is there any more."""
        if self._is_closed:
            return
        task = asyncio.current_task()
        if task is not None:
            self._senders.add(task)
        try:
            async with self._sending:
                if not self._is_closed:
                    await self._send_message(message)
        except _GONE:
            self._is_closed = True
        finally:
            if task is not None:
                self._senders.discard(task)

    def cancel(self, identity: Any) -> str:
        """Give up the calls of an id; return what became of them: ``unknown``, ``cancelled`` or ``finishing``."""
        # True is not 1 here: only what is the same in JSON is the same id.
        found = [one for one in self._calls if one.is_asked and _is_same(one.identity, identity)]
        if not found:
            return "unknown"
        error = CallCancelled("The call was cancelled. Nothing was changed by it.")
        given_up = [one.give_up(error) for one in found]
        return "cancelled" if all(given_up) else "finishing"

    def subscribe(self, interest: Interest, place: tuple[int, str]) -> str:
        """Begin to send events, once the call under way is answered; return the subscription's id.

        Raises
        ------
        TooManyCalls
            If the connection has as many subscriptions as it may have.
        """
        if len(self._streams) >= self._limits.subscriptions:
            raise TooManyCalls(
                f"This connection has {self._limits.subscriptions} subscriptions already. Nothing was subscribed to.",
                details={"limit": self._limits.subscriptions},
            )
        self._subscribed += 1
        identity = f"s{self._subscribed}"
        subscription = feed_of(self._gate.call.controller).subscribe(interest, place)
        self._streams[identity] = _Stream(identity, subscription, place[1])
        self._begun_subscriptions.setdefault(asyncio.current_task(), []).append(identity)
        return identity

    def unsubscribe(self, subscription: str) -> str | None:
        """End a subscription; return the cursor to go on from, None if there is no such subscription."""
        found = self._streams.pop(subscription, None)
        if found is None:
            return None
        found.subscription.close()
        if found.pump is not None:
            found.pump.cancel()
        return found.cursor

    def _start_sending(self, task: asyncio.Task[Any] | None) -> None:
        """Begin to send the events that an answered call subscribed to."""
        for identity in self._begun_subscriptions.pop(task, ()):
            stream = self._streams.get(identity)
            if stream is not None and not self._is_closed:
                stream.pump = self._loop.create_task(self._pump(stream))

    async def _pump(self, stream: _Stream) -> None:
        try:
            while not self._is_closed:
                for event in await stream.subscription.receive():
                    await self.send(_told(stream.identity, event))
                    stream.cursor = event.cursor
        except StoreClosed:
            _log.debug("the store was closed", action="subscription_ended")
        except Exception:  # noqa: BLE001 - nobody waits for the task
            _log.exception("a subscription failed", action="subscription_failed")

    async def _receive_batch(self, requests: list[Any]) -> None:
        await self._batches.acquire()
        begun: list[asyncio.Task[bytes | None] | bytes | None] = []
        try:
            # Its calls begin here and not when it is answered: later ones may wait for the places of earlier ones.
            for request in requests:
                begun.append(await self._begin(request, is_alone=False))  # noqa: PERF401 - what has begun is kept
        finally:
            self._track(self._loop.create_task(self._answer_batch(begun)))

    async def _answer_batch(self, begun: list[asyncio.Task[bytes | None] | bytes | None]) -> None:
        try:
            answers = [await one if isinstance(one, asyncio.Task) else one for one in begun]
            told = [answer for answer in answers if answer is not None]
            if told:
                await self.send(messages.batch(told))
        except asyncio.CancelledError:
            if not self._is_closed:
                raise
        finally:
            self._batches.release()
            for one in begun:
                if isinstance(one, asyncio.Task):
                    self._start_sending(one)

    async def _begin(self, request: Any, *, is_alone: bool) -> asyncio.Task[bytes | None] | bytes | None:
        """Let a request through and have it run; return its answer if it is there already."""
        try:
            messages.check_request(request)
        except InvalidRequest as error:
            return messages.failure(messages.id_of(request), error)
        identity, is_asked = request.get("id"), "id" in request
        try:
            method = self._gate.admit(request["method"])
            params = self._gate.build(method, request.get("params", {}))
            if method.mode is Mode.INLINE:
                result = messages.encode(method.run(self._gate.call, params))
                return messages.success(identity, result) if is_asked else None
            if method.mode is Mode.WAIT and self._waiting >= self._limits.waiting:
                raise TooManyCalls(
                    f"{self._limits.waiting} calls of this connection are waiting already. Nothing was called.",
                    details={"limit": self._limits.waiting},
                )
        except BridgeError as error:
            if self._gate.is_bound and isinstance(error, MethodNotFound):
                await self._record_refusal(request["method"], error)
            return messages.failure(identity, error) if is_asked else None
        except Exception:  # noqa: BLE001 - the edge of the door: a fault ends one call, not the connection
            _log.exception("a call failed", action="call_failed", method=request["method"])
            return messages.fault(identity) if is_asked else None
        running = _Running(identity, method, is_asked=is_asked)
        await self._take_place(running, request.get("meta", {}).get("deadline_ms"))
        running.answering = self._loop.create_task(self._run(running, params, is_alone=is_alone))
        self._track(running.answering)
        return running.answering

    async def _take_place(self, running: _Running, deadline_ms: int | None) -> None:
        due = None if deadline_ms is None else self._loop.time() + deadline_ms / 1000
        if running.method.mode is Mode.WAIT:
            self._waiting += 1
        else:
            await self._slots.acquire()
        if due is not None:
            told = DeadlineExceeded(
                f"The call was not done within {deadline_ms} ms. Nothing was changed by it.",
                details={"deadline_ms": deadline_ms},
            )
            running.timer = self._loop.call_at(due, running.give_up, told)
        last = self._last_change
        running.earlier = None if last is None or last.done() else last
        if running.method.mode is Mode.CHANGE:
            running.own = self._last_change = self._loop.create_future()
        self._calls.add(running)

    async def _run(self, running: _Running, params: Any, *, is_alone: bool) -> bytes | None:
        try:
            answer = await self._outcome(running, params)
            if not running.is_asked:
                return None
            if is_alone:
                await self.send(answer)
        except asyncio.CancelledError:
            # Closed while the answer was being sent; there is nobody left to tell.
            if not self._is_closed:
                raise
            return None
        else:
            return answer
        finally:
            running.finish()
            if is_alone:
                self._start_sending(running.answering)
            self._calls.discard(running)
            if running.method.mode is Mode.WAIT:
                self._waiting -= 1
            else:
                self._slots.release()

    async def _outcome(self, running: _Running, params: Any) -> bytes:
        try:
            if running.earlier is not None:
                await asyncio.wait([running.earlier])
            if running.method.mode in _COROUTINES:
                result = await self._wait(running, params)
            else:
                result = await self._in_thread(running, params)
            return messages.success(running.identity, result)
        except asyncio.CancelledError:
            task = running.answering
            if running.error is None or task is None:
                raise
            while task.uncancel():
                pass
            return messages.failure(running.identity, running.error)
        except BridgeError as error:
            return messages.failure(running.identity, error)
        except Exception:  # noqa: BLE001 - as in _begin
            _log.exception("a call failed", action="call_failed", method=running.method.name)
            return messages.fault(running.identity)
        finally:
            running.finish()

    async def _wait(self, running: _Running, params: Any) -> bytes:
        if self._gate.is_bound:
            job = threads.submit(self._loop, lambda: self._gate.within_reach(running.method, params))
            params = await asyncio.wrap_future(job, loop=self._loop)
        running.has_begun = True
        return messages.encode_result(await running.method.run(self._gate.call, params))

    async def _record_refusal(self, method: str, error: BridgeError) -> None:
        job = threads.submit(self._loop, lambda: self._gate.record_refusal(method, error))
        await asyncio.wrap_future(job, loop=self._loop)

    async def _in_thread(self, running: _Running, params: Any) -> bytes:
        def job() -> bytes:
            reached = self._gate.within_reach(running.method, params)
            return messages.encode_result(running.method.run(self._gate.call, reached))

        await self._threads.acquire()
        running.job = threads.submit(self._loop, job)
        try:
            return await asyncio.wrap_future(running.job, loop=self._loop)
        finally:
            if running.job.done():
                self._threads.release()
            else:
                # Given up, but the thread is still busy with it.
                running.job.add_done_callback(self._release_thread)

    def _release_thread(self, _job: Future[bytes]) -> None:
        # A loop that was closed has no connections left.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._threads.release)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _told(identity: str, event: Event | Lagged) -> bytes:
    """Return the notification of an event, or of having fallen behind."""
    if isinstance(event, Event):
        params = b'{"subscription":"%b","cursor":"%b","event":%b}' % (
            identity.encode(),
            event.cursor.encode(),
            event.encoded,
        )
        return messages.notification(EVENT, params)
    lagged = {"subscription": identity, "cursor": event.cursor, "behind": event.behind}
    return messages.notification(LAGGED, messages.encode(lagged))


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
