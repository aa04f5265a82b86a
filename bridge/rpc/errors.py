"""What can be wrong with a call itself, before any use case sees it."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class InvalidRequest(BridgeError):
    """Raised when a message is no JSON-RPC request; ``details["reason"]`` says in what way."""

    code = "invalid_request"
    exit_status = 115
    summary = "A message is not JSON, not a JSON-RPC 2.0 request, or larger than the limit; nothing was called."
    default_hint = 'Send one line: {"jsonrpc":"2.0","id":1,"method":"sessions/list","params":{}}'


class MethodNotFound(BridgeError):
    """Raised when a method does not exist, or not for this caller."""

    code = "method_not_found"
    exit_status = 116
    summary = "There is no such method, or this caller may not call it; nothing was called."
    default_hint = "schema/rpc/openrpc.json lists the methods and who may call each."


class InvalidParams(BridgeError):
    """Raised when the params of a call do not fit its method; ``details["fields"]`` says where."""

    code = "invalid_params"
    exit_status = 117
    summary = "The params of a call do not fit the method's schema; nothing was called."
    default_hint = "Mend the fields named; schema/rpc/openrpc.json has the schema of each method."


class DeadlineExceeded(BridgeError):
    """Raised when a call was not done within the time that its caller gave it."""

    code = "deadline_exceeded"
    exit_status = 226
    summary = "A call was not done within its deadline_ms; it was given up, and nothing was changed by it."
    default_hint = "Call again with a longer deadline_ms, or without one."


class CallCancelled(BridgeError):
    """Raised when a call was given up because its caller asked for that."""

    code = "call_cancelled"
    exit_status = 227
    summary = "A call was given up at its caller's request; nothing was changed by it."
    default_hint = "Call again if it is wanted after all."


class TooManyCalls(BridgeError):
    """Raised when a connection has as many waiting calls or subscriptions as it may have."""

    code = "too_many_calls"
    exit_status = 228
    summary = "A connection has as many waiting calls or subscriptions as it may have; nothing was called."
    default_hint = "Cancel some with $/cancel or events/unsubscribe, or open another connection."
