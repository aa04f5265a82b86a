"""JSON-RPC 2.0 as bytes: what a message must look like, and how answers and errors are written."""

from __future__ import annotations

from typing import Any

import orjson

from bridge.foundation.errors import BridgeError
from bridge.rpc import dispatch
from bridge.rpc.dispatch import MAX_MESSAGE_BYTES, error_object, too_large

__all__ = ["MAX_MESSAGE_BYTES", "check_request", "encode", "error_object", "failure", "fault", "id_of", "success"]
__all__ += ["too_large"]


def check_request(request: Any) -> None:
    dispatch._check_request(request)  # noqa: SLF001 - until dispatch is taken apart


def id_of(request: Any) -> Any:
    return dispatch._id_of(request)  # noqa: SLF001 - as above


def encode(value: Any) -> bytes:
    return orjson.dumps(value)


def success(identity: Any, result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + encode(identity) + b',"result":' + result + b"}"


def failure(identity: Any, error: BridgeError) -> bytes:
    return encode({"jsonrpc": "2.0", "id": identity, "error": error_object(error)})


def fault(identity: Any) -> bytes:
    return encode(dispatch._fault(identity))  # noqa: SLF001 - as above
