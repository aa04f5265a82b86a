"""Single delegations inside a long-lived process: asked for at any time, run as policy allows, waited for by anybody.

A plan knows all of its workers beforehand and ends with them. Here requests come one by one: those of one session
form a lane, which asks policy again whenever something changed, and is gone when nothing is left in it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread

from bridge.agents.policy import select_runnable
from bridge.agents.policy_model import Considered, DelegationRequest, Verdict
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.carrying import carry_out
from bridge.control.delegations.changing import change_delegation, close_unstarted
from bridge.control.delegations.lost import is_lost
from bridge.control.delegations.model import Delegation, DelegationStatus, Request
from bridge.control.delegations.orchestrating import Start, begin
from bridge.control.delegations.requesting import (
    Approved,
    Orchestration,
    ask,
    policy_request,
)
from bridge.control.delegations.steering.quotas import credential_of
from bridge.control.delegations.steering.retrying import Retry
from bridge.control.delegations.steering.surveying import Waiting, survey, tell_waiting
from bridge.control.delegations.tasks import request_cancel
from bridge.control.errors import ControllerStopping
from bridge.control.recording import RecordingTransaction
from bridge.control.sessions import initialise
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.foundation.logs import get_logger
from bridge.git.errors import NotARepository
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import find_workspace

#: How often a lane looks again at what something outside of it may free.
ELSEWHERE_POLL_SECONDS: Final = 1.0
#: How often a delegation that another process runs is looked at by who waits for it.
WAIT_POLL_SECONDS: Final = 0.25

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One delegation as somebody asks for it.

    Parameters
    ----------
    request
        What is asked of the worker. ``needs`` stays empty: what it builds on is cited as evidence.
    session
        Reference to the session that delegates; None means the current one.
    dirty
        What becomes of uncommitted work in the checkout.
    retry
        The ended delegation that this one tries again, and where; None for one of its own.
    """

    request: Request
    session: str | None = None
    dirty: DirtyMode = DirtyMode.REFUSE
    retry: Retry | None = None


@dataclass
class _Lane:
    """The delegations of one session; touched on the event loop only."""

    session_id: str
    waiting: dict[str, tuple[Orchestration, Delegation]] = field(default_factory=dict)
    running: dict[str, DelegationRequest] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    clock: Waiting = field(default_factory=Waiting)


