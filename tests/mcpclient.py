"""The official client of the protocol over the real ``bridge mcp``, against a controller of the test."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from bridge.control.access.tokens import TOKEN_VARIABLE, mint
from bridge.control.controller import Controller
from bridge.control.sessions import SessionRequest, start_session
from bridge.control.standpoint import Standpoint
from bridge.rpc.mcp.door import ROLE, AgentDoor
from bridge.rpc.resident.builds import build_id
from bridge.rpc.resident.residency import Residency
from tests.serving import MAIN, ROOT, Serving, serving


@contextmanager
def agents_served(controller: Controller) -> Iterator[Serving]:
    """A server with the door for agents, of this very build: ``bridge mcp`` starts no other one."""
    residency = Residency(controller, build=build_id(), run_command=None)
    with serving(controller, residency=residency, doors={ROLE: AgentDoor(controller)}) as found:
        yield found


def token_for(controller: Controller, session_id: str, **options: Any) -> str:
    return mint(controller, session_id, purpose="test", **options).token


def new_session(controller: Controller, directory: Any) -> str:
    return start_session(controller, Standpoint(directory=directory), SessionRequest()).session.id


def environment_of(token: str | None, **more: str) -> dict[str, str]:
    environment = {"BRIDGE_HOME": os.environ["BRIDGE_HOME"], "PYTHONPATH": str(ROOT), **more}
    return environment if token is None else {**environment, TOKEN_VARIABLE: token}


@asynccontextmanager
async def agent(
    token: str | None, *, mode: str = "auto", environment: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """An agent that has its tools."""
    variables = dict(environment) if environment is not None else environment_of(token)
    parameters = StdioServerParameters(command=sys.executable, args=["-P", "-c", MAIN, "mcp"], env=variables)
    with subprocess_silence() as nowhere:
        try:
            async with Client(stdio_client(parameters, errlog=nowhere), mode=mode) as client:
                yield client
        except BaseExceptionGroup as group:
            # The client's task groups wrap what a test expects.
            raise _sole(group) from group


def subprocess_silence() -> IO[str]:
    """Where what ``bridge mcp`` says on stderr goes."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _sole(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        (error,) = error.exceptions
    return error


async def called(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return what a tool gives back; its text says the same."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert json.loads(text_of(result)) == result.structured_content
    return dict(result.structured_content)


async def refused(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the error that a tool answers with."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return dict(json.loads(text_of(result))["error"])


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)
