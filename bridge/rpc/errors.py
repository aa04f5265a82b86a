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


class CallGivenUp(BridgeError):
    """Base of what ends a call before it is done; the classes share its exit status."""

    exit_status = 226


class DeadlineExceeded(CallGivenUp):
    """Raised when a call was not done within the time that its caller gave it."""

    code = "deadline_exceeded"
    summary = "A call was not done within its deadline_ms; it was given up, and nothing was changed by it."
    default_hint = "Call again with a longer deadline_ms, or without one."


class CallCancelled(CallGivenUp):
    """Raised when a call was given up because its caller asked for that."""

    code = "call_cancelled"
    summary = "A call was given up at its caller's request; nothing was changed by it."
    default_hint = "Call again if it is wanted after all."


class TooManyCalls(BridgeError):
    """Raised when a connection has as many waiting calls or subscriptions as it may have."""

    code = "too_many_calls"
    exit_status = 228
    summary = "A connection has as many waiting calls or subscriptions as it may have; nothing was called."
    default_hint = "Cancel some with $/cancel or events/unsubscribe, or open another connection."


class ResultTooLarge(BridgeError):
    """Raised when what a call would return does not fit into one answer."""

    code = "result_too_large"
    exit_status = 229
    summary = "What a call would return does not fit into one answer."
    default_hint = "Ask for a page of it, or use the command line."


class SubscriptionNotFound(BridgeError):
    """Raised when a connection has no subscription of an id."""

    code = "subscription_not_found"
    exit_status = 227
    summary = "The connection has no subscription of that id."
    default_hint = "events/subscribe returns the id; a subscription ends with its connection."


class PeerRefused(BridgeError):
    """Raised when the controller does not take a connection; ``details["reason"]`` says why."""

    code = "connection_refused"
    exit_status = 223
    summary = "The controller does not take this connection: another user's, too many, or no greeting it understands."
    default_hint = 'Begin with one line: {"bridge":1,"build":"…","role":"operator"}'


class ControllerUnavailable(BridgeError):
    """Raised when a controller is needed and none answers, or it could not be started."""

    code = "controller_unavailable"
    exit_status = 224
    summary = "No controller answers, and none could be started; nothing was called."
    default_hint = "Start one by hand to see what is wrong: bridge serve"


class ControllerLost(ControllerUnavailable):
    """Raised when the controller ended, or was cut off, before it answered a call."""

    code = "controller_lost"
    exit_status = 224
    summary = "The controller was lost before it answered; whether the call was carried out is not known."
    default_hint = "Look whether it was done before doing it again: bridge log"


class OtherBuild(BridgeError):
    """Raised when controller and client are of different builds of Bridge."""

    code = "other_build"
    exit_status = 225
    summary = "The running controller is of another build of Bridge than its client; nothing was called."
    default_hint = "Replace it: bridge serve --replace"


class CommandNotTaken(OtherBuild):
    """Raised when a command line is not run by the controller, and the client is to run it itself."""

    code = "command_not_taken"
    exit_status = 225
    summary = "The controller leaves this command line to the client; nothing was run."
    default_hint = "Run it without the controller: BRIDGE_CONTROLLER=off"
