"""Calls that steer workers: say something to one, try one again, look at its changes, approvals, paused credentials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import to_thread

from bridge.control.delegations.delegating import Wanted
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.steering.approvals import decide, find_approval, list_approvals
from bridge.control.delegations.steering.looking import task_diff
from bridge.control.delegations.steering.messages import send_message
from bridge.control.delegations.steering.quotas import lift, list_pauses
from bridge.control.delegations.tasks import find_task
from bridge.control.plans.retrying import wanted_again
from bridge.rpc.methods.calls import MAX_PAGE, REFERENCE, Call, TaskParams
from bridge.rpc.methods.calls_connection import Nothing
from bridge.rpc.methods.calls_delegations import MAX_TEXT, asked_for
from bridge.rpc.methods.shapes import param

#: Who decided or lifted something, where the caller is the operator.
OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendParams(TaskParams):
    text: str = param("What to say.", minLength=1, maxLength=MAX_TEXT)


def delegations_send(call: Call, params: SendParams) -> dict[str, Any]:
    return send_message(call.controller, _found(call, params.task), params.text).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryParams(TaskParams):
    feedback: str | None = param("What the next worker should know.", default=None, minLength=1, maxLength=MAX_TEXT)
    onto_head: bool = param(
        "In a new worktree from HEAD, with the work carried over; else in the same worktree.", default=False
    )


async def delegations_retry(call: Call, params: RetryParams) -> dict[str, Any]:
    wanted = await to_thread.run_sync(partial(_wanted, call, params))
    return await asked_for(call, wanted)


def _wanted(call: Call, params: RetryParams) -> Wanted:
    of = _found(call, params.task)
    return wanted_again(call.controller, of, feedback=params.feedback, onto_head=params.onto_head)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffParams(TaskParams):
    patch: bool = param("Also the patch, as git writes it.", default=False)


def delegations_diff(call: Call, params: DiffParams) -> dict[str, Any]:
    return task_diff(call.controller, _found(call, params.task), with_patch=params.patch).to_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsParams:
    all: bool = param("Also those that are not open any more.", default=False)
    limit: int = param("At most so many, the newest.", default=50, minimum=1, maximum=MAX_PAGE)


def approvals_list(call: Call, params: ApprovalsParams) -> dict[str, Any]:
    found = list_approvals(call.controller, pending_only=not params.all, limit=params.limit + 1)
    return {
        "approvals": [one.to_json() for one in found[-params.limit :]],
        "hasMore": len(found) > params.limit,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideParams:
    approval: str = param("Id of the request, or its beginning.", **REFERENCE)
    allow: bool = param("Whether it is allowed.")
    always: bool = param("Whether the agent need not ask for the like again, where it offers that.", default=False)
    reason: str | None = param("Why, for people.", default=None, minLength=1, maxLength=MAX_TEXT)


def approvals_decide(call: Call, params: DecideParams) -> dict[str, Any]:
    with call.controller.store.read() as connection:
        approval = find_approval(connection, params.approval)
    return decide(
        call.controller, approval, allows=params.allow, by=OPERATOR, always=params.always, reason=params.reason
    ).to_json()


def quotas_list(call: Call, _params: Nothing) -> dict[str, Any]:
    return {"pauses": [one.to_json() for one in list_pauses(call.controller)]}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftParams:
    credential: str | None = param("As quotas/list names it; null: all of them.", default=None, **REFERENCE)


def quotas_lift(call: Call, params: LiftParams) -> dict[str, Any]:
    return {"pauses": [one.to_json() for one in lift(call.controller, params.credential, by=OPERATOR)]}


def _found(call: Call, task: str) -> Delegation:
    with call.controller.store.read() as connection:
        return find_task(connection, task)
