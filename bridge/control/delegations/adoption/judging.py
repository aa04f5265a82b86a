"""Whether a task may be adopted, and what it would bring: read from its rows and from git, never from its words.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations.adoption.model import Part, Wish, shown
from bridge.control.delegations.bases import CARRIED_REF
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.concluding import RESULT_REF
from bridge.control.delegations.model import AdoptionStatus, Delegation, DelegationStatus
from bridge.control.delegations.settlement import outside_owned
from bridge.control.errors import AdoptionRefused, NothingToAdopt, OutOfScopeWrites, TaskStillOpen
from bridge.conversations.store import get_entry
from bridge.foundation.ids import split_entry_id
from bridge.git.commits import preserve, read_ref
from bridge.git.history import changed_paths, is_ancestor
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation
from bridge.workspaces.models import Workspace, WorkspaceStatus
from bridge.workspaces.store import get_workspace

#: Failure classes of a result that is blocked for nothing but what it wrote where it should not.
_SCOPE_FAILURES = frozenset({"outside_owned_paths", "write_in_read_only"})
#: Paths out of scope that an error names.
_MAX_NAMED = 10


def judge(controller: Controller, location: RepositoryLocation, delegation: Delegation, wish: Wish) -> Part:
    """Return what a task brings, if it may be adopted.

    Raises
    ------
    TaskStillOpen, NothingToAdopt, AdoptionRefused
        If there is nothing that could or may be adopted.
    OutOfScopeWrites
        If it wrote where it should not and nobody has decided to take that.
    GitFailed
        If its commits are not there.
    """
    payload = result_payload(controller, delegation)
    result = _require_adoptable(delegation, payload, wish)
    base = delegation.base_commit
    if base is None:
        raise NothingToAdopt(f"{shown(delegation)} has no base to tell its changes from. Nothing was changed.")
    if not wish.is_forced and not is_ancestor(location, base, result):
        # A merge would keep what the worker gave up.
        raise AdoptionRefused(
            f"The commits of {shown(delegation)} do not descend from its base {base[:12]}, so a merge may not bring "
            "what its files show. Your branch and files are unchanged.",
            details={"delegation_id": delegation.id, "base_commit": base, "result_commit": result},
        )
    changes = changed_paths(location, base, result)
    files = sorted({change.path for change in changes} | {change.old_path for change in changes if change.old_path})
    strays = _out_of_scope(delegation, [plain_path(path) for path in files])
    if strays and not (wish.allows_out_of_scope or wish.is_forced):
        named = ", ".join(strays[:_MAX_NAMED]) + (
            f" and {len(strays) - _MAX_NAMED} more" if len(strays) > _MAX_NAMED else ""
        )
        raise OutOfScopeWrites(
            f"{shown(delegation)} changed {len(strays)} path(s) that it was not to write: {named}. "
            "Your branch and files are unchanged.",
            details={"delegation_id": delegation.id, "paths": strays, "owned_paths": delegation.request.owned_paths},
        )
    return Part(
        delegation=delegation,
        base=base,
        own=delegation.worker_commit or result,
        result=result,
        is_carried=read_ref(location, CARRIED_REF.format(delegation_id=delegation.id)) == base,
        files=tuple(files),
        out_of_scope=tuple(strays),
        payload=payload,
    )


def inspected_again(controller: Controller, delegation: Delegation) -> Delegation:
    """Look again into a worktree that could not be inspected at the end, and preserve what it holds.

    Its recorded result stays as it is; only what there is to adopt is known from here on.
    """
    if not delegation.status.is_final or delegation.adoption_status is not None or delegation.result_entry_id is None:
        return delegation
    workspace = standing_worktree(controller, delegation)
    if workspace is None:
        return delegation
    preserved = preserve(
        workspace.folder,
        ref=RESULT_REF.format(delegation_id=delegation.id),
        message=f"Work of task {delegation.id}, preserved by Bridge",
        timeout_seconds=controller.settings.git_timeout_seconds,
    )
    is_changed = preserved.commit != delegation.base_commit
    return controller.recorder.transact(
        lambda recording: change_delegation(
            recording,
            delegation,
            "inspected",
            facts={"result_commit": preserved.commit},
            result_commit=preserved.commit if is_changed else None,
            worker_commit=preserved.head,
            result_ref=preserved.ref if is_changed else None,
            adoption_status=AdoptionStatus.PENDING if is_changed else AdoptionStatus.EMPTY,
        )
    )


def standing_worktree(controller: Controller, delegation: Delegation) -> Workspace | None:
    """Return a task's own worktree if its folder is there; a shared writer has none."""
    if delegation.workspace_id is None or delegation.request.write_mode == WriteMode.SHARED:
        return None
    with controller.store.read() as connection:
        workspace = get_workspace(connection, delegation.workspace_id)
    is_standing = workspace.status is not WorkspaceStatus.REMOVED and workspace.folder.exists()
    return workspace if is_standing else None


