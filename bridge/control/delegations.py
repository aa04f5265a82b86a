"""Carrying out an approved delegation from its worktree to its recorded result."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import structlog
from anyio import to_thread

from bridge.adapters.base import FailureClass
from bridge.agents import store as agents
from bridge.agents.models import Agent
from bridge.agents.policy import WriteMode
from bridge.control import store as rows
from bridge.control.concluding import Inspected, conclude, inspect
from bridge.control.controller import Controller
from bridge.control.delegation import Delegation, DelegationStatus
from bridge.control.recording import RecordingTransaction
from bridge.control.releasing import release_worktree
from bridge.control.requesting import Approved, Orchestration
from bridge.control.settlement import AttemptOutcome, GitFacts
from bridge.control.working import Assigned, work
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.errors import BridgeError
from bridge.git.commits import preserve
from bridge.git.repository import discover
from bridge.workspaces import checkouts
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import save_state

#: Is told of every step of a delegation: event, delegation, one line for people.
Report = Callable[[str, Delegation, str], None]
#: Where the state of a shared checkout before its worker started is kept.
BEFORE_REF = "refs/bridge/tasks/{delegation_id}/before"

_log = structlog.get_logger(__name__)


async def carry_out(orchestration: Orchestration, approved: Approved, *, report: Report) -> Delegation:
    """Make the worktree, run the worker, settle and record its result; return the delegation as it ended.

    What goes wrong on the way ends as a recorded failed result with its typed class, so that an approved
    delegation always has exactly one result. If the calling task is cancelled, the worker is ended and its result
    recorded as cancelled before the cancellation goes on.
    """
    controller, delegation = orchestration.controller, approved.delegation
    assigned: Assigned | None = None
    try:
        assigned = await to_thread.run_sync(partial(_prepare, orchestration, approved))
        report("task_running", replace(assigned.delegation, status=DelegationStatus.RUNNING), "")
        outcome = await work(controller, assigned)
    except BridgeError as error:
        _log.warning("a delegation failed", action="delegation_failed", delegation_id=delegation.id, code=error.code)
        outcome = _failed(delegation, error.code, error.message)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            interrupted = _failed(delegation, str(FailureClass.CANCELLED), "The controller was asked to stop.")
            ended = await to_thread.run_sync(partial(_end, controller, approved, assigned, interrupted))
            report("task_finished", ended, _line(ended))
        raise
    report("task_settling", replace(delegation, status=DelegationStatus.SETTLING), "")
    ended = await to_thread.run_sync(partial(_end, controller, approved, assigned, outcome))
    report("task_finished", ended, _line(ended))
    return ended


def _line(delegation: Delegation) -> str:
    return "" if delegation.kept_reason is None else delegation.kept_reason


def _failed(delegation: Delegation, failure_class: str, detail: str) -> AttemptOutcome:
    return AttemptOutcome(
        attempt=1,
        attempts_permitted=delegation.request.attempts_permitted,
        source="controller",
        submission=None,
        failure_class=failure_class,
        failure_detail=detail,
    )


def _prepare(orchestration: Orchestration, approved: Approved) -> Assigned:
    """Reserve, make and record everything that a worker needs before it starts."""
    controller, delegation = orchestration.controller, approved.delegation
    if delegation.request.write_mode == WriteMode.SHARED:
        workspace, base = orchestration.workspace, _shared_base(controller, orchestration.checkout, delegation.id)
    else:
        workspace, base = _own_worktree(orchestration, approved), approved.base_commit
    observation = controller.observer.observe_exactly(workspace.folder)
    controller.keeper.keep(observation)
    objective = delegation.request.objective

    def record(recording: RecordingTransaction) -> Assigned:
        connection, moment = recording.tx.connection, recording.moment
        save_state(recording.tx, observation, moment)
        agent = Agent(
            id=f"a{secrets.token_hex(6)}",
            parent_agent_id=orchestration.agent.id,
            session_id=None,
            role=delegation.request.role,
            depth=orchestration.agent.depth + 1,
            harness=delegation.request.harness,
            status="active",
            created_at=moment,
            updated_at=moment,
        )
        agents.add_agent(connection, agent)
        session = recording.create_session(
            NewSession(
                kind="worker",
                workspace_id=workspace.id,
                agent_id=agent.id,
                harness=delegation.request.harness,
                label=delegation.name,
                parent_session_id=delegation.parent_session_id,
                parent_relation="delegated",
            ),
            observation.stamp,
        )
        agents.update_agent(connection, agent.id, updated_at=moment, session_id=session.id)
        brief = {"text": objective, "from_session_id": delegation.parent_session_id, "to_session_id": session.id}
        recording.append(session.id, EntryDraft(kind="handoff.brief", payload=brief), observation.stamp)
        rows.update_delegation(
            connection,
            delegation.id,
            updated_at=moment,
            worker_session_id=session.id,
            worker_agent_id=agent.id,
            workspace_id=workspace.id,
            base_commit=base,
        )
        recording.event(
            delegation.parent_session_id,
            "delegation.started",
            {"delegation_id": delegation.id, "worker_session_id": session.id, "base_commit": base},
        )
        updated = rows.require_delegation(connection, delegation.id)
        return Assigned(updated, approved.evidence, base, workspace.folder, session.id)

    return controller.recorder.transact(record)


def _own_worktree(orchestration: Orchestration, approved: Approved) -> Workspace:
    controller, delegation = orchestration.controller, approved.delegation
    reserved = controller.recorder.transact(
        lambda recording: checkouts.reserve(
            recording.tx,
            orchestration.workspace,
            worktrees=controller.settings.worktrees,
            name=delegation.id,
            base_commit=approved.base_commit,
            label=delegation.name,
            moment=recording.moment,
        )
    )
    try:
        location = checkouts.create(discover(orchestration.checkout), reserved)
    except BaseException:
        controller.recorder.transact(lambda recording: checkouts.free(recording.tx, reserved, recording.moment))
        raise
    return controller.recorder.transact(
        lambda recording: checkouts.activate(recording.tx, reserved, location, recording.moment)
    )


def _shared_base(controller: Controller, checkout: Path, delegation_id: str) -> str:
    """Keep the state of a shared checkout as a commit, so that what its worker changes can be told afterwards."""
    return preserve(
        checkout,
        ref=BEFORE_REF.format(delegation_id=delegation_id),
        message=f"Checkout before task {delegation_id}",
        timeout_seconds=controller.settings.git_timeout_seconds,
    ).commit


def _end(controller: Controller, approved: Approved, assigned: Assigned | None, outcome: AttemptOutcome) -> Delegation:
    """Record the result of a delegation, whatever became of it, and release its worktree if nothing is lost."""
    with controller.store.read() as connection:
        delegation = rows.require_delegation(connection, approved.delegation.id)
    if assigned is None:
        nothing = Inspected(GitFacts(approved.base_commit, None), None, controller.observer.observe(None))
        return conclude(controller, delegation, outcome, nothing)
    is_shared = delegation.request.write_mode == WriteMode.SHARED
    inspected = inspect(controller, delegation.id, assigned.worktree, assigned.base_commit, is_shared=is_shared)
    ended = conclude(controller, delegation, outcome, inspected)
    return ended if is_shared else release_worktree(controller, ended)
