"""Changing delegations and plans: the row and the audit event of the change, always together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bridge.control.delegations import store as rows
from bridge.control.delegations.lifecycle import require_transition
from bridge.control.delegations.model import Delegation, DelegationStatus, PlanRun
from bridge.control.recording import RecordingTransaction
from bridge.conversations.store import cursor_leaf


def change_delegation(
    recording: RecordingTransaction,
    delegation: Delegation,
    event: str,
    *,
    facts: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Delegation:
    """Change columns of a delegation and record the change in the chain of its parent's session.

    Parameters
    ----------
    event
        What happened, as the last part of the event's type: ``delegation.<event>``.
    facts
        What the event holds beside the delegation's id and, if it changes, its status. Ids and hashes, no texts.

    Returns
    -------
    Delegation
        As it is afterwards, with the request as the caller has it: the row's is masked.

    Raises
    ------
    TransitionRefused
        If its state does not lead to the one asked for.
    """
    connection = recording.tx.connection
    if "status" in changes:
        current = rows.require_delegation(connection, delegation.id).status
        require_transition(delegation.id, current, DelegationStatus(changes["status"]))
        if current is not changes["status"]:
            changes = {"waiting_reason": None, "waiting_until": None, **changes}
    rows.update_delegation(connection, delegation.id, updated_at=recording.moment, **changes)
    body: dict[str, Any] = {"delegation_id": delegation.id, **(facts or {})}
    if "status" in changes:
        body["status"] = str(changes["status"])
    recording.event(delegation.parent_session_id, f"delegation.{event}", body)
    return replace(rows.require_delegation(connection, delegation.id), request=delegation.request)


def close_unstarted(
    recording: RecordingTransaction, delegation: Delegation, *, reason: str, status: DelegationStatus
) -> Delegation:
    """End a delegation that was never asked for in its conversation, so that it needs no result there."""
    return change_delegation(
        recording, delegation, "closed", facts={"reason": reason}, status=status, finished_at=recording.moment
    )


def finish_plan(recording: RecordingTransaction, run: PlanRun, status: str) -> PlanRun:
    """Record how a plan ended and give up its place in the session; return it as it is afterwards."""
    connection = recording.tx.connection
    rows.finish_plan(connection, run.id, status, recording.moment)
    if cursor_leaf(connection, run.session_id, run.cursor_owner) is not None:
        recording.close_cursor(run.session_id, run.cursor_owner)
    recording.event(run.session_id, "plan.finished", {"plan_id": run.id, "status": status})
    return rows.plan_by_id(connection, run.id) or run
