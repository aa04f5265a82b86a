"""One agent's calls of tools: its token, its reach, its arguments; then the method, as over any other door."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import orjson

from bridge.control.access.tokens import Bearer, require_live
from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint
from bridge.foundation.errors import BridgeError
from bridge.rpc import messages, threads
from bridge.rpc.connection import Connection
from bridge.rpc.dispatch import Gate
from bridge.rpc.errors import InvalidParams, MethodNotFound, ResultTooLarge
from bridge.rpc.mcp.tools import MAX_ARGUMENT_BYTES, MAX_RESULT_BYTES, TOOLS, Tool, input_validator
from bridge.rpc.roles import Caller, Role
from bridge.semantics.schemas import field_errors

#: How often a wait says how it stands, in seconds.
PROGRESS_SECONDS: Final = 2.0
#: Arguments by which an agent would name somebody else's session.
_SESSION_WORDS: Final = frozenset({"session", "session_id", "session_ids", "sessions", "parent_session_id"})

#: Says how a wait stands: seconds so far, seconds at most, and in a word.
Progress = Callable[[float, float, str], Awaitable[None]]


class Refused(Exception):
    """Raised with the error that a method answered with, as JSON-RPC has it."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.error = error


class AgentCalls:
    """The calls of the holder of a token. Belongs to the event loop on which it is made; close it in the end."""

    def __init__(self, controller: Controller, bearer: Bearer) -> None:
        session_id = bearer.session_id
        caller = Caller(Role.AGENT, Standpoint(session=session_id), session_id)
        self._controller = controller
        self._bearer = bearer
        self._gate = Gate(controller, caller)
        self._connection = Connection(controller, caller, self._take, is_lasting=False)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._called = 0

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Call a tool and return its result.

        Raises
        ------
        Refused
            If the method answers with an error.
        MethodNotFound
            If there is no such tool.
        AgentTokenRefused, InvalidParams, ResultTooLarge
            If the token is worth nothing any more, the arguments do not fit, or the result is too long.
        """
        await self._blocking(partial(require_live, self._controller, self._bearer.token_id))
        tool = TOOLS.get(name)
        if tool is None:
            raise await self._recorded(
                name,
                MethodNotFound(f"There is no tool {name[:80]!r}. Nothing was called.", details={"tool": name[:200]}),
            )
        await self._check(tool, arguments)
        params = tool.arrange(dict(arguments))
        if tool.is_waiting:
            result = await self._wait(tool, params, progress)
        else:
            result = await self._method(tool.method, params)
        shaped = tool.shape(result)
        size = len(messages.encode(shaped))
        if size > MAX_RESULT_BYTES:
            raise ResultTooLarge(
                f"The result has {size} bytes; a tool returns {MAX_RESULT_BYTES}.",
                hint="Ask for less at once.",
                details={"bytes": size, "limit": MAX_RESULT_BYTES},
            )
        return shaped

    async def aclose(self) -> None:
        """Give up what has not begun, and finish the changes that have."""
        await self._connection.aclose()

    async def _check(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Refuse arguments that do not fit; one that would name a session is an attempt to leave one's own."""
        size = len(messages.encode(arguments))
        if size > MAX_ARGUMENT_BYTES:
            problems = [{"path": "", "message": f"has {size} bytes; {MAX_ARGUMENT_BYTES} are taken"}]
        else:
            problems = [dict(error) for error in field_errors(input_validator(tool.name), arguments)]
        if not problems:
            return
        error = InvalidParams(
            f"The arguments do not fit: {problems[0]['path'].lstrip('/') or 'the whole'} {problems[0]['message']}. "
            "Nothing was called.",
            hint="Mend the fields named; tools/list has the schema.",
            details={"fields": problems},
        )
        taken = tool.input_schema()["properties"]
        if any(name in _SESSION_WORDS and name not in taken for name in arguments):
            raise await self._recorded(tool.name, error)
        raise error

    async def _recorded(self, name: str, error: BridgeError) -> BridgeError:
        await self._blocking(partial(self._gate.record_refusal, name, error))
        return error

    async def _wait(self, tool: Tool, params: dict[str, Any], progress: Progress | None) -> dict[str, Any]:
        """Wait in slices, and tell between them how it stands."""
        loop = asyncio.get_running_loop()
        began, most = loop.time(), params["timeout_ms"] / 1000
        while True:
            left = max(began + most - loop.time(), 0.0)
            slice_ms = int(min(left, PROGRESS_SECONDS) * 1000)
            result = await self._method(tool.method, {**params, "timeout_ms": slice_ms})
            spent = loop.time() - began
            if result["ended"] or spent >= most:
                return result
            if progress is not None:
                await progress(spent, most, str(result["status"]))
            # Whoever may not ask any more is not told either.
            await self._blocking(partial(require_live, self._controller, self._bearer.token_id))

    async def _method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._called += 1
        identity = self._called
        answer = self._answers[identity] = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        try:
            await self._connection.receive(messages.encode(request))
            found = await answer
        except asyncio.CancelledError:
            self._connection.cancel(identity)
            raise
        finally:
            self._answers.pop(identity, None)
        if "error" in found:
            raise Refused(found["error"])
        return dict(found["result"])

    async def _take(self, message: bytes) -> None:
        found = orjson.loads(message)
        answer = self._answers.get(found.get("id"))
        if answer is not None and not answer.done():
            answer.set_result(found)

    async def _blocking(self, job: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        return await asyncio.wrap_future(threads.submit(loop, job), loop=loop)
