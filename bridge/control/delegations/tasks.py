"""Looking at delegations and asking for their end. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.changing import change_delegation, close_unstarted
from bridge.control.delegations.lost import is_lost
from bridge.control.delegations.model import Attempt, Delegation, DelegationStatus, plan_cursor
from bridge.control.delegations.recovery import recover
from bridge.control.delegations.working import attempt_folder
from bridge.control.errors import TaskAlreadyEnded, TaskAmbiguous, TaskNotFound
from bridge.control.recording import RecordingTransaction
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.paths import active_path_ids
from bridge.conversations.store import cursor_leaf, get_entry
from bridge.foundation.ids import split_entry_id
from bridge.foundation.texts import is_storable
from bridge.git.worktrees import require_registered
from bridge.storage.transaction import Connection
from bridge.workspaces.models import Workspace, WorkspaceStatus
from bridge.workspaces.store import find_workspace

#: How many tasks a list shows unless asked for more or fewer.
DEFAULT_LIST_LIMIT = 50
#: Shortest beginning of an id that is taken for one.
MIN_PREFIX_CHARACTERS = 3


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """A delegation with its attempts, its worktree, and the payload of its result."""

    delegation: Delegation
    attempts: tuple[Attempt, ...]
    workspace: Workspace | None
    result: dict[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Return everything that ``task show`` prints."""
        workspace = self.workspace
        return {
            **self.delegation.to_json(),
            "request": self.delegation.request.to_json(),
            "decision": None if self.delegation.decision is None else dict(self.delegation.decision),
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "worktree": None if workspace is None else workspace.path,
            "worktree_status": None if workspace is None else str(workspace.status),
            "result": self.result,
        }


def find_task(connection: Connection, reference: str, *, session_id: str | None = None) -> Delegation:
    """Return the delegation that a reference names; with a session only one that this session asked for.

    A reference is an id or its unique beginning, ``PLAN/NAME``, or a name; a name means the newest task of that
    name, so that running a plan again does not make yesterday's names ambiguous.

    Raises
    ------
    TaskNotFound, TaskAmbiguous
        If it names none, or its beginning fits several ids.
    """
    if not is_storable(reference):
        return _only(reference, [])
    plan_id, slash, name = reference.partition("/")
    if slash:
        of_session = None if session_id is None else [session_id]
        of_plan = rows.list_delegations(connection, plan_id=plan_id, session_ids=of_session)
        return _only(reference, [task for task in of_plan if task.name == name])
    candidates = [
        task
        for task in rows.delegations_like(connection, reference)
        if session_id is None or task.parent_session_id == session_id
    ]
    exact = [task for task in candidates if task.id == reference]
    named = [task for task in candidates if task.name == reference]
    if exact or named:
        return (exact or named)[0]
    return _only(reference, candidates if len(reference) >= MIN_PREFIX_CHARACTERS else [])


def session_of(controller: Controller, standpoint: Standpoint, reference: str) -> str:
    """Return the full id of a session. Raises as ``standpoint.find_session``."""
    with controller.store.read() as connection:
        return find_session(connection, standpoint, reference)


def list_tasks(
    controller: Controller,
    *,
    plan_id: str | None = None,
    session_id: str | None = None,
    open_only: bool = False,
    before: str | None = None,
    limit: int = DEFAULT_LIST_LIMIT,
) -> list[Delegation]:
    """Return tasks, oldest first, the newest ``limit`` of them; with ``before`` of those asked for before that one.

    With a session these are the tasks whose request lies on its active branch: what a conversation has left
    behind is not open there any more, and comes back when it goes back. A task whose turn has not come stands where
    its plan does.
    """
    with controller.store.read() as connection:
        end = None if before is None else find_task(connection, before)
        if session_id is None:
            return rows.list_delegations(connection, plan_id=plan_id, open_only=open_only, before=end, limit=limit)
        path = active_path_ids(connection, session_id)
        sessions = {entry_id.rpartition("-")[0] for entry_id in path} | {session_id}
        tasks = rows.list_delegations(
            connection, plan_id=plan_id, session_ids=sessions, open_only=open_only, before=end
        )
        return [task for task in tasks if _place_of(connection, task) in path][-limit:]


