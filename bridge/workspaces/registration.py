"""Registering a checkout as a workspace. Everything is written to Bridge's own store, nothing into the repository."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.foundation.texts import require_storable
from bridge.git.repository import RepositoryLocation
from bridge.storage.transaction import Transaction
from bridge.workspaces import store
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus, shown_folder


@dataclass(frozen=True, slots=True)
class Registration:
    """What registering a checkout did.

    Parameters
    ----------
    is_new
        Whether there is a new row; else the checkout was registered before.
    replaced
        The workspace that had the path while another repository stood there; it is removed now.
    """

    workspace: Workspace
    is_new: bool
    replaced: Workspace | None = None


def register(tx: Transaction, location: RepositoryLocation, *, moment: str, label: str | None = None) -> Registration:
    """Make a checkout a workspace, or return the one that it is.

    A linked worktree becomes a task of its repository if the main checkout is registered; any other checkout
    stands for itself. Registering again changes the label if one is given, and the path if git has moved the
    worktree.

    Raises
    ------
    BareRepository
        If there is no work tree at the location.
    InvalidText
        If the label cannot be kept.
    WorkspacePathTaken
        If a worker's worktree is recorded at that path under another git directory.
    """
    require_storable(label=label)
    folder = location.root
    known = store.find_by_worktree(tx.connection, location.worktree_id)
    at_path = store.find_by_path(tx.connection, folder)
    replaced = None
    if at_path is not None and at_path.kind is not WorkspaceKind.WORKER and (known is None or at_path.id != known.id):
        replaced = store.update_workspace(tx, at_path.id, moment, status=WorkspaceStatus.REMOVED)
    if known is not None:
        return Registration(_refreshed(tx, known, shown_folder(folder), label, moment), is_new=False, replaced=replaced)
    parent = _repository_of(tx, location)
    workspace = Workspace(
        id=store.new_workspace_id(),
        kind=WorkspaceKind.REPOSITORY if parent is None else WorkspaceKind.TASK,
        parent_id=None if parent is None else parent.id,
        path=shown_folder(folder),
        common_dir=shown_folder(location.common_dir),
        repository_id=location.repository_id,
        worktree_id=location.worktree_id,
        base_commit=None,
        label=label,
        status=WorkspaceStatus.ACTIVE,
        kept_reason=None,
        created_at=moment,
        updated_at=moment,
    )
    store.insert_workspace(tx, workspace)
    return Registration(workspace, is_new=True, replaced=replaced)


def _refreshed(tx: Transaction, known: Workspace, path: str, label: str | None, moment: str) -> Workspace:
    changes = {}
    if known.path != path:
        store.require_free_path(tx.connection, path)
        changes["path"] = path
    if label is not None and known.label != label:
        changes["label"] = label
    return store.update_workspace(tx, known.id, moment, **changes) if changes else known


def _repository_of(tx: Transaction, location: RepositoryLocation) -> Workspace | None:
    if not location.is_linked:
        return None
    found = store.list_workspaces(
        tx.connection,
        repository_id=location.repository_id,
        kinds=[WorkspaceKind.REPOSITORY],
        statuses=[WorkspaceStatus.ACTIVE],
    )
    return found[0] if found else None
