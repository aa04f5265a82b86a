"""The door for agents on the controller's socket: a token first, then the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from bridge.control.access.tokens import Bearer, find_bearer, has_live_tokens
from bridge.control.controller import Controller
from bridge.rpc.resident.greeting import Greeting
from bridge.rpc.resident.wire import Wire

#: The role by which agents greet.
ROLE = "mcp"


class AgentDoor:
    """Lets in whoever shows a valid token, as the agent of the session that it was made for.

    What the greeting says of directory and session counts for nothing here.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def __call__(self, wire: Wire, greeting: Greeting, welcome: bytes) -> None:
        """Talk to an agent until it ends.

        Raises
        ------
        AgentTokenRefused
            If its token is worth nothing; it was not welcomed then.
        """
        bearer = await asyncio.to_thread(partial(find_bearer, self._controller, greeting.token))
        serve = await asyncio.to_thread(_load)
        await wire.send(welcome)
        await serve(self._controller, bearer, wire)


def prepare(controller: Controller) -> None:
    """Load what agents need, if any may come: the first would wait for it. Blocking."""
    with controller.store.read() as connection:
        is_needed = has_live_tokens(connection, controller.now())
    if is_needed:
        _load()


def _load() -> Callable[[Controller, Bearer, Wire], Awaitable[None]]:
    # A second, which only a controller with agents spends.
    from bridge.rpc.mcp.serving import serve

    return serve
