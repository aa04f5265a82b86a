"""Agents over HTTP: the library's streamable transport, each request by itself. The web door lets them in.

Nothing is kept between two requests of an agent, so that one may go on at the controller after this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from bridge.control.access.tokens import Bearer
from bridge.control.controller import Controller
from bridge.rpc.mcp.calling import AgentCalls
from bridge.rpc.mcp.serving import answer, server_answering
from bridge.rpc.messages import MAX_MESSAGE_BYTES

Scope = MutableMapping[str, Any]
#: A request, ready to be answered, as ASGI has it.
Answer = Callable[[Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
_KEY: Final = "bridge.agent"


class AgentsOverHttp:
    """Answers requests of agents within :meth:`running`."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

        async def call(
            ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            request = ctx.request
            if request is None:
                raise RuntimeError("the transport names the request")
            return await answer(request.scope[_KEY], ctx, params)

        # Host and Origin were looked at by the door, which knows its names.
        self._manager = StreamableHTTPSessionManager(
            server_answering(call), stateless=True, max_request_body_size=MAX_MESSAGE_BYTES
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Be ready for requests."""
        async with self._manager.run():
            yield

    async def answer(self, bearer: Bearer, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request of the holder of a token."""
        calls = AgentCalls(self._controller, bearer)
        try:
            await self._manager.handle_request({**scope, _KEY: calls}, receive, send)
        finally:
            await calls.aclose()
