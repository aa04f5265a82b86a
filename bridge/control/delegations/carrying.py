"""Carrying out an approved delegation from its worktree to its recorded result."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from bridge.adapters.base import FailureClass
from bridge.agents import store as agents
from bridge.agents.models import Agent
from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.briefing import brief_of, spark_for
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.concluding import Inspected, conclude, inspect, stamp_of_parent
from bridge.control.delegations.confining import is_to_be_lent
from bridge.control.delegations.model import Delegation, DelegationStatus
from bridge.control.delegations.preparing import lent_folder
from bridge.control.delegations.releasing import release_superseded, release_worktree
from bridge.control.delegations.requesting import Approved, Orchestration
from bridge.control.delegations.settlement import AttemptOutcome, GitFacts
from bridge.control.delegations.working import Assigned, work
from bridge.control.recording import RecordingTransaction
from bridge.control.taskgroups import sole_error_group
from bridge.conversations.models import EntryDraft, NewSession
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.git.commits import preserve
from bridge.git.lending import make_lent
from bridge.git.observe import Observation
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.treecarrying import bring_to_tree
from bridge.git.worktrees import require_registered
from bridge.workspaces import checkouts
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import find_workspace, save_state

#: Is told of every step of a delegation: event, delegation, one line for people.
Report = Callable[[str, Delegation, str], None]
#: Where the state of a shared checkout before its worker started is kept.
BEFORE_REF = "refs/bridge/tasks/{delegation_id}/before"
#: Failure classes of what no typed error names: the operating system refused, or Bridge itself has a fault.
SYSTEM_ERROR = "system_error"
INTERNAL_ERROR = "internal_error"

_log = get_logger(__name__)


async def carry_out(orchestration: Orchestration, approved: Approved, *, report: Report) -> Delegation:
    """Make the worktree, run the worker, settle and record its result; return the delegation as it ended.

    What goes wrong on the way ends as a recorded failed result with its typed class, so that an approved
    delegation always has exactly one result. If the calling task is cancelled, the worker is ended and its result
    recorded as cancelled before the cancellation goes on; a fault of Bridge's own is recorded, then raised.
    """
    controller, delegation = orchestration.controller, approved.delegation
    assigned: Assigned | None = None
    try:
        assigned = await to_thread.run_sync(partial(_prepare, orchestration, approved))
        report("task_running", replace(assigned.delegation, status=DelegationStatus.RUNNING), "")
        outcome = await work(controller, assigned)
    except BaseException as error:
        outcome = _failed(delegation, error)
        ended = await _finish(controller, approved, assigned, outcome, report=report)
        if not isinstance(error, (BridgeError, OSError)):
            raise
        return ended
    return await _finish(controller, approved, assigned, outcome, report=report)


async def _finish(
    controller: Controller,
    approved: Approved,
    assigned: Assigned | None,
    outcome: AttemptOutcome,
    *,
    report: Report,
) -> Delegation:
    """Record how a delegation ended. Not interrupted: what a worker did must not be lost once it is done."""
    with anyio.CancelScope(shield=True):
        settling = controller.recorder.submit(partial(_settling, approved.delegation))
        inspected = _Inspection(controller, approved, assigned)
        # Two looks that know nothing of each other, while the step goes to the disk.
        async with sole_error_group() as group:
            group.start_soon(to_thread.run_sync, inspected.look_at_worktree)
            group.start_soon(to_thread.run_sync, inspected.look_at_parent)
            report("task_settling", await asyncio.wrap_future(settling), "")
        ended = await to_thread.run_sync(partial(_end, controller, inspected, outcome))
        report("task_finished", ended, _line(ended))
    return ended


def _settling(delegation: Delegation, recording: RecordingTransaction) -> Delegation:
    return change_delegation(recording, delegation, "settling", status=DelegationStatus.SETTLING)


def _line(delegation: Delegation) -> str:
    return "" if delegation.kept_reason is None else delegation.kept_reason


def _failed(delegation: Delegation, error: BaseException) -> AttemptOutcome:
    """Return the outcome of an attempt that never came to one, with the typed cause."""
    failure_class, detail = INTERNAL_ERROR, f"Bridge failed: {type(error).__name__}: {error}"
    if isinstance(error, BridgeError):
        failure_class, detail = error.code, error.message
    elif isinstance(error, OSError):
        failure_class, detail = SYSTEM_ERROR, f"The system refused: {error}"
    elif isinstance(error, anyio.get_cancelled_exc_class()):
        failure_class, detail = str(FailureClass.CANCELLED), "The controller was asked to stop."
    _log.warning(
        "a delegation failed",
        action="delegation_failed",
        delegation_id=delegation.id,
        code=failure_class,
        detail=detail,
    )
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
    location: RepositoryLocation | None = None
    if delegation.request.write_mode == WriteMode.SHARED:
        workspace, base = orchestration.workspace, _shared_base(controller, orchestration.checkout, delegation.id)
    elif delegation.workspace_id is not None:
        workspace, base = _taken_up(controller, delegation), approved.base_commit
    else:
        workspace, location = _own_worktree(orchestration, approved)
        base = approved.base_commit
    observation = controller.observer.observe_exactly(workspace.folder)
    controller.keeper.keep(observation)
    spark = spark_for(controller, delegation, orchestration.checkout)

    def record(recording: RecordingTransaction) -> Assigned:
        connection, moment = recording.tx.connection, recording.moment
        if location is not None:
            body = {"delegation_id": delegation.id, "base_commit": base}
            recording.event(f"workspace:{workspace.id}", "worktree.created", body)
            checkouts.activate(recording.tx, workspace, location, moment)
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
        brief = brief_of(delegation, approved.evidence, worker_session_id=session.id, spark=spark)
        recording.append(session.id, EntryDraft(kind="handoff.brief", payload=brief), observation.stamp)
        updated = change_delegation(
            recording,
            delegation,
            "assigned",
            facts={"worker_session_id": session.id, "workspace_id": workspace.id, "base_commit": base},
            worker_session_id=session.id,
            worker_agent_id=agent.id,
            workspace_id=workspace.id,
            base_commit=base,
        )
        policy = replace(orchestration.policy, limits=orchestration.limits)
        return Assigned(updated, approved.evidence, base, workspace.folder, session.id, policy, spark=spark)

    return controller.recorder.transact(record)


def _own_worktree(orchestration: Orchestration, approved: Approved) -> tuple[Workspace, RepositoryLocation]:
    """Reserve and make a worktree. The delegation's row names it from the first step, so that none is forgotten."""
    controller, delegation = orchestration.controller, approved.delegation

    def reserve(recording: RecordingTransaction) -> Workspace:
        reserved = checkouts.reserve(
            recording.tx,
            orchestration.workspace,
            worktrees=controller.settings.worktrees,
            name=delegation.id,
            base_commit=approved.base_commit,
            label=delegation.name,
            moment=recording.moment,
        )
        facts = {"workspace_id": reserved.id}
        change_delegation(recording, delegation, "worktree_reserved", facts=facts, workspace_id=reserved.id)
        recording.event(f"workspace:{reserved.id}", "worktree.reserved", {"delegation_id": delegation.id})
        return reserved

    reserved = controller.recorder.transact(reserve)
    parent = discover(orchestration.checkout)
    with _lending_meanwhile(orchestration, delegation, parent):
        location = checkouts.create(parent, reserved)
    if approved.carried_tree is not None:
        timeout = controller.settings.git_timeout_seconds
        bring_to_tree(location, approved.carried_tree, timeout_seconds=timeout)
    return reserved, location


