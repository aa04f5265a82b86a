"""The gates that every call passes, in this order: method, caller, params, reach.

One place decides who may do what; no method looks at its caller's role.
"""

from __future__ import annotations

from typing import Any

from bridge.control.controller import Controller
from bridge.foundation.errors import BridgeError
from bridge.rpc.errors import InvalidParams, MethodNotFound
from bridge.rpc.messages import MAX_BATCH, MAX_MESSAGE_BYTES
from bridge.rpc.methods.calls import Call, Peer
from bridge.rpc.methods.shapes import build, withheld_params
from bridge.rpc.methods.table import METHODS, Method
from bridge.rpc.reach import REFUSALS, Reach
from bridge.rpc.roles import Caller, Role

__all__ = ["MAX_BATCH", "MAX_MESSAGE_BYTES", "Caller", "Gate", "Role"]


class Gate:
    """Lets the calls of one caller through, or does not. Safe to use from several threads."""

    def __init__(self, controller: Controller, caller: Caller, peer: Peer | None = None) -> None:
        self._caller = caller
        self._reach = None if caller.session_id is None else Reach(controller, caller.session_id)
        self.call = Call(controller, caller.standpoint, caller, peer)

    @property
    def is_bound(self) -> bool:
        """Whether the caller reaches one session only."""
        return self._reach is not None

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

    def build(self, method: Method, params: Any) -> Any:
        """Return a method's params.

        Raises
        ------
        InvalidParams
            If they do not fit, or are not for this caller: then in the words for one that does not exist.
        """
        if not isinstance(params, dict):
            raise InvalidParams("Params are given by name, as an object. Nothing was called.", details={"fields": []})
        return build(method.params, params, without=self._withheld(method))

    def _withheld(self, method: Method) -> frozenset[str]:
        return withheld_params(method.params, self._caller.role)

    def within_reach(self, method: Method, params: Any) -> Any:
        """Return the params, with full ids for an agent; refuse what lies outside of its reach. Blocks for an agent.

        Raises
        ------
        SessionNotFound, EntryNotFound, TaskNotFound, ReferenceNotFound
            If they name what is not the agent's own; the attempt is recorded in its session.
        """
        if self._reach is None:
            return params
        try:
            return self._reach.within(params)
        except REFUSALS as error:
            self._reach.record_refusal(method.name, error)
            raise

    def record_refusal(self, method: str, error: BridgeError) -> None:
        """Record that an agent was refused a method; of everybody else nothing is recorded. Blocks."""
        if self._reach is not None:
            self._reach.record_refusal(method, error)
