"""Ending a delegation: what git shows, the settled result, and one transaction that records it in both sessions.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.agents import store as agents
from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.evidence import RESULT_KIND
from bridge.control.delegations.model import AdoptionStatus, Delegation, DelegationStatus
from bridge.control.delegations.settlement import Assignment, AttemptOutcome, GitFacts, settle
from bridge.control.delegations.steering.store import lapse_approvals
from bridge.control.errors import DuplicateTask
from bridge.control.recording import RecordingTransaction
from bridge.conversations.forest import require_session
from bridge.conversations.models import EntryDraft, stamp_to_json
from bridge.conversations.store import get_entry
from bridge.foundation.errors import BridgeError
from bridge.git.commits import Preserved, preserve
from bridge.git.errors import WorktreeNotRegistered
from bridge.git.history import changed_paths, is_ancestor
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.git.repository import discover
from bridge.git.worktrees import checkout_drift, require_registered
from bridge.semantics.stamps import UNBORN
from bridge.storage.transaction import Connection
from bridge.workspaces.models import folder_of
from bridge.workspaces.store import find_workspace, save_state

#: Where a delegation's commits are kept until nobody needs them; nothing else points to them.
RESULT_REF = "refs/bridge/tasks/{delegation_id}/result"
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Inspected:
    """A worker's worktree after its end: the facts for the settlement, and the state for the stamp."""

    facts: GitFacts
    preserved: Preserved | None
    observation: Observation


def inspect(
    controller: Controller, delegation_id: str, worktree: Path, base_commit: str, *, is_shared: bool = False
) -> Inspected:
    """Preserve what a worker left and say how it differs from where it started; never raises for what it finds.

    Uncommitted work is kept in a commit of Bridge's own under :data:`RESULT_REF`; the worktree itself stays as
    it is. What cannot be inspected is told as such and never taken for "no changes".
    """
    timeout = controller.settings.git_timeout_seconds
    if not is_shared:
        problem = _foreign(controller, delegation_id, worktree)
        if problem is not None:
            return Inspected(GitFacts(base_commit, None, problem=problem), None, controller.observer.observe(None))
    observation = controller.observer.observe_exactly(worktree)
    controller.keeper.keep(observation)
    try:
        drift = () if is_shared else tuple(checkout_drift(worktree, None).notes)
        preserved = preserve(
            worktree,
            ref=RESULT_REF.format(delegation_id=delegation_id),
            message=f"Work of task {delegation_id}, preserved by Bridge",
            clean_at=_clean_at(observation),
            timeout_seconds=timeout,
        )
        location = discover(worktree)
        is_changed = preserved.commit != base_commit
        changes = changed_paths(location, base_commit, preserved.commit) if is_changed else []
        if is_changed and not is_shared and not is_ancestor(location, base_commit, preserved.commit):
            drift += (f"HEAD is at {preserved.head}, which does not descend from the base {base_commit}.",)
    except (BridgeError, OSError) as error:
        problem = error.message if isinstance(error, BridgeError) else str(error)
        return Inspected(GitFacts(base_commit, None, problem=problem), None, observation)
    paths = {change.path for change in changes} | {change.old_path for change in changes if change.old_path is not None}
    omitted = tuple(
        f"{plain_path(path)} is a repository of its own; its content is not part of the commit."
        for path in preserved.omitted
    )
    facts = GitFacts(
        base_commit=base_commit,
        result_commit=None if preserved.commit == base_commit else preserved.commit,
        files_changed=tuple(plain_path(path) for path in sorted(paths)),
        uncommitted=preserved.had_uncommitted,
        drift=drift + omitted,
    )
    return Inspected(facts, preserved, observation)


def _clean_at(observation: Observation) -> str | None:
    """Return the commit that a worktree is at with nothing beside it, by the exact look just taken; else None."""
    state = observation.state
    return state.head if state is not None and observation.is_clean and state.head != UNBORN else None


def _foreign(controller: Controller, delegation_id: str, worktree: Path) -> str | None:
    """Return why git is not to be run in a worktree; None if it may be.

    Its worker could have put a repository of its own making in its place, whose configuration names programs.
    """
    with controller.store.read() as connection:
        workspace_id = rows.require_delegation(connection, delegation_id).workspace_id
        workspace = None if workspace_id is None else find_workspace(connection, workspace_id)
    try:
        location = require_registered(worktree)
    except WorktreeNotRegistered as error:
        return error.message
    known = None if workspace is None else workspace.common_dir
    if known is not None and location.common_dir != folder_of(known):
        return f"{str(worktree)!r} is a worktree of {str(location.common_dir)!r} now. Nothing was run there."
    return None


def stamp_of_parent(controller: Controller, delegation: Delegation) -> Observation:
    """Return the state of the checkout that delegated, for the entry of the result in its session."""
    with controller.store.read() as connection:
        workspace_id = require_session(connection, delegation.parent_session_id).workspace_id
    parent = controller.observer.stamp_session(controller.store, workspace_id)
    controller.keeper.keep(parent)
    return parent


