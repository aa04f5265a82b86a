"""Adoption: a task's commits become part of the branch that is checked out; and its opposite, discarding them.

The merge is made without a checkout, as objects; only its last step touches the branch and the files, and that step
either happens whole or not at all. Bridge's own preserving commits never reach a user's branch: what a worker left
uncommitted arrives in a commit made in the user's name.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.bases import CARRIED_REF
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.concluding import RESULT_REF
from bridge.control.delegations.model import AdoptionStatus, Delegation, DelegationStatus
from bridge.control.delegations.releasing import release_worktree
from bridge.control.errors import AdoptionConflict, AdoptionRefused, NothingToAdopt, TaskStillOpen
from bridge.control.recording import RecordingTransaction
from bridge.conversations.forest import require_session
from bridge.conversations.models import EntryDraft
from bridge.conversations.store import get_entry
from bridge.foundation.ids import split_entry_id
from bridge.git.commits import commit_tree, preserve, read_ref, tree_of
from bridge.git.history import is_ancestor
from bridge.git.merging import fast_forward_checkout, merge_tree
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation, discover
from bridge.semantics.stamps import RepositoryState
from bridge.workspaces.models import Workspace, WorkspaceStatus
from bridge.workspaces.store import find_workspace, get_workspace, save_state

#: Where a discarded worktree's last state is kept when it differs from the task's result.
DISCARDED_REF = "refs/bridge/tasks/{delegation_id}/discarded"


@dataclass(frozen=True, slots=True)
class Adoption:
    """What an adoption did.

    Parameters
    ----------
    branch
        Full name of the git branch that took the commits; None where HEAD is detached.
    commit
        Its new tip.
    was_contained
        Whether the branch held the work already, so that nothing had to move.
    """

    delegation: Delegation
    branch: str | None
    commit: str
    files_changed: tuple[str, ...]
    was_contained: bool

    def to_json(self) -> dict[str, Any]:
        """Return the adoption as the command line and RPC show it."""
        return {
            "task": self.delegation.to_json(),
            "branch": self.branch,
            "commit": self.commit,
            "files_changed": list(self.files_changed),
            "was_contained": self.was_contained,
        }


def adopt(controller: Controller, delegation: Delegation, *, is_forced: bool = False) -> Adoption:
    """Merge a task's commits into the branch that its parent's checkout is on.

    Parameters
    ----------
    is_forced
        Whether a result that did not complete may be adopted all the same.

    Raises
    ------
    TaskStillOpen, NothingToAdopt, AdoptionRefused
        If there is nothing that could or may be adopted.
    GitFailed, WorktreeNotRegistered
        If the task's worktree could not be inspected when it ended, and still cannot.
    AdoptionConflict
        If the commits do not merge.
    CheckoutBlocked
        If uncommitted edits, or files git does not track, stand where adopted files would go.
    GitIdentityMissing
        If a commit has to be made and git does not know in whose name.
    RefMoved
        If the branch moved meanwhile.

    Notes
    -----
    In every one of these cases branch, index and files are as they were.
    """
    delegation = _inspected_again(controller, delegation)
    result = _require_adoptable(delegation, is_forced=is_forced)
    checkout = _checkout(controller, delegation)
    location = discover(checkout)
    state = _require_branch(controller.observer.observe_exactly(checkout), checkout)
    if not is_forced:
        _require_descent(delegation, location, result)
    commit = _merged(delegation, location, state.head, result)
    if commit != state.head:
        fast_forward_checkout(checkout, commit, expected_head=state.head)
    observation = controller.observer.observe_exactly(checkout)
    controller.keeper.keep(observation)
    # Where the commits went, should somebody have switched to another branch of the same commit meanwhile.
    branch = state.ref if observation.state is None else observation.state.ref
    recorded = controller.recorder.transact(
        partial(_record_adoption, delegation=delegation, commit=commit, branch=branch, observation=observation)
    )
    released = release_worktree(controller, recorded, kept_in=(commit,))
    files = _files_changed(controller, delegation)
    return Adoption(released, branch, commit, files, was_contained=commit == state.head)


def discard(controller: Controller, delegation: Delegation) -> Delegation:
    """Give up a task's changes and its worktree.

    The result stays under its ref, and a worktree that holds more than the result is preserved before it goes, so
    that a mistake can be taken back.

    Raises
    ------
    TaskStillOpen
        If the task has not ended.
    NothingToAdopt
        If its changes were adopted already.
    """
    if not delegation.status.is_final:
        raise _still_open(delegation)
    if delegation.adoption_status is AdoptionStatus.ADOPTED:
        raise _adopted(delegation)
    last_state = _preserve_rest(controller, delegation)

    def record(recording: RecordingTransaction) -> Delegation:
        current = rows.require_delegation(recording.tx.connection, delegation.id)
        if current.adoption_status is AdoptionStatus.ADOPTED:
            raise _adopted(current)
        return change_delegation(
            recording,
            delegation,
            "discarded",
            facts={"result_commit": delegation.result_commit},
            adoption_status=AdoptionStatus.DISCARDED,
        )

    discarded = controller.recorder.transact(record)
    return release_worktree(controller, discarded, preserved=last_state)


def _inspected_again(controller: Controller, delegation: Delegation) -> Delegation:
    """Look again into a worktree that could not be inspected at the end, and preserve what it holds.

    Its recorded result stays as it is; only what there is to adopt is known from here on.
    """
    if not delegation.status.is_final or delegation.adoption_status is not None or delegation.result_entry_id is None:
        return delegation
    workspace = _standing_worktree(controller, delegation)
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


def _adopted(delegation: Delegation) -> NothingToAdopt:
    return NothingToAdopt(
        f"{_shown(delegation)} was adopted as {str(delegation.adoption_commit)[:12]}. Nothing was changed.",
        hint="Undo it with git: git revert.",
        details={"delegation_id": delegation.id, "adoption_status": str(delegation.adoption_status)},
    )


def _require_adoptable(delegation: Delegation, *, is_forced: bool) -> str:
    if not delegation.status.is_final:
        raise _still_open(delegation)
    if delegation.adoption_status is AdoptionStatus.ADOPTED:
        raise _adopted(delegation)
    if delegation.adoption_status is not AdoptionStatus.PENDING or delegation.result_commit is None:
        told = {
            AdoptionStatus.DISCARDED: "was discarded; its commits are still under its ref",
            AdoptionStatus.EMPTY: "changed nothing that could be adopted",
        }.get(delegation.adoption_status or AdoptionStatus.PENDING, "has no commits that could be told")
        raise NothingToAdopt(
            f"{_shown(delegation)} {told}. Nothing was changed.",
            hint=delegation.kept_reason,
            details={"delegation_id": delegation.id, "adoption_status": delegation.adoption_status},
        )
    if delegation.status is not DelegationStatus.COMPLETED and not is_forced:
        raise AdoptionRefused(
            f"{_shown(delegation)} ended as {delegation.status}, so its changes are not adopted unasked. "
            "Your branch and files are unchanged.",
            details={"delegation_id": delegation.id, "status": str(delegation.status)},
        )
    return delegation.result_commit


def _require_descent(delegation: Delegation, location: RepositoryLocation, result: str) -> None:
    """Refuse a result that goes back before its base: a merge would keep what the worker gave up."""
    base = delegation.base_commit
    if base is not None and not is_ancestor(location, base, result):
        raise AdoptionRefused(
            f"The commits of {_shown(delegation)} do not descend from its base {base[:12]}, so a merge may not bring "
            "what its files show. Your branch and files are unchanged.",
            details={"delegation_id": delegation.id, "base_commit": base, "result_commit": result},
        )


def _require_branch(observation: Observation, checkout: Path) -> RepositoryState:
    state = observation.state
    if state is None:
        raise AdoptionRefused(
            f"The state of {str(checkout)!r} is unknown ({observation.unknown}). Nothing was changed.",
            hint="Mend what makes it unknown: bridge status",
            details={"reason": str(observation.unknown)},
        )
    if state.ref is None or state.operation is not None:
        what = "HEAD is detached" if state.ref is None else f"a {state.operation} is in progress"
        raise AdoptionRefused(
            f"In {str(checkout)!r} {what}, so no branch can take the changes. Nothing was changed.",
            hint="Switch to the branch that should take them, or finish what is in progress.",
            details={"ref": state.ref, "operation": state.operation},
        )
    return state


def _merged(delegation: Delegation, location: RepositoryLocation, head: str, result: str) -> str:
    """Return the commit that the branch moves to: the worker's own, a merge, or HEAD if it holds the work already."""
    own = _own_commits(delegation, result)
    is_carried = _is_carried(delegation, location)
    if own == result and not is_carried and is_ancestor(location, head, result):
        return result
    theirs, ours = result, head
    if is_carried:
        ours, theirs = _without_carried(location, str(delegation.base_commit), head, result)
    outcome = merge_tree(location, ours, theirs)
    if not outcome.is_clean:
        paths = [plain_path(conflict.path) for conflict in outcome.conflicts]
        raise AdoptionConflict(
            f"Adopting {_shown(delegation)} conflicts in {len(paths)} files: {', '.join(paths[:10])}. "
            "Your branch and files are unchanged.",
            details={"paths": paths, "messages": [message.text for message in outcome.messages]},
        )
    if outcome.tree == tree_of(location, head):
        return head
    return commit_tree(location, outcome.tree, _parents(delegation, location, head, own), _message(delegation))


