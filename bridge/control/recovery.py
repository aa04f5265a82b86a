"""After a crash: find what a lost controller left running, end it, and close its delegations with what was left where.

Nothing is retried here; whoever delegated decides that. Blocking; run in a helper thread.
"""

from __future__ import annotations

import platform

import structlog

from bridge.agents.policy import WriteMode
from bridge.control import store as rows
from bridge.control.concluding import Inspected, conclude, inspect
from bridge.control.controller import Controller
from bridge.control.delegation import Attempt, Delegation, DelegationStatus
from bridge.control.errors import DuplicateTask
from bridge.control.plans import INTERRUPTED
from bridge.control.releasing import release_worktree
from bridge.control.settlement import AttemptOutcome, GitFacts
from bridge.control.working import attempt_marker
from bridge.process.groups import DEFAULT_GRACE_SECONDS, end_group_blocking, end_marked_blocking
from bridge.process.identity import Marker, ProcessIdentity, is_running
from bridge.storage.transaction import Connection
from bridge.workspaces.store import find_workspace

CONTROLLER_LOST = "controller_lost"

_log = structlog.get_logger(__name__)


def recover(controller: Controller, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> list[Delegation]:
    """Close every open delegation whose controller is gone, and return them as they are afterwards.

    Processes that such a controller left are ended first. Delegations of controllers on other machines, and of
    those still running, are left alone. Safe to call from several processes at once.
    """
    with controller.store.read() as connection:
        open_ones = rows.list_delegations(connection, open_only=True)
        lost = {
            key for key in {delegation.controller_id for delegation in open_ones} if key and _is_lost(connection, key)
        }
    closed = []
    for delegation in open_ones:
        if delegation.controller_id not in lost:
            continue
        try:
            closed.append(_close(controller, delegation, grace_seconds))
        except DuplicateTask:
            continue  # another process was quicker
        _log.warning("a lost delegation was closed", action="delegation_recovered", delegation_id=delegation.id)
    plans = {delegation.plan_id for delegation in closed if delegation.plan_id is not None}
    if plans:
        controller.store.write(lambda tx: _finish_plans(tx.connection, plans, controller.now()))
    return closed


def _finish_plans(connection: Connection, plan_ids: set[str], moment: str) -> None:
    for plan_id in plan_ids:
        rows.finish_plan(connection, plan_id, INTERRUPTED, moment)


def _is_lost(connection: Connection, controller_id: str) -> bool:
    found = rows.controller_identity(connection, controller_id)
    if found is None:
        return True
    identity, host, has_ended = found
    if host != platform.node():
        return False
    return has_ended or not is_running(identity)


def _close(controller: Controller, delegation: Delegation, grace_seconds: float) -> Delegation:
    if delegation.status is DelegationStatus.QUEUED:
        return _close_unstarted(controller, delegation)
    with controller.store.read() as connection:
        attempts = rows.list_attempts(connection, delegation.id)
        workspace = None if delegation.workspace_id is None else find_workspace(connection, delegation.workspace_id)
    ended = sum(_end_processes(attempt, grace_seconds) for attempt in attempts if attempt.finished_at is None)
    for attempt in attempts:
        if attempt.finished_at is None:
            _finish_attempt(controller, attempt)
    number = attempts[-1].number if attempts else 1
    if workspace is None or delegation.base_commit is None:
        facts = GitFacts(str(delegation.base_commit), None)
        inspected = Inspected(facts, None, controller.observer.observe(None))
        where = "It had no worktree yet."
    else:
        is_shared = delegation.request.write_mode == WriteMode.SHARED
        inspected = inspect(controller, delegation.id, workspace.folder, delegation.base_commit, is_shared=is_shared)
        where = _what_was_left(workspace.path, inspected)
    detail = (
        f"The controller ended while the task was {delegation.status}; {ended} of its processes were ended. {where}"
    )
    outcome = AttemptOutcome(
        attempt=number,
        attempts_permitted=delegation.request.attempts_permitted,
        source="controller",
        submission=None,
        failure_class=CONTROLLER_LOST,
        failure_detail=detail,
    )
    return release_worktree(controller, conclude(controller, delegation, outcome, inspected))


def _close_unstarted(controller: Controller, delegation: Delegation) -> Delegation:
    moment = controller.now()

    def close(connection: Connection) -> Delegation:
        current = rows.require_delegation(connection, delegation.id)
        if current.status.is_final:
            raise DuplicateTask("The delegation was closed meanwhile.")
        rows.update_delegation(
            connection, delegation.id, updated_at=moment, status=DelegationStatus.CANCELLED, finished_at=moment
        )
        return rows.require_delegation(connection, delegation.id)

    return controller.store.write(lambda tx: close(tx.connection))


def _end_processes(attempt: Attempt, grace_seconds: float) -> int:
    """End what an attempt left running and return how many processes that were."""
    marker = Marker(attempt_marker(attempt.delegation_id, attempt.number))
    if attempt.pid is None or attempt.process_start_time is None:
        # The controller went between starting the child and noting its pid: its environment still tells.
        return len(end_marked_blocking(marker, grace_seconds).found)
    identity = ProcessIdentity(attempt.pid, attempt.process_start_time)
    return len(end_group_blocking(identity, grace_seconds, marker).found)


def _finish_attempt(controller: Controller, attempt: Attempt) -> None:
    moment = controller.now()
    controller.store.write(
        lambda tx: rows.update_attempt(
            tx.connection,
            attempt.delegation_id,
            attempt.number,
            status="ended",
            finished_at=moment,
            failure_class=CONTROLLER_LOST,
        )
    )


def _what_was_left(path: str, inspected: Inspected) -> str:
    if inspected.facts.problem is not None:
        return f"Its files are in {path}, which could not be inspected: {inspected.facts.problem}"
    if inspected.preserved is None or inspected.facts.result_commit is None:
        return "It had changed nothing."
    changed = len(inspected.facts.files_changed)
    return f"It had changed {changed} files, possibly in part; they are in {path} and under {inspected.preserved.ref}."