def result_payload(controller: Controller, delegation: Delegation) -> Mapping[str, Any]:
    """Return the recorded result of a task; empty if it has none."""
    return entry_payload(controller, delegation.result_entry_id)


def entry_payload(controller: Controller, entry_id: str | None) -> Mapping[str, Any]:
    """Return the payload of an entry; empty if there is none."""
    if entry_id is None:
        return {}
    session_id, _ = split_entry_id(entry_id)
    with controller.store.read() as connection:
        entry = get_entry(connection, session_id, entry_id)
    return {} if entry is None else entry.payload


def still_open(delegation: Delegation) -> TaskStillOpen:
    """Return the error for a task that has not ended."""
    return TaskStillOpen(
        f"{shown(delegation)} is {delegation.status}. Nothing was changed.",
        details={"delegation_id": delegation.id, "status": str(delegation.status)},
    )


def adopted_already(delegation: Delegation) -> NothingToAdopt:
    """Return the error for a task whose commits are in the branch."""
    return NothingToAdopt(
        f"{shown(delegation)} was adopted as {str(delegation.adoption_commit)[:12]}. Nothing was changed.",
        hint="Undo it with git: git revert.",
        details={"delegation_id": delegation.id, "adoption_status": str(delegation.adoption_status)},
    )


def _require_adoptable(delegation: Delegation, payload: Mapping[str, Any], wish: Wish) -> str:
    if not delegation.status.is_final:
        raise still_open(delegation)
    # Adopted and taken back again: adopting() asks the branch before it comes here.
    is_open = delegation.adoption_status in {AdoptionStatus.PENDING, AdoptionStatus.ADOPTED}
    if not is_open or delegation.result_commit is None:
        told = {
            AdoptionStatus.DISCARDED: "was discarded; its commits are still under its ref",
            AdoptionStatus.EMPTY: "changed nothing that could be adopted",
        }.get(delegation.adoption_status or AdoptionStatus.PENDING, "has no commits that could be told")
        raise NothingToAdopt(
            f"{shown(delegation)} {told}. Nothing was changed.",
            hint=delegation.kept_reason,
            details={"delegation_id": delegation.id, "adoption_status": delegation.adoption_status},
        )
    is_only_scope = delegation.status is DelegationStatus.BLOCKED and payload.get("failure_class") in _SCOPE_FAILURES
    if delegation.status is not DelegationStatus.COMPLETED and not is_only_scope and not wish.is_forced:
        raise AdoptionRefused(
            f"{shown(delegation)} ended as {delegation.status}, so its changes are not adopted unasked. "
            "Your branch and files are unchanged.",
            details={"delegation_id": delegation.id, "status": str(delegation.status)},
        )
    return delegation.result_commit


def _out_of_scope(delegation: Delegation, files: list[str]) -> list[str]:
    request = delegation.request
    return list(files) if request.write_mode == WriteMode.READ_ONLY else outside_owned(files, request.owned_paths)
