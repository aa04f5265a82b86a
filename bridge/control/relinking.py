"""Use cases around a repository that stands elsewhere now: finding the workspace that it was, and relinking it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.control.controller import Controller
from bridge.control.recording import RecordingTransaction
from bridge.conversations.store import list_sessions
from bridge.foundation.errors import BridgeError
from bridge.git.errors import GitError
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.roots import is_shallow, root_commits
from bridge.integrity.events import WORKSPACE_RELINKED
from bridge.storage.transaction import Transaction
from bridge.workspaces.errors import RelinkRefused
from bridge.workspaces.models import Workspace, WorkspaceLink, WorkspaceStatus, shown_folder
from bridge.workspaces.relinking import (
    Memory,
    Proof,
    candidates,
    is_in_place,
    lost_workspaces,
    memory_of,
    prove,
    relink,
    require_whole,
)
from bridge.workspaces.store import (
    add_roots,
    find_by_worktree,
    get_workspace,
    list_roots,
    list_workspaces,
    update_workspace,
)

#: Audit event of a workspace's own chain.


@dataclass(frozen=True, slots=True)
class Relinked:
    """What relinking did.

    Parameters
    ----------
    links
        The workspace's own link, then those of the worktrees below it; empty if it stood for the place already.
    absorbed
        The workspace that the place had been registered as meanwhile; its sessions belong to ``workspace`` now.
    moved_sessions
        How many those were.
    """

    workspace: Workspace
    proof: Proof | None
    links: tuple[WorkspaceLink, ...]
    absorbed: Workspace | None = None
    moved_sessions: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            **self.workspace.to_json(),
            "workspace_id": self.workspace.id,
            "relinked": bool(self.links),
            "old_path": self.links[0].old_path if self.links else None,
            "links": [
                {
                    "workspace_id": link.workspace_id,
                    "old_repository_id": link.old_repository_id,
                    "new_repository_id": link.new_repository_id,
                    "old_path": link.old_path,
                    "new_path": link.new_path,
                }
                for link in self.links
            ],
            "shared_roots": [] if self.proof is None else list(self.proof.shared_roots),
            "stamped_head": None if self.proof is None else self.proof.stamped_head,
            "absorbed_workspace_id": None if self.absorbed is None else self.absorbed.id,
            "moved_sessions": self.moved_sessions,
        }


def relink_workspace(controller: Controller, path: Path, workspace_id: str | None = None) -> Relinked:
    """Let the repository at a path stand for a workspace whose repository is not in its place any more.

    Parameters
    ----------
    workspace_id
        Which one; None means the one that the repository is proven to be, if there is exactly one.

    Raises
    ------
    NotARepository, BareRepository
        If there is no checkout at the path.
    WorkspaceNotFound
        If there is no such workspace.
    RelinkRefused
        If the proof fails, the workspace's repository is still in its place, or more than one workspace fits.
    """
    location = discover(path)
    with controller.store.read() as connection:
        here = find_by_worktree(connection, location.worktree_id)
        memories = lost_workspaces(connection) if workspace_id is None else []
        named = None if workspace_id is None else memory_of(connection, get_workspace(connection, workspace_id))
    if named is not None and here is not None and here.id == named.workspace.id:
        return Relinked(here, None, ())
    workspace, proof = _named(location, named) if named is not None else _the_only_one(location, memories)
    done = controller.recorder.transact(lambda recording: _relink(recording, workspace, proof, location))
    remember_roots(controller, done.workspace, location)
    return done


def relink_candidates(controller: Controller, directory: Path) -> list[Workspace]:
    """Return the lost workspaces that the unregistered repository at a folder is proven to be; a hint, never an error.

    Costs a look into the database where nothing is lost; only else is the history walked.
    """
    try:
        location = discover(directory)
        if location.is_bare:
            return []
        with controller.store.read() as connection:
            if find_by_worktree(connection, location.worktree_id) is not None:
                return []
            memories = lost_workspaces(connection)
        return [memory.workspace for memory, _ in candidates(location, memories)]
    except GitError as error:
        controller.tell(
            f"whether this is a workspace that was moved could not be told: {error.message}",
            code="relink_hint_failed",
            details={"why": error.message},
        )
        return []


def remember_roots(controller: Controller, workspace: Workspace, location: RepositoryLocation) -> None:
    """Record the root commits of a workspace's repository, so that it is known again when it is moved.

    Without them an old stamp may still prove it, so not getting them is no failure.
    """
    if is_shallow(location):
        return
    try:
        roots = root_commits(location, timeout_seconds=controller.settings.git_timeout_seconds)
    except GitError as error:
        controller.tell(
            f"the repository's first commits were not recorded, by which it is known again: {error.message}",
            code="roots_unknown",
            details={"why": error.message},
        )
        return
    with controller.store.read() as connection:
        known = list_roots(connection, workspace.id)
    if not set(roots) <= set(known):
        controller.store.write(lambda tx: add_roots(tx, workspace.id, roots))


def _named(location: RepositoryLocation, memory: Memory) -> tuple[Workspace, Proof]:
    workspace, shown = memory.workspace, shown_folder(location.root)
    if is_in_place(workspace):
        raise RelinkRefused(
            f"Workspace {workspace.id} still stands at {workspace.path}. Nothing was changed.",
            hint="Register this one as a workspace of its own: bridge init",
            details={"workspace_id": workspace.id, "path": workspace.path, "reason": "in_place"},
        )
    proof = prove(location, memory)
    if proof is None:
        raise RelinkRefused(
            f"{shown} shares no root commit with workspace {workspace.id} ({workspace.path}). Nothing was changed.",
            details={"path": shown, "workspace_id": workspace.id, "reason": "no_shared_root"},
        )
    return workspace, proof


def _the_only_one(location: RepositoryLocation, memories: Sequence[Memory]) -> tuple[Workspace, Proof]:
    require_whole(location)
    found = candidates(location, memories)
    if len(found) != 1:
        raise _not_one(shown_folder(location.root), [memory.workspace for memory, _ in found])
    return found[0][0].workspace, found[0][1]


def _not_one(shown: str, found: list[Workspace]) -> BridgeError:
    if not found:
        return RelinkRefused(
            f"{shown} shares no root commit with a registered workspace whose repository is gone. Nothing was changed.",
            details={"path": shown, "reason": "no_candidate"},
        )
    names = ", ".join(f"{workspace.id} ({workspace.path})" for workspace in found)
    return RelinkRefused(
        f"{shown} may be any of {len(found)} workspaces: {names}. Nothing was changed.",
        hint="Say which: bridge init --relink --workspace ID",
        details={"path": shown, "reason": "ambiguous", "workspace_ids": [workspace.id for workspace in found]},
    )


def _relink(
    recording: RecordingTransaction, workspace: Workspace, proof: Proof, location: RepositoryLocation
) -> Relinked:
    tx, moment = recording.tx, recording.moment
    here = find_by_worktree(tx.connection, location.worktree_id)
    moved = 0 if here is None else _absorb(recording, here, workspace)
    links = relink(tx, workspace, location, moment)
    for link in links:
        body = {
            "workspace_id": link.workspace_id,
            "old_repository_id": link.old_repository_id,
            "old_worktree_id": link.old_worktree_id,
            "new_repository_id": link.new_repository_id,
            "new_worktree_id": link.new_worktree_id,
            "old_path": link.old_path,
            "new_path": link.new_path,
            "shared_roots": list(proof.shared_roots),
            "stamped_head": proof.stamped_head,
        }
        recording.event(link.workspace_id, WORKSPACE_RELINKED, body)
    return Relinked(get_workspace(tx.connection, workspace.id), proof, tuple(links), here, moved)


def _absorb(recording: RecordingTransaction, here: Workspace, workspace: Workspace) -> int:
    """Give up the workspace that the place was registered as meanwhile; its sessions move. Return how many."""
    _require_childless(recording.tx, here)
    sessions = list_sessions(recording.tx.connection, workspace_ids=[here.id])
    for session in sessions:
        recording.update_session(session.id, workspace_id=workspace.id)
    update_workspace(recording.tx, here.id, recording.moment, status=WorkspaceStatus.REMOVED)
    return len(sessions)


def _require_childless(tx: Transaction, here: Workspace) -> None:
    children = list_workspaces(tx.connection, parent_id=here.id)
    present = [child for child in children if child.status is not WorkspaceStatus.REMOVED]
    if present:
        raise RelinkRefused(
            f"{here.path} is workspace {here.id} already, with {len(present)} worktrees of its own. "
            "Nothing was changed.",
            hint="Adopt or discard its tasks first: bridge task list",
            details={"workspace_id": here.id, "reason": "has_worktrees", "worktrees": len(present)},
        )
