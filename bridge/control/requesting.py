"""Asking for a delegation: evidence, base commit and policy, recorded together before anything is started.

Blocking; run in a helper thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from bridge.adapters.base import Evidence
from bridge.adapters.registry import harness
from bridge.agents.models import Agent
from bridge.agents.ownership import normalise
from bridge.agents.policy import (
    Considered,
    DelegationRequest,
    PolicyFacts,
    PolicyLimits,
    RunningWorker,
    Verdict,
    WriteMode,
)
from bridge.agents.policy_input import PolicyInput
from bridge.control import store as rows
from bridge.control.controller import Controller
from bridge.control.delegation import Delegation, DelegationStatus, Request
from bridge.control.errors import BaseUnavailable, UncommittedWork
from bridge.control.evidence import resolve_all
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import EntryDraft
from bridge.foundation.errors import BridgeError
from bridge.git.commits import preserve
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.semantics.results import check_output_schema
from bridge.semantics.stamps import UNBORN
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import save_state

#: Paths of uncommitted work that a refusal names.
MAX_NAMED_PATHS = 20
#: Where the snapshot of carried work is kept.
CARRIED_REF = "refs/bridge/tasks/{delegation_id}/carried"


class DirtyMode(StrEnum):
    """What becomes of uncommitted work in the parent's checkout when a worker is to start."""

    #: Nothing starts.
    REFUSE = "refuse"
    #: The worker starts from HEAD without it; the record says so.
    IGNORE = "ignore"
    #: The worker starts from a snapshot that holds it.
    CARRY = "carry"


@dataclass(frozen=True, slots=True)
class Orchestration:
    """What all delegations of one run share: whose they are, where they start from, and within which limits."""

    controller: Controller
    controller_id: str
    session_id: str
    agent: Agent
    workspace: Workspace
    dirty: DirtyMode = DirtyMode.REFUSE
    limits: PolicyLimits = field(default_factory=PolicyLimits)
    plan_id: str | None = None

    @property
    def checkout(self) -> Path:
        """Top level of the parent's checkout."""
        return self.workspace.folder

    def of_plan(self, plan_id: str) -> Orchestration:
        """Return the same orchestration as part of a recorded plan."""
        return replace(self, plan_id=plan_id)


@dataclass(frozen=True, slots=True)
class Approved:
    """A delegation that may start, with all that starting needs."""

    delegation: Delegation
    evidence: tuple[Evidence, ...]
    base_commit: str
    is_carried: bool


def policy_request(orchestration: Orchestration, delegation: Delegation, needs: Iterable[str]) -> DelegationRequest:
    """Return a delegation as policy sees it; ``needs`` are delegation ids."""
    request = delegation.request
    return DelegationRequest(
        delegation_id=delegation.id,
        role=request.role,
        write_mode=WriteMode(request.write_mode),
        parent_depth=orchestration.agent.depth,
        checkout=orchestration.workspace.worktree_id or orchestration.workspace.id,
        owned_paths=tuple(normalise(path) for path in request.owned_paths),
        needs=tuple(needs),
        timeout_seconds=request.timeout_seconds,
    )


def policy_facts(
    running: Sequence[DelegationRequest], ended: Mapping[str, DelegationStatus], started: int
) -> PolicyFacts:
    """Return what is the case now: who runs, who succeeded, who did not, how many were started in all."""
    return PolicyFacts(
        running=tuple(
            RunningWorker(request.delegation_id, request.write_mode, request.checkout, request.owned_paths)
            for request in running
        ),
        succeeded=tuple(key for key, status in ended.items() if status is DelegationStatus.COMPLETED),
        failed=tuple(key for key, status in ended.items() if status is not DelegationStatus.COMPLETED),
        workers_started=started,
        worktrees=started,
    )


def check_startable(
    controller: Controller, checkout: Path, session_id: str | None, *, dirty: DirtyMode, requests: Iterable[Request]
) -> Observation:
    """Check, before anything is recorded or started, what would keep any of the requests from starting.

    Returns the observation of the checkout that the check was made on. Without a session no evidence belongs to
    the asker, so any that is cited is refused.

    Raises
    ------
    BaseUnavailable, UncommittedWork
        If the checkout offers no base to start from.
    ReferenceNotFound, ReferenceForeignSession, ReferenceNotAResult, ReferenceNotOnActiveBranch, …
        If a request cites what cannot be cited.
    InvalidOutputSchema
        If an output schema cannot be used.
    InvalidOwnedPath, UnknownHarness
        If a request names such.
    """
    observation = controller.observer.observe_exactly(checkout)
    require_base(checkout, observation, dirty)
    for request in requests:
        harness(request.harness)
        for path in request.owned_paths:
            normalise(path)
        if request.output_schema is not None:
            check_output_schema(dict(request.output_schema))
        with controller.store.read() as connection:
            resolve_all(connection, session_id, request.evidence)
    return observation