class Delegator:
    """Runs the single delegations of one controller in one event loop. Close it before the loop ends."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._lanes: dict[str, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._scopes: set[anyio.CancelScope] = set()
        self._ends: dict[str, asyncio.Event] = {}
        self._is_closing = False

    @property
    def is_orphaned(self) -> bool:
        """Whether its event loop ended without it."""
        return any(task.get_loop().is_closed() for task in self._tasks)

    @property
    def open_delegations(self) -> tuple[str, ...]:
        """The ids of what was asked for here and has not ended."""
        return tuple(self._ends)

    async def request(self, standpoint: Standpoint, wanted: Wanted) -> Delegation:
        """Record a delegation and see to it that it runs as soon as it may; return it while it is queued.

        Policy's answer, the worker's steps and its result are recorded as they come, and are audit events of the
        session.

        Raises
        ------
        ControllerStopping
            If this process is about to end.
        SessionNotFound, AmbiguousReference, InvalidReference, NotARepository, BaseUnavailable, UncommittedWork,
        ReferenceNotFound, TooMuchEvidence, InvalidOutputSchema, InvalidOwnedPath, UnknownHarness
            If it could not start in any case; nothing is recorded then.
        """
        self._require_open()
        orchestration = await to_thread.run_sync(partial(_begin, self._controller, standpoint, wanted))
        self._require_open()
        # From here on it is in the store, and somebody has to run it: who asked may be gone meanwhile.
        with anyio.CancelScope(shield=True):
            delegation = await to_thread.run_sync(partial(_record, orchestration, wanted.request, wanted.retry))
        self._ends[delegation.id] = asyncio.Event()
        session_id = delegation.parent_session_id
        lane = self._lanes.get(session_id)
        if lane is None:
            lane = self._lanes[session_id] = _Lane(session_id)
            self._spawn(self._run_lane(lane))
        lane.waiting[delegation.id] = (orchestration, delegation)
        lane.changed.set()
        return delegation

    async def wait(self, delegation_id: str, *, timeout_seconds: float | None = None) -> Delegation:
        """Return a delegation once it has ended, or as it is when the time is over; whoever runs it."""
        found = await to_thread.run_sync(partial(_row, self._controller, delegation_id))
        with anyio.move_on_after(timeout_seconds):
            while not found.status.is_final:
                end = self._ends.get(delegation_id)
                if end is None:
                    await anyio.sleep(WAIT_POLL_SECONDS)
                else:
                    await end.wait()
                found = await to_thread.run_sync(partial(_row, self._controller, delegation_id))
            return found
        return await to_thread.run_sync(partial(_row, self._controller, delegation_id))

    async def cancel(self, delegation: Delegation) -> Delegation:
        """Ask for the end of a delegation, whoever runs it. Raises as ``tasks.request_cancel``."""
        asked = await to_thread.run_sync(partial(request_cancel, self._controller, delegation))
        lane = self._lanes.get(delegation.parent_session_id)
        if lane is not None:
            lane.changed.set()
        return asked

    async def aclose(self) -> None:
        """End what runs, record it as cancelled, and close what waits. Safe to call twice."""
        self._is_closing = True
        for scope in list(self._scopes):
            scope.cancel()
        with anyio.CancelScope(shield=True):
            while self._tasks:
                await asyncio.wait(self._tasks)

    def _require_open(self) -> None:
        if self._is_closing:
            raise ControllerStopping("The controller is about to end. Nothing was started.")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._scoped(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _scoped(self, work: Coroutine[Any, Any, None]) -> None:
        # A scope and not the task is cancelled: what is shielded in it, recording a result, is finished then.
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            if self._is_closing:
                scope.cancel()
            try:
                await work
            except Exception:  # noqa: BLE001 - nobody waits for the task; the fault is recorded in the result and logged
                _log.exception("running delegations failed", action="delegating_failed")
            finally:
                self._scopes.discard(scope)

    async def _run_lane(self, lane: _Lane) -> None:
        try:
            while lane.waiting or lane.running:
                lane.changed.clear()
                await self._start_what_may(lane)
                # What waits may be freed by others than this lane, so that it also looks by itself.
                with anyio.move_on_after(ELSEWHERE_POLL_SECONDS if lane.waiting else None):
                    await lane.changed.wait()
        finally:
            del self._lanes[lane.session_id]
            with anyio.CancelScope(shield=True):
                for _, delegation in lane.waiting.values():
                    await to_thread.run_sync(partial(_close, self._controller, delegation))
                    self._has_ended(delegation.id)

    async def _start_what_may(self, lane: _Lane) -> None:
        queue = list(lane.waiting.values())
        if not queue:
            return
        running = dict(lane.running)
        considered = await to_thread.run_sync(partial(_consider, self._controller, queue, running, lane.clock))
        for (orchestration, delegation), item in zip(queue, considered, strict=True):
            lane.waiting[delegation.id] = (orchestration.later(), delegation)
            if item.decision.outcome is Verdict.QUEUED and not await self._is_closed(delegation):
                continue
            answer = await to_thread.run_sync(partial(ask, orchestration, delegation, item, []))
            if isinstance(answer, Approved):
                del lane.waiting[delegation.id]
                lane.running[delegation.id] = item.request
                self._spawn(self._carry_out(lane, orchestration, answer))
            elif answer.status is not DelegationStatus.QUEUED:
                del lane.waiting[delegation.id]
                self._has_ended(delegation.id)

    async def _is_closed(self, delegation: Delegation) -> bool:
        """Tell whether a delegation was cancelled before its turn came."""
        found = await to_thread.run_sync(partial(_row, self._controller, delegation.id))
        return found.status is not DelegationStatus.QUEUED

    async def _carry_out(self, lane: _Lane, orchestration: Orchestration, approved: Approved) -> None:
        try:
            await carry_out(orchestration, approved, report=_ignore)
        finally:
            del lane.running[approved.delegation.id]
            lane.changed.set()
            self._has_ended(approved.delegation.id)

    def _has_ended(self, delegation_id: str) -> None:
        end = self._ends.pop(delegation_id, None)
        if end is not None:
            end.set()


_delegators: WeakKeyDictionary[Controller, Delegator] = WeakKeyDictionary()


def delegator_of(controller: Controller) -> Delegator:
    """Return the controller's delegator; there is one, in the event loop that asks first."""
    found = _delegators.get(controller)
    if found is None or found.is_orphaned:
        found = _delegators[controller] = Delegator(controller)
    return found


