"""Answers the calls about the controller itself (``methods.table_controller``) on connections of its socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import BridgeError, NotCanonical
from bridge.foundation.logs import get_logger
from bridge.rpc.connection import Connection
from bridge.rpc.errors import CommandNotTaken, InvalidParams, InvalidRequest, MethodNotFound
from bridge.rpc.messages import check_request, encode, failure, fault, id_of, success
from bridge.rpc.methods.shapes import build
from bridge.rpc.methods.table_controller import RUN, SOCKET_METHODS, STATUS, STOP
from bridge.rpc.resident.residency import (
    CommandLine,
    CommandParams,
    Residency,
    StopParams,
    command_of,
    refuse_while_busy,
)
from bridge.rpc.resident.wire import Wire
from bridge.rpc.roles import Caller

#: The method with which a call is given up.
CANCEL: Final = "$/cancel"
#: What a line holds that may be one of these calls; one that spells a name with escapes is not recognised.
_MARKS: Final = (b'"controller/', b'"commands/run"', b'"$/cancel"')

_log = get_logger(__name__)


class Host(Protocol):
    """What these calls ask of the server whose connections they come from."""

    @property
    def uptime_seconds(self) -> float: ...

    @property
    def connections(self) -> int: ...

    @property
    def idle_limit_seconds(self) -> float | None: ...

    def touch(self) -> None:
        """Note that the controller was of use just now."""
        ...

    def end(self) -> None:
        """Ask for the end; to be called in the event loop."""
        ...


class OwnCalls:
    """The calls about the controller itself. Belongs to the event loop of its server."""

    def __init__(self, residency: Residency, server: Host) -> None:
        self._residency = residency
        self._server = server
        self._tasks: dict[asyncio.Task[None], Wire] = {}
        self._commands: dict[tuple[Wire, Any], CommandLine] = {}

    @property
    def running(self) -> int:
        """How many of these calls are under way."""
        return len(self._tasks)

    def may_be_meant(self, line: bytes) -> bool:
        """Tell whether a line deserves a closer look; nearly all others are spared being read twice."""
        return any(mark in line for mark in _MARKS)

    async def receive(self, line: bytes, caller: Caller, wire: Wire, connection: Connection) -> bool:
        """Take a message if it is one of these calls, and tell whether it was."""
        try:
            request = parse_json(line)
        except NotCanonical:
            return False
        if not isinstance(request, dict):
            return False
        if request.get("method") == CANCEL:
            return self._cancel(request.get("params"), wire)
        if request.get("method") not in SOCKET_METHODS:
            return False
        task = asyncio.get_running_loop().create_task(self._answer(request, caller, wire, connection))
        self._tasks[task] = wire
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return True

    async def finish(self, wire: Wire) -> None:
        """Wait until the calls of one client are answered."""
        mine = [task for task, owner in self._tasks.items() if owner is wire]
        if mine:
            await asyncio.wait(mine)

    def forget(self, wire: Wire) -> None:
        """Give up the commands of a client that is gone; what they have changed stays."""
        for (owner, _), command in self._commands.items():
            if owner is wire:
                command.cancelled.set()

    async def drain(self, seconds: float) -> None:
        """Wait for the calls under way, and give up those that take longer."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for command in self._commands.values():
            command.cancelled.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def _cancel(self, params: Any, wire: Wire) -> bool:
        identity = params.get("id") if isinstance(params, dict) else None
        command = self._commands.get((wire, identity)) if isinstance(identity, (str, int)) else None
        if command is None:
            return False
        command.cancelled.set()
        return True

    async def _answer(self, request: dict[str, Any], caller: Caller, wire: Wire, connection: Connection) -> None:
        identity = id_of(request)
        try:
            check_request(request)
            answer = success(identity, encode(await self._call(request, caller, wire)))
        except BridgeError as error:
            answer = failure(identity, error)
        except Exception:  # noqa: BLE001 - the edge of the door: a fault ends one call, not the connection
            _log.exception("a call failed", action="call_failed", method=request["method"])
            answer = fault(identity)
        self._server.touch()
        if "id" in request:
            with suppress(OSError):
                await connection.send(answer)
        if request["method"] == STOP and b'"error"' not in answer[:80]:
            self._server.end()

    async def _call(self, request: dict[str, Any], caller: Caller, wire: Wire) -> dict[str, Any]:
        name = request["method"]
        method = SOCKET_METHODS[name]
        if caller.role not in method.roles:
            raise MethodNotFound(
                f"{name!r} is not for an {caller.role}. Nothing was called.",
                details={"method": name, "reason": "not_permitted"},
            )
        given = request.get("params", {})
        if not isinstance(given, dict):
            raise InvalidParams("Params are given by name, as an object. Nothing was called.", details={"fields": []})
        params: Any = build(method.params, given)
        calls: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
            STATUS: self._status,
            STOP: lambda: self._stop(params),
            RUN: lambda: self._run(params, id_of(request), wire),
        }
        return await calls[name]()

    async def _status(self) -> dict[str, Any]:
        workers = await asyncio.to_thread(self._residency.workers)
        return {
            "pid": os.getpid(),
            "build": self._residency.build,
            "home": str(self._residency.controller.settings.home),
            "uptime_seconds": round(self._server.uptime_seconds, 3),
            "connections": self._server.connections,
            "calls": self.running - 1,
            "workers": workers,
            "watches": self._residency.watches(),
            "idle_limit_seconds": self._server.idle_limit_seconds,
        }

    async def _stop(self, params: StopParams) -> dict[str, Any]:
        self._residency.require_build(params.build)
        workers = await asyncio.to_thread(self._residency.workers)
        if workers and params.cancel_workers:
            await asyncio.to_thread(self._residency.cancel_workers)
        else:
            refuse_while_busy(workers)
        return {"pid": os.getpid(), "cancelled": [worker["id"] for worker in workers]}

    async def _run(self, params: CommandParams, identity: Any, wire: Wire) -> dict[str, Any]:
        descriptors = wire.take_descriptors()
        run = self._residency.run_command
        try:
            if run is None:
                raise CommandNotTaken("This controller runs no command lines. Nothing was run.")
            if identity is None:
                raise InvalidRequest("A command line needs an id. Nothing was run.", details={"reason": "id"})
            if (wire, identity) in self._commands:
                raise InvalidRequest("This id is taken by a running command.", details={"reason": "id"})
            command = command_of(params, descriptors)
            descriptors = []
        finally:
            for number in descriptors:
                os.close(number)
        self._commands[wire, identity] = command
        try:
            if wire.has_gone():
                # A client that waited in vain runs its command by itself: it must not be run twice.
                command.cancelled.set()
            loop = asyncio.get_running_loop()
            status = await loop.run_in_executor(self._residency.pool, run, command)
        finally:
            del self._commands[wire, identity]
            for number in {number for number in command.descriptors if number is not None}:
                os.close(number)
        return {"exit_status": status}