def _parents(delegation: Delegation, location: RepositoryLocation, head: str, own: str) -> list[str]:
    """Return the parents of the adopting commit: the branch and the worker's own commits, where it made some.

    Where the branch has not moved since, it goes on from the worker's last commit.
    """
    if own == delegation.base_commit or _is_carried(delegation, location):
        return [head]
    return [own] if is_ancestor(location, head, own) else [head, own]


def _own_commits(delegation: Delegation, result: str) -> str:
    """Return the worker's own last commit: the result itself unless that was preserved by Bridge."""
    return delegation.worker_commit or result


def _is_carried(delegation: Delegation, location: RepositoryLocation) -> bool:
    """Tell whether the worker started from a snapshot of uncommitted work, which is not the user's own commit."""
    return read_ref(location, CARRIED_REF.format(delegation_id=delegation.id)) == delegation.base_commit


def _without_carried(location: RepositoryLocation, base: str, head: str, result: str) -> tuple[str, str]:
    """Return stand-ins for HEAD and result whose common ancestor is the carried snapshot.

    So the merge brings what the worker did and not what it was given. They are loose objects that nothing points
    to; git removes them in time. (git merge-tree takes a base of its own only from 2.40 on.)
    """
    root = commit_tree(location, tree_of(location, base), [], "base")
    ours, theirs = (commit_tree(location, tree_of(location, side), [root], "side") for side in (head, result))
    return ours, theirs


