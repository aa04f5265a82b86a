"""Which workspace a foreign session belongs to: told from the folder that it recorded, never from where Bridge runs."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.control.controller import Controller
from bridge.foundation.errors import BridgeError
from bridge.foundation.hashing import digest_hex
from bridge.git.paths import plain_path
from bridge.git.repository import discover
from bridge.semantics.stamps import UNSTAMPED, RepositoryState, Stamp, UnknownReason
from bridge.workspaces.models import WorkspaceStatus
from bridge.workspaces.store import find_by_path, find_by_worktree, list_workspaces

#: Folders above a recorded one that may be a workspace.
MAX_FOLDERS_UP: Final = 64
#: Stands for a manifest that nobody saw: a state with it came without paths, which are unknown.
UNSEEN_DIRTY_HASH: Final = digest_hex(b"bridge: HEAD alone is known, paths are not")
#: Stands for settings that nobody saw.
UNSEEN_SETTINGS: Final = digest_hex(b"bridge: settings are not known")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session worked.

    Parameters
    ----------
    root
        The top of the checkout, as text; the recorded folder where that is not known.
    repository_id, worktree_id
        None where no repository is known there.
    """

    root: str
    workspace_id: str | None = None
    repository_id: str | None = None
    worktree_id: str | None = None

    def relative(self, path: str, cwd: str | None) -> str | None:
        """Return a path as entries name it: relative to the root, escaped; None if it lies elsewhere."""
        whole = path if path.startswith("/") else f"{cwd or self.root}/{path}"
        top = self.root.rstrip("/") + "/"
        if "/../" in whole or "/./" in whole or "//" in whole or whole.endswith(("/..", "/.", "/")):
            whole = posixpath.normpath(whole)
        if not whole.startswith(top) or len(whole) == len(top):
            return None
        inner = whole[len(top) :]
        if inner.isascii() and inner.isprintable() and '"' not in inner and "\\" not in inner:
            return inner
        return plain_path(inner.encode(errors="surrogateescape"))


class Places:
    """Finds the workspace of a recorded folder; asked once for each."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._known: dict[str, Place] = {}

    def of(self, cwd: str | None) -> Place | None:
        """Return the place of a folder; None if none was recorded."""
        if cwd is None:
            return None
        found = self._known.get(cwd)
        if found is None:
            found = self._known[cwd] = self._find(cwd)
        return found

    def _find(self, cwd: str) -> Place:
        folder = Path(cwd)
        if not folder.is_absolute() or "\x00" in cwd:
            return Place(cwd)
        try:
            location = discover(folder)
        except (BridgeError, OSError):
            # The folder is gone, or no repository: then a workspace is known by its path, or not at all.
            return self._by_path(folder)
        root = str(location.root)
        with self._controller.store.read() as connection:
            workspace = find_by_worktree(connection, location.worktree_id)
            if workspace is None:
                same = list_workspaces(connection, repository_id=location.repository_id)
                workspace = next((one for one in same if one.status is WorkspaceStatus.ACTIVE), None)
        workspace_id = None if workspace is None else workspace.id
        return Place(root, workspace_id, location.repository_id, location.worktree_id)

    def _by_path(self, folder: Path) -> Place:
        with self._controller.store.read() as connection:
            for candidate in (folder, *list(folder.parents)[:MAX_FOLDERS_UP]):
                workspace = find_by_path(connection, candidate)
                if workspace is not None and workspace.status is not WorkspaceStatus.REMOVED:
                    return Place(str(candidate), workspace.id, workspace.repository_id, workspace.worktree_id)
        return Place(str(folder))


def head_alone(place: Place | None, commit: str | None, branch: str | None) -> tuple[Stamp, RepositoryState | None]:
    """Return the stamp of a moment of which the source knew HEAD alone, or nothing; and the state that it names."""
    if commit is None or len(commit) not in (40, 64) or any(digit not in "0123456789abcdef" for digit in commit):
        return UNSTAMPED, None
    if place is None or place.repository_id is None or place.worktree_id is None:
        detail = f"HEAD was {commit}; its repository is not known here"
        return Stamp(unknown_reason=UnknownReason.UNSTAMPED, unknown_detail=detail), None
    state = RepositoryState(
        repository_id=place.repository_id,
        worktree_id=place.worktree_id,
        head=commit,
        ref=None if branch is None else f"refs/heads/{branch}",
        operation=None,
        dirty_hash=UNSEEN_DIRTY_HASH,
        settings_digest=UNSEEN_SETTINGS,
    )
    return Stamp(state_digest=state.state_digest), state
