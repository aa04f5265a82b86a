"""Where a request is made, and what references mean there.

A person stands in a folder, and perhaps inside a session that the environment names. From that follows what
``@`` and a bare ``31`` are. It is worked out only for references that need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.conversations.errors import EntryNotFound, SessionNotFound
from bridge.conversations.models import OPEN_STATUS
from bridge.conversations.references import CURRENT, resolve_entry_id, resolve_session
from bridge.conversations.store import list_sessions
from bridge.foundation.errors import InvalidId
from bridge.foundation.ids import split_entry_id
from bridge.git.errors import NotARepository
from bridge.git.repository import RepositoryLocation, discover
from bridge.storage.transaction import Connection
from bridge.workspaces.errors import WorkspaceNotFound
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import find_by_worktree, find_workspace

#: Kinds of sessions that ``@`` may mean when no session is named.
CURRENT_KINDS: Final = ("chat",)


@dataclass(frozen=True, slots=True)
class Standpoint:
    """Where a request is made.

    Parameters
    ----------
    directory
        The folder it is made in; None for one that comes from nowhere in particular.
    session
        Reference to the session it is made from (``$BRIDGE_SESSION``); None if none is named.
    """

    directory: Path | None = None
    session: str | None = None


def checkout_at(directory: Path | None) -> RepositoryLocation | None:
    """Return the checkout that a folder lies in; None outside one, and in a bare repository."""
    if directory is None:
        return None
    try:
        location = discover(directory)
    except NotARepository:
        return None
    return None if location.is_bare else location


def workspace_at(connection: Connection, directory: Path | None) -> Workspace | None:
    """Return the registered workspace that a folder lies in; None if there is none."""
    location = checkout_at(directory)
    return None if location is None else find_by_worktree(connection, location.worktree_id)


def places_at(connection: Connection, directory: Path | None) -> list[str | None]:
    """Return whose sessions are at home in a folder: its workspace's, or outside any repository those of none.

    A checkout that is not registered has no sessions yet, and lends no meaning to anybody else's.
    """
    location = checkout_at(directory)
    if location is None:
        return [None]
    workspace = find_by_worktree(connection, location.worktree_id)
    return [] if workspace is None else [workspace.id]


def find_workspace_named(connection: Connection, reference: str, directory: Path | None) -> Workspace:
    """Return the workspace of an id, or the one that a path (relative to ``directory``) lies in.

    Raises
    ------
    WorkspaceNotFound
        If it is neither.
    """
    found = find_workspace(connection, reference)
    # No path has a NUL character, and the system's calls refuse one in an error of their own.
    if found is None and "\0" not in reference:
        path = Path(reference) if directory is None else directory / reference
        found = workspace_at(connection, path)
    if found is None:
        raise WorkspaceNotFound(
            f"{reference[:200]!r} is neither the id of a workspace nor a path inside one.",
            details={"workspace": reference[:200]},
        )
    return found


def current_session(connection: Connection, standpoint: Standpoint) -> str | None:
    """Return what ``@`` means: the named session, else the open chat touched last in this workspace.

    Outside any repository only chats without a workspace are considered (see :func:`places_at`).

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If the named session cannot be found.
    """
    if standpoint.session is not None:
        return resolve_session(connection, standpoint.session, workspace_ids=())
    latest = list_sessions(
        connection,
        workspace_ids=places_at(connection, standpoint.directory),
        kinds=CURRENT_KINDS,
        statuses=[OPEN_STATUS],
        limit=1,
    )
    return latest[0].id if latest else None


def find_session(connection: Connection, standpoint: Standpoint, reference: str | None) -> str:
    """Return the full id of a session; None means the current one.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        As ``references.resolve_session``.
    """
    if reference is not None and reference != CURRENT:
        return resolve_session(connection, reference)
    found = current_session(connection, standpoint)
    if found is None:
        raise no_session_here()
    return found


def find_entry(connection: Connection, standpoint: Standpoint, reference: str, *, session_id: str | None = None) -> str:
    """Return the full id of an entry.

    Parameters
    ----------
    session_id
        The session in which bare numbers and labels are meant; None means the current one. A label that the
        current one does not have may stand for an entry of another, if only one has it.

    Raises
    ------
    EntryNotFound, SessionNotFound, AmbiguousReference, InvalidReference
        As ``references.resolve_entry_id``.
    """
    if session_id is not None or not _needs_context(reference):
        return resolve_entry_id(connection, reference, context_session_id=session_id, workspace_ids=())
    context = current_session(connection, standpoint)
    if context is None and reference.partition(".")[0] == CURRENT:
        raise no_session_here()
    try:
        return resolve_entry_id(connection, reference, context_session_id=context, workspace_ids=())
    except EntryNotFound:
        if context is None or reference.isdigit() or "." in reference:
            raise
    return resolve_entry_id(connection, reference, workspace_ids=())


def no_session_here() -> SessionNotFound:
    """Return the error for a place without a session that could be meant."""
    return SessionNotFound("There is no open session here.", hint="Start one: bridge session new")


def _needs_context(reference: str) -> bool:
    if "." in reference:
        return reference.startswith(CURRENT + ".")
    try:
        split_entry_id(reference)
    except InvalidId:
        return True
    return False
