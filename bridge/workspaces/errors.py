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


class IncludeRefused(WorkspaceError):
    """Raised when a file matched by ``.worktreeinclude`` cannot be copied into a new worktree."""

    code = "include_refused"
    exit_status = 70
    summary = "A file matched by .worktreeinclude cannot be copied into the new worktree."
    default_hint = "Mend the file's permissions, or narrow .worktreeinclude."


class DestinationUnusable(WorkspaceError):
    """Raised when files cannot be put where they are asked for, because something is there or around it."""

    code = "destination_unusable"
    exit_status = 71
    summary = "The path for restored files exists and is not empty, or lies inside a repository; nothing was written."
    default_hint = "Name a path that does not exist yet, outside any repository."


class FilesUnknown(WorkspaceError):
    """Raised when nothing can be said about the files behind a stamp."""

    code = "files_unknown"
    exit_status = 72
    summary = "The files behind a stamp cannot be told at all: it is unknown, or its repository is not there."
    default_hint = "See what the stamp knows: bridge show ENTRY"


class FilesNotWritten(WorkspaceError):
    """Raised when restoring files failed half way; what was made was removed again."""

    code = "files_not_written"
    exit_status = 73
    summary = "Files could not be written to the new place; what had been made there was removed again."
    default_hint = "Mend what the message names (space, permissions), then repeat."


class RelinkRefused(WorkspaceError):
    """Raised when a repository cannot be shown to be the one that a workspace stood for; details say why."""

    code = "relink_refused"
    exit_status = 74
    summary = "A repository is not proven to be a workspace's own, or that one is still in its place; nothing changed."
    default_hint = "See which workspaces there are: bridge session list --all. Register it as a new one: bridge init"