def _place_of(connection: Connection, task: Delegation) -> str | None:
    """Return the entry that says where in its session a task stands."""
    if task.request_entry_id is not None or task.plan_id is None:
        return task.request_entry_id
    return cursor_leaf(connection, task.parent_session_id, plan_cursor(task.plan_id))


def task_details(controller: Controller, delegation: Delegation) -> TaskDetails:
    """Return a delegation with all that belongs to it."""
    with controller.store.read() as connection:
        attempts = tuple(rows.list_attempts(connection, delegation.id))
        workspace = None if delegation.workspace_id is None else find_workspace(connection, delegation.workspace_id)
        result = _result_payload(connection, delegation)
    return TaskDetails(delegation, attempts, workspace, result)


def worktree_path(controller: Controller, delegation: Delegation) -> Path:
    """Return the folder in which a task works or worked.

    Raises
    ------
    TaskNotFound
        If it has none (any more).
    WorktreeNotRegistered
        If what stands at the path is no worktree of its own; running anything there would reach the repository
        around it.
    """
    with controller.store.read() as connection:
        workspace = None if delegation.workspace_id is None else find_workspace(connection, delegation.workspace_id)
    if workspace is None or workspace.status is WorkspaceStatus.REMOVED:
        raise TaskNotFound(
            f"{delegation.name or delegation.id} has no worktree (any more).",
            hint=f"Its result is kept: bridge task show {delegation.name or delegation.id}",
            details={"delegation_id": delegation.id, "result_ref": delegation.result_ref},
        )
    require_registered(workspace.folder)
    return workspace.folder


def log_paths(controller: Controller, delegation: Delegation) -> list[Path]:
    """Return the files with what the task's attempts printed, in order; those that are there."""
    with controller.store.read() as connection:
        attempts = rows.list_attempts(connection, delegation.id)
    folders = [attempt_folder(controller, delegation.id, attempt.number) for attempt in attempts]
    files = [folder / name for folder in folders for name in ("stdout.log", "stderr.log", "result.json")]
    return [file for file in files if file.is_file()]


def request_cancel(controller: Controller, delegation: Delegation) -> Delegation:
    """Ask the controller that runs a task to end it; that happens within a moment, and is not waited for.

    A task whose turn has not come is ended here and now, and one whose controller is gone is closed as after a crash.

    Raises
    ------
    TaskAlreadyEnded
        If it has ended.
    """

    with controller.store.read() as connection:
        owner = delegation.controller_id
        is_ownerless = (
            not delegation.status.is_final and owner is not None and is_lost(connection, owner, now=controller.now())
        )
    if is_ownerless:
        recover(controller)
        with controller.store.read() as connection:
            return rows.require_delegation(connection, delegation.id)

    def ask(recording: RecordingTransaction) -> Delegation:
        current = rows.require_delegation(recording.tx.connection, delegation.id)
        if current.status.is_final:
            raise TaskAlreadyEnded(
                f"{current.name or current.id} has ended ({current.status}). Nothing was changed.",
                details={"delegation_id": current.id, "status": str(current.status)},
            )
        if current.cancel_requested_at is None:
            current = change_delegation(recording, current, "cancel_requested", cancel_requested_at=recording.moment)
        if current.status is DelegationStatus.QUEUED:
            return close_unstarted(recording, current, reason="cancelled", status=DelegationStatus.CANCELLED)
        return current

    return controller.recorder.transact(ask)


def _result_payload(connection: Connection, delegation: Delegation) -> dict[str, Any] | None:
    if delegation.result_entry_id is None:
        return None
    session_id, _ = split_entry_id(delegation.result_entry_id)
    entry = get_entry(connection, session_id, delegation.result_entry_id)
    return None if entry is None else dict(entry.payload)


def _only(reference: str, found: list[Delegation]) -> Delegation:
    if not found:
        raise TaskNotFound(f"There is no task {reference[:80]!r}.", details={"reference": reference[:200]})
    if len(found) > 1:
        raise TaskAmbiguous(
            f"{reference[:80]!r} fits {len(found)} tasks.",
            details={"reference": reference[:200], "matches": [task.id for task in found[:20]]},
        )
    return found[0]
