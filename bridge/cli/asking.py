"""Calling a method from a command: through the resident controller, else in this process, which then stays.

Commands import this module inside the function that uses it, because it pulls in what they need of the store.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from bridge.cli.context import Cli
from bridge.foundation.config import ControllerMode

if TYPE_CHECKING:
    from bridge.rpc.resident.client import Client


class Caller(Protocol):
    """Calls a method of the table and returns its result; raises ``RemoteError`` as a client of the controller does."""

    async def __call__(self, method: str, params: Mapping[str, Any]) -> Any: ...


def connect(cli: Cli, *, is_needed: bool) -> Client | None:
    """Return a connection to the resident controller; None where this process is to do the work.

    Parameters
    ----------
    is_needed
        Whether the work outlives the command, so that a controller is started where none runs.

    Raises
    ------
    ControllerNeeded
        If it is needed and none can be had.
    ControllerUnavailable, RemoteError
        If the settings require one and none can be had.
    """
    from bridge.cli.residing import endpoint_of
    from bridge.control.errors import ControllerNeeded
    from bridge.rpc.errors import ControllerUnavailable
    from bridge.rpc.resident.builds import build_id
    from bridge.rpc.resident.client import Client, RemoteError
    from bridge.rpc.resident.starting import connect_or_start

    mode, endpoint = cli.settings.controller, endpoint_of(cli.settings)
    greeting: dict[str, Any] = {
        "directory": str(cli.directory),
        "session": cli.environment.get("BRIDGE_SESSION") or None,
    }
    try:
        if mode is ControllerMode.OFF:
            raise ControllerUnavailable("The settings turn the resident controller off.")
        if mode is ControllerMode.AUTO and not is_needed:
            return Client.connect(endpoint, build=build_id(), **greeting)
        return connect_or_start(endpoint, cli.environment, **greeting)
    except (ControllerUnavailable, RemoteError) as error:
        is_other_build = not isinstance(error, RemoteError) or error.code == "other_build"
        if mode is ControllerMode.REQUIRED or not is_other_build:
            raise
        if is_needed:
            raise ControllerNeeded(
                f"The worker would outlive this command, and no controller takes it over: {error.message} "
                "Nothing was started.",
                hint="Leave out --no-wait, or start one: bridge serve --detach",
            ) from error
        return None


def run_with_caller(cli: Cli, client: Client | None, main: Callable[[Caller], Awaitable[int]]) -> int:
    """Run a coroutine that calls methods, and return its exit status. What it started here is ended with it."""
    import anyio

    if client is not None:
        with client:
            return anyio.run(main, _Remote(client))
    return _run_here(cli, main)


def _run_here(cli: Cli, main: Callable[[Caller], Awaitable[int]]) -> int:
    import anyio
    from anyio import to_thread

    from bridge.cli.composition import open_controller
    from bridge.cli.standing import standpoint_of
    from bridge.control.delegations.delegating import end_delegations
    from bridge.control.delegations.recovery import recover
    from bridge.rpc.roles import Caller as Identity
    from bridge.rpc.roles import Role

    with open_controller(cli) as controller:

        async def run() -> int:
            await to_thread.run_sync(recover, controller)
            try:
                return await main(_Here(controller, Identity(Role.OPERATOR, standpoint_of(cli))))
            finally:
                with anyio.CancelScope(shield=True):
                    await end_delegations(controller)

        return anyio.run(run)


class _Remote:
    """Calls the resident controller, each call in a thread: the connection blocks."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, method: str, params: Mapping[str, Any]) -> Any:
        from anyio import to_thread

        return await to_thread.run_sync(self._client.call, method, params, abandon_on_cancel=True)


class _Here:
    """Calls the methods of this process, checked and answered as at any other door."""

    def __init__(self, controller: Any, caller: Any) -> None:
        self._controller = controller
        self._caller = caller
        self._number = 0

    async def __call__(self, method: str, params: Mapping[str, Any]) -> Any:
        from bridge.rpc.connection import Connection
        from bridge.rpc.resident.client import RemoteError

        answers: list[bytes] = []

        async def send(answer: bytes) -> None:
            answers.append(answer)

        connection = Connection(self._controller, self._caller, send)
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": dict(params)}
        try:
            await connection.receive(json.dumps(request).encode())
            await connection.drain()
        finally:
            await connection.aclose()
        answer = json.loads(answers[0])
        if "error" in answer:
            raise RemoteError(answer["error"])
        return answer["result"]
