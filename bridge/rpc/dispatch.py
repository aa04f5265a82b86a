"""JSON-RPC 2.0: from the bytes of a message to the bytes of its answer.

Every call passes the same gates in the same order: form of the request, method, caller, params. Requests of a batch
are answered one after the other, and so are messages: what was sent first has happened when the next begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
import structlog
from anyio import to_thread

from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.errors import AmbiguousReference, InvalidReference, SessionNotFound
from bridge.foundation.canonical import FloatLiteral, parse_json
from bridge.foundation.errors import BridgeError, NotCanonical
from bridge.rpc.calls import Call
from bridge.rpc.errors import InvalidParams, InvalidRequest, MethodNotFound
from bridge.rpc.methods import METHODS, Method, Role
from bridge.rpc.shapes import build

#: Largest message, in bytes: twice the largest payload of an entry.
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
#: Requests in one batch.
MAX_BATCH: Final = 100
#: Longest id of a request, in characters.
MAX_ID_CHARACTERS: Final = 200

#: The codes that JSON-RPC reserves. Every other error has its exit status for a code.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params"})
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end of a door, and where they stand.

    Parameters
    ----------
    session_id
        Full id of the session that an agent is bound to; None for everybody else.
    """

    role: Role
    standpoint: Standpoint
    session_id: str | None = None

    def __post_init__(self) -> None:
        if (self.role is Role.AGENT) != (self.session_id is not None):
            raise ValueError("an agent is bound to a session, and nobody else is")


class Dispatcher:
    """Answers the messages of one caller. Safe to use from several tasks."""

    def __init__(self, controller: Controller, caller: Caller) -> None:
        self._controller = controller
        self._caller = caller

    async def answer(self, message: bytes) -> bytes | None:
        """Return the answer to a message; None where nobody expects one. Never raises for what was sent."""
        if len(message) > MAX_MESSAGE_BYTES:
            return too_large()
        try:
            parsed = parse_json(message)
        except NotCanonical as error:
            told = InvalidRequest(f"The message is not JSON: {error.message}", details={"reason": "parse_error"})
            return _encode(_failure(None, told))
        if not isinstance(parsed, list):
            response = await self._respond(parsed)
            return None if response is None else _encode(response)
        if not 1 <= len(parsed) <= MAX_BATCH:
            told = InvalidRequest(
                f"A batch has 1 to {MAX_BATCH} requests, not {len(parsed)}. Nothing was called.",
                details={"reason": "batch_size", "limit": MAX_BATCH},
            )
            return _encode(_failure(None, told))
        responses = [response for item in parsed if (response := await self._respond(item)) is not None]
        return _encode(responses) if responses else None

    async def _respond(self, request: Any) -> dict[str, Any] | None:
        try:
            _check_request(request)
        except InvalidRequest as error:
            return _failure(_id_of(request), error)
        try:
            call = partial(self._call, request["method"], request.get("params", {}))
            result = await to_thread.run_sync(call)
        except BridgeError as error:
            response = _failure(request.get("id"), error)
        except Exception:  # noqa: BLE001 - the edge of the door: a fault ends one call, not the connection
            _log.exception("a call failed", action="call_failed", method=request["method"])
            response = _fault(request.get("id"))
        else:
            response = {"jsonrpc": "2.0", "id": request.get("id"), "result": result}
        return response if "id" in request else None

    def _call(self, name: str, params: Any) -> dict[str, Any]:
        method = self._admit(name)
        if not isinstance(params, dict):
            raise InvalidParams("Params are given by name, as an object. Nothing was called.", details={"fields": []})
        built = build(method.params, params)
        if self._caller.role is Role.AGENT:
            self._require_own(built.session)
        return method.run(Call(self._controller, self._caller.standpoint), built)

    def _admit(self, name: str) -> Method:
        """Return the method, if there is one of that name for this caller: an agent cannot tell the two apart."""
        method = METHODS.get(name)
        if method is not None and self._caller.role in method.roles:
            return method
        is_told = method is not None and self._caller.role is not Role.AGENT
        message = f"{name[:80]!r} is not for an {self._caller.role}." if is_told else f"There is no {name[:80]!r}."
        reason = "not_permitted" if is_told else "unknown"
        raise MethodNotFound(f"{message} Nothing was called.", details={"method": name[:200], "reason": reason})

    def _require_own(self, reference: str | None) -> None:
        """Refuse a session that is not the agent's own in the very words for one that does not exist."""
        if reference is None:
            return
        try:
            with self._controller.store.read() as connection:
                found = find_session(connection, self._caller.standpoint, reference)
        except (SessionNotFound, AmbiguousReference, InvalidReference):
            found = None
        if found != self._caller.session_id:
            raise SessionNotFound(f"There is no session {reference!r}.", details={"reference": reference})


def too_large() -> bytes:
    """Return the answer to a message above the limit, whose id nobody has read."""
    told = InvalidRequest(
        f"A message has at most {MAX_MESSAGE_BYTES} bytes. Nothing was called.",
        details={"reason": "too_large", "limit": MAX_MESSAGE_BYTES},
    )
    return _encode(_failure(None, told))


def error_object(error: BridgeError) -> dict[str, Any]:
    """Return an error as JSON-RPC has it; ``data`` holds what the command line prints."""
    if isinstance(error, InvalidRequest):
        code = PARSE_ERROR if error.details.get("reason") == "parse_error" else INVALID_REQUEST
    elif isinstance(error, MethodNotFound):
        code = METHOD_NOT_FOUND
    elif isinstance(error, InvalidParams):
        code = INVALID_PARAMS
    else:
        code = error.exit_status
    data = {"code": error.code, "hint": error.hint, "details": error.details}
    return {"code": code, "message": error.message, "data": data}


def _check_request(request: Any) -> None:
    def refuse(message: str, reason: str) -> InvalidRequest:
        return InvalidRequest(f"{message} Nothing was called.", details={"reason": reason})

    if not isinstance(request, dict):
        raise refuse("A request is an object.", "not_an_object")
    unknown = sorted(set(request) - _MEMBERS)
    if unknown:
        raise refuse(f"A request has no member {unknown[0][:80]!r}.", "unknown_member")
    if request.get("jsonrpc") != "2.0":
        raise refuse('A request says "jsonrpc":"2.0".', "version")
    if "id" in request and not _is_id(request["id"]):
        raise refuse("The id of a request is a short text, an integer or null.", "id")
    if not isinstance(request.get("method"), str):
        raise refuse("A request names its method.", "method")
    if not isinstance(request.get("params", {}), (dict, list)):
        raise refuse("The params of a request are an object.", "params")


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARACTERS
    return value is None or type(value) is int


def _id_of(request: Any) -> Any:
    """Return the id of a request that cannot be called, where it has one that can be given back."""
    identity = request.get("id") if isinstance(request, dict) else None
    return identity if _is_id(identity) else None


def _failure(identity: Any, error: BridgeError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "error": error_object(error)}


def _fault(identity: Any) -> dict[str, Any]:
    data = {"code": "internal_error", "hint": "Please report it; the log has the details.", "details": {}}
    error = {"code": INTERNAL_ERROR, "message": "Bridge itself failed at this call.", "data": data}
    return {"jsonrpc": "2.0", "id": identity, "error": error}


def _encode(value: Any) -> bytes:
    return orjson.dumps(value, default=_plain, option=orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> Any:
    # Floats of a payload are given back as they were written; enumerations are texts.
    if isinstance(value, FloatLiteral):
        return orjson.Fragment(value.literal)
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
