"""Running the attempts at an approved delegation: the worker's process, its events, its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from bridge.adapters.base import Evidence, FailureClass, Outcome, SubmissionSource, TaskRequest
from bridge.adapters.events import AdapterEvent
from bridge.adapters.registry import harness
from bridge.agents.policy import is_network_allowed, is_tried_again
from bridge.agents.policy_file import WorkspacePolicy
from bridge.control.access.offering import Offer, offer_in
from bridge.control.access.tokens import bind_in, revoke_of_delegation
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.model import Attempt, Delegation, DelegationStatus, Submission
from bridge.control.delegations.preparing import Place, open_door, placed
from bridge.control.delegations.settlement import AttemptOutcome
from bridge.control.delegations.steering.approvals import Approver
from bridge.control.delegations.steering.messages import Inbox
from bridge.control.delegations.steering.pausing import sit_out
from bridge.control.delegations.submitting import SUBMITTED_GRACE_SECONDS, AttemptDesk, final_submission, has_ended
from bridge.control.errors import SetupFailed
from bridge.control.recording import RecordingTransaction
from bridge.control.taskgroups import sole_error_group
from bridge.conversations.models import EntryDraft
from bridge.foundation.logs import get_logger
from bridge.process.identity import ProcessIdentity
from bridge.semantics.kinds import ELIGIBLE, HIDDEN, Visibility
from bridge.semantics.results import ResultCheck, validate_result
from bridge.storage.errors import DatabaseBusy
from bridge.workspaces.store import save_state

#: How often a running delegation looks whether somebody asked for its end.
CANCEL_POLL_SECONDS = 0.2
#: Seconds beyond an attempt's time limit until its agent's token expires, should nobody take it back.
TOKEN_MARGIN_SECONDS = 600.0

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Assigned:
    """An approved delegation with everything made for it: where the worker works and where its words go."""

    delegation: Delegation
    evidence: tuple[Evidence, ...]
    base_commit: str
    worktree: Path
    worker_session_id: str
    policy: WorkspacePolicy = field(default_factory=WorkspacePolicy)
    #: What its processes get of their place, once that is ready.
    place: Place | None = None
    spark: str = ""
    #: What the attempts before used of its tokens.
    tokens_used: int = 0


async def work(controller: Controller, assigned: Assigned) -> AttemptOutcome:
    """Run attempts until one gives a valid result, one fails in a way that is not tried again, or none is left.

    An invalid result is tried again as often as the request permits: the next attempt runs in the same worktree and is
    told what was wrong. After other failures the policy says whether there is another, which uses up none of those;
    after a quota that is used up it begins once the credential is no longer paused.
    If the calling task is cancelled, the worker's processes are ended first.

    Raises
    ------
    InvalidConfiguration, SetupFailed, NoFreePort, ConfinementRefused, ObjectsNotTaken
        If the worker's place cannot be made ready; no attempt was begun then.
    """
    delegation = assigned.delegation
    place_made = placed(
        controller,
        delegation,
        worktree=assigned.worktree,
        session_id=assigned.worker_session_id,
        is_network_allowed=is_network_allowed(assigned.policy.limits, delegation.request.role),
    )
    try:
        async with place_made as place:
            return await _work(controller, replace(assigned, place=place))
    except SetupFailed as error:
        if not error.details["is_cancelled"]:
            raise
        return _cancelled_before(1, assigned.delegation.request.attempts_permitted)


async def _work(controller: Controller, assigned: Assigned) -> AttemptOutcome:
    delegation = assigned.delegation
    permitted, number = delegation.request.attempts_permitted, 0
    problems: Sequence[Mapping[str, str]] = ()
    failures: list[str] = []
    used: int | None = None
    while True:
        number += 1
        if await to_thread.run_sync(partial(_is_to_end, controller, delegation.id)):
            return replace(_cancelled_before(number, permitted), tokens_used=used or 0)
        outcome = await _attempt(controller, replace(assigned, tokens_used=used or 0), number, permitted, problems)
        if outcome.tokens_used is not None:
            used = (used or 0) + outcome.tokens_used
        outcome = replace(outcome, tokens_used=used)
        has_tokens = not delegation.request.tokens or (used or 0) < delegation.request.tokens
        if outcome.failure_class is None:
            if outcome.submission is not None or number >= permitted or not has_tokens:
                return outcome
            problems = outcome.field_errors
            continue
        failures.append(outcome.failure_class)
        is_again = has_tokens and is_tried_again(assigned.policy.limits, failures)
        if outcome.failure_class == FailureClass.QUOTA_EXHAUSTED:
            pausing = partial(sit_out, controller, delegation, outcome.resets_at, assigned.policy)
            await pausing(is_waiting=is_again)
        if not is_again:
            return outcome
        permitted += 1


def _cancelled_before(number: int, permitted: int) -> AttemptOutcome:
    return AttemptOutcome(
        attempt=number,
        attempts_permitted=permitted,
        source="controller",
        submission=None,
        failure_class=str(FailureClass.CANCELLED),
        failure_detail="The task was cancelled before its worker was started.",
    )


async def _attempt(
    controller: Controller, assigned: Assigned, number: int, permitted: int, problems: Sequence[Mapping[str, str]]
) -> AttemptOutcome:
    delegation = assigned.delegation
    began = controller.clock.monotonic()
    started = Attempt(delegation.id, number, "running", controller.now(), lease_expires_at=controller.lease_end())
    begin = partial(_begin_attempt, controller=controller, assigned=assigned, attempt=started)
    offer = await to_thread.run_sync(partial(controller.recorder.transact, begin))
    cancel = anyio.Event()
    task = _task_request(controller, assigned, number, permitted, problems, offer=offer)
    runner = harness(delegation.request.harness, controller.settings.harness, state=controller.settings.home)
    await to_thread.run_sync(partial(open_door, controller, assigned.place, runner.capabilities))
    async with sole_error_group() as group:
        group.start_soon(_watch_for_end, controller, delegation.id, number, cancel)
        outcome = await runner.run(task, _Sink(controller, assigned, number, offer), cancel=cancel)
        group.cancel_scope.cancel()
    duration = max(0.0, controller.clock.monotonic() - began)
    # The worker is done: from here on its outcome stands, whatever happens to whoever waits for it.
    with anyio.CancelScope(shield=True):
        judged = await to_thread.run_sync(partial(_judge, controller, assigned, number, permitted, outcome))
    return replace(judged, duration_seconds=duration)


def _begin_attempt(
    recording: RecordingTransaction, *, controller: Controller, assigned: Assigned, attempt: Attempt
) -> Offer | None:
    delegation = assigned.delegation
    rows.put_attempt(recording.tx.connection, attempt)
    recording.event(
        delegation.parent_session_id,
        "delegation.attempt_started",
        {"delegation_id": delegation.id, "attempt": attempt.number},
    )
    return offer_in(
        recording,
        controller.settings,
        assigned.worker_session_id,
        purpose=f"attempt {attempt.number}",
        lifetime_seconds=delegation.request.timeout_seconds + TOKEN_MARGIN_SECONDS,
        delegation_id=delegation.id,
    )


def _judge(controller: Controller, assigned: Assigned, number: int, permitted: int, outcome: Outcome) -> AttemptOutcome:
    """Check what was handed in, close the attempt's row, and return what the attempt came to."""
    delegation = assigned.delegation
    schema = delegation.request.output_schema
    with controller.store.read() as connection:
        handed_in = final_submission(connection, delegation.id, number)
        is_cancelled = rows.is_cancel_requested(connection, delegation.id)
    if handed_in is not None:
        outcome = _as_handed_in(outcome, handed_in, is_cancelled=is_cancelled)
    check = validate_result(outcome.submission, None if schema is None else dict(schema))
    judged = _judged(outcome, check, number, permitted)
    failure = judged.failure_class or (None if check.valid else "invalid_result")

    def close(recording: RecordingTransaction) -> None:
        rows.update_attempt(
            recording.tx.connection,
            delegation.id,
            number,
            status="ended",
            finished_at=recording.moment,
            exit_status=judged.exit_status,
            failure_class=failure,
        )
        body = {"delegation_id": delegation.id, "attempt": number, "failure_class": failure}
        recording.event(delegation.parent_session_id, "delegation.attempt_ended", body)
        revoke_of_delegation(recording, assigned.worker_session_id, delegation.id)

    controller.recorder.transact(close)
    return judged


