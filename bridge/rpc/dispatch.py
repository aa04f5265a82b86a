"""The gates that every call passes, in this order: method, caller, params, reach.

One place decides who may do what; no method looks at its caller's role.
"""

from __future__ import annotations

from typing import Any

from bridge.control.controller import Controller
from bridge.control.standpoint import find_session
from bridge.conversations.errors import AmbiguousReference, InvalidReference, SessionNotFound
from bridge.rpc.calls import Call, Peer
from bridge.rpc.errors import InvalidParams, MethodNotFound
from bridge.rpc.messages import MAX_BATCH, MAX_MESSAGE_BYTES
from bridge.rpc.methods import METHODS, Method
from bridge.rpc.roles import Caller, Role
from bridge.rpc.shapes import build

__all__ = ["MAX_BATCH", "MAX_MESSAGE_BYTES", "Caller", "Gate", "Role"]


class Gate:
    """Lets the calls of one caller through, or does not. Safe to use from several threads."""

    def __init__(self, controller: Controller, caller: Caller, peer: Peer | None = None) -> None:
        self._controller = controller
        self._caller = caller
        self.call = Call(controller, caller.standpoint, caller, peer)

    def admit(self, name: str) -> Method:
        """Return the method, if there is one of that name for this caller: an agent cannot tell the two apart.

        Raises
        ------
        MethodNotFound
            If there is none.
        """
        method = METHODS.get(name)
        if method is not None and self._caller.role in method.roles:
            return method
        is_told = method is not None and self._caller.role is not Role.AGENT
        message = f"{name[:80]!r} is not for an {self._caller.role}." if is_told else f"There is no {name[:80]!r}."
        reason = "not_permitted" if is_told else "unknown"
        raise MethodNotFound(f"{message} Nothing was called.", details={"method": name[:200], "reason": reason})

    @staticmethod
    def build(method: Method, params: Any) -> Any:
        """Return a method's params.

        Raises
        ------
        InvalidParams
            If they do not fit.
        """
        if not isinstance(params, dict):
            raise InvalidParams("Params are given by name, as an object. Nothing was called.", details={"fields": []})
        return build(method.params, params)

    @property
    def is_bound(self) -> bool:
        """Whether the caller reaches one session only."""
        return self._caller.role is Role.AGENT

    def require_reach(self, method: Method, params: Any) -> None:
        """Refuse what lies outside an agent's reach, in the very words for what does not exist. Blocks.

        Raises
        ------
        SessionNotFound
            If the params name a session that is not the agent's own.
        """
        if self.is_bound:
            self._require_own(getattr(params, "session", None))

    def _require_own(self, reference: str | None) -> None:
        if reference is None:
            return
        try:
            with self._controller.store.read() as connection:
                found = find_session(connection, self._caller.standpoint, reference)
        except (SessionNotFound, AmbiguousReference, InvalidReference):
            found = None
        if found != self._caller.session_id:
            raise SessionNotFound(f"There is no session {reference!r}.", details={"reference": reference})
