"""Looking at a worker while it works: its changes since it started, and what happens in its session. Blocking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bridge.agents.policy_input import replay
from bridge.agents.policy_model import Decision
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.tasks import log_paths
from bridge.control.errors import NothingDecided, TaskNotRunning
from bridge.conversations.models import Entry
from bridge.conversations.store import iterate_entries
from bridge.foundation.canonical import canonical_text
from bridge.git.commits import snapshot_tree
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.treediff import PathCount, count_changes, tree_patch
from bridge.git.worktrees import require_registered
from bridge.workspaces.models import Workspace, WorkspaceKind, WorkspaceStatus, folder_of
from bridge.workspaces.store import find_workspace

#: Bytes of what a worker printed that are read at once.
CHUNK_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class TaskDiff:
    """What a worker changed.

    Parameters
    ----------
    base_commit
        Where it started.
    is_live
        Whether this is its worktree as it is now, uncommitted work included; else what its result holds.
    patch
        As git writes it; None unless asked for.
    """

    delegation: Delegation
    base_commit: str
    is_live: bool
    files: tuple[PathCount, ...]
    patch: bytes | None

    def to_json(self) -> dict[str, Any]:
        """Return the changes as they are shown; a patch that is no UTF-8 has its other bytes escaped."""
        return {
            "id": self.delegation.id,
            "base_commit": self.base_commit,
            "live": self.is_live,
            "files": [_file(one) for one in self.files],
            "patch": None if self.patch is None else self.patch.decode("utf-8", "backslashreplace"),
        }


def task_diff(controller: Controller, delegation: Delegation, *, with_patch: bool) -> TaskDiff:
    """Return what a worker changed since it started, commits and uncommitted work together.

    The worktree is read as it stands; nothing in it is touched, its index neither.

    Raises
    ------
    TaskNotRunning
        If it has not been started, so that there is nothing to compare.
    WorktreeNotRegistered
        If what stands at its path is no worktree of its own.
    GitFailed, GitTimedOut, GitMissing
        If git cannot read it.
    """
    timeout = controller.settings.git_timeout_seconds
    with controller.store.read() as connection:
        workspace = None if delegation.workspace_id is None else find_workspace(connection, delegation.workspace_id)
    base = delegation.base_commit
    if workspace is None or base is None:
        raise TaskNotRunning(
            f"{delegation.name or delegation.id} has no worktree: it has not been started ({delegation.status}).",
            details={"delegation_id": delegation.id, "status": str(delegation.status)},
        )
    is_live, location, new = _state(workspace, delegation, timeout)
    if new is None:
        return TaskDiff(delegation, base, is_live, (), b"" if with_patch else None)
    files = tuple(count_changes(location, base, new, timeout_seconds=timeout))
    patch = tree_patch(location, base, new, timeout_seconds=timeout) if with_patch else None
    return TaskDiff(delegation, base, is_live, files, patch)


def _state(
    workspace: Workspace, delegation: Delegation, timeout_seconds: float
) -> tuple[bool, RepositoryLocation, str | None]:
    """Return whether it is the worktree as it is now, where to ask git, and the commit or tree to compare."""
    is_there = workspace.status in (WorkspaceStatus.ACTIVE, WorkspaceStatus.KEPT)
    # A shared writer's checkout goes on being somebody's: once it has ended, only its result says what it did.
    if is_there and (workspace.kind is WorkspaceKind.WORKER or not delegation.status.is_final):
        location = require_registered(workspace.folder)
        return True, location, snapshot_tree(location, timeout_seconds=timeout_seconds).tree
    common = discover(folder_of(workspace.common_dir) if workspace.common_dir else workspace.folder)
    return False, common, delegation.result_commit


@dataclass
class LogReader:
    """Reads what is new of a task each time it is asked: entries of its worker's session, and what it printed."""

    controller: Controller
    delegation: Delegation

    def __post_init__(self) -> None:
        self._sequence = 0
        self._offsets: dict[Path, int] = {}

    def refresh(self) -> Delegation:
        """Return the task as it stands now."""
        with self.controller.store.read() as connection:
            found = rows.require_delegation(connection, self.delegation.id)
        self.delegation = replace(found, request=self.delegation.request)
        return self.delegation

    def entries(self) -> list[Entry]:
        """Return the entries that came since the last call, without the session's root."""
        session_id = self.delegation.worker_session_id
        if session_id is None:
            return []
        with self.controller.store.read() as connection:
            found = list(iterate_entries(connection, session_id, after_sequence=self._sequence))
        if found:
            self._sequence = found[-1].sequence
        return found

    def printed(self) -> Iterator[tuple[int, str, bytes]]:
        """Yield attempt, file name and bytes of what was printed or handed in since the last call."""
        for path in log_paths(self.controller, self.delegation):
            with path.open("rb") as file:
                file.seek(self._offsets.get(path, 0))
                while data := file.read(CHUNK_BYTES):
                    self._offsets[path] = file.tell()
                    yield int(path.parent.name), path.name, data


@dataclass(frozen=True, slots=True)
class Replay:
    """Policy's stored answer, and the one it gives now to the same stored input."""

    delegation: Delegation
    stored: dict[str, Any]
    decided: Decision

    @property
    def is_same(self) -> bool:
        """Whether they are the same, to the word."""
        return self.stored == self.decided.to_json()

    def to_json(self) -> dict[str, Any]:
        """Return both answers, and whether they are the same."""
        return {
            "id": self.delegation.id,
            "same": self.is_same,
            "stored": self.stored,
            "decided": self.decided.to_json(),
        }


def replay_decision(delegation: Delegation) -> Replay:
    """Decide again from the input that is stored with a task's decision.

    What was refused after policy had approved it (evidence gone stale, no base) has policy's own answer stored
    beside the refusal; that is compared then.

    Raises
    ------
    NothingDecided
        If policy has not been asked about it.
    InvalidPolicyInput
        If the input cannot be read.
    """
    decision = delegation.decision
    if decision is None or "input" not in decision:
        raise NothingDecided(
            f"Nothing was decided about {delegation.name or delegation.id} ({delegation.status}).",
            details={"delegation_id": delegation.id, "status": str(delegation.status)},
        )
    answer = decision.get("policy", decision)
    stored = {key: answer.get(key) for key in ("outcome", "reason", "explanation")}
    return Replay(delegation, stored, replay(canonical_text(decision["input"])))


def _file(one: PathCount) -> dict[str, Any]:
    change = one.change
    return {
        "status": change.status,
        "path": plain_path(change.path),
        "old_path": None if change.old_path is None else plain_path(change.old_path),
        "additions": one.additions,
        "deletions": one.deletions,
    }
