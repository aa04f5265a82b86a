"""Running a plan: every worker whose needs are met and that nothing blocks runs, the others wait or are refused."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from bridge.agents.policy import select_runnable
from bridge.agents.policy_model import Considered, DelegationRequest, PolicyLimits, Reason, Verdict
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.carrying import carry_out
from bridge.control.delegations.changing import close_unstarted, finish_plan
from bridge.control.delegations.model import Delegation, DelegationStatus, PlanRun, PlanStatus, Request
from bridge.control.delegations.orchestrating import Start, begin
from bridge.control.delegations.requesting import (
    Approved,
    Orchestration,
    ask,
    policy_request,
)
from bridge.control.delegations.steering.surveying import Waiting, survey, tell_waiting
from bridge.control.plans.file import Plan
from bridge.control.plans.progress import Progress, ProgressSink, ignore_progress
from bridge.control.recording import RecordingTransaction
from bridge.control.taskgroups import sole_error_group
from bridge.conversations.models import EntryDraft
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import save_state

#: How often a run looks again at what something else than its own workers' ends may free: others, a quota, the time.
ELSEWHERE_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A plan that was read and checked.

    Parameters
    ----------
    requests
        One per worker in the file's order; names unique, ``needs`` naming others of them, without cycles.
    text, path
        The file, for the record.
    label
        Name of the plan and of a session made for it.
    session_id
        The session that delegates; None makes a new one.
    dirty
        What becomes of uncommitted work in the checkout.
    limits
        Those of the run; None leaves them to the workspace's policy.
    max_running
        How many workers run at once, within the policy.
    """

    requests: tuple[Request, ...]
    text: str
    path: str | None = None
    label: str | None = None
    session_id: str | None = None
    dirty: DirtyMode = DirtyMode.REFUSE
    limits: PolicyLimits | None = None
    max_running: int | None = None


def request_of(plan: Plan, *, session_id: str | None = None, dirty: DirtyMode | None = None) -> PlanRequest:
    """Return a plan file's plan as something to run.

    Parameters
    ----------
    session_id
        The session that delegates; None makes a new one.
    dirty
        Overrides what the file says of uncommitted work.
    """
    return PlanRequest(
        requests=tuple(
            Request(
                name=worker.id,
                objective=worker.objective,
                role=worker.role,
                harness=worker.harness,
                command=worker.command,
                environment=worker.environment,
                acceptance_criteria=worker.acceptance_criteria,
                needs=worker.needs,
                evidence=worker.evidence,
                write_mode=str(worker.write),
                owned_paths=worker.owned_paths,
                output_schema=worker.output_schema,
                timeout_seconds=worker.timeout_seconds,
                attempts_permitted=worker.attempts,
            )
            for worker in plan.workers
        ),
        text=plan.text,
        path=str(plan.path),
        label=plan.label or plan.path.stem,
        session_id=session_id,
        dirty=dirty or DirtyMode(plan.dirty),
        max_running=plan.max_parallel,
    )


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A plan that ran: its row, and its delegations in the order of the file."""

    plan: PlanRun
    delegations: tuple[Delegation, ...]

    @property
    def is_completed(self) -> bool:
        """Whether every worker completed."""
        return all(delegation.status is DelegationStatus.COMPLETED for delegation in self.delegations)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as the command line and RPC show it."""
        return {
            "id": self.plan.id,
            "label": self.plan.label,
            "session_id": self.plan.session_id,
            "status": self.plan.status,
            "created_at": self.plan.created_at,
            "finished_at": self.plan.finished_at,
            "tasks": [delegation.to_json() for delegation in self.delegations],
        }


@dataclass
class _Board:
    """What the scheduler knows; touched on the event loop only."""

    queue: list[Delegation]
    requests: Mapping[str, DelegationRequest]
    clock: Waiting = field(default_factory=Waiting)
    running: dict[str, DelegationRequest] = field(default_factory=dict)
    ended: dict[str, Delegation] = field(default_factory=dict)
    changed: anyio.Event = field(default_factory=anyio.Event)