def _message(delegation: Delegation) -> str:
    subject = delegation.request.objective.strip().splitlines()[0][:60]
    return (
        f"Adopt {_shown(delegation)}: {subject}\n\n"
        f"Bridge-Delegation: {delegation.id}\n"
        f"Bridge-Result: {delegation.result_entry_id}\n"
    )


def _record_adoption(
    recording: RecordingTransaction,
    *,
    delegation: Delegation,
    commit: str,
    branch: str | None,
    observation: Observation,
) -> Delegation:
    """Record an adoption once, however many callers brought the same commits in."""
    current = rows.require_delegation(recording.tx.connection, delegation.id)
    if current.adoption_status is AdoptionStatus.ADOPTED:
        return current
    save_state(recording.tx, observation, recording.moment)
    text = f"Adopted {_shown(delegation)} into {branch or 'HEAD'} as {commit[:12]}."
    recording.append(delegation.parent_session_id, EntryDraft(kind="note", payload={"text": text}), observation.stamp)
    return change_delegation(
        recording,
        delegation,
        "adopted",
        facts={"commit": commit, "branch": branch},
        adoption_status=AdoptionStatus.ADOPTED,
        adoption_commit=commit,
    )


def _files_changed(controller: Controller, delegation: Delegation) -> tuple[str, ...]:
    if delegation.result_entry_id is None:
        return ()
    session_id, _ = split_entry_id(delegation.result_entry_id)
    with controller.store.read() as connection:
        entry = get_entry(connection, session_id, delegation.result_entry_id)
    return () if entry is None else tuple(entry.payload.get("files_changed", ()))


def _checkout(controller: Controller, delegation: Delegation) -> Path:
    """Return the folder of the parent's checkout, which takes the commits."""
    with controller.store.read() as connection:
        worktree = None if delegation.workspace_id is None else find_workspace(connection, delegation.workspace_id)
        # What the worktree was cut from; a session may have been moved to another checkout since.
        workspace_id = None if worktree is None else worktree.parent_id
        if workspace_id is None:
            workspace_id = require_session(connection, delegation.parent_session_id).workspace_id
        workspace = None if workspace_id is None else find_workspace(connection, workspace_id)
    if workspace is None:
        raise AdoptionRefused(
            f"The session of {_shown(delegation)} has no checkout that could take its changes. Nothing was changed.",
            details={"session_id": delegation.parent_session_id},
        )
    return workspace.folder


def _standing_worktree(controller: Controller, delegation: Delegation) -> Workspace | None:
    """Return a task's own worktree if its folder is there; a shared writer has none."""
    if delegation.workspace_id is None or delegation.request.write_mode == WriteMode.SHARED:
        return None
    with controller.store.read() as connection:
        workspace = get_workspace(connection, delegation.workspace_id)
    is_standing = workspace.status is not WorkspaceStatus.REMOVED and workspace.folder.exists()
    return workspace if is_standing else None


def _preserve_rest(controller: Controller, delegation: Delegation) -> str | None:
    """Keep what the worktree holds now, if it is there; return the commit that does."""
    workspace = _standing_worktree(controller, delegation)
    if workspace is None:
        return None
    return preserve(
        workspace.folder,
        ref=DISCARDED_REF.format(delegation_id=delegation.id),
        message=f"Work of task {delegation.id}, discarded",
        timeout_seconds=controller.settings.git_timeout_seconds,
    ).commit


def _still_open(delegation: Delegation) -> TaskStillOpen:
    return TaskStillOpen(
        f"{_shown(delegation)} is {delegation.status}. Nothing was changed.",
        details={"delegation_id": delegation.id, "status": str(delegation.status)},
    )


def _shown(delegation: Delegation) -> str:
    return delegation.name or delegation.id
