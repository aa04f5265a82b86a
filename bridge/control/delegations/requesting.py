"""Asking for a delegation: evidence, base commit and policy, recorded together before anything is started.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bridge.adapters.base import Capabilities, Evidence
from bridge.adapters.errors import CommandMissing
from bridge.adapters.registry import harness
from bridge.agents.models import Agent
from bridge.agents.ownership import normalise
from bridge.agents.policy_file import WorkspacePolicy
from bridge.agents.policy_input import PolicyInput
from bridge.agents.policy_model import (
    Considered,
    DelegationRequest,
    PolicyLimits,
    Verdict,
    WriteMode,
)
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.bases import DirtyMode, base_facts, carry, dirty_mode_for, require_base
from bridge.control.delegations.carriedwork import carried_work
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.evidence import require_count, resolve_all
from bridge.control.delegations.lost import is_lost
from bridge.control.delegations.model import Delegation, DelegationStatus, Request, plan_cursor
from bridge.control.delegations.steering.quotas import credential_of
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import EntryDraft
from bridge.foundation.errors import BridgeError
from bridge.git.observe import Observation
from bridge.semantics.results import check_output_schema
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus
from bridge.workspaces.store import list_workspaces, save_state

#: How old the look at the checkout may be that a request was checked on, for its entry to carry it too.
MAX_SEEN_SECONDS: Final = 1.0

_STANDING = [status for status in WorkspaceStatus if status is not WorkspaceStatus.REMOVED]


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
    policy: WorkspacePolicy = field(default_factory=WorkspacePolicy)
    plan_id: str | None = None
    #: The exact look at the checkout that was taken for this very request, as long as that is just being answered.
    checked: Observation | None = None

    @property
    def checkout(self) -> Path:
        """Top level of the parent's checkout."""
        return self.workspace.folder

    @property
    def cursor_owner(self) -> str | None:
        """The owner of the run's own place in the session, where its requests go; None outside a plan: the head."""
        return None if self.plan_id is None else plan_cursor(self.plan_id)

    def of_plan(self, plan_id: str) -> Orchestration:
        """Return the same orchestration as part of a recorded plan."""
        return replace(self, plan_id=plan_id, checked=None)

    def later(self) -> Orchestration:
        """Return the same orchestration for a request that could not be answered at once: it is looked at anew."""
        return replace(self, checked=None)


@dataclass(frozen=True, slots=True)
class Approved:
    """A delegation that may start, with all that starting needs."""

    delegation: Delegation
    evidence: tuple[Evidence, ...]
    base_commit: str
    #: A tree that its new worktree is brought to, as changes nobody has committed: the work of the try before.
    carried_tree: str | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a request comes to: policy's decision with its input, and where it may start, evidence and base."""

    decision: Mapping[str, Any]
    approved: Approved | None
    #: Facts about the base that are recorded with the request: commit, branch, distance, what it leaves out.
    base: Mapping[str, Any]


def policy_request(
    orchestration: Orchestration, delegation: Delegation, needs: Iterable[str], *, waited_seconds: float = 0.0
) -> DelegationRequest:
    """Return a delegation as policy sees it; ``needs`` are delegation ids."""
    request = delegation.request
    settings = orchestration.controller.settings
    return DelegationRequest(
        delegation_id=delegation.id,
        role=request.role,
        write_mode=WriteMode(request.write_mode),
        parent_depth=orchestration.agent.depth,
        checkout=orchestration.workspace.worktree_id or orchestration.workspace.id,
        owned_paths=tuple(normalise(path) for path in request.owned_paths),
        needs=tuple(needs),
        network=request.network is True,
        tokens=request.tokens,
        timeout_seconds=request.timeout_seconds,
        harness=request.harness,
        workspace=orchestration.workspace.id,
        credential=delegation.credential or credential_of(settings, request.harness),
        waited_seconds=waited_seconds,
    )