async def run_plan(
    controller: Controller, workspace: Workspace, plan: PlanRequest, *, progress: ProgressSink = ignore_progress
) -> PlanOutcome:
    """Run a plan's workers to their ends and return what came of them.

    Parameters
    ----------
    workspace
        The registered checkout that the workers start from.
    progress
        Is told of every step, on the event loop.

    Raises
    ------
    BaseUnavailable, UncommittedWork, ReferenceNotFound, InvalidOutputSchema, …
        What :func:`bridge.control.delegations.orchestrating.begin` raises; nothing is recorded or started then.

    Notes
    -----
    If the calling task is cancelled, running workers are ended and their results recorded as cancelled; what had
    not started is recorded as cancelled too.
    """
    start = Start(
        workspace=workspace,
        session_id=plan.session_id,
        label=plan.label,
        dirty=plan.dirty,
        limits=plan.limits,
        max_running=plan.max_running,
        attempts=max(request.attempts_permitted for request in plan.requests),
        requests=plan.requests,
    )
    orchestration = await to_thread.run_sync(partial(begin, controller, start))
    run, delegations = await to_thread.run_sync(partial(_record, orchestration, plan))
    orchestration = orchestration.of_plan(run.id)
    reporter = _Reporter(controller, run.id, progress)
    reporter.tell("plan_started", None, run.status, f"{len(delegations)} workers", session_id=run.session_id)
    for delegation in delegations:
        reporter.task("task_queued", delegation)
    board = _Board(queue=list(delegations), requests=_policy_requests(orchestration, delegations))
    is_interrupted = True
    try:
        async with sole_error_group() as group:
            await _schedule(orchestration, board, group, reporter)
        is_interrupted = False
    finally:
        with anyio.CancelScope(shield=True):
            finish = partial(_finish, controller, run, delegations, is_interrupted=is_interrupted)
            outcome = await to_thread.run_sync(finish)
        reporter.tell("plan_finished", None, outcome.plan.status)
    return outcome


async def _schedule(orchestration: Orchestration, board: _Board, group: TaskGroup, reporter: _Reporter) -> None:
    """Start whatever may start each time something changes, until nothing waits and nothing runs."""
    while board.queue or board.running:
        board.changed = anyio.Event()
        considered = await _consider(orchestration, board)
        waiting = []
        is_blocked_elsewhere = False
        for delegation, item in zip(board.queue, considered, strict=True):
            if item.decision.outcome is Verdict.QUEUED:
                waiting.append(delegation)
                is_blocked_elsewhere |= item.decision.reason is not Reason.NEED_UNFINISHED
                continue
            needed = [_result_of(board, key) for key in item.request.needs if key in board.ended]
            answer = await to_thread.run_sync(
                partial(ask, orchestration, delegation, item, [entry for entry in needed if entry is not None])
            )
            if isinstance(answer, Approved):
                board.running[delegation.id] = item.request
                reporter.task("task_preparing", answer.delegation)
                group.start_soon(_carry_out, orchestration, board, answer, reporter)
            elif answer.status is DelegationStatus.QUEUED:
                waiting.append(delegation)
                is_blocked_elsewhere = True
            else:
                board.ended[delegation.id] = answer
                board.changed.set()
                event = "task_rejected" if answer.status is DelegationStatus.REJECTED else "task_finished"
                reporter.task(event, answer, str((answer.decision or {}).get("explanation", "")))
        board.queue = waiting
        await _wait_for_change(board, is_blocked_elsewhere=is_blocked_elsewhere)


async def _wait_for_change(board: _Board, *, is_blocked_elsewhere: bool) -> None:
    """Wait until the answers may be others. Something may have ended since they were given: then they are already."""
    if is_blocked_elsewhere:
        with anyio.move_on_after(ELSEWHERE_POLL_SECONDS):
            await board.changed.wait()
    elif board.running:
        await board.changed.wait()
    elif board.queue and not board.changed.is_set():
        raise RuntimeError(f"{len(board.queue)} tasks wait for what will never be; a plan's needs form no cycle")


async def _consider(orchestration: Orchestration, board: _Board) -> tuple[Considered, ...]:
    """Return policy's answer to everything that waits, as things are now."""
    # The board goes on changing while the store is asked; what was read of it stays together.
    running = list(board.running.values())
    statuses = {key: delegation.status for key, delegation in board.ended.items()}
    now = orchestration.controller.clock.monotonic()
    queue = [
        replace(board.requests[delegation.id], waited_seconds=board.clock.seconds(delegation.id, now))
        for delegation in board.queue
    ]

    def answer() -> tuple[Considered, ...]:
        considered = select_runnable(queue, survey(orchestration, running, statuses), orchestration.limits)
        tell_waiting(orchestration.controller, board.clock.note(considered, now))
        return considered

    return await to_thread.run_sync(answer)