@contextmanager
def _lending_meanwhile(
    orchestration: Orchestration, delegation: Delegation, parent: RepositoryLocation
) -> Iterator[None]:
    """Have the folder for a confined worker's objects made while git writes the worktree.

    What goes wrong there goes wrong again, and is told, when the worker's place is made.
    """
    controller = orchestration.controller
    if not is_to_be_lent(controller, delegation.request, orchestration.checkout):
        yield
        return
    with ThreadPoolExecutor(1, thread_name_prefix="bridge-lending") as pool:
        made = pool.submit(make_lent, parent, lent_folder(controller, delegation.id))
        yield
    problem = made.exception()
    if problem is not None:
        _log.warning("not lent meanwhile", action="lend_early", delegation_id=delegation.id, why=str(problem))


def _taken_up(controller: Controller, delegation: Delegation) -> Workspace:
    """Take up the worktree of the try before, as it was left."""

    def take(recording: RecordingTransaction) -> Workspace:
        workspace = find_workspace(recording.tx.connection, str(delegation.workspace_id))
        if workspace is None:
            raise LookupError(f"no workspace {delegation.workspace_id}")
        recording.event(f"workspace:{workspace.id}", "worktree.taken_up", {"delegation_id": delegation.id})
        return checkouts.take_up(recording.tx, workspace, recording.moment)

    workspace = controller.recorder.transact(take)
    require_registered(workspace.folder)
    return workspace


def _shared_base(controller: Controller, checkout: Path, delegation_id: str) -> str:
    """Keep the state of a shared checkout as a commit, so that what its worker changes can be told afterwards."""
    return preserve(
        checkout,
        ref=BEFORE_REF.format(delegation_id=delegation_id),
        message=f"Checkout before task {delegation_id}",
        timeout_seconds=controller.settings.git_timeout_seconds,
    ).commit


class _Inspection:
    """What is found out before a result is recorded: what the worker left, and the state of the parent's checkout."""

    def __init__(self, controller: Controller, approved: Approved, assigned: Assigned | None) -> None:
        self.delegation_id = approved.delegation.id
        self._controller = controller
        self._base_commit = approved.base_commit
        self._assigned = assigned
        self._is_shared = approved.delegation.request.write_mode == WriteMode.SHARED
        self._delegation = approved.delegation
        self.worktree: Inspected | None = None
        self.parent: Observation | None = None

    def look_at_worktree(self) -> None:
        assigned = self._assigned
        if assigned is None:
            nothing = self._controller.observer.observe(None)
            self.worktree = Inspected(GitFacts(self._base_commit, None), None, nothing)
            return
        self.worktree = inspect(
            self._controller,
            self.delegation_id,
            assigned.worktree,
            assigned.base_commit,
            is_shared=self._is_shared,
        )

    def look_at_parent(self) -> None:
        self.parent = stamp_of_parent(self._controller, self._delegation)


def _end(controller: Controller, inspected: _Inspection, outcome: AttemptOutcome) -> Delegation:
    """Record the result of a delegation, whatever became of it, and release its worktree if nothing is lost."""
    if inspected.worktree is None:
        raise AssertionError("the worktree was looked at")
    with controller.store.read() as connection:
        delegation = rows.require_delegation(connection, inspected.delegation_id)
        attempts = rows.list_attempts(connection, delegation.id)
    if attempts:
        outcome = replace(outcome, attempt=attempts[-1].number)
    concluded = conclude(controller, delegation, outcome, inspected.worktree, inspected.parent)
    ended = release_worktree(controller, concluded)
    release_superseded(controller, ended)
    return ended
