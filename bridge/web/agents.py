"""The part of the door for agents: their token first, then the protocol; loaded when the first of them comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from bridge.control.access.tokens import find_bearer
from bridge.control.controller import Controller
from bridge.control.errors import AgentTokenRefused
from bridge.control.standpoint import Standpoint
from bridge.rpc.roles import Caller, Role
from bridge.web.guarding import Guard, Refusal, bearer_of
from bridge.web.using import Use

if TYPE_CHECKING:
    from bridge.rpc.mcp.http import AgentsOverHttp

#: Where agents find it.
PATH = "/mcp"


class AgentRoute:
    """Answers agents at :data:`PATH` within :meth:`running`; an ASGI application."""

    def __init__(self, controller: Controller, guard: Guard, use: Use, refused: Callable[[Refusal], Response]) -> None:
        self._controller = controller
        self._guard = guard
        self._use = use
        self._refused = refused
        self._wanted = asyncio.Event()
        self._ready: asyncio.Future[AgentsOverHttp] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer agents meanwhile."""
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        end = asyncio.Event()
        # The library's tasks belong to the task that began them, whoever comes first.
        keeper = loop.create_task(self._keep(end))
        try:
            yield
        finally:
            end.set()
            self._wanted.set()
            await asyncio.wait([keeper])

    async def _keep(self, end: asyncio.Event) -> None:
        await self._wanted.wait()
        if end.is_set() or self._ready is None:
            return
        try:
            make = await asyncio.to_thread(_load)
        except ImportError as error:
            self._ready.set_exception(error)
            return
        agents = make(self._controller)
        async with agents.running():
            self._ready.set_result(agents)
            await end.wait()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope)
        address = "" if request.client is None else request.client.host
        refusal = self._guard.screen(request.headers, address)
        if refusal is None:
            token = bearer_of(request.headers)
            try:
                bearer = await asyncio.to_thread(partial(find_bearer, self._controller, token))
            except AgentTokenRefused:
                refusal = self._guard.refuse_token(address)
            else:
                caller = Caller(Role.AGENT, Standpoint(session=bearer.session_id), bearer.session_id)
                refusal = None if self._guard.may_call(caller) else Refusal(429, "calls")
        if refusal is not None:
            await self._refused(refusal)(scope, receive, send)
            return
        if self._ready is None:
            raise RuntimeError("the route is not running")
        self._wanted.set()
        agents = await asyncio.shield(self._ready)
        with self._use.lasting():
            await agents.answer(bearer, scope, receive, send)


def _load() -> Callable[[Controller], AgentsOverHttp]:
    # A second, which only a door with agents spends.
    from bridge.rpc.mcp.http import AgentsOverHttp

    return AgentsOverHttp
