"""One caller's connection, whatever the door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bridge.control.controller import Controller
from bridge.rpc.dispatch import Caller, Dispatcher


class Connection:
    """One caller's connection: calls are answered one after the other."""

    def __init__(self, controller: Controller, caller: Caller, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._dispatcher = Dispatcher(controller, caller)
        self._send = send

    async def receive(self, message: bytes) -> None:
        answer = await self._dispatcher.answer(message)
        if answer is not None:
            await self.send(answer)

    async def send(self, message: bytes) -> None:
        await self._send(message)

    async def drain(self) -> None:
        """Nothing is ever left unanswered here."""

    async def aclose(self) -> None:
        """Nothing to give up."""
