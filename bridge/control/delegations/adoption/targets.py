"""Which git branch takes the commits of tasks: the one they were asked for on, or the one that is named.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bridge.control.controller import Controller
from bridge.control.delegations.adoption.judging import entry_payload
from bridge.control.delegations.adoption.model import Target, shown
from bridge.control.delegations.model import Delegation
from bridge.control.errors import AdoptionRefused
from bridge.conversations.forest import require_session
from bridge.foundation.texts import is_storable
from bridge.git.errors import BranchCheckedOut
from bridge.git.history import branch_tip
from bridge.git.repository import discover
from bridge.git.worktrees import branch_holder
from bridge.semantics.stamps import RepositoryState
from bridge.workspaces.store import find_workspace

_BRANCHES = "refs/heads/"


def find_target(controller: Controller, delegations: Sequence[Delegation], into: str | None) -> Target:
    """Return the branch that takes the commits of some tasks, and the checkout that asked for them.

    A branch that the checkout is on takes them there, files included; one that is checked out nowhere takes them
    by itself.

    Raises
    ------
    AdoptionRefused
        If there is no such branch, the tasks belong to different ones, or an operation is in progress.
    BranchCheckedOut
        If another worktree has the branch checked out; details name it.
    """
    checkout = _one_checkout(controller, delegations)
    location = discover(checkout)
    state = controller.observer.observe_exactly(checkout)
    if state.state is None:
        raise AdoptionRefused(
            f"The state of {str(checkout)!r} is unknown ({state.unknown}). Nothing was changed.",
            hint="Mend what makes it unknown: bridge status",
            details={"reason": str(state.unknown)},
        )
    branch = _named(into) if into is not None else _one_branch(controller, delegations, checkout, state.state)
    if state.state.ref == branch:
        _require_quiet(state.state, checkout)
        return Target(location, checkout, branch, state.state.head, is_checked_out=True)
    holder = branch_holder(location, branch)
    if holder is not None:
        raise BranchCheckedOut(
            f"{branch} is checked out in {str(holder)!r}, not in {str(checkout)!r}. Nothing was changed.",
            hint="Switch that worktree to another branch, or name a branch: --into BRANCH",
            details={"branch": branch, "worktree": str(holder)},
        )
    tip = branch_tip(location, branch)
    if tip is None:
        raise AdoptionRefused(
            f"There is no branch {branch.removeprefix(_BRANCHES)!r} (any more). Nothing was changed.",
            hint="Name the branch that should take the changes: --into BRANCH",
            details={"branch": branch},
        )
    return Target(location, checkout, branch, tip, is_checked_out=False)


def _one_checkout(controller: Controller, delegations: Sequence[Delegation]) -> Path:
    found = {delegation.id: checkout_of(controller, delegation) for delegation in delegations}
    checkouts = set(found.values())
    if len(checkouts) > 1:
        raise AdoptionRefused(
            f"The tasks were asked for in {len(checkouts)} different checkouts. Nothing was changed.",
            hint="Adopt those of one checkout at a time.",
            details={"checkouts": {key: str(value) for key, value in found.items()}},
        )
    return checkouts.pop()


def checkout_of(controller: Controller, delegation: Delegation) -> Path:
    """Return the folder of the checkout that a task was asked for in.

    Raises
    ------
    AdoptionRefused
        If its session has none.
    """
    with controller.store.read() as connection:
        worktree = None if delegation.workspace_id is None else find_workspace(connection, delegation.workspace_id)
        # What the worktree was cut from; a session may have been moved to another checkout since.
        workspace_id = None if worktree is None else worktree.parent_id
        if workspace_id is None:
            workspace_id = require_session(connection, delegation.parent_session_id).workspace_id
        workspace = None if workspace_id is None else find_workspace(connection, workspace_id)
    if workspace is None:
        raise AdoptionRefused(
            f"The session of {shown(delegation)} has no checkout that could take its changes. Nothing was changed.",
            details={"session_id": delegation.parent_session_id},
        )
    return workspace.folder


def _one_branch(
    controller: Controller, delegations: Sequence[Delegation], checkout: Path, state: RepositoryState
) -> str:
    """Return the branch that the tasks were asked for on; asked for on none, the one that is checked out now."""
    asked = {
        entry_payload(controller, delegation.request_entry_id).get("request", {}).get("base", {}).get("ref")
        for delegation in delegations
    }
    branches = {branch if branch is not None else state.ref for branch in asked}
    if None in branches:
        raise AdoptionRefused(
            f"In {str(checkout)!r} HEAD is detached, so no branch can take the changes. Nothing was changed.",
            hint="Switch to the branch that should take them, or name it: --into BRANCH",
            details={"ref": None, "operation": state.operation},
        )
    if len(branches) > 1:
        names = sorted(str(branch).removeprefix(_BRANCHES) for branch in branches)
        raise AdoptionRefused(
            f"The tasks were asked for on different branches: {', '.join(names)}. Nothing was changed.",
            hint="Name the branch that should take them: --into BRANCH",
            details={"branches": names},
        )
    return str(branches.pop())


def _named(into: str) -> str:
    branch = into if into.startswith(_BRANCHES) else _BRANCHES + into
    if not is_storable(into) or into.startswith("-"):
        raise AdoptionRefused(f"{into[:80]!r} is not the name of a branch. Nothing was changed.")
    return branch


def _require_quiet(state: RepositoryState, checkout: Path) -> None:
    if state.operation is not None:
        raise AdoptionRefused(
            f"In {str(checkout)!r} a {state.operation} is in progress, so no branch can take the changes. "
            "Nothing was changed.",
            hint="Finish or abort it first.",
            details={"ref": state.ref, "operation": state.operation},
        )
