"""Following the store: typed events in the order of their commits, for any number of subscribers at their own pace.

An event is an audit event with its facts, so that what subscribers see is what is recorded, once it is durable and no
matter which process wrote it. One thread reads what is new for all of them and keeps the last ones; who falls behind
these reads on from the store, is told so, and holds up nobody. A cursor names an event and a few digits of its hash:
it outlives connections and controllers, and one of another store is recognised.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import orjson
from anyio import to_thread

from bridge.control.controller import Controller
from bridge.control.errors import EventCursorUnknown
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.integrity import store as events
from bridge.integrity.events import ENTRY_APPENDED
from bridge.integrity.store import PlacedEvent
from bridge.storage.errors import StoreClosed
from bridge.storage.store import Store
from bridge.storage.transaction import Connection

#: Events that are kept in memory for subscribers; who is further behind reads from the store.
KEPT_EVENTS: Final = 10_000
#: Events that are read, and handed to a subscriber, at once.
PAGE: Final = 500
#: The cursor before the first event.
BEGINNING: Final = "0"
#: How long a wait for the next commit lasts before it is seen whether anybody still listens.
_LOOK_SECONDS: Final = 0.5
#: How long it is waited after the store could not be read.
_RETRY_SECONDS: Final = 1.0
_CURSOR: Final = re.compile(r"(?P<position>[0-9]{1,18})(?:\.(?P<hash>[0-9a-f]{8}))?", re.ASCII)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Interest:
    """Which events somebody wants; None and the empty tuple mean no restriction."""

    session_id: str | None = None
    workspace_id: str | None = None
    types: tuple[str, ...] = ()

    def takes(self, event: Event) -> bool:
        """Return whether an event is one of them."""
        return (
            (self.session_id is None or event.chain_id == self.session_id)
            and (self.workspace_id is None or event.workspace_id == self.workspace_id)
            and (not self.types or event.type in self.types)
        )


@dataclass(frozen=True, slots=True)
class Event:
    """One event as subscribers get it; ``encoded`` is its JSON."""

    position: int
    cursor: str
    type: str
    chain_id: str
    workspace_id: str | None
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Lagged:
    """A subscriber is so far behind that it reads from the store, from ``cursor`` on."""

    cursor: str
    #: At most so many events are still to come.
    behind: int


def event_cursor(connection: Connection) -> str:
    """Return the cursor of the last event in a snapshot: what is subscribed to from there follows the snapshot."""
    position = events.last_position(connection)
    hashed = events.event_hash_at(connection, position)
    return BEGINNING if hashed is None else _cursor(position, hashed)


class Feed:
    """What is new in one store. Safe to share between threads and event loops; close it before the store."""

    def __init__(self, controller: Controller) -> None:
        self._store = controller.store
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._thread: threading.Thread | None = None
        # What the thread read: the last events, without a gap from ``_start`` (not included) to ``_seen``.
        self._kept: deque[Event] = deque()
        self._start = self._seen = 0
        self._is_ready = False
        self._is_closed = False

    def place_of(self, cursor: str | None) -> tuple[int, str]:
        """Return position and cursor that a subscription begins behind: the one given, or now. Blocks.

        Raises
        ------
        EventCursorUnknown
            If the store has no such event.
        """
        with self._store.read() as connection:
            if cursor is not None:
                return _checked(connection, cursor), cursor
            found = event_cursor(connection)
            return int(found.partition(".")[0]), found

    def subscribe(self, interest: Interest, place: tuple[int, str]) -> Subscription:
        """Return a subscription that begins behind a place, for the running event loop. Does not block."""
        subscription = Subscription(self, interest, place, asyncio.get_running_loop())
        with self._lock:
            self._subscriptions.add(subscription)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
                self._thread.start()
        return subscription

    def leave(self, subscription: Subscription) -> None:
        """Take a subscription out. Safe to call twice."""
        with self._lock:
            self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Stop reading; waits until that is done. Safe to call twice."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def kept_after(self, position: int) -> tuple[list[Event], int] | None:
        """Return a page of the kept events after a position and how far it reaches; None if older ones are wanted."""
        with self._lock:
            if not self._is_ready or position < self._start:
                return None
            found = bisect_right(self._kept, position, key=lambda event: event.position)
            page = [self._kept[index] for index in range(found, min(len(self._kept), found + PAGE))]
            return page, page[-1].position if len(page) == PAGE else max(position, self._seen)

    def stored_after(self, position: int, interest: Interest) -> tuple[list[Event], int, int]:
        """Return a page of the stored events after a position, how far it reaches, and the last position. Blocks."""
        with self._store.read() as connection:
            last = events.last_position(connection)
            found = events.events_after(
                connection, position, limit=PAGE, chain_id=interest.session_id, workspace_id=interest.workspace_id
            )
            reached = found[-1].position if len(found) == PAGE else max(position, last)
            return _typed(connection, found), reached, last

    def _run(self) -> None:
        try:
            with closing(_Following(self._store)) as following:
                self._begin()
                while self._is_wanted():
                    self._look(following)
        except StoreClosed:
            _log.debug("the store was closed", action="feed_ended")
        finally:
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread, self._is_ready = None, False
                    self._wake()

    def _look(self, following: _Following) -> None:
        try:
            if following.wait(_LOOK_SECONDS):
                self._read()
        except StoreClosed:
            raise
        except BridgeError as error:
            _log.warning("the store could not be followed", action="feed_failed", code=error.code)
            time.sleep(_RETRY_SECONDS)

    def _begin(self) -> None:
        with self._store.read() as connection:
            last = events.last_position(connection)
        with self._lock:
            self._kept.clear()
            self._start = self._seen = last
            self._is_ready = True
            self._wake()

    def _is_wanted(self) -> bool:
        with self._lock:
            if self._subscriptions and not self._is_closed:
                return True
            self._thread, self._is_ready = None, False
            return False

    def _read(self) -> None:
        while True:
            with self._store.read() as connection:
                found = _typed(connection, events.events_after(connection, self._seen, limit=PAGE))
            if found:
                with self._lock:
                    self._kept.extend(found)
                    self._seen = found[-1].position
                    while len(self._kept) > KEPT_EVENTS:
                        self._start = self._kept.popleft().position
                    self._wake()
            if len(found) < PAGE:
                return

    def _wake(self) -> None:
        """Wake whoever waits: one call for each loop. Called under the lock."""
        loops: dict[asyncio.AbstractEventLoop, list[Subscription]] = {}
        for subscription in self._subscriptions:
            loops.setdefault(subscription.loop, []).append(subscription)
        for loop, subscriptions in loops.items():
            # A loop that was closed has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_wake_all, subscriptions)


class _Following:
    """A follower of the store that is made anew where a fork of this process closed it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._follower = store.follow()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a commit. Raises StoreClosed once the store itself was closed."""
        try:
            return self._follower.wait(timeout_seconds)
        except StoreClosed:
            self._follower = self._store.follow()
            # What happened between the two is not known.
            return True

    def close(self) -> None:
        self._follower.close()


class Subscription:
    """One subscriber's place in a feed. Belongs to one event loop; close it in the end."""

    def __init__(self, feed: Feed, interest: Interest, place: tuple[int, str], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.news = asyncio.Event()
        self._feed = feed
        self._interest = interest
        self._position, self._cursor = place
        # Whether it keeps up, so that falling behind is news.
        self._is_live = False

    @property
    def cursor(self) -> str:
        """Where it stands: behind the last event that was handed out."""
        return self._cursor

    async def receive(self) -> list[Event | Lagged]:
        """Return what comes next, in order, at least one; wait for it.

        Raises
        ------
        StoreClosed
            If the controller ended.
        """
        while True:
            self.news.clear()
            kept = self._feed.kept_after(self._position)
            told: list[Event | Lagged] = []
            if kept is not None:
                found, reached = kept
                self._is_live = is_at_end = True
            else:
                found, reached, last = await to_thread.run_sync(self._feed.stored_after, self._position, self._interest)
                is_at_end = reached >= last
                if self._is_live:
                    told.append(Lagged(self._cursor, last - self._position))
                    self._is_live = False
            self._position = reached
            told += [event for event in found if self._interest.takes(event)]
            if told:
                last_told = told[-1]
                self._cursor = last_told.cursor
                return told
            if is_at_end and len(found) < PAGE:
                await self.news.wait()

    def close(self) -> None:
        """Take no more events. Safe to call twice."""
        self._feed.leave(self)


def _wake_all(subscriptions: Sequence[Subscription]) -> None:
    for subscription in subscriptions:
        subscription.news.set()


_feeds: WeakKeyDictionary[Controller, Feed] = WeakKeyDictionary()
_making = threading.Lock()


def feed_of(controller: Controller) -> Feed:
    """Return the controller's feed; there is one."""
    with _making:
        found = _feeds.get(controller)
        if found is None:
            found = _feeds[controller] = Feed(controller)
        return found


def close_feed(controller: Controller) -> None:
    """Stop the controller's feed if there is one. Blocks until its thread has ended."""
    with _making:
        found = _feeds.pop(controller, None)
    if found is not None:
        found.close()


def _cursor(position: int, event_hash: str) -> str:
    return f"{position}.{event_hash[:8]}"


def _checked(connection: Connection, cursor: str) -> int:
    """Return the position of a cursor whose event the store has."""
    parts = _CURSOR.fullmatch(cursor)
    if parts is not None:
        position = int(parts["position"])
        if cursor == BEGINNING:
            return 0
        hashed = events.event_hash_at(connection, position)
        if hashed is not None and cursor == _cursor(position, hashed):
            return position
    raise EventCursorUnknown(
        f"The store has no event {cursor[:40]!r}. Nothing was subscribed to.", details={"cursor": cursor[:200]}
    )


def _typed(connection: Connection, placed: Sequence[PlacedEvent]) -> list[Event]:
    bodies = [_facts(one) for one in placed]
    entries = [
        (one.event.chain_id, str(facts.get("entry_id")))
        for one, facts in zip(placed, bodies, strict=True)
        if one.event.event_type == ENTRY_APPENDED
    ]
    kinds = events.kinds_of(connection, entries)
    return [_event(one, facts, kinds) for one, facts in zip(placed, bodies, strict=True)]


def _facts(one: PlacedEvent) -> dict[str, Any]:
    try:
        body = orjson.loads(one.event.body)["body"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        # What was damaged is for a verification to report; who follows learns that there was an event.
        return {}
    return body if isinstance(body, dict) else {}


def _event(one: PlacedEvent, facts: dict[str, Any], kinds: Mapping[str, str]) -> Event:
    event = one.event
    workspace_id = one.workspace_id
    if not one.is_of_session:
        prefix, _, named = event.chain_id.rpartition(":")
        workspace_id = named if prefix == "workspace" or event.event_type.startswith("workspace.") else None
    if event.event_type == ENTRY_APPENDED:
        facts = {**facts, "kind": kinds.get(str(facts.get("entry_id")))}
    shown = {
        "type": event.event_type,
        "at": event.created_at,
        "chain_id": event.chain_id,
        "ordinal": event.ordinal,
        "session_id": event.chain_id if one.is_of_session else None,
        "workspace_id": workspace_id,
        "facts": facts,
    }
    cursor = _cursor(one.position, event.event_hash)
    return Event(one.position, cursor, event.event_type, event.chain_id, workspace_id, orjson.dumps(shown))