def conclude(
    controller: Controller,
    delegation: Delegation,
    outcome: AttemptOutcome,
    inspected: Inspected,
    parent: Observation | None = None,
) -> Delegation:
    """Settle a result and record it once: in the worker's session, at the delegation's cursor, and in its row.

    Parameters
    ----------
    parent
        The state of the checkout that delegated (:func:`stamp_of_parent`), looked at since the worker ended; None if
        that is to be looked at here.

    Returns
    -------
    Delegation
        As it is afterwards.

    Raises
    ------
    DuplicateTask
        If its result is recorded already; nothing is written then.
    """
    with controller.store.read() as connection:
        cited = _cited(connection, delegation)
    payload = _payload(delegation, outcome, inspected, cited)
    parent = stamp_of_parent(controller, delegation) if parent is None else parent
    # Redacted, checked and hashed here and not under the write lock: a result may be large.
    prepare = controller.recorder.prepare
    result = prepare(EntryDraft(kind=RESULT_KIND, payload=payload, cursor=delegation.cursor_owner), parent.stamp)
    own = prepare(EntryDraft(kind=RESULT_KIND, payload=payload), inspected.observation.stamp)

    def record(recording: RecordingTransaction) -> Delegation:
        _require_open(recording, delegation)
        for observation in (inspected.observation, parent):
            save_state(recording.tx, observation, recording.moment)
        if delegation.worker_session_id is not None:
            recording.append(delegation.worker_session_id, own)
            recording.update_session(delegation.worker_session_id, status=ENDED)
        entry = recording.append(delegation.parent_session_id, result).entry
        recording.close_cursor(delegation.parent_session_id, delegation.cursor_owner)
        return _close(recording, delegation, payload, inspected, entry.id)

    return controller.recorder.transact(record)


def _cited(connection: Connection, delegation: Delegation) -> list[str]:
    """Return the results that the worker was given, as its request records them."""
    if delegation.request_entry_id is None:
        return []
    entry = get_entry(connection, delegation.parent_session_id, delegation.request_entry_id)
    return [] if entry is None else list(entry.payload["request"]["evidence"])


def _payload(delegation: Delegation, outcome: AttemptOutcome, inspected: Inspected, cited: list[str]) -> dict[str, Any]:
    request = delegation.request
    assignment = Assignment(delegation.id, request.role, request.write_mode, request.owned_paths, request.tokens)
    payload = settle(assignment, outcome, inspected.facts)
    stamp = stamp_to_json(inspected.observation.stamp)
    payload["stamp"] = {key: value for key, value in stamp.items() if value is not None}
    if cited:
        payload["evidence"] = cited
    if delegation.worker_session_id is not None:
        payload["worker_session_id"] = delegation.worker_session_id
    if delegation.worker_agent_id is not None:
        payload["agent_id"] = delegation.worker_agent_id
    return payload


def _require_open(recording: RecordingTransaction, delegation: Delegation) -> None:
    current = rows.require_delegation(recording.tx.connection, delegation.id)
    if current.status.is_final:
        raise DuplicateTask(
            f"The result of {delegation.name or delegation.id} is recorded already ({current.status}). "
            "Nothing was written.",
            details={"delegation_id": delegation.id, "result_entry_id": current.result_entry_id},
        )


def _close(
    recording: RecordingTransaction,
    delegation: Delegation,
    payload: dict[str, Any],
    inspected: Inspected,
    result_entry_id: str,
) -> Delegation:
    """Close the rows of a delegation, its attempts and its agent in step with the recorded result."""
    connection, moment = recording.tx.connection, recording.moment
    lapse_approvals(connection, delegation.id, moment=moment)
    rows.end_attempts(connection, delegation.id, moment=moment, failure_class=payload.get("failure_class"))
    if delegation.worker_agent_id is not None:
        agents.update_agent(connection, delegation.worker_agent_id, updated_at=moment, status=ENDED)
    result_commit = payload["result_commit"]
    adoption_status = _adoption_status(delegation, inspected, result_commit)
    if adoption_status is AdoptionStatus.PENDING:
        _supersede(recording, delegation)
    return change_delegation(
        recording,
        delegation,
        "ended",
        facts={"result_entry_id": result_entry_id, "result_commit": result_commit},
        status=DelegationStatus(payload["status"]),
        result_entry_id=result_entry_id,
        result_commit=result_commit,
        worker_commit=None if inspected.preserved is None else inspected.preserved.head,
        result_ref=None if result_commit is None else RESULT_REF.format(delegation_id=delegation.id),
        adoption_status=adoption_status,
        finished_at=moment,
    )


def _supersede(recording: RecordingTransaction, delegation: Delegation) -> None:
    """Have what the try before left wait no longer: this one's result holds it."""
    if delegation.retry_of is None:
        return
    before = rows.require_delegation(recording.tx.connection, delegation.retry_of)
    if before.adoption_status is AdoptionStatus.PENDING:
        facts = {"by": delegation.id}
        change_delegation(recording, before, "superseded", facts=facts, adoption_status=AdoptionStatus.SUPERSEDED)


def _adoption_status(delegation: Delegation, inspected: Inspected, result_commit: str | None) -> AdoptionStatus | None:
    """Return what there is to adopt; None if nobody can tell, because the worktree could not be inspected."""
    if inspected.facts.problem is not None:
        return None
    is_in_place = delegation.request.write_mode == WriteMode.SHARED
    return AdoptionStatus.EMPTY if result_commit is None or is_in_place else AdoptionStatus.PENDING