def _as_handed_in(outcome: Outcome, handed_in: Submission, *, is_cancelled: bool) -> Outcome:
    """Return the outcome with what the worker handed in while it ran, in place of what its process left."""
    # How its process ended says nothing about a result that was there before; being cancelled does.
    is_kept = is_cancelled and outcome.failure is FailureClass.CANCELLED
    return replace(
        outcome,
        submission=handed_in.text.encode(),
        source=outcome.source if outcome.source is SubmissionSource.MESSAGE else SubmissionSource.STRUCTURED_OUTPUT,
        failure=outcome.failure if is_kept else None,
        detail=outcome.detail if is_kept else "",
    )


def _task_request(
    controller: Controller,
    assigned: Assigned,
    number: int,
    permitted: int,
    problems: Sequence[Mapping[str, str]],
    *,
    offer: Offer | None,
) -> TaskRequest:
    request = assigned.delegation.request
    place = assigned.place or Place(controller.environment)
    folder = attempt_folder(controller, assigned.delegation.id, number)
    return TaskRequest(
        delegation_id=assigned.delegation.id,
        attempt=number,
        role=request.role,
        objective=request.objective,
        acceptance_criteria=request.acceptance_criteria,
        write_mode=request.write_mode,
        owned_paths=request.owned_paths,
        base_commit=assigned.base_commit,
        evidence=assigned.evidence,
        spark=assigned.spark,
        output_schema=request.output_schema,
        command=request.command,
        worktree=assigned.worktree,
        folder=folder,
        environment=place.inherited,
        additions={**request.environment, **place.additions},
        confinement=place.confined_to(folder),
        mcp_command=() if offer is None else offer.command,
        mcp_environment={} if offer is None else offer.environment,
        marker=attempt_marker(assigned.delegation.id, number),
        timeout_seconds=request.timeout_seconds,
        previous_errors=tuple(problems),
        attempts_permitted=permitted,
        desk=AttemptDesk(controller, assigned.worker_session_id, assigned.delegation.id, number),
        silence_seconds=controller.settings.worker_silence_seconds,
        permission=Approver(controller, assigned.delegation, number, assigned.worktree, assigned.policy.approvals),
        next_message=Inbox(controller, assigned.delegation, number),
        tokens=request.tokens - assigned.tokens_used if request.tokens else None,
    )


