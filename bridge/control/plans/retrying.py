"""The request of a task that is to be tried again: the stored one, or the plan file's where that has secrets masked.

Blocking.
"""

from __future__ import annotations

from pathlib import Path

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.delegating import Wanted
from bridge.control.delegations.model import Delegation, Request
from bridge.control.delegations.steering.retrying import (
    checkout_of,
    is_same_once_masked,
    prepare_retry,
    request_again,
    require_unmasked,
)
from bridge.control.errors import InvalidPlan, PlanUnreadable, RetryRefused
from bridge.control.plans.file import load_plan
from bridge.control.plans.running import read_plan_text
from bridge.control.plans.scheduling import request_of


def wanted_again(
    controller: Controller, of: Delegation, *, feedback: str | None = None, onto_head: bool = False
) -> Wanted:
    """Return what is to be delegated so that an ended task is tried again.

    Parameters
    ----------
    feedback
        What the next worker should know.
    onto_head
        Whether it works in a new worktree from HEAD, with the work of the try before carried over; else in the same.

    Raises
    ------
    TaskStillOpen, RetryRefused, RetryConflict, WorktreeNotRegistered
        If it cannot be; nothing is recorded then.
    """
    retry = prepare_retry(controller, of, onto_head=onto_head)
    made = _request_as_made(controller, of)
    # Which files the checkout holds uncommitted plays no part: it goes on from a worktree, or from HEAD as asked.
    return Wanted(
        request=request_again(controller, made, retry, feedback),
        session=of.parent_session_id,
        dirty=DirtyMode.IGNORE,
        retry=retry,
    )


def _request_as_made(controller: Controller, of: Delegation) -> Request:
    try:
        require_unmasked(of)
    except RetryRefused as error:
        return _from_plan(controller, of, error)
    return of.request


def _from_plan(controller: Controller, of: Delegation, refusal: RetryRefused) -> Request:
    """Return a masked request as its plan file has it, if that is still the file that was run."""
    with controller.store.read() as connection:
        plan = None if of.plan_id is None else rows.plan_by_id(connection, of.plan_id)
        workspace = checkout_of(connection, of)
    if plan is None or plan.path is None or workspace is None:
        raise refusal
    path = Path(plan.path)
    try:
        loaded = load_plan(
            read_plan_text(path), path=path, repository_root=workspace.folder, harnesses=controller.settings.harness
        )
    except (PlanUnreadable, InvalidPlan) as error:
        raise _not_readable(of, refusal, plan.path) from error
    found = next((one for one in request_of(loaded).requests if one.name == of.name), None)
    if found is None or not is_same_once_masked(of.request, found):
        raise _not_readable(of, refusal, plan.path)
    return found


def _not_readable(of: Delegation, refusal: RetryRefused, path: str) -> RetryRefused:
    return RetryRefused(
        f"{refusal.message} Its plan {path!r} cannot be read any more, or says something else now.",
        hint="Run the plan again, or delegate it anew: bridge delegate.",
        details={**refusal.details, "plan": path, "delegation_id": of.id},
    )
