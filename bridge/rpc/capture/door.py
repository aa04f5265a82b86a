"""The door for hooks on the controller's socket: one event in, one answer out.

After the greeting a client sends one line, ``{"id", "host", "at", "parent", "patience", "event"}``, where ``event`` is
the host's JSON as it came, and is answered with one, ``{"taken": true, "context", "notice"}``. It is answered within
the patience it named, for an agent waits; recording goes on after that. What was too late to be told is told later.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from bridge.control.capture.model import NOTHING, Delivery, Told
from bridge.control.capture.spool import Spool
from bridge.control.capture.taking import Capture, Taken
from bridge.control.controller import Controller
from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import BridgeError, NotCanonical
from bridge.foundation.logs import get_logger
from bridge.rpc.messages import encode
from bridge.rpc.resident.greeting import Greeting
from bridge.rpc.resident.wire import LineTooLong, PeerStalled, Wire
from bridge.storage.errors import DatabaseBusy, DatabaseFailed

#: The role by which hooks greet.
ROLE: Final = "hook"
#: Seconds of a client's patience that its connecting and reading of the answer take.
TRANSFER_SECONDS: Final = 0.08
#: Shortest and longest time that an event is given to be recorded before it is answered, in seconds.
LEAST_SECONDS: Final = 0.05
MOST_SECONDS: Final = 5.0
#: Seconds that a client may take for its one line.
LINE_SECONDS: Final = 5.0
_log = get_logger(__name__)


class HookDoor:
    """Takes events for a controller. Belongs to the event loop of its server; to be closed before the controller is."""

    def __init__(self, controller: Controller, capture: Capture | None = None) -> None:
        self.capture = Capture(controller) if capture is None else capture
        self.spool = Spool(controller, self.capture)
        self._late: set[asyncio.Task[None]] = set()

    async def __call__(self, wire: Wire, _greeting: Greeting, welcome: bytes) -> None:
        """Take one event."""
        await wire.send(welcome)
        try:
            line = await wire.receive(within_seconds=LINE_SECONDS)
        except (LineTooLong, PeerStalled):
            return
        delivery = None if line is None else read_delivery(line)
        if delivery is None:
            await wire.send(encode({"taken": False}))
            return
        work = asyncio.get_running_loop().create_task(asyncio.to_thread(self._take, delivery))
        done, _ = await asyncio.wait([work], timeout=_time_for(delivery))
        if not done:
            self._finish_later(work)
            await wire.send(_answer(NOTHING))
            return
        taken = work.result()
        if taken is None:
            await wire.send(encode({"taken": False}))
            return
        if wire.has_gone():
            # The client gave up waiting, and has kept the event.
            self._finish_later(work)
            return
        await wire.send(_answer(taken.told))

    async def close(self) -> None:
        """Wait for what is still being recorded, then close the turns that have ended and wait for quiet."""
        if self._late:
            await asyncio.wait(self._late)
        await asyncio.to_thread(self.capture.close)

    def _take(self, delivery: Delivery) -> Taken | None:
        try:
            if not self.spool.is_empty():
                self.spool.take_in()
            return self.capture.take(delivery)
        except (DatabaseBusy, DatabaseFailed) as error:
            _log.warning("an event could not be recorded now", action="capture_later", why=error.message)
            self.spool.keep(delivery)
            return Taken(NOTHING, None)
        except BridgeError:
            _log.exception("an event could not be recorded", action="capture_failed", host=delivery.host)
            self.spool.keep(delivery)
            return Taken(NOTHING, None)

    def _finish_later(self, work: asyncio.Task[Taken | None]) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(work))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _finish(self, work: asyncio.Task[Taken | None]) -> None:
        taken = await work
        if taken is not None and not taken.told.is_empty:
            await asyncio.to_thread(partial(self.capture.too_late, taken))


def _time_for(delivery: Delivery) -> float:
    return min(max((delivery.patience or 0.0) - TRANSFER_SECONDS, LEAST_SECONDS), MOST_SECONDS)


def read_delivery(line: bytes) -> Delivery | None:
    """Return the event that a line brings; None if it is none."""
    try:
        record = parse_json(line)
    except NotCanonical:
        return None
    if not isinstance(record, dict):
        return None
    raw, host, identity = record.get("event"), record.get("host"), record.get("id")
    if not isinstance(raw, dict) or not isinstance(host, str) or not isinstance(identity, str):
        return None
    if not 1 <= len(identity) <= 100:
        return None
    return Delivery(
        id=identity,
        host=host,
        raw=raw,
        at=_number(record.get("at")),
        parent=_pid(record.get("parent")),
        patience=_number(record.get("patience")),
    )


def _answer(told: Told) -> bytes:
    answer: dict[str, Any] = {"taken": True}
    if told.context is not None:
        answer["context"] = told.context
    if told.notice is not None:
        answer["notice"] = told.notice
    return encode(answer)


def _number(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _pid(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
