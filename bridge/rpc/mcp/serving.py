"""Answers agents with the official library. Importing this takes a second: only the resident controller does, and only
where an agent may come.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

import anyio
import mcp_types as types
from anyio import to_thread
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

import bridge
from bridge.control.access.tokens import Bearer
from bridge.control.controller import Controller
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.rpc.errors import MethodNotFound
from bridge.rpc.mcp.calling import AgentCalls, Refused
from bridge.rpc.mcp.tools import TOOLS, Tool
from bridge.rpc.messages import PARSE_ERROR, encode, error_object, too_large
from bridge.rpc.resident.wire import LineTooLong, Wire

#: What an agent is told about all tools.
INSTRUCTIONS: Final = (
    "Tools of Bridge, bound to your own conversation. delegate asks for workers, wait_delegation waits for them, and "
    "their results are read with read_evidence. Workers end with submit_result."
)
#: Messages above this size are read in a thread: that takes longer than a loop should be held up.
_PARSE_IN_THREAD_BYTES: Final = 256 * 1024
_Incoming = SessionMessage | Exception
_Context = ServerRequestContext[Any, Any]
_log = get_logger(__name__)


@cache
def listed() -> tuple[types.Tool, ...]:
    """Return the tools as they are listed."""
    return tuple(_listed(tool) for tool in TOOLS.values())


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=tool.result,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads_only,
            destructive_hint=False,
            idempotent_hint=tool.reads_only,
            open_world_hint=False,
        ),
    )


def server_for(calls: AgentCalls) -> Server[Any]:
    """Return a server for one agent."""

    async def call_tool(ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await answer(calls, ctx, params)

    return server_answering(call_tool)


def server_answering(
    call_tool: Callable[[_Context, types.CallToolRequestParams], Awaitable[types.CallToolResult]],
) -> Server[Any]:
    """Return a server with the tools, whose calls a function answers."""

    async def list_tools(_ctx: _Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(listed()))

    server: Server[Any] = Server(
        "bridge",
        version=bridge.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # Spans that nobody exports cost more than the rest of a call.
    server.middleware.clear()
    return server


async def answer(calls: AgentCalls, ctx: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Call a tool; what a method refuses is a result that the agent can read, what is no tool is an error."""

    async def progress(spent: float, most: float, status: str) -> None:
        await ctx.session.report_progress(round(spent, 1), most, status)

    try:
        result = await calls.call(params.name, dict(params.arguments or {}), progress)
    except MethodNotFound as error:
        found = error_object(error)
        raise MCPError(code=types.INVALID_PARAMS, message=found["message"], data=found["data"]) from error
    except BridgeError as error:
        return _failed(error_object(error))
    except Refused as error:
        return _failed(error.error)
    text = encode(result).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=json.loads(text)
    )


def _failed(error: dict[str, Any]) -> types.CallToolResult:
    """Return an error as the command line prints it, for an agent to read."""
    data = error.get("data") or {}
    told = {
        "code": data.get("code"),
        "message": error["message"],
        "hint": data.get("hint"),
        "details": data.get("details"),
    }
    text = encode({"error": told}).decode()
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


async def serve(controller: Controller, bearer: Bearer, wire: Wire) -> None:
    """Answer one agent over a connection until either ends."""
    calls = AgentCalls(controller, bearer)
    incoming, received = anyio.create_memory_object_stream[_Incoming](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    server = server_for(calls)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, wire, incoming)
            group.start_soon(_write, wire, outgoing)
            await server.run(received, sent, server.create_initialization_options())
            group.cancel_scope.cancel()
    except* OSError:
        _log.debug("an agent went away", action="agent_gone", session_id=bearer.session_id)
    finally:
        with anyio.CancelScope(shield=True):
            await calls.aclose()


async def _read(wire: Wire, incoming: MemoryObjectSendStream[_Incoming]) -> None:
    async with incoming:
        while True:
            try:
                line = await wire.receive()
            except LineTooLong:
                await wire.send(too_large())
                continue
            if line is None:
                return
            if not line.strip():
                continue
            try:
                is_long = len(line) > _PARSE_IN_THREAD_BYTES
                message = await to_thread.run_sync(_parsed, line) if is_long else _parsed(line)
            except ValidationError:
                error = {"code": PARSE_ERROR, "message": "The message is no JSON-RPC message. Nothing was called."}
                await wire.send(encode({"jsonrpc": "2.0", "id": None, "error": error}))
                continue
            await incoming.send(SessionMessage(message))


def _parsed(line: bytes) -> types.JSONRPCMessage:
    return types.jsonrpc_message_adapter.validate_json(line, by_name=False)


async def _write(wire: Wire, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with outgoing:
        async for found in outgoing:
            await wire.send(found.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
