"""The door on a Unix socket: accepts connections, greets, hands their messages on, and knows when to end.

A client's first line is its greeting, which says the build it is of, who calls and from where; the answer says the
controller's build and process. From then on each line is a JSON-RPC message. What one client does or fails to do
(half a line, a line without end, not reading, dying) is dealt with in its own task.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from bridge.control.delegations.tasks import session_of
from bridge.control.standpoint import Standpoint
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.rpc.connection import Connection
from bridge.rpc.errors import PeerRefused
from bridge.rpc.messages import MAX_MESSAGE_BYTES, too_large
from bridge.rpc.resident.greeting import MAX_GREETING_BYTES, Greeting, accepted, read_greeting, refused
from bridge.rpc.resident.holding import Hold, peer_user
from bridge.rpc.resident.owncalls import OwnCalls
from bridge.rpc.resident.peers import is_workers, peer_process
from bridge.rpc.resident.residency import Residency, other_build
from bridge.rpc.resident.wire import LINE_SECONDS, SEND_SECONDS, LineTooLong, PeerStalled, Wire
from bridge.rpc.roles import Caller, Role

#: Seconds that a client may take for its greeting.
GREETING_SECONDS: Final = 10.0
#: Connections at the same time; one more is refused.
MAX_CONNECTIONS: Final = 256
#: Seconds that calls may take to end once the controller is told to.
DRAIN_SECONDS: Final = 10.0
#: Seconds without calls, connections and workers after which the controller ends by itself.
IDLE_SECONDS: Final = 15 * 60.0
#: Seconds between two looks whether it is idle, at most.
_LOOK_SECONDS: Final = 30.0
#: Pause after the system refused a connection for want of descriptors or memory.
_BREATH_SECONDS: Final = 0.2
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

#: Talks to a client of a role that is not served here, to the end. It sends the greeting's answer, which it is given,
#: or raises why there is none.
Door = Callable[[Wire, Greeting, bytes], Awaitable[None]]
_log = get_logger(__name__)


class End(StrEnum):
    """Why a controller ended."""

    IDLE = "idle"
    STOPPED = "stopped"
    OUTDATED = "outdated"
    #: Its state directory was removed or replaced: nobody finds it, and what it would write is lost.
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the door puts up with.

    Parameters
    ----------
    connections
        Connections at the same time.
    greeting_seconds, line_seconds, send_seconds
        How long a greeting, the rest of a line, and reading an answer may take.
    drain_seconds
        How long calls may take to end once the controller is told to.
    message_bytes
        Longest message.
    """

    connections: int = MAX_CONNECTIONS
    greeting_seconds: float = GREETING_SECONDS
    line_seconds: float = LINE_SECONDS
    send_seconds: float = SEND_SECONDS
    drain_seconds: float = DRAIN_SECONDS
    message_bytes: int = MAX_MESSAGE_BYTES


