"""What an agent's process is given so that it can reach its tools: a token, and how to start the MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bridge.control.access.tokens import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, Minted, mint_in
from bridge.control.recording import RecordingTransaction
from bridge.foundation.config import DATABASE_FILE, DATABASE_VARIABLE, HOME_VARIABLE, Settings
from bridge.process.ownprogram import own_command

#: The name under which agents know the server.
SERVER_NAME = "bridge"


@dataclass(frozen=True, slots=True)
class Offer:
    """An MCP server for one agent.

    Parameters
    ----------
    command
        Program and arguments; no secret among them.
    environment
        Variables that the server needs; the token is one of them.
    """

    token_id: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)

    def to_acp(self) -> dict[str, Any]:
        """Return the server as the Agent Client Protocol names it."""
        return {
            "name": SERVER_NAME,
            "command": self.command[0],
            "args": list(self.command[1:]),
            "env": [{"name": name, "value": value} for name, value in self.environment.items()],
        }


def offer_in(
    recording: RecordingTransaction,
    settings: Settings,
    session_id: str,
    *,
    purpose: str,
    lifetime_seconds: float,
    delegation_id: str | None = None,
) -> Offer | None:
    """Mint a token within an open transaction and return what to start an agent with; None if it cannot have one.

    An agent is not given a database's password. Where the server could not be reached without, there is none.
    """
    where = reachable_by(settings)
    if where is None:
        return None
    minted = mint_in(
        recording, session_id, purpose=purpose, lifetime_seconds=lifetime_seconds, delegation_id=delegation_id
    )
    return Offer(minted.id, own_command("mcp"), {**where, TOKEN_VARIABLE: minted.token})


def reachable_by(settings: Settings) -> dict[str, str] | None:
    """Return the variables by which ``bridge mcp`` finds the controller; None if they would hold a password."""
    variables = {HOME_VARIABLE: str(settings.home)}
    if settings.database_url != f"sqlite:///{settings.home / DATABASE_FILE}":
        if urlsplit(settings.database_url).password is not None:
            return None
        variables[DATABASE_VARIABLE] = settings.database_url
    return variables


def attachable(minted: Minted, token_file: str, where: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration by which a person's own agent starts the server, with the token in a file.

    Parameters
    ----------
    where
        What :func:`reachable_by` gave.
    """
    command = own_command("mcp")
    server = {
        "command": command[0],
        "args": list(command[1:]),
        "env": {**where, TOKEN_FILE_VARIABLE: token_file},
    }
    return {
        "token_id": minted.id,
        "session_id": minted.session_id,
        "expires_at": minted.expires_at,
        "mcpServers": {SERVER_NAME: server},
    }