async def end_delegations(controller: Controller) -> None:
    """End the single delegations that this process runs, before its event loop ends; nothing is lost."""
    found = _delegators.pop(controller, None)
    if found is not None:
        await found.aclose()


def _begin(controller: Controller, standpoint: Standpoint, wanted: Wanted) -> Orchestration:
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, wanted.session)
        place = require_session(connection, session_id).workspace_id
        workspace = None if place is None else find_workspace(connection, place)
    start = Start(
        workspace=workspace or _workspace_at(controller, standpoint),
        session_id=session_id,
        label=None,
        dirty=wanted.dirty,
        requests=(wanted.request,),
    )
    return begin(controller, start)


def _workspace_at(controller: Controller, standpoint: Standpoint) -> Workspace:
    if standpoint.directory is None:
        raise NotARepository("The session has no workspace for a worker to start from. Nothing was started.")
    return initialise(controller, standpoint.directory).registration.workspace


def _record(orchestration: Orchestration, request: Request, retry: Retry | None) -> Delegation:
    def record(recording: RecordingTransaction) -> Delegation:
        if retry is not None:
            retry.require_free(recording.tx.connection)
        delegation = Delegation(
            id=f"d{secrets.token_hex(6)}",
            plan_id=None,
            name=request.name or None,
            parent_session_id=orchestration.session_id,
            status=DelegationStatus.QUEUED,
            request=request,
            controller_id=orchestration.controller_id,
            credential=credential_of(orchestration.controller.settings, request.harness),
            retry_of=None if retry is None else retry.of.id,
            workspace_id=None if retry is None or not retry.is_in_place else retry.of.workspace_id,
            base_commit=None if retry is None or not retry.is_in_place else retry.of.base_commit,
            created_at=recording.moment,
            updated_at=recording.moment,
        )
        rows.add_delegation(recording.tx.connection, delegation)
        place = {"workspace_id": delegation.workspace_id, "base_commit": delegation.base_commit}
        facts = {name: value for name, value in place.items() if value is not None}
        changed = change_delegation(recording, delegation, "queued", facts=facts, status=DelegationStatus.QUEUED)
        return replace(changed, request=request)

    return orchestration.controller.recorder.transact(record)


def _consider(
    controller: Controller,
    queue: list[tuple[Orchestration, Delegation]],
    ours: dict[str, DelegationRequest],
    clock: Waiting,
) -> tuple[Considered, ...]:
    """Return policy's answer to everything that waits in a session, as things are now."""
    orchestration = queue[-1][0]
    waiting = {delegation.id for _, delegation in queue}
    with controller.store.read() as connection:
        known = rows.list_delegations(connection, session_ids=[orchestration.session_id], open_only=True)
        others = [
            one
            for one in known
            if one.status is not DelegationStatus.QUEUED
            and one.id not in ours
            and one.id not in waiting
            and (one.controller_id is None or not is_lost(connection, one.controller_id, now=controller.now()))
        ]
    running = [*ours.values(), *(policy_request(orchestration, one, []) for one in others)]
    now = controller.clock.monotonic()
    requests = [
        policy_request(mine, delegation, [], waited_seconds=clock.seconds(delegation.id, now))
        for mine, delegation in queue
    ]
    considered = select_runnable(requests, survey(orchestration, running, {}), orchestration.limits)
    tell_waiting(controller, clock.note(considered, now))
    return considered


def _close(controller: Controller, delegation: Delegation) -> None:
    """Close what never started, unless somebody has."""

    def record(recording: RecordingTransaction) -> None:
        current = rows.require_delegation(recording.tx.connection, delegation.id)
        if current.status is DelegationStatus.QUEUED:
            close_unstarted(recording, current, reason="interrupted", status=DelegationStatus.CANCELLED)

    controller.recorder.transact(record)


def _row(controller: Controller, delegation_id: str) -> Delegation:
    with controller.store.read() as connection:
        return rows.require_delegation(connection, delegation_id)


def _ignore(_event: str, _delegation: Delegation, _message: str) -> None:
    """Take no notice: the steps are audit events, which whoever wants to know follows."""
