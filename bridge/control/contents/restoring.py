"""The files behind an entry's stamp, in a new place. The session's checkout is only read."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.control.contents.keeping import content_store
from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint, find_entry
from bridge.conversations.forest import require_session
from bridge.conversations.models import Entry, Record
from bridge.conversations.references import require_entry
from bridge.foundation.ids import split_entry_id
from bridge.git.errors import GitError
from bridge.git.repository import RepositoryLocation, discover
from bridge.semantics.stamps import RepositoryState
from bridge.storage.transaction import Connection
from bridge.workspaces.errors import FilesUnknown
from bridge.workspaces.materialising import Behind, Materialised, materialise, require_destination
from bridge.workspaces.models import Workspace, folder_of
from bridge.workspaces.relinking import current_state
from bridge.workspaces.store import (
    find_kept_contents,
    find_kept_state,
    find_workspace,
    list_links,
    load_manifest,
    load_state,
)


@dataclass(frozen=True, slots=True)
class Restored:
    """The files of an entry in a new place."""

    entry: Entry
    behind: Behind
    made: Materialised

    def to_json(self) -> dict[str, Any]:
        state, kept = self.behind.state, self.behind.kept
        return {
            "entry_id": self.entry.id,
            **self.made.to_json(),
            "head": state.head,
            "ref": state.ref,
            "operation": state.operation,
            "dirty_hash": state.dirty_hash,
            "kept": None if kept is None else kept.to_json(),
        }


def restore_files(controller: Controller, standpoint: Standpoint, entry: str, into: Path) -> Restored:
    """Put the files behind an entry's stamp into a new worktree; what is not known is listed in the result.

    Raises
    ------
    EntryNotFound, SessionNotFound, AmbiguousReference, InvalidReference
        As ``find_entry``.
    FilesUnknown
        If the stamp is unknown or names no paths, or its repository is not there.
    DestinationUnusable, FilesNotWritten, GitFailed
        As ``materialise``; nothing is left then.
    """
    # The cheapest reason to refuse comes first.
    target = require_destination(into)
    with controller.store.read() as connection:
        found = require_entry(connection, find_entry(connection, standpoint, entry))
        behind = behind_entry(controller, connection, found)
    controller.settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".files-", dir=controller.settings.home) as aside:
        made = materialise(
            behind,
            target,
            aside=Path(aside),
            clock=controller.clock,
            timeout_seconds=controller.settings.git_timeout_seconds,
        )
    return Restored(found, behind, made)


def behind_entry(controller: Controller, connection: Connection, entry: Record) -> Behind:
    """Return what an entry's stamp knows about the files, and where their contents may be.

    Raises
    ------
    FilesUnknown
        If the stamp is unknown or names no paths, or its repository is not there.
    StateDamaged
        If the stored state does not match its digest.
    """
    state = _state_of(connection, entry)
    manifest = load_manifest(connection, state.dirty_hash)
    if manifest is None:
        raise FilesUnknown(
            f"The stamp of {entry.id} knows the commit {state.head} and no paths. Nothing was written.",
            hint=f"The commit's own files: git worktree add --detach PATH {state.head}",
            details={"entry_id": entry.id, "reason": "no_paths", "head": state.head},
        )
    session = require_session(connection, split_entry_id(entry.id)[0])
    workspace = None if session.workspace_id is None else find_workspace(connection, session.workspace_id)
    location = _repository_of(connection, entry, workspace, state)
    digests = {row.content_digest.decode("ascii") for row in manifest.rows if row.content_digest}
    objects = find_kept_contents(connection, state.repository_id, digests)
    return Behind(
        state=state,
        manifest=manifest,
        location=location,
        # Contents lie under the name that the repository had when they were kept.
        store=content_store(controller.settings, state.repository_id),
        kept=find_kept_state(connection, state.repository_id, state.dirty_hash),
        objects={digest: found.object_id for digest, found in objects.items()},
    )


def _state_of(connection: Connection, entry: Record) -> RepositoryState:
    if entry.state_digest is None:
        reason = str(entry.stamp.unknown_reason)
        raise FilesUnknown(
            f"The stamp of {entry.id} is unknown ({reason}), so nothing is known about the files. Nothing was written.",
            details={"entry_id": entry.id, "reason": reason, "path": entry.stamp.unknown_path},
        )
    state = load_state(connection, entry.state_digest)
    if isinstance(state, RepositoryState):
        return state
    raise FilesUnknown(
        f"The state that {entry.id} is stamped with cannot be read ({state}). Nothing was written.",
        details={"entry_id": entry.id, "reason": str(state)},
    )


def _repository_of(
    connection: Connection, entry: Record, workspace: Workspace | None, state: RepositoryState
) -> RepositoryLocation:
    """Return the repository of a stamp: at the session's checkout if that is there, else by its git directory."""
    if workspace is not None:
        wanted = current_state(state, list_links(connection, workspace.id)).repository_id
        places = [workspace.folder] + ([] if workspace.common_dir is None else [folder_of(workspace.common_dir)])
        for place in places:
            try:
                location = discover(place)
            except GitError:
                continue
            if location.repository_id == wanted:
                return location
    where = "it belongs to no workspace" if workspace is None else f"it is not at {workspace.path}"
    raise FilesUnknown(
        f"The repository that {entry.id} was stamped in is not there: {where}. Nothing was written.",
        hint="If it was moved or cloned anew, say so there: bridge init --relink",
        details={"entry_id": entry.id, "reason": "repository_missing"},
    )