def count_worktrees(orchestration: Orchestration, running: Iterable[DelegationRequest]) -> int:
    """Return how many worktrees of workers the repository has, those included that are about to be made."""
    repository_id = orchestration.workspace.repository_id
    with orchestration.controller.store.read() as connection:
        existing = list_workspaces(
            connection, repository_id=repository_id, kinds=[WorkspaceKind.WORKER], statuses=_STANDING
        )
    names = {workspace.folder.name for workspace in existing}
    names.update(request.delegation_id for request in running if request.write_mode is not WriteMode.SHARED)
    return len(names)


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
    TooMuchEvidence
        If a request cites too much, the results counted in that it needs.
    InvalidOutputSchema
        If an output schema cannot be used.
    InvalidOwnedPath, UnknownHarness, CommandMissing
        If a request names such, or lacks it.
    """
    observation = controller.observer.observe_exactly(checkout)
    for request in requests:
        require_base(checkout, observation, dirty_mode_for(request, dirty))
        _require_command(request, harness(request.harness, controller.settings.harness).capabilities)
        for path in request.owned_paths:
            normalise(path)
        if request.output_schema is not None:
            check_output_schema(dict(request.output_schema))
        # What it needs is evidence too, once it is there.
        require_count(len(set(request.needs)) + len(set(request.evidence)))
        with controller.store.read() as connection:
            resolve_all(connection, session_id, request.evidence)
    return observation


def _require_command(request: Request, capabilities: Capabilities) -> None:
    if capabilities.needs_command and not request.command:
        raise CommandMissing(
            f"The harness {request.harness!r} does nothing without a command. Nothing was started.",
            details={"harness": request.harness},
        )


def ask(
    orchestration: Orchestration, delegation: Delegation, considered: Considered, needed_results: Sequence[str]
) -> Approved | Delegation:
    """Record a request and policy's answer in the parent's session; return what may start, or the row as it ended.

    The request entry carries the stamp of the parent's checkout; its HEAD is the base that the worker starts
    from. Whatever keeps the worker from starting (stale evidence, no base, uncommitted work) is recorded as a
    rejection with its code, so that the conversation shows why nothing happened. What was cancelled before its
    turn came is returned as it is, and so is, still queued, a shared writer whose checkout another run's is writing
    into; nothing is recorded then.
    """
    controller = orchestration.controller
    observation = _seen(orchestration)
    controller.keeper.keep(observation)
    decision: dict[str, Any] = {
        **considered.decision.to_json(),
        "input": PolicyInput(considered.request, considered.facts, orchestration.limits).to_json(),
    }
    approved = None
    base = base_facts(
        orchestration.checkout,
        delegation.request,
        observation,
        orchestration.dirty,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )
    if considered.decision.outcome is Verdict.APPROVED:
        try:
            approved = _base_and_evidence(orchestration, delegation, observation, needed_results)
            base |= {"commit": approved.base_commit}
        except BridgeError as error:
            decision |= _overruled(decision, error.code, error.message)
        except OSError as error:
            decision |= _overruled(decision, "system_error", str(error))
    answer = _Answer(decision, approved, base)

    def record(recording: RecordingTransaction) -> Delegation:
        current = rows.require_delegation(recording.tx.connection, delegation.id)
        if current.status is not DelegationStatus.QUEUED:
            return current
        if approved is not None and _is_checkout_busy(recording, orchestration, delegation):
            return current
        save_state(recording.tx, observation, recording.moment)
        return _record_request(recording, orchestration, delegation, observation, answer)

    updated = controller.recorder.transact(record)
    if approved is None or updated.status is not DelegationStatus.PREPARING:
        return updated
    return replace(approved, delegation=updated)


def _seen(orchestration: Orchestration) -> Observation:
    """Return an exact look at the checkout that began after the request came: the base never rests on a hint."""
    controller, checked = orchestration.controller, orchestration.checked
    if checked is not None:
        age = (controller.clock.now() - checked.observed_at).total_seconds()
        if 0.0 <= age <= MAX_SEEN_SECONDS:
            return checked
    return controller.observer.observe_exactly(orchestration.checkout)


def _overruled(decision: Mapping[str, Any], reason: str, explanation: str) -> dict[str, Any]:
    """Return a refusal of what policy had approved; its own answer is kept beside it, for the replay."""
    own = {key: decision[key] for key in ("outcome", "reason", "explanation")}
    return {"outcome": "rejected", "reason": reason, "explanation": explanation, "policy": own}


def _is_checkout_busy(recording: RecordingTransaction, orchestration: Orchestration, delegation: Delegation) -> bool:
    """Tell whether a worker of another run writes into the checkout that this one is to write into."""
    if delegation.request.write_mode != WriteMode.SHARED:
        return False
    connection = recording.tx.connection
    writers = rows.open_writers(connection, orchestration.workspace.id)
    return any(
        writer.controller_id and not is_lost(connection, writer.controller_id, now=recording.moment)
        for writer in writers
    )


def _base_and_evidence(
    orchestration: Orchestration, delegation: Delegation, observation: Observation, needed_results: Sequence[str]
) -> Approved:
    references = [*needed_results, *delegation.request.evidence]
    with orchestration.controller.store.read() as connection:
        evidence = resolve_all(connection, orchestration.session_id, references)
    if delegation.retry_of is not None and delegation.workspace_id is not None:
        # It goes on where the try before left off, whatever has become of the checkout since.
        return Approved(delegation, evidence, str(delegation.base_commit))
    dirty = dirty_mode_for(delegation.request, orchestration.dirty)
    head = require_base(orchestration.checkout, observation, dirty)
    is_shared = delegation.request.write_mode == WriteMode.SHARED
    if dirty is DirtyMode.CARRY and not observation.is_clean and not is_shared:
        head = carry(
            orchestration.checkout,
            delegation,
            head,
            timeout_seconds=orchestration.controller.settings.git_timeout_seconds,
        )
    if delegation.retry_of is None or is_shared:
        return Approved(delegation, evidence, head)
    with orchestration.controller.store.read() as connection:
        before = rows.require_delegation(connection, delegation.retry_of)
    timeout = orchestration.controller.settings.git_timeout_seconds
    tree = carried_work(orchestration.checkout, before, head, timeout_seconds=timeout)
    return Approved(delegation, evidence, head, tree)


def _record_request(
    recording: RecordingTransaction,
    orchestration: Orchestration,
    delegation: Delegation,
    observation: Observation,
    answer: _Answer,
) -> Delegation:
    stamp, approved, session_id = observation.stamp, answer.approved, delegation.parent_session_id
    identity = {"delegation_id": delegation.id, "role": delegation.request.role}
    evidence = [] if approved is None else [item.reference for item in approved.evidence]
    request = delegation.request.to_json() | {"evidence": evidence or list(delegation.request.evidence)}
    if answer.base:
        request["base"] = dict(answer.base)
    if delegation.retry_of is not None:
        request["retry_of"] = delegation.retry_of
    draft = EntryDraft(
        kind="delegation.requested", payload={**identity, "request": request}, cursor=orchestration.cursor_owner
    )
    asked = recording.append(session_id, draft, stamp).entry
    recording.open_cursor(session_id, delegation.cursor_owner, asked.id)
    kind = "delegation.rejected" if approved is None else "delegation.approved"
    payload = {**identity, "decision": dict(answer.decision), "reason": str(answer.decision["explanation"])}
    recording.append(session_id, EntryDraft(kind=kind, payload=payload, cursor=delegation.cursor_owner), stamp)
    changes: dict[str, Any] = {
        "request_entry_id": asked.id,
        "controller_id": orchestration.controller_id,
        "decision": dict(answer.decision),
        "credential": answer.decision["input"]["request"]["credential"],
    }
    if approved is None:
        recording.close_cursor(session_id, delegation.cursor_owner)
        changes |= {"status": DelegationStatus.REJECTED, "finished_at": recording.moment}
    else:
        changes |= {"status": DelegationStatus.PREPARING, "base_commit": approved.base_commit}
        if delegation.request.write_mode == WriteMode.SHARED:
            changes["workspace_id"] = orchestration.workspace.id
    facts = {"outcome": str(answer.decision["outcome"]), "request_entry_id": asked.id}
    return change_delegation(recording, delegation, "decided", facts=facts, **changes)
