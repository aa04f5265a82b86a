"""What an agent asks of its client while it works: permission, files, terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import anyio
from anyio import to_thread

from bridge.adapters.acp.assembling import trimmed
from bridge.adapters.acp.files import ConfinedFiles
from bridge.adapters.acp.terminals import Terminals
from bridge.adapters.asking import Asking
from bridge.adapters.errors import AgentFileMissing
from bridge.adapters.events import AdapterEvent
from bridge.adapters.permission import PermissionOption, PermissionPolicy, PermissionRequest
from bridge.foundation.errors import BridgeError

#: JSON-RPC codes of the answers given here.
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
METHOD_NOT_FOUND: Final = -32601
RESOURCE_NOT_FOUND: Final = -32002
#: Answers that an agent may offer, and characters of each.
MAX_OPTIONS: Final = 20
MAX_OPTION_TEXT: Final = 300
#: Files of one call that are looked at.
MAX_PATHS: Final = 200
_PATH_FIELDS: Final = ("path", "file_path", "filePath", "abs_path", "notebook_path")


class RequestRefused(Exception):
    """An answer in the form of an error, for the agent."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = dict(data or {})


class ClientSide:
    """Answers an agent's requests.

    Parameters
    ----------
    files, terminals
        What it may reach; ``terminals`` is None where none are offered.
    permission
        Decides what it may do.
    emit
        Takes the events that asking makes.
    announce
        Takes a call that somebody is about to be asked about, before the question.
    """

    def __init__(
        self,
        files: ConfinedFiles,
        terminals: Terminals | None,
        permission: PermissionPolicy,
        *,
        emit: Callable[[AdapterEvent], None],
        announce: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._files = files
        self._terminals = terminals
        self._asking = Asking(permission, emit)
        self._announce = announce
        #: Requests that the agent waits for; its silence is ours meanwhile.
        self.waiting = 0

    @property
    def turn_id(self) -> str | None:
        """The turn that is running, or ran last."""
        return self._asking.turn_id

    def begin(self, turn_id: str) -> None:
        """Take note of a turn that begins."""
        self._asking.turn_id, self._asking.cancelled = turn_id, anyio.Event()

    def cancel(self) -> None:
        """Leave what is being asked unanswered: the turn is being ended."""
        self._asking.cancelled.set()

    async def answer(self, method: str, params: Any) -> Any:
        """Return the result of a request.

        Raises
        ------
        RequestRefused
            With the code and the words for the agent.
        """
        if not isinstance(params, Mapping):
            raise RequestRefused(INVALID_PARAMS, "params must be an object")
        with self._counted():
            try:
                return await self._dispatch(method, params)
            except AgentFileMissing as error:
                # The code and the words that agents know.
                words = f"Resource not found: {params.get('path')}"[:MAX_OPTION_TEXT]
                raise RequestRefused(RESOURCE_NOT_FOUND, words, {"code": error.code, **error.details}) from error
            except BridgeError as error:
                data = {"code": error.code, "hint": error.hint, **error.details}
                raise RequestRefused(INVALID_PARAMS, error.message, data) from error

    async def _dispatch(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "session/request_permission":
            return await self._ask(params)
        if method == "fs/read_text_file":
            line, limit = _number(params, "line"), _number(params, "limit")
            path = _text(params, "path")
            text = await to_thread.run_sync(lambda: self._files.read(path, line=line, limit=limit))
            return {"content": text}
        if method == "fs/write_text_file":
            await to_thread.run_sync(self._files.write, _text(params, "path"), _text(params, "content"))
            return {}
        if method.startswith("terminal/") and self._terminals is not None:
            return await self._terminal(self._terminals, method, params)
        raise RequestRefused(METHOD_NOT_FOUND, "Method not found", {"method": method[:200]})

    async def _terminal(self, terminals: Terminals, method: str, params: Mapping[str, Any]) -> Any:
        if method == "terminal/create":
            command = " ".join([_text(params, "command"), *map(str, params.get("args") or ())])
            await self._require_allowed(command)
            return await terminals.create(params)
        identity = _text(params, "terminalId")
        if method == "terminal/output":
            return await terminals.output(identity)
        if method == "terminal/wait_for_exit":
            return await terminals.wait(identity)
        if method == "terminal/kill":
            await terminals.kill(identity)
            return {}
        if method == "terminal/release":
            await terminals.release(identity)
            return {}
        raise RequestRefused(METHOD_NOT_FOUND, "Method not found", {"method": method[:200]})

    async def _require_allowed(self, command: str) -> None:
        options = (
            PermissionOption("allow", "Allow", "allow_once"),
            PermissionOption("reject", "Refuse", "reject_once"),
        )
        request = PermissionRequest(command[:MAX_OPTION_TEXT], "execute", "", options, {"command": command})
        answer = await self._asking.decide(request)
        if answer.option_id != "allow":
            raise RequestRefused(INVALID_PARAMS, "Running this was not allowed.")

    async def _ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        call = params.get("toolCall")
        call = call if isinstance(call, Mapping) else {}
        options = tuple(_options(params.get("options")))
        self._announce(call)
        title = str(call.get("title") or call.get("kind") or "a tool call")
        request = PermissionRequest(
            title=title[:MAX_OPTION_TEXT],
            kind=str(call.get("kind") or ""),
            tool_call_id=str(call.get("toolCallId") or "")[:MAX_OPTION_TEXT],
            options=options,
            details=trimmed(call.get("rawInput")),
            paths=tuple(_paths(call)),
        )
        answer = await self._asking.decide(request)
        if answer.option_id is None or self._asking.cancelled.is_set():
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": answer.option_id}}

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1


def _options(found: Any) -> Iterator[PermissionOption]:
    for item in found[:MAX_OPTIONS] if isinstance(found, list) else ():
        if isinstance(item, Mapping) and isinstance(item.get("optionId"), str) and item["optionId"]:
            kind = item.get("kind")
            name = str(item.get("name") or item["optionId"])
            yield PermissionOption(
                item["optionId"], name[:MAX_OPTION_TEXT], kind if isinstance(kind, str) and kind else "other"
            )


def _paths(call: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that a call names: its locations, and the fields of its input that harnesses use for a path."""
    locations = call.get("locations")
    for place in locations[:MAX_PATHS] if isinstance(locations, list) else ():
        if isinstance(place, Mapping) and isinstance(place.get("path"), str):
            yield place["path"]
    if isinstance(locations, list) and len(locations) > MAX_PATHS:
        yield "/"  # what is not looked at may lie anywhere
    given = call.get("rawInput")
    fields = given if isinstance(given, Mapping) else {}
    for name in _PATH_FIELDS:
        if isinstance(fields.get(name), str):
            yield fields[name]


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RequestRefused(INVALID_PARAMS, f"{name} must be a string")
    return value


def _number(params: Mapping[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RequestRefused(INVALID_PARAMS, f"{name} must be a whole number")
    return value
