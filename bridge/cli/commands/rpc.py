"""``bridge rpc``: the methods of Bridge for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.controller import Controller
    from bridge.rpc.resident.client import Client
    from bridge.rpc.roles import Caller


@command()
def rpc(
    cli: Cli,
    method: Annotated[str | None, typer.Argument(help="A method to call once, such as sessions/list.")] = None,
    params: Annotated[str | None, typer.Argument(help="Its params, a JSON object.")] = None,
    *,
    stdio: Annotated[bool, typer.Option("--stdio", help="Answer messages on standard input instead.")] = False,
    role: Annotated[
        Literal["operator", "observer", "agent"],
        typer.Option("--role", help="Who calls: the operator, one who only looks, or an agent with --session."),
    ] = "operator",
    session: Annotated[
        str | None,
        typer.Option("--session", help="The session that @ means, and the only one that an agent reaches."),
    ] = None,
) -> int:
    """Answer JSON-RPC on standard input and output, or call one method

    With --stdio: one JSON-RPC 2.0 message a line, each answer on a line as it is ready; it ends with its input. The
    methods, their params and who may call them are in schema/rpc/openrpc.json. Errors carry the codes of
    docs/errors.md in error.data. A resident controller answers if one runs, else this process does.
    """
    if stdio == (method is not None):
        raise UsageInvalid("Give either --stdio or a method.")
    if role == "agent" and session is None:
        raise UsageInvalid("--role agent needs --session: an agent reaches one session and no other.")
    given = _params(params)
    cli.prepare_logging()
    client = _client(cli, role, session)
    if client is not None:
        with client:
            if method is None:
                client.relay(0, 1)
            else:
                _emit(cli, client.call(method, given))
        return 0
    with _caller(cli, role, session) as (controller, caller):
        if method is None:
            _serve(controller, caller)
        else:
            _emit(cli, _call(controller, caller, method, given))
    return 0


def _params(text: str | None) -> dict[str, Any]:
    try:
        value = {} if text is None else json.loads(text)
    except ValueError as error:
        raise UsageInvalid(f"PARAMS is not JSON: {error}. Nothing was called.") from error
    if not isinstance(value, dict):
        raise UsageInvalid("PARAMS is a JSON object. Nothing was called.")
    return value


def _emit(cli: Cli, result: Any) -> None:
    cli.output.emit(result, lambda console: console.print(json.dumps(result, indent=2, ensure_ascii=False)))


def _client(cli: Cli, role: str, session: str | None) -> Client | None:
    """Return a connection to the resident controller, if the settings want one and it is there."""
    from bridge.cli.residing import endpoint_of
    from bridge.foundation.config import ControllerMode
    from bridge.rpc.errors import ControllerUnavailable
    from bridge.rpc.resident.builds import build_id
    from bridge.rpc.resident.client import Client, RemoteError
    from bridge.rpc.resident.starting import connect_or_start

    mode, endpoint = cli.settings.controller, endpoint_of(cli.settings)
    named = session or cli.environment.get("BRIDGE_SESSION") or None
    directory = str(cli.directory)
    if mode is ControllerMode.OFF:
        return None
    try:
        if mode is ControllerMode.AUTO:
            return Client.connect(endpoint, role=role, directory=directory, session=named, build=build_id())
        return connect_or_start(endpoint, cli.environment, role=role, directory=directory, session=named)
    except ControllerUnavailable:
        if mode is ControllerMode.REQUIRED:
            raise
    except RemoteError as error:
        if error.code != "other_build" or mode is ControllerMode.REQUIRED:
            raise
    return None


@contextmanager
def _caller(cli: Cli, role: str, session: str | None) -> Iterator[tuple[Controller, Caller]]:
    from bridge.cli.composition import open_controller
    from bridge.cli.standing import standpoint_of
    from bridge.control.delegations.tasks import session_of
    from bridge.control.standpoint import Standpoint
    from bridge.rpc.roles import Caller, Role

    # Who may not write leaves no store behind either.
    with open_controller(cli, create=role == "operator") as controller:
        here = standpoint_of(cli)
        named = None if session is None else session_of(controller, here, session)
        standpoint = here if named is None else Standpoint(directory=here.directory, session=named)
        yield controller, Caller(Role(role), standpoint, named if role == "agent" else None)


def _serve(controller: Controller, caller: Caller) -> None:
    import anyio

    from bridge.rpc.stdio import serve

    async def run() -> None:
        await serve(controller, caller, input_descriptor=0, output_descriptor=1)

    anyio.run(run)


def _call(controller: Controller, caller: Caller, method: str, params: dict[str, Any]) -> Any:
    import anyio

    from bridge.rpc.connection import Connection
    from bridge.rpc.resident.client import RemoteError

    answers: list[bytes] = []

    async def send(answer: bytes) -> None:
        answers.append(answer)

    async def run() -> None:
        connection = Connection(controller, caller, send)
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        await connection.receive(json.dumps(request).encode())
        await connection.drain()
        await connection.aclose()

    anyio.run(run)
    answer = json.loads(answers[0])
    if "error" in answer:
        raise RemoteError(answer["error"])
    return answer["result"]
