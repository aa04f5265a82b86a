"""Giving up what a task did: nothing that is not proven worthless goes without being kept under a ref.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from typing import Final

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.adoption.adopting import is_adopted
from bridge.control.delegations.adoption.judging import adopted_already, standing_worktree, still_open
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.model import AdoptionStatus, Delegation
from bridge.control.delegations.releasing import release_worktree
from bridge.control.recording import RecordingTransaction
from bridge.git.commits import preserve

#: Where a discarded worktree's last state is kept when it differs from the task's result.
DISCARDED_REF: Final = "refs/bridge/tasks/{delegation_id}/discarded"


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
    WorktreeNotRegistered, GitFailed
        If the worktree cannot be inspected; it stays, and the task as it was.
    """
    if not delegation.status.is_final:
        raise still_open(delegation)
    if is_adopted(controller, delegation):
        raise adopted_already(delegation)
    last_state = _preserve_rest(controller, delegation)

    def record(recording: RecordingTransaction) -> Delegation:
        current = rows.require_delegation(recording.tx.connection, delegation.id)
        is_adopted_meanwhile = current.adoption_status is AdoptionStatus.ADOPTED
        if is_adopted_meanwhile and delegation.adoption_status is not AdoptionStatus.ADOPTED:
            raise adopted_already(current)
        return change_delegation(
            recording,
            delegation,
            "discarded",
            facts={"result_commit": delegation.result_commit},
            adoption_status=AdoptionStatus.DISCARDED,
        )

    discarded = controller.recorder.transact(record)
    return release_worktree(controller, discarded, preserved=last_state)


def _preserve_rest(controller: Controller, delegation: Delegation) -> str | None:
    """Keep what the worktree holds now, if it is there; return the commit that does."""
    workspace = standing_worktree(controller, delegation)
    if workspace is None:
        return None
    return preserve(
        workspace.folder,
        ref=DISCARDED_REF.format(delegation_id=delegation.id),
        message=f"Work of task {delegation.id}, discarded",
        timeout_seconds=controller.settings.git_timeout_seconds,
    ).commit
