"""Who is let in: Host and Origin against rebinding and foreign pages, bearer tokens, and rates.

The checks come in this order, cheap ones first, and nothing of a request's body is read before all of them passed.
"""

from __future__ import annotations

import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from bridge.rpc.roles import Caller
from bridge.web.binding import Binding

#: Requests of one caller a second, and how many at once; further ones are answered with 429.
CALLS_PER_SECOND: Final = 200.0
CALLS_AT_ONCE: Final = 400
#: Refused attempts of one address a second, and how many at once: guessing a token is made pointless elsewhere.
REFUSALS_PER_SECOND: Final = 1.0
REFUSALS_AT_ONCE: Final = 20
#: Addresses and callers that are remembered.
MAX_REMEMBERED: Final = 1000
#: The subprotocol by which a page hands over its token, since it cannot set a header.
TOKEN_PROTOCOL: Final = "bearer."  # noqa: S105 - the mark before a token
#: The subprotocol that is answered.
PROTOCOL: Final = "bridge"
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody is not let in: the status of the answer, and a word for programs."""

    status: int
    reason: str


class Rate:
    """So many events a second for each key, with a reserve for many at once."""

    def __init__(self, per_second: float, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._at_once = float(at_once)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Count one event; return whether it is within the rate."""
        left = self._refilled(key)
        is_within = left >= 1
        self._left[key] = (left - 1 if is_within else left, self._clock())
        self._left.move_to_end(key)
        while len(self._left) > MAX_REMEMBERED:
            self._left.popitem(last=False)
        return is_within

    def is_used_up(self, key: str) -> bool:
        """Return whether nothing is left for now."""
        return self._refilled(key) < 1

    def _refilled(self, key: str) -> float:
        left, at = self._left.get(key, (self._at_once, self._clock()))
        return min(self._at_once, left + (self._clock() - at) * self._per_second)


class Tokens:
    """The tokens that are valid, and who holds each."""

    def __init__(self, callers: Mapping[str, Caller]) -> None:
        self._callers = [(sha256(token.encode()).digest(), caller) for token, caller in callers.items()]

    def find(self, token: str) -> Caller | None:
        """Return who holds a token, in a time that does not depend on how much of one was guessed."""
        digest = sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = None
        for known, caller in self._callers:
            if hmac.compare_digest(known, digest):
                found = caller
        return found


class Guard:
    """Decides on requests by their headers. Belongs to one event loop."""

    def __init__(self, binding: Binding, tokens: Tokens) -> None:
        self._names = binding.known_names
        self._origins = binding.origins
        self._tokens = tokens
        self._refusals = Rate(REFUSALS_PER_SECOND, REFUSALS_AT_ONCE)
        self._calls = Rate(CALLS_PER_SECOND, CALLS_AT_ONCE)

    def admit(self, headers: Mapping[str, str], address: str, *, token: str | None) -> Caller | Refusal:
        """Return who calls, or why it is refused."""
        host = headers.get("host", "")
        if not self._is_own(host):
            return Refusal(421, "host")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and origin.lower() != f"http://{host.lower()}":
            return Refusal(403, "origin")
        if self._refusals.is_used_up(address):
            return Refusal(429, "refusals")
        caller = None if token is None else self._tokens.find(token)
        if caller is None:
            self._refusals.take(address)
            return Refusal(401, "token")
        if not self.may_call(caller):
            return Refusal(429, "calls")
        return caller

    def may_call(self, caller: Caller) -> bool:
        """Count a message of a caller; return whether it is within the rate."""
        return self._calls.take(f"{caller.role} {caller.session_id}")

    def _is_own(self, host: str) -> bool:
        # The name alone: through a tunnel it is reached by another port, and a name that resolves to here is what
        # a foreign page would have to bring along.
        parts = _HOST.fullmatch(host)
        return parts is not None and parts["name"].strip("[]").lower() in self._names


def bearer_of(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request carries in its header."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def token_of_protocols(protocols: list[str]) -> str | None:
    """Return the token that a page hands over among its WebSocket subprotocols."""
    return next((one.removeprefix(TOKEN_PROTOCOL) for one in protocols if one.startswith(TOKEN_PROTOCOL)), None)