def ask(
    orchestration: Orchestration, delegation: Delegation, considered: Considered, needed_results: Sequence[str]
) -> Approved | Delegation:
    """Record a request and policy's answer in the parent's session; return what may start, or the rejected row.

    The request entry carries the stamp of the parent's checkout; its HEAD is the base that the worker starts
    from. Whatever keeps the worker from starting (stale evidence, no base, uncommitted work) is recorded as a
    rejection with its code, so that the conversation shows why nothing happened.
    """
    controller = orchestration.controller
    # The exact path: the base of a worker never rests on a hint.
    observation = controller.observer.observe_exactly(orchestration.checkout)
    controller.keeper.keep(observation)
    decision: dict[str, Any] = {
        **considered.decision.to_json(),
        "input": PolicyInput(considered.request, considered.facts, orchestration.limits).to_json(),
    }
    approved: Approved | None = None
    if considered.decision.outcome is Verdict.APPROVED:
        try:
            approved = _base_and_evidence(orchestration, delegation, observation, needed_results)
        except BridgeError as error:
            decision |= {"outcome": "rejected", "reason": error.code, "explanation": error.message}

    def record(recording: RecordingTransaction) -> Delegation:
        save_state(recording.tx, observation, recording.moment)
        return _record_request(recording, orchestration, delegation, observation, decision=decision, approved=approved)

    updated = controller.recorder.transact(record)
    return updated if approved is None else replace(approved, delegation=updated)


def _base_and_evidence(
    orchestration: Orchestration, delegation: Delegation, observation: Observation, needed_results: Sequence[str]
) -> Approved:
    references = [*needed_results, *delegation.request.evidence]
    with orchestration.controller.store.read() as connection:
        evidence = resolve_all(connection, orchestration.session_id, references)
    head = require_base(orchestration.checkout, observation, orchestration.dirty)
    is_carried = orchestration.dirty is DirtyMode.CARRY and not observation.is_clean
    if is_carried and delegation.request.write_mode != WriteMode.SHARED:
        head = preserve(
            orchestration.checkout,
            ref=CARRIED_REF.format(delegation_id=delegation.id),
            message=f"Uncommitted work carried to {delegation.name or delegation.id}",
            timeout_seconds=orchestration.controller.settings.git_timeout_seconds,
        ).commit
    return Approved(delegation, evidence, head, is_carried)


def require_base(checkout: Path, observation: Observation, dirty: DirtyMode) -> str:
    """Return the commit that a worker would start from, as stamped.

    Raises
    ------
    BaseUnavailable
        If the state is unknown or there is no commit yet.
    UncommittedWork
        If there is some and it is to be refused.
    """
    state, shown = observation.state, os.fsdecode(checkout)
    if state is None:
        detail = f": {observation.detail}" if observation.detail else ""
        raise BaseUnavailable(
            f"The state of {shown!r} is unknown ({observation.unknown}{detail}). Nothing was started.",
            details={"reason": str(observation.unknown), "path": shown},
        )
    if state.head == UNBORN:
        raise BaseUnavailable(
            f"{shown!r} has no commit yet, so a worker has nothing to start from. Nothing was started.",
            details={"reason": UNBORN, "path": shown},
        )
    if dirty is DirtyMode.REFUSE and not observation.is_clean:
        paths = [] if observation.manifest is None else [plain_path(row.path) for row in observation.manifest.rows]
        raise UncommittedWork(
            f"{len(paths)} paths of {shown!r} are not committed, and a worker would not see them. Nothing was started.",
            details={"paths": paths[:MAX_NAMED_PATHS], "count": len(paths)},
        )
    return state.head


def _record_request(
    recording: RecordingTransaction,
    orchestration: Orchestration,
    delegation: Delegation,
    observation: Observation,
    *,
    decision: Mapping[str, Any],
    approved: Approved | None,
) -> Delegation:
    stamp = observation.stamp
    session_id = delegation.parent_session_id
    identity = {"delegation_id": delegation.id, "role": delegation.request.role}
    evidence = [] if approved is None else [item.reference for item in approved.evidence]
    request = delegation.request.to_json() | {"evidence": evidence or list(delegation.request.evidence)}
    asked = recording.append(
        session_id, EntryDraft(kind="delegation.requested", payload={**identity, "request": request}), stamp
    ).entry
    recording.open_cursor(session_id, delegation.cursor_owner, asked.id)
    kind = "delegation.rejected" if approved is None else "delegation.approved"
    answer = {**identity, "decision": dict(decision), "reason": str(decision["explanation"])}
    recording.append(session_id, EntryDraft(kind=kind, payload=answer, cursor=delegation.cursor_owner), stamp)
    changes: dict[str, Any] = {
        "request_entry_id": asked.id,
        "controller_id": orchestration.controller_id,
        "decision": dict(decision),
        "status": DelegationStatus.REJECTED if approved is None else DelegationStatus.PREPARING,
    }
    if approved is None:
        recording.close_cursor(session_id, delegation.cursor_owner)
        changes["finished_at"] = recording.moment
    else:
        changes["base_commit"] = approved.base_commit
    rows.update_delegation(recording.tx.connection, delegation.id, updated_at=recording.moment, **changes)
    recording.event(
        session_id, "delegation.decided", {"delegation_id": delegation.id, "outcome": str(decision["outcome"])}
    )
    return rows.require_delegation(recording.tx.connection, delegation.id)