def attempt_folder(controller: Controller, delegation_id: str, number: int) -> Path:
    """Return the folder of one attempt: its request, evidence, result and logs."""
    return controller.settings.tasks / delegation_id / str(number)


def attempt_marker(delegation_id: str, number: int) -> str:
    """Return the value by which an attempt's processes are found again."""
    return f"{delegation_id}-{number}"


def _judged(outcome: Outcome, check: ResultCheck, number: int, permitted: int) -> AttemptOutcome:
    # A command that failed by its exit status may still have handed in a valid report of that failure; one that
    # claims success all the same is not believed.
    failure = outcome.failure
    has_report = outcome.source is SubmissionSource.RESULT_FILE and check.valid
    if failure is FailureClass.EXIT_NONZERO and has_report and (check.value or {}).get("status") != "completed":
        failure = None
    return AttemptOutcome(
        attempt=number,
        attempts_permitted=permitted,
        source=str(outcome.source),
        submission=check.value if check.valid else None,
        field_errors=check.fields,
        raw_text=check.raw_text,
        is_raw_text_cut=check.is_raw_text_cut,
        failure_class=None if failure is None else str(failure),
        failure_detail=outcome.detail,
        resets_at=outcome.resets_at,
        tokens_used=outcome.tokens_used,
        exit_status=outcome.exit_status if outcome.signal is None else -outcome.signal,
    )


