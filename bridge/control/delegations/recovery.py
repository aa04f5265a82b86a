"""After a crash: find what a lost controller left running, end it, and close its delegations with what was left where.

Nothing is retried here; whoever delegated decides that. Blocking; run in a helper thread.
"""

from __future__ import annotations

from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.changing import change_delegation, close_unstarted, finish_plan
from bridge.control.delegations.concluding import Inspected, conclude, inspect
from bridge.control.delegations.lost import lost_controllers, sees_processes_of
from bridge.control.delegations.model import Attempt, Delegation, DelegationStatus, PlanStatus
from bridge.control.delegations.preparing import give_back, setup_marker
from bridge.control.delegations.releasing import release_worktree
from bridge.control.delegations.settlement import AttemptOutcome, GitFacts
from bridge.control.delegations.working import attempt_marker
from bridge.control.recording import RecordingTransaction
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.process.groups import DEFAULT_GRACE_SECONDS, end_group_blocking, end_marked_blocking
from bridge.process.identity import Marker, ProcessIdentity
from bridge.workspaces.store import find_workspace

CONTROLLER_LOST = "controller_lost"

_log = get_logger(__name__)


def recover(controller: Controller, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> list[Delegation]:
    """Close every open delegation whose controller is gone, and return them as they are afterwards.

    Processes that such a controller left on this machine are ended first. Delegations of controllers that still run,
    or whose lease does, are left alone. Safe to call from several processes at once: each delegation is taken over
    by one of them, and if that one is lost too, the next recovery finds it again.
    """
    closed = []
    claimed: set[str | None] = set()
    for delegation in _lost_delegations(controller):
        is_local = _is_local(controller, delegation)
        if not _claim(controller, delegation):
            continue  # another process was quicker
        claimed.add(delegation.plan_id)
        try:
            closed.append(_close(controller, delegation, grace_seconds, is_local=is_local))
        except (BridgeError, OSError) as error:
            # It stays open under this controller, and the next recovery after its end tries again.
            code = error.code if isinstance(error, BridgeError) else "system_error"
            _log.exception(
                "a lost delegation could not be closed",
                action="delegation_recovery_failed",
                delegation_id=delegation.id,
                code=code,
            )
            continue
        _log.warning("a lost delegation was closed", action="delegation_recovered", delegation_id=delegation.id)
    _finish_lost_plans(controller, claimed)
    return closed


def _lost_delegations(controller: Controller) -> list[Delegation]:
    with controller.store.read() as connection:
        open_ones = rows.list_delegations(connection, open_only=True)
        lost = lost_controllers(connection, open_ones, now=controller.now())
    return [delegation for delegation in open_ones if delegation.controller_id in lost]


def _is_local(controller: Controller, delegation: Delegation) -> bool:
    with controller.store.read() as connection:
        return sees_processes_of(connection, str(delegation.controller_id))


def _claim(controller: Controller, delegation: Delegation) -> bool:
    """Make a lost delegation this controller's own, so that no two recoveries work on it."""
    own_id = controller.register()

    def claim(recording: RecordingTransaction) -> bool:
        lost = str(delegation.controller_id)
        connection, moment = recording.tx.connection, recording.moment
        if not rows.claim_delegation(connection, delegation.id, lost=lost, by=own_id, updated_at=moment):
            return False
        body = {"delegation_id": delegation.id, "lost_controller_id": lost, "controller_id": own_id}
        recording.event(delegation.parent_session_id, "delegation.claimed", body)
        return True

    return controller.recorder.transact(claim)


def _finish_lost_plans(controller: Controller, claimed: set[str | None]) -> None:
    """Record the end of plans that nobody runs any more: all their delegations have ended, their controller is gone.

    ``claimed`` are the plans of delegations that were just taken over, whose rows no longer name the lost one.
    """

    def finish(recording: RecordingTransaction) -> None:
        connection = recording.tx.connection
        for plan in rows.running_plans(connection):
            delegations = rows.list_delegations(connection, plan_id=plan.id)
            if not all(delegation.status.is_final for delegation in delegations):
                continue
            if plan.id not in claimed and not lost_controllers(connection, delegations, now=recording.moment):
                continue
            is_completed = all(delegation.status is DelegationStatus.COMPLETED for delegation in delegations)
            finish_plan(recording, plan, str(PlanStatus.COMPLETED if is_completed else PlanStatus.INTERRUPTED))

    with controller.store.read() as connection:
        is_any = bool(rows.running_plans(connection))
    if is_any:
        controller.recorder.transact(finish)


def _close(controller: Controller, delegation: Delegation, grace_seconds: float, *, is_local: bool) -> Delegation:
    """Close a delegation that this controller has taken over, and say what was left where."""
    if delegation.status is DelegationStatus.QUEUED:
        return controller.recorder.transact(
            lambda recording: close_unstarted(
                recording, delegation, reason=CONTROLLER_LOST, status=DelegationStatus.CANCELLED
            )
        )
    with controller.store.read() as connection:
        attempts = rows.list_attempts(connection, delegation.id)
        workspace = None if delegation.workspace_id is None else find_workspace(connection, delegation.workspace_id)
    unfinished = [attempt for attempt in attempts if attempt.finished_at is None]
    ended = sum(_end_processes(attempt, grace_seconds) for attempt in unfinished) if is_local else 0
    if is_local and not attempts:
        ended += len(end_marked_blocking(Marker(setup_marker(delegation.id)), grace_seconds).found)
    if is_local and workspace is not None:
        give_back(controller, delegation, workspace)
    if workspace is None or delegation.base_commit is None or not attempts:
        # No worker ever ran in it; whatever was made of a worktree holds nobody's work.
        facts = GitFacts(str(delegation.base_commit), None)
        inspected = Inspected(facts, None, controller.observer.observe(None))
        where = "Its worker had not been started."
    else:
        is_shared = delegation.request.write_mode == WriteMode.SHARED
        inspected = inspect(controller, delegation.id, workspace.folder, delegation.base_commit, is_shared=is_shared)
        where = _what_was_left(workspace.path, inspected)
    processes = f"{ended} of its processes were ended" if is_local else "its processes were on another machine"
    detail = f"The controller ended while the task was {delegation.status}; {processes}. {where}"
    if delegation.status is not DelegationStatus.SETTLING:
        delegation = controller.recorder.transact(
            lambda recording: change_delegation(recording, delegation, "settling", status=DelegationStatus.SETTLING)
        )
    outcome = AttemptOutcome(
        attempt=attempts[-1].number if attempts else 1,
        attempts_permitted=delegation.request.attempts_permitted,
        source="controller",
        submission=None,
        failure_class=CONTROLLER_LOST,
        failure_detail=detail,
    )
    return release_worktree(controller, conclude(controller, delegation, outcome, inspected))


def _end_processes(attempt: Attempt, grace_seconds: float) -> int:
    """End what an attempt left running and return how many processes that were."""
    marker = Marker(attempt_marker(attempt.delegation_id, attempt.number))
    if attempt.pid is None or attempt.process_start_time is None:
        # The controller went between starting the child and noting its pid: its environment still tells.
        return len(end_marked_blocking(marker, grace_seconds).found)
    identity = ProcessIdentity(attempt.pid, attempt.process_start_time)
    return len(end_group_blocking(identity, grace_seconds, marker).found)


def _what_was_left(path: str, inspected: Inspected) -> str:
    if inspected.facts.problem is not None:
        return f"Its files are in {path}, which could not be inspected: {inspected.facts.problem}"
    if inspected.preserved is None or inspected.facts.result_commit is None:
        return "It had changed nothing."
    changed = len(inspected.facts.files_changed)
    return f"It had changed {changed} files, possibly in part; they are in {path} and under {inspected.preserved.ref}."
