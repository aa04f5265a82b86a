"""JSON-RPC 2.0 as bytes: what a message must look like, and how answers, errors and notifications are written."""

from __future__ import annotations

from typing import Any, Final

import orjson

from bridge.foundation.canonical import FloatLiteral, parse_json
from bridge.foundation.errors import BridgeError, NotCanonical
from bridge.rpc.errors import InvalidParams, InvalidRequest, MethodNotFound, ResultTooLarge

#: Largest message, in bytes: twice the largest payload of an entry.
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
#: Largest result, in bytes: an entry with the largest payload, told as value and as text, fits.
MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
#: Requests in one batch.
MAX_BATCH: Final = 100
#: Longest id of a request, in characters.
MAX_ID_CHARACTERS: Final = 200
#: Longest time that a caller may give a call, in milliseconds: a day.
MAX_DEADLINE_MS: Final = 24 * 60 * 60 * 1000

#: The codes that JSON-RPC reserves. Every other error has its exit status for a code.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "meta"})
_META: Final = frozenset({"deadline_ms"})
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_NON_STR_KEYS


def parse(message: bytes) -> Any:
    """Return what a message holds.

    Raises
    ------
    InvalidRequest
        If it is too long or not JSON, or a batch of no or too many requests.
    """
    if len(message) > MAX_MESSAGE_BYTES:
        raise InvalidRequest(
            f"A message has at most {MAX_MESSAGE_BYTES} bytes. Nothing was called.",
            details={"reason": "too_large", "limit": MAX_MESSAGE_BYTES},
        )
    try:
        parsed = parse_json(message)
    except NotCanonical as error:
        told = InvalidRequest(f"The message is not JSON: {error.message}", details={"reason": "parse_error"})
        raise told from error
    if isinstance(parsed, list) and not 1 <= len(parsed) <= MAX_BATCH:
        raise InvalidRequest(
            f"A batch has 1 to {MAX_BATCH} requests, not {len(parsed)}. Nothing was called.",
            details={"reason": "batch_size", "limit": MAX_BATCH},
        )
    return parsed


def check_request(request: Any) -> None:
    """Check the form of one request.

    Raises
    ------
    InvalidRequest
        If it has none; ``details["reason"]`` says in what way.
    """

    def refuse(message: str, reason: str) -> InvalidRequest:
        return InvalidRequest(f"{message} Nothing was called.", details={"reason": reason})

    if not isinstance(request, dict):
        raise refuse("A request is an object.", "not_an_object")
    if not request.keys() <= _MEMBERS:
        unknown = min(set(request) - _MEMBERS)
        raise refuse(f"A request has no member {unknown[:80]!r}.", "unknown_member")
    if request.get("jsonrpc") != "2.0":
        raise refuse('A request says "jsonrpc":"2.0".', "version")
    if "id" in request and not is_id(request["id"]):
        raise refuse("The id of a request is a short text, an integer or null.", "id")
    if not isinstance(request.get("method"), str):
        raise refuse("A request names its method.", "method")
    if not isinstance(request.get("params", {}), (dict, list)):
        raise refuse("The params of a request are an object.", "params")
    if "meta" in request:
        _check_meta(request["meta"])


def _check_meta(meta: Any) -> None:
    if not isinstance(meta, dict) or not meta.keys() <= _META:
        raise InvalidRequest(
            "The meta of a request is an object with deadline_ms. Nothing was called.", details={"reason": "meta"}
        )
    deadline = meta.get("deadline_ms", 1)
    if type(deadline) is not int or not 1 <= deadline <= MAX_DEADLINE_MS:
        raise InvalidRequest(
            f"deadline_ms is an integer from 1 to {MAX_DEADLINE_MS}. Nothing was called.",
            details={"reason": "deadline", "limit": MAX_DEADLINE_MS},
        )


def is_id(value: Any) -> bool:
    """Return whether a value may identify a request."""
    if isinstance(value, str):
        return len(value) <= MAX_ID_CHARACTERS
    return value is None or type(value) is int


def id_of(request: Any) -> Any:
    """Return the id of a request that cannot be called, where it has one that can be given back."""
    identity = request.get("id") if isinstance(request, dict) else None
    return identity if is_id(identity) else None


def success(identity: Any, result: bytes) -> bytes:
    """Return the answer to a call, from the JSON of its result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(identity), result)


def failure(identity: Any, error: BridgeError) -> bytes:
    """Return the answer to a call that failed for a reason that Bridge names."""
    return encode({"jsonrpc": "2.0", "id": identity, "error": error_object(error)})


def fault(identity: Any) -> bytes:
    """Return the answer to a call at which Bridge itself failed; what is told is in the log only."""
    data = {"code": "internal_error", "hint": "Please report it; the log has the details.", "details": {}}
    error = {"code": INTERNAL_ERROR, "message": "Bridge itself failed at this call.", "data": data}
    return encode({"jsonrpc": "2.0", "id": identity, "error": error})


def batch(answers: list[bytes]) -> bytes:
    """Return the answer to a batch."""
    return b"[" + b",".join(answers) + b"]"


def notification(method: str, params: bytes) -> bytes:
    """Return a notification, from the JSON of its params."""
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)


def too_large() -> bytes:
    """Return the answer to a message above the limit, whose id nobody has read."""
    told = InvalidRequest(
        f"A message has at most {MAX_MESSAGE_BYTES} bytes. Nothing was called.",
        details={"reason": "too_large", "limit": MAX_MESSAGE_BYTES},
    )
    return failure(None, told)


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


def encode(value: Any) -> bytes:
    """Return the JSON of an answer."""
    return orjson.dumps(value, default=_plain, option=_OPTIONS)


def encode_result(value: Any) -> bytes:
    """Return the JSON of a result.

    Raises
    ------
    ResultTooLarge
        If it has more than :data:`MAX_RESULT_BYTES`.
    """
    encoded = encode(value)
    if len(encoded) > MAX_RESULT_BYTES:
        raise ResultTooLarge(
            f"The result has {len(encoded)} bytes; an answer holds {MAX_RESULT_BYTES}.",
            hint="Ask for a smaller page (limit).",
            details={"bytes": len(encoded), "limit": MAX_RESULT_BYTES},
        )
    return encoded


def _plain(value: object) -> Any:
    # Floats of a payload are given back as they were written; enumerations are texts.
    if isinstance(value, FloatLiteral):
        return orjson.Fragment(value.literal)
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
