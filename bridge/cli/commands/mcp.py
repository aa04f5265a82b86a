"""``bridge mcp``: the tools for an agent. Without options it never comes here (:mod:`bridge.cli.agentdoor`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

#: Folder in the state directory for the tokens of attached agents, each in a file of its own.
FOLDER = "agents"


@command()
def mcp(
    cli: Cli,
    *,
    attach: Annotated[
        str | None,
        typer.Option("--attach", metavar="SESSION", help="Print what an agent's configuration needs to act for it."),
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0.01, max=720, help="With --attach: how long that is worth something.")
    ] = 24,
    revoke: Annotated[
        str | None, typer.Option("--revoke", metavar="SESSION", help="Take back every token of a session.")
    ] = None,
) -> int:
    """Give an agent its tools on standard input and output, or attach one

    Without options: MCP over standard input and output, for the session that the token in BRIDGE_AGENT_TOKEN (or in
    the file named by BRIDGE_AGENT_TOKEN_FILE) was made for. It passes messages on to the resident controller, which
    is started if none runs. Bridge starts it for the agents that it starts; --attach is for your own. See docs/mcp.md.
    """
    if attach is not None and revoke is not None:
        raise UsageInvalid("Give either --attach or --revoke.")
    if attach is not None:
        return _attach(cli, attach, hours)
    if revoke is not None:
        return _revoke(cli, revoke)
    from bridge.cli.agentdoor import pass_on

    return pass_on(cli.environment)


def _attach(cli: Cli, reference: str, hours: float) -> int:
    from bridge.cli.composition import open_controller
    from bridge.cli.standing import standpoint_of
    from bridge.control.access.offering import attachable, reachable_by
    from bridge.control.access.tokens import mint
    from bridge.control.delegations.tasks import session_of
    from bridge.control.errors import AgentTokenRefused

    where = reachable_by(cli.settings)
    if where is None:
        raise AgentTokenRefused(
            "The database's URL holds a password, which agents are not given. Nothing was attached.",
            hint="Put the password where the database's client looks for it by itself, such as ~/.pgpass.",
            details={"reason": "password"},
        )
    with open_controller(cli) as controller:
        session_id = session_of(controller, standpoint_of(cli), reference)
        minted = mint(controller, session_id, purpose="attached", lifetime_seconds=hours * 3600)
        path = _write_private(cli, minted.id, minted.token)
    found = attachable(minted, str(path), where)
    shown = {"mcpServers": found["mcpServers"]}
    cli.output.emit(found, lambda console: console.print(json.dumps(shown, indent=2), soft_wrap=True))
    cli.output.status(f"for session {session_id}, until {minted.expires_at}; take it back: bridge mcp --revoke SESSION")
    return 0


def _revoke(cli: Cli, reference: str) -> int:
    from bridge.cli.composition import open_controller
    from bridge.cli.standing import standpoint_of
    from bridge.control.access.tokens import revoke_all
    from bridge.control.delegations.tasks import session_of

    with open_controller(cli) as controller:
        session_id = session_of(controller, standpoint_of(cli), reference)
        revoked = revoke_all(controller, session_id)
    for token_id in revoked:
        (cli.settings.home / FOLDER / token_id).unlink(missing_ok=True)
    told: dict[str, Any] = {"session_id": session_id, "revoked": len(revoked)}
    cli.output.emit(told, f"took back {len(revoked)} tokens")
    return 0


def _write_private(cli: Cli, token_id: str, token: str) -> Path:
    """Write a token where only this user reads it, and nobody can have put a link."""
    import os

    from bridge.rpc.resident.holding import make_private

    folder = cli.settings.home / FOLDER
    make_private(folder)
    path = folder / token_id
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(token + "\n")
    return path
