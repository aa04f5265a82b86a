"""Giving up a worker's worktree: only with proof that nothing is lost, else kept with the reason.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.model import AdoptionStatus, Delegation
from bridge.control.delegations.preparing import give_back, lent_folder
from bridge.control.recording import RecordingTransaction
from bridge.workspaces import checkouts
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus
from bridge.workspaces.store import find_workspace


def release_worktree(
    controller: Controller, delegation: Delegation, *, kept_in: tuple[str, ...] = (), preserved: str | None = None
) -> Delegation:
    """Remove a delegation's worktree if nothing in it would be lost; else keep it and record why.

    Commits that wait for adoption keep it, whatever else holds: people look into it before they decide.

    Parameters
    ----------
    kept_in
        Further refs or commits whose history keeps the work: the branch it was adopted into.
    preserved
        A commit that holds what the worktree holds now, if there is a newer one than the result.
    """
    workspace = _worktree_of(controller, delegation)
    if workspace is None:
        return delegation
    # Once more, if it could not be done when the worker ended.
    give_back(controller, delegation, workspace)
    reason = _reason_to_keep(controller, delegation, workspace, kept_in, preserved or delegation.result_commit)

    def record(recording: RecordingTransaction) -> Delegation:
        moment = recording.moment
        if reason is None:
            checkouts.free(recording.tx, workspace, moment)
        else:
            checkouts.keep(recording.tx, workspace, reason, moment)
        event = "worktree_removed" if reason is None else "worktree_kept"
        body = {"delegation_id": delegation.id, "reason": reason}
        recording.event(f"workspace:{workspace.id}", event.replace("_", ".", 1), body)
        return change_delegation(recording, delegation, event, facts={"workspace_id": workspace.id}, kept_reason=reason)

    return controller.recorder.transact(record)


def release_superseded(controller: Controller, delegation: Delegation) -> None:
    """Give up the worktree of a try that this one went on from elsewhere: its work is in this one's result."""
    if delegation.retry_of is None:
        return
    with controller.store.read() as connection:
        before = rows.require_delegation(connection, delegation.retry_of)
    is_elsewhere = before.workspace_id != delegation.workspace_id
    if is_elsewhere and before.adoption_status is AdoptionStatus.SUPERSEDED:
        release_worktree(controller, before)


def _worktree_of(controller: Controller, delegation: Delegation) -> Workspace | None:
    if delegation.workspace_id is None:
        return None
    with controller.store.read() as connection:
        workspace = find_workspace(connection, delegation.workspace_id)
    # A shared writer's workspace is its parent's checkout, which is nobody's to remove.
    if workspace is None or workspace.kind is not WorkspaceKind.WORKER:
        return None
    return None if workspace.status is WorkspaceStatus.REMOVED else workspace


def _reason_to_keep(
    controller: Controller,
    delegation: Delegation,
    workspace: Workspace,
    kept_in: tuple[str, ...],
    preserved: str | None,
) -> str | None:
    """Remove the worktree if that is proven to lose nothing, and return None; else the reason why it stays."""
    if delegation.adoption_status is AdoptionStatus.PENDING:
        return f"its changes wait: adopt, discard, or open it with bridge task path {delegation.name or delegation.id}"
    with controller.store.read() as connection:
        others = rows.open_in_workspace(connection, workspace.id, without=delegation.id)
    if others:
        return f"{others[0].name or others[0].id} works in it"
    lent = lent_folder(controller, delegation.id)
    if lent.exists():
        return f"objects of its worker could not be brought into the repository; they are in {lent}"
    # What the result ref holds is kept until somebody removes the ref itself.
    refs = [*kept_in, *(commit for commit in (delegation.result_ref, preserved) if commit is not None)]
    return checkouts.release(
        workspace,
        kept_in=tuple(refs),
        preserved=preserved,
        timeout_seconds=controller.settings.git_timeout_seconds,
    ).kept_because
