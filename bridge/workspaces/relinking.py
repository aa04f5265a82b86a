"""A repository that was moved or cloned anew: proof that it is the same, and what its old stamps mean from then on.

Paths name repositories in stamps, so a move gives it another name. Stamps are not edited; a link says which new
ids stand for the old ones, and comparisons look through the links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bridge.git.errors import GitError
from bridge.git.history import existing_commits
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.roots import is_shallow, root_commits
from bridge.semantics.stamps import RepositoryState
from bridge.storage.transaction import Connection, Transaction
from bridge.workspaces import store
from bridge.workspaces.errors import RelinkRefused, WorkspaceNotFound
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceLink, WorkspaceStatus, shown_folder

#: Stamped states of a lost workspace whose HEAD is looked for in the repository that may be it.
MAX_HEADS_TRIED = 200


@dataclass(frozen=True, slots=True)
class Memory:
    """What is recorded about a workspace's repository: its root commits, else commits that HEAD was stamped at."""

    workspace: Workspace
    roots: frozenset[str]
    heads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """Why a repository is taken for a workspace's own.

    Parameters
    ----------
    shared_roots
        Root commits that both have.
    stamped_head
        The commit of an old stamp by which they were found, if the roots had not been recorded.
    """

    shared_roots: tuple[str, ...]
    stamped_head: str | None = None


def current_state(state: RepositoryState, links: Iterable[WorkspaceLink]) -> RepositoryState:
    """Return a state under the ids that its repository has now; the same state if it was never relinked."""
    for link in links:
        if state.repository_id == link.old_repository_id:
            is_this = state.worktree_id == link.old_worktree_id
            state = replace(
                state,
                repository_id=link.new_repository_id,
                worktree_id=link.new_worktree_id if is_this else state.worktree_id,
            )
    return state


def is_in_place(workspace: Workspace) -> bool:
    """Return whether the repository that a workspace stands for is still where it was registered."""
    try:
        found = discover(workspace.folder)
    except GitError:
        return False
    return found.repository_id == workspace.repository_id


def lost_workspaces(connection: Connection) -> list[Memory]:
    """Return the registered repositories that are not in their place any more, with what is known of them."""
    registered = store.list_workspaces(connection, kinds=[WorkspaceKind.REPOSITORY], statuses=[WorkspaceStatus.ACTIVE])
    return [memory_of(connection, workspace) for workspace in registered if not is_in_place(workspace)]


def memory_of(connection: Connection, workspace: Workspace) -> Memory:
    """Return what is recorded about a workspace's repository."""
    roots = frozenset(store.list_roots(connection, workspace.id))
    # Where the roots are known they decide: a stamped HEAD cannot be in a history that has none of them.
    heads = [] if roots else store.stamped_heads(connection, workspace.repository_id or "", MAX_HEADS_TRIED)
    return Memory(workspace, roots, tuple(heads))


def require_whole(location: RepositoryLocation) -> None:
    """Return if a repository's history goes back to its roots.

    Raises
    ------
    RelinkRefused
        If it is a shallow clone: what looks like its root commits are none.
    """
    if is_shallow(location):
        shown = shown_folder(location.run_directory)
        raise RelinkRefused(
            f"{shown} is a shallow clone: its history is cut off, so its first commits cannot be told. "
            "Nothing was changed.",
            hint="Fetch the rest, then repeat: git fetch --unshallow",
            details={"path": shown, "reason": "shallow"},
        )


def prove(location: RepositoryLocation, memory: Memory) -> Proof | None:
    """Return the proof that a repository has the history of a workspace's; None if there is none.

    A commit id covers all that came before it, so finding a stamped HEAD again proves its roots as well.

    Raises
    ------
    RelinkRefused
        If the repository is shallow: what looks like its root commits are none.
    GitFailed, GitTimedOut, GitMissing
        If git cannot walk the history.
    """
    require_whole(location)
    shared = memory.roots & frozenset(root_commits(location)) if memory.roots else frozenset()
    if shared:
        return Proof(tuple(sorted(shared)))
    known = existing_commits(location, memory.heads) if memory.heads else frozenset()
    for head in memory.heads:
        if head in known:
            return Proof(root_commits(location, head), stamped_head=head)
    return None


def candidates(location: RepositoryLocation, memories: Sequence[Memory]) -> list[tuple[Memory, Proof]]:
    """Return the lost workspaces that a repository is proven to be; none in a shallow clone."""
    if not memories or is_shallow(location):
        return []
    found = ((memory, prove(location, memory)) for memory in memories)
    return [(memory, proof) for memory, proof in found if proof is not None]


def relink(tx: Transaction, workspace: Workspace, location: RepositoryLocation, moment: str) -> list[WorkspaceLink]:
    """Let a workspace, and all that hangs below it, stand for a repository at another place; return the links made.

    The proof is the caller's business (:func:`prove`).

    Raises
    ------
    BareRepository
        If there is no work tree at the location.
    WorkspaceNotFound
        If the workspace is not there any more.
    """
    current = store.find_workspace(tx.connection, workspace.id)
    if current is None:
        raise WorkspaceNotFound(f"There is no workspace {workspace.id}.", details={"workspace_id": workspace.id})
    links = [_link(tx, current, location, moment)]
    for child in store.list_workspaces(tx.connection, parent_id=workspace.id):
        if child.repository_id != current.repository_id or child.status is WorkspaceStatus.REMOVED:
            continue
        links.append(_link_child(tx, child, location, moment))
    return links


def _link(tx: Transaction, workspace: Workspace, location: RepositoryLocation, moment: str) -> WorkspaceLink:
    link = WorkspaceLink(
        workspace_id=workspace.id,
        old_repository_id=workspace.repository_id or "",
        old_worktree_id=workspace.worktree_id or "",
        new_repository_id=location.repository_id,
        new_worktree_id=location.worktree_id,
        old_path=workspace.path,
        new_path=shown_folder(location.root),
    )
    store.update_workspace(
        tx,
        workspace.id,
        moment,
        path=link.new_path,
        common_dir=shown_folder(location.common_dir),
        repository_id=link.new_repository_id,
        worktree_id=link.new_worktree_id,
        status=WorkspaceStatus.ACTIVE,
    )
    store.add_link(tx, link, moment)
    return link


def _link_child(tx: Transaction, child: Workspace, location: RepositoryLocation, moment: str) -> WorkspaceLink:
    """Follow with a worktree of the repository: its own folder stays where it is, if git knows it there again."""
    worktree_id = child.worktree_id
    try:
        found = discover(child.folder)
    except GitError:
        found = None
    if found is not None and found.repository_id == location.repository_id:
        worktree_id = found.worktree_id
    link = WorkspaceLink(
        workspace_id=child.id,
        old_repository_id=child.repository_id or "",
        old_worktree_id=child.worktree_id or "",
        new_repository_id=location.repository_id,
        new_worktree_id=worktree_id or "",
        old_path=child.path,
        new_path=child.path,
    )
    store.update_workspace(
        tx,
        child.id,
        moment,
        common_dir=shown_folder(location.common_dir),
        repository_id=location.repository_id,
        worktree_id=worktree_id,
    )
    store.add_link(tx, link, moment)
    return link