class Server:
    """Serves a controller on a listening socket, in the running event loop.

    Parameters
    ----------
    residency
        The controller, and what it can do beside the methods of the table.
    hold
        The place it holds; its socket is withdrawn before the last calls are waited for.
    idle_seconds
        After so long without anything under way it ends; None for never.
    doors
        Who talks to clients of further roles, by role.
    is_outdated
        Tells whether the controller runs on settings that were changed; it then ends as soon as nothing is under way.
    end_work
        Ends what the controller runs beside its calls, before these are waited for: some may wait for just that.
    is_used_elsewhere
        Tells whether somebody is connected by another door.
    user_of
        Tells whose process is at the other end.
    """

    def __init__(
        self,
        residency: Residency,
        hold: Hold,
        *,
        idle_seconds: float | None = IDLE_SECONDS,
        limits: Limits | None = None,
        doors: Mapping[str, Door] | None = None,
        is_outdated: Callable[[], bool] = lambda: False,
        end_work: Callable[[], Awaitable[None]] | None = None,
        is_used_elsewhere: Callable[[], bool] = lambda: False,
        user_of: Callable[[socket.socket], int | None] = peer_user,
    ) -> None:
        self.residency = residency
        self.limits = limits or Limits()
        self._hold = hold
        self._idle_seconds = idle_seconds
        self._doors = dict(doors or {})
        self._is_outdated = is_outdated
        self._end_work = end_work
        self._is_used_elsewhere = is_used_elsewhere
        self._user_of = user_of
        self._connections: set[Connection] = set()
        self._started = self._last_use = time.monotonic()
        self._sessions: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Future[End] | None = None
        self._own = OwnCalls(residency, self)

    # -- what the calls about the controller itself ask and tell -------------------------------------------------

    @property
    def is_at_work(self) -> bool:
        """Whether calls or connections are left."""
        return bool(self._sessions or self._own.running or self._is_used_elsewhere())

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._sessions)

    @property
    def uptime_seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def idle_seconds(self) -> float:
        """Since when nothing was asked, in seconds."""
        return time.monotonic() - self._last_use

    @property
    def idle_limit_seconds(self) -> float | None:
        """After how long without use the controller ends; None for never."""
        return self._idle_seconds

    def touch(self) -> None:
        """Note that the controller was of use just now."""
        self._last_use = time.monotonic()

    def end(self, why: End = End.STOPPED) -> None:
        """Ask for the end; to be called in the event loop. The first reason given counts."""
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(why)

    # -- serving -----------------------------------------------------------------------------------------------

    async def serve(self, listener: socket.socket, *, ready: Callable[[], None] = lambda: None) -> End:
        """Serve until told to end or idle for long enough, and return why it ended.

        Then nobody is accepted any more, what runs has ``drain_seconds`` to end, and the rest is cut off: nothing
        durable is half-written by that.
        """
        loop = asyncio.get_running_loop()
        self._ending = loop.create_future()
        listener.settimeout(0)
        helpers = [loop.create_task(self._accept(listener)), loop.create_task(self._watch_idleness())]
        for helper in helpers:
            helper.add_done_callback(self._end_with)
        try:
            ready()
            why = await self._ending
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            self._hold.withdraw()
            listener.close()
            await self._drain()
        return why

    def _end_with(self, helper: asyncio.Task[None]) -> None:
        """End rather than go on without a part: clients then do without a controller, or start another."""
        if not helper.cancelled() and helper.exception() is not None:
            _log.error("the door failed", action="door_failed", exc_info=helper.exception())
            self.end()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _log.warning("a connection could not be accepted", action="accept_failed", why=error.strerror)
                await asyncio.sleep(_BREATH_SECONDS)
                continue
            task = loop.create_task(self._talk(peer))
            self._sessions.add(task)
            task.add_done_callback(self._sessions.discard)

    async def _watch_idleness(self) -> None:
        while True:
            limit = self._idle_seconds
            left = _LOOK_SECONDS if limit is None else max(limit - self.idle_seconds, 0.05)
            await asyncio.sleep(min(left, _LOOK_SECONDS))
            if self._hold.is_lost():
                self.end(End.LOST)
                return
            if self.is_at_work:
                self.touch()
            is_over = limit is not None and self.idle_seconds >= limit
            if (is_over or self._is_outdated()) and not await self._is_at_work():
                self.end(End.IDLE if is_over else End.OUTDATED)
                return

    async def _is_at_work(self) -> bool:
        if self.is_at_work:
            return True
        try:
            return bool(await asyncio.to_thread(self.residency.workers))
        except BridgeError:
            _log.exception("whether workers run could not be told", action="idle_look_failed")
            return True

    async def _drain(self) -> None:
        await self._own.drain(self.limits.drain_seconds)
        if self._end_work is not None:
            await self._end_work()
        drains = [asyncio.ensure_future(connection.drain()) for connection in self._connections]
        if drains:
            _, late = await asyncio.wait(drains, timeout=self.limits.drain_seconds)
            for drain in late:
                drain.cancel()
        for task in self._sessions:
            task.cancel()
        if self._sessions:
            await asyncio.wait(self._sessions, timeout=self.limits.drain_seconds)

    # -- one client --------------------------------------------------------------------------------------------

    async def _talk(self, peer: socket.socket) -> None:
        wire = Wire(
            peer,
            max_bytes=self.limits.message_bytes,
            line_seconds=self.limits.line_seconds,
            send_seconds=self.limits.send_seconds,
        )
        try:
            greeting = await self._greet(wire, peer)
            if greeting is None:
                return
            self.touch()
            door = self._doors.get(greeting.role)
            if door is not None:
                await door(wire, greeting, accepted(self.residency.build))
                return
            caller = await asyncio.to_thread(self._caller, greeting, peer)
            await wire.send(accepted(self.residency.build))
            await self._exchange(wire, caller)
        except BridgeError as error:
            with suppress(OSError):
                await wire.send(refused(error))
        except OSError:
            # The peer is gone or does not read: that ends this connection and nothing else.
            _log.debug("a client went away", action="client_gone")
        except Exception:  # noqa: BLE001 - the edge of the door: a fault ends one connection, not the controller
            _log.exception("a connection failed", action="connection_failed")
        finally:
            wire.close()
            self.touch()

    async def _greet(self, wire: Wire, peer: socket.socket) -> Greeting | None:
        user = self._user_of(peer)
        if user is not None and user != os.getuid():
            raise PeerRefused("Another user's process may not connect.", details={"reason": "user"})
        if len(self._sessions) > self.limits.connections:
            raise PeerRefused(
                f"The controller has {self.limits.connections} connections already.",
                hint="Close some, or try again in a moment.",
                details={"reason": "too_many", "limit": self.limits.connections},
            )
        try:
            line = await wire.receive(within_seconds=self.limits.greeting_seconds)
        except (LineTooLong, PeerStalled) as error:
            raise PeerRefused("No greeting came.", details={"reason": "greeting"}) from error
        if line is None:
            return None
        if len(line) > MAX_GREETING_BYTES:
            raise PeerRefused("The greeting is too long.", details={"reason": "greeting"})
        greeting = read_greeting(line)
        if greeting.build is not None and greeting.build != self.residency.build:
            raise other_build(self.residency.build, greeting.build)
        return greeting

    def _caller(self, greeting: Greeting, peer: socket.socket) -> Caller:
        directory = None if greeting.directory is None else Path(greeting.directory)
        here = Standpoint(directory=directory, session=greeting.session)
        if greeting.role not in set(Role):
            raise PeerRefused(f"There is no role {greeting.role[:40]!r} here.", details={"reason": "role"})
        process = peer_process(peer)
        if process is not None and is_workers(process):
            raise PeerRefused(
                f"A worker's process may not be {greeting.role[:40]} here. Nothing was done.",
                hint="Workers reach Bridge through their tools: bridge mcp, with the token in their environment.",
                details={"reason": "worker", "pid": process},
            )
        role = Role(greeting.role)
        if role is not Role.AGENT:
            return Caller(role, here)
        if greeting.session is None:
            raise PeerRefused("An agent names its session.", details={"reason": "role"})
        bound = session_of(self.residency.controller, here, greeting.session)
        return Caller(role, Standpoint(directory=directory, session=bound), bound)

    async def _exchange(self, wire: Wire, caller: Caller) -> None:
        connection = Connection(self.residency.controller, caller, wire.send)
        self._connections.add(connection)
        try:
            while True:
                try:
                    line = await wire.receive()
                except LineTooLong:
                    await connection.send(too_large())
                    continue
                if line is None:
                    await self._finish(wire, connection)
                    return
                self.touch()
                if self._own.may_be_meant(line) and await self._own.receive(line, caller, wire, connection):
                    continue
                if line.strip():
                    await connection.receive(line)
        finally:
            self._connections.discard(connection)
            self._own.forget(wire)
            await connection.aclose()

    async def _finish(self, wire: Wire, connection: Connection) -> None:
        """Let a client that only closed its writing side have its answers."""
        if wire.is_cut():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.drain_seconds):
                await self._own.finish(wire)
                await connection.drain()