async def _carry_out(orchestration: Orchestration, board: _Board, approved: Approved, reporter: _Reporter) -> None:
    name = approved.delegation.id
    ended = await carry_out(orchestration, approved, report=reporter.task)
    board.ended[name] = ended
    del board.running[name]
    board.changed.set()


def _result_of(board: _Board, delegation_id: str) -> str | None:
    return board.ended[delegation_id].result_entry_id


def _policy_requests(
    orchestration: Orchestration, delegations: Sequence[Delegation]
) -> Mapping[str, DelegationRequest]:
    ids = {delegation.name: delegation.id for delegation in delegations}
    return {
        delegation.id: policy_request(orchestration, delegation, [ids[name] for name in delegation.request.needs])
        for delegation in delegations
    }


def _record(orchestration: Orchestration, plan: PlanRequest) -> tuple[PlanRun, tuple[Delegation, ...]]:
    """Record the plan, its steps as an entry, and one queued row per worker, in one transaction."""
    controller = orchestration.controller
    observation = controller.observer.observe(orchestration.checkout)
    controller.keeper.keep(observation)

    def record(recording: RecordingTransaction) -> tuple[PlanRun, tuple[Delegation, ...]]:
        moment, connection = recording.moment, recording.tx.connection
        run = PlanRun(
            id=f"p{secrets.token_hex(4)}",
            label=plan.label,
            session_id=orchestration.session_id,
            path=plan.path,
            status=str(PlanStatus.RUNNING),
            created_at=moment,
            updated_at=moment,
        )
        save_state(recording.tx, observation, moment)
        rows.add_plan(connection, run, plan.text)
        steps = [{"text": f"{request.name}: {request.objective}", "status": "pending"} for request in plan.requests]
        draft = EntryDraft(kind="plan.updated", payload={"steps": steps})
        steps_entry = recording.append(orchestration.session_id, draft, observation.stamp).entry
        # From here on the plan's requests go where its steps are, wherever the conversation goes meanwhile.
        recording.open_cursor(orchestration.session_id, run.cursor_owner, steps_entry.id)
        delegations = tuple(
            Delegation(
                id=f"d{secrets.token_hex(6)}",
                plan_id=run.id,
                name=request.name,
                position=position,
                parent_session_id=orchestration.session_id,
                status=DelegationStatus.QUEUED,
                request=request,
                controller_id=orchestration.controller_id,
                created_at=moment,
                updated_at=moment,
            )
            for position, request in enumerate(plan.requests)
        )
        for delegation in delegations:
            rows.add_delegation(connection, delegation)
        body = {"plan_id": run.id, "delegation_ids": [delegation.id for delegation in delegations]}
        recording.event(orchestration.session_id, "plan.started", body)
        return run, delegations

    return controller.recorder.transact(record)


def _finish(
    controller: Controller, run: PlanRun, delegations: Sequence[Delegation], *, is_interrupted: bool
) -> PlanOutcome:
    """Close what never started, and record how the plan ended."""

    def record(recording: RecordingTransaction) -> PlanOutcome:
        connection = recording.tx.connection
        final = []
        for delegation in delegations:
            current = rows.require_delegation(connection, delegation.id)
            if current.status is DelegationStatus.QUEUED:
                current = close_unstarted(
                    recording, current, reason=str(PlanStatus.INTERRUPTED), status=DelegationStatus.CANCELLED
                )
            final.append(current)
        is_completed = all(delegation.status is DelegationStatus.COMPLETED for delegation in final)
        ended = PlanStatus.INTERRUPTED if is_interrupted else PlanStatus.INCOMPLETE
        status = str(PlanStatus.COMPLETED if is_completed else ended)
        return PlanOutcome(finish_plan(recording, run, status), tuple(final))

    return controller.recorder.transact(record)


class _Reporter:
    """Tells the caller of every step, with the clock's time."""

    def __init__(self, controller: Controller, plan_id: str, sink: ProgressSink) -> None:
        self._controller = controller
        self._plan_id = plan_id
        self._sink = sink

    def tell(self, event: str, task: str | None, status: str, message: str = "", **details: Any) -> None:
        self._sink(
            Progress(
                event=event,
                plan_id=self._plan_id,
                task=task,
                status=status,
                at=self._controller.now(),
                message=message,
                details=details,
            )
        )

    def task(self, event: str, delegation: Delegation, message: str = "") -> None:
        self.tell(
            event,
            delegation.name or delegation.id,
            str(delegation.status),
            message,
            delegation_id=delegation.id,
            result_entry_id=delegation.result_entry_id,
        )