async def _watch_for_end(controller: Controller, delegation_id: str, number: int, cancel: anyio.Event) -> None:
    """Have the worker ended when somebody asked for that, or some time after it has handed in its result."""
    handed_in_at: float | None = None
    while not cancel.is_set():
        try:
            is_requested, is_handed_in = await to_thread.run_sync(partial(_look, controller, delegation_id, number))
        except DatabaseBusy as error:
            # A worker is not ended for a look that did not succeed; the next one will.
            _log.warning("the store is busy", action="cancel_poll", delegation_id=delegation_id, code=error.code)
            is_requested, is_handed_in = False, False
        if is_handed_in and handed_in_at is None:
            handed_in_at = anyio.current_time()
        is_late = handed_in_at is not None and anyio.current_time() - handed_in_at >= SUBMITTED_GRACE_SECONDS
        if is_requested or is_late:
            cancel.set()
            return
        await anyio.sleep(CANCEL_POLL_SECONDS)


def _look(controller: Controller, delegation_id: str, number: int) -> tuple[bool, bool]:
    """Return whether a delegation's end was asked for, and whether its attempt has its result already."""
    with controller.store.read() as connection:
        is_over = rows.is_to_end(connection, delegation_id, controller.id)
        return is_over, has_ended(connection, delegation_id, number)


def _is_to_end(controller: Controller, delegation_id: str) -> bool:
    with controller.store.read() as connection:
        return rows.is_to_end(connection, delegation_id, controller.id)


async def _transact(controller: Controller, change: Callable[[RecordingTransaction], None]) -> None:
    await to_thread.run_sync(partial(controller.recorder.transact, change))


class _Sink:
    """Records what a harness reports: the process in the attempt's row, events in the worker's session."""

    def __init__(self, controller: Controller, assigned: Assigned, number: int, offer: Offer | None) -> None:
        self._controller = controller
        self._assigned = assigned
        self._number = number
        self._offer = offer

    async def started(self, identity: ProcessIdentity) -> None:
        await _transact(self._controller, partial(self._note, identity))

    def _note(self, identity: ProcessIdentity, recording: RecordingTransaction) -> None:
        delegation, number = self._assigned.delegation, self._number
        rows.update_attempt(
            recording.tx.connection,
            delegation.id,
            number,
            pid=identity.pid,
            process_start_time=identity.start_time,
        )
        if self._offer is not None:
            bind_in(recording, self._offer.token_id, identity)
        facts = {"attempt": number, "pid": identity.pid}
        change_delegation(recording, delegation, "running", facts=facts, status=DelegationStatus.RUNNING)

    async def event(self, event: AdapterEvent) -> None:
        await to_thread.run_sync(partial(self._record, event))

    def _record(self, event: AdapterEvent) -> None:
        observation = self._controller.observer.observe(self._assigned.worktree)
        self._controller.keeper.keep(observation)
        visibility: Visibility | None = None
        if event.is_hidden is not None:
            visibility = HIDDEN if event.is_hidden else ELIGIBLE
        draft = EntryDraft(
            kind=event.kind,
            payload=dict(event.payload),
            context_visibility=visibility,
            external_id=event.external_id,
            external_source=self._assigned.delegation.request.harness,
        )
        self._controller.recorder.append_now(
            self._assigned.worker_session_id,
            draft,
            observation.stamp,
            first=lambda recording: _ignore(save_state(recording.tx, observation, recording.moment)),
        )


def _ignore(_value: object) -> None:
    """Drop a result that a callback may not return."""
