"""``bridge rpc``: the methods of Bridge for other programs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid


@command()
def rpc(
    cli: Cli,
    *,
    stdio: Annotated[bool, typer.Option("--stdio", help="On standard input and output; must be given.")] = False,
    role: Annotated[
        Literal["operator", "observer", "agent"],
        typer.Option("--role", help="Who calls: the operator, one who only looks, or an agent with --session."),
    ] = "operator",
    session: Annotated[
        str | None,
        typer.Option("--session", help="The session that @ means, and the only one that an agent reaches."),
    ] = None,
) -> int:
    """Answer JSON-RPC on standard input and output

    One JSON-RPC 2.0 message a line, each answered on a line when it is done; it ends with its input. The methods,
    their params and who may call them are in docs/rpc.md and schema/rpc/openrpc.json. Errors carry the codes of
    docs/errors.md in error.data.
    """
    import anyio

    from bridge.cli.composition import open_controller
    from bridge.cli.standing import standpoint_of
    from bridge.control.delegations.tasks import session_of
    from bridge.control.standpoint import Standpoint
    from bridge.rpc.roles import Caller, Role
    from bridge.rpc.stdio import serve

    if not stdio:
        raise UsageInvalid("Say which door to open: --stdio.")
    if role == "agent" and session is None:
        raise UsageInvalid("--role agent needs --session: an agent reaches one session and no other.")
    cli.start_logging()
    # Who may not write leaves no store behind either.
    with open_controller(cli, create=role == "operator") as controller:
        here = standpoint_of(cli)
        named = None if session is None else session_of(controller, here, session)
        standpoint = here if named is None else Standpoint(directory=here.directory, session=named)
        caller = Caller(Role(role), standpoint, named if role == "agent" else None)

        async def run() -> None:
            await serve(controller, caller, input_descriptor=0, output_descriptor=1)

        anyio.run(run)
    return 0
