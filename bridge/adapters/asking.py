"""Asking whether an agent may do something: the question and its answer as events, however the agent asks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import anyio

from bridge.adapters.events import AdapterEvent
from bridge.adapters.permission import PermissionAnswer, PermissionPolicy, PermissionRequest


class Asking:
    """Puts questions to a policy.

    Parameters
    ----------
    permission
        Decides what the agent may do.
    emit
        Takes the events that asking makes.
    """

    def __init__(self, permission: PermissionPolicy, emit: Callable[[AdapterEvent], None]) -> None:
        self._permission = permission
        self._emit = emit
        self._numbers = itertools.count(1)
        self.turn_id: str | None = None
        #: Set once the running turn was cancelled: what is being asked then is not answered any more.
        self.cancelled = anyio.Event()

    async def decide(self, request: PermissionRequest) -> PermissionAnswer:
        """Return the answer; its option is one that the request offers, or None."""
        approval_id = f"{self.turn_id or 'none'}-{next(self._numbers)}"
        about = {"approval_id": approval_id, "turn_id": self.turn_id, "tool_call_id": request.tool_call_id or None}
        about = {name: value for name, value in about.items() if value is not None}
        offered = [{"id": option.id, "name": option.name, "kind": option.kind} for option in request.options]
        asked = {**about, "action": request.title, "options": offered}
        self._emit(AdapterEvent("approval.requested", asked))
        answer = PermissionAnswer(None, "cancelled")
        try:
            answer = await self._answer_or_cancelled(replace(request, approval_id=approval_id))
        finally:
            # Also when the process ends while somebody thinks about it.
            chosen = next((option for option in request.options if option.id == answer.option_id), None)
            decision = (answer.outcome or "cancelled") if chosen is None else chosen.kind
            resolved = {**about, "decision": decision, "decided_by": answer.decided_by}
            if answer.reason is not None:
                resolved["reason"] = answer.reason
            self._emit(AdapterEvent("approval.resolved", resolved))
        return answer if chosen is not None else PermissionAnswer(None, answer.decided_by)

    async def _answer_or_cancelled(self, request: PermissionRequest) -> PermissionAnswer:
        answer = PermissionAnswer(None, "cancelled")

        async def ask() -> None:
            nonlocal answer
            try:
                answer = await self._permission(request)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with the policy, nothing is allowed by it
                answer = PermissionAnswer(None, f"policy failed: {type(error).__name__}")
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await self.cancelled.wait()
            group.cancel_scope.cancel()
        return answer
