"""What can go wrong in the workspace tree, one class per condition (exit statuses 66 to 75)."""

from __future__ import annotations

from bridge.foundation.errors import BridgeError


class WorkspaceError(BridgeError):
    """Base of the conditions of this package; never raised itself."""


class WorkspaceNotFound(WorkspaceError):
    """Raised when there is no workspace of a given id, or none that a path lies in."""

    code = "workspace_not_found"
    exit_status = 66
    summary = "No registered workspace has that id, or contains that path."
    default_hint = "Register the repository: bridge init PATH."


class WorkspacePathTaken(WorkspaceError):
    """Raised when a path is to be reserved that belongs to another workspace."""

    code = "workspace_path_taken"
    exit_status = 67
    summary = "The path belongs to another workspace already; nothing was created there."
    default_hint = "Choose another name, or discard what stands there: bridge task discard."


class StateDamaged(WorkspaceError):
    """Raised when a stored state or manifest does not have the digest it is stored under."""

    code = "state_damaged"
    exit_status = 68
    summary = "A stored repository state or manifest does not match its digest."
    default_hint = "Check the store: bridge db check. A backup may hold the intact row."


class CheckoutNotReady(WorkspaceError):
    """Raised when a worker's worktree is asked for in a state in which it cannot be used."""

    code = "checkout_not_ready"
    exit_status = 69
    summary = "A worker's worktree is reserved, removed or kept, and the step asked for needs another status."
    default_hint = "See what became of the task: bridge task list."


class IncludeRefused(WorkspaceError):
    """Raised when a file matched by ``.worktreeinclude`` cannot be copied into a new worktree."""

    code = "include_refused"
    exit_status = 70
    summary = "A file matched by .worktreeinclude cannot be copied into the new worktree."
    default_hint = "Mend the file's permissions, or narrow .worktreeinclude."
