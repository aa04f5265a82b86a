"""The commit that a worker starts from: the stamped HEAD, or a snapshot of uncommitted work on top of it.

Blocking; run in a helper thread.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Any

from bridge.agents.policy_model import WriteMode
from bridge.control.delegations.model import Delegation, Request
from bridge.control.errors import BaseUnavailable, UncommittedWork
from bridge.foundation.errors import BridgeError
from bridge.git.commits import preserve, update_ref
from bridge.git.history import upstream_distance
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.git.repository import discover
from bridge.semantics.stamps import UNBORN

#: Paths of uncommitted work that a refusal names.
MAX_NAMED_PATHS = 20
#: Where the snapshot of carried work is kept.
CARRIED_REF = "refs/bridge/tasks/{delegation_id}/carried"


class DirtyMode(StrEnum):
    """What becomes of uncommitted work in the parent's checkout when a worker is to start."""

    #: Nothing starts.
    REFUSE = "refuse"
    #: The worker starts from HEAD without it; the record says so.
    IGNORE = "ignore"
    #: The worker starts from a snapshot that holds it.
    CARRY = "carry"


def dirty_mode_for(request: Request, dirty: DirtyMode) -> DirtyMode:
    """Return what becomes of uncommitted work for one request: who works in the checkout itself sees all of it."""
    return DirtyMode.IGNORE if request.write_mode == WriteMode.SHARED else dirty


def require_base(checkout: Path, observation: Observation, dirty: DirtyMode) -> str:
    """Return the commit that a worker would start from, as stamped.

    Raises
    ------
    BaseUnavailable
        If the state is unknown or there is no commit yet.
    UncommittedWork
        If there is some and it is to be refused.
    """
    state, shown = observation.state, os.fsdecode(checkout)
    if state is None:
        detail = f": {observation.detail}" if observation.detail else ""
        raise BaseUnavailable(
            f"The state of {shown!r} is unknown ({observation.unknown}{detail}). Nothing was started.",
            details={"reason": str(observation.unknown), "path": shown},
        )
    if state.head == UNBORN:
        raise BaseUnavailable(
            f"{shown!r} has no commit yet, so a worker has nothing to start from. Nothing was started.",
            details={"reason": UNBORN, "path": shown},
        )
    if dirty is DirtyMode.REFUSE and not observation.is_clean:
        paths = _uncommitted_paths(observation)
        raise UncommittedWork(
            f"{len(paths)} paths of {shown!r} are not committed, and a worker would not see them. Nothing was started.",
            details={"paths": paths[:MAX_NAMED_PATHS], "count": len(paths)},
        )
    return state.head


def carry(checkout: Path, delegation: Delegation, head: str, *, timeout_seconds: float) -> str:
    """Keep the checkout's uncommitted work in a snapshot on top of HEAD, and return the commit to start from.

    Raises
    ------
    BaseUnavailable
        If HEAD is not the stamped one any more.
    WorktreeNotRegistered, GitFailed, GitTimedOut
        If the work cannot be kept.
    """
    ref = CARRIED_REF.format(delegation_id=delegation.id)
    snapshot = preserve(
        checkout,
        ref=ref,
        message=f"Uncommitted work carried to {delegation.name or delegation.id}",
        timeout_seconds=timeout_seconds,
    )
    if snapshot.commit == snapshot.head or snapshot.head != head:
        # Only the index differs from HEAD, or HEAD moved meanwhile: there is no snapshot on top of the stamped HEAD.
        update_ref(discover(checkout), ref, None, expected=snapshot.commit, timeout_seconds=timeout_seconds)
    if snapshot.head != head:
        raise BaseUnavailable(
            f"HEAD of {os.fsdecode(checkout)!r} moved while its work was carried. Nothing was started.",
            details={"stamped": head, "found": snapshot.head},
        )
    return snapshot.commit


def base_facts(
    checkout: Path, request: Request, observation: Observation, dirty: DirtyMode, *, timeout_seconds: float
) -> dict[str, Any]:
    """Return what is recorded of the base: branch, distance to its upstream, and work that the worker does not get."""
    state = observation.state
    if state is None or state.head == UNBORN:
        return {}
    facts: dict[str, Any] = {"head": state.head, "ref": state.ref}
    if state.ref is not None:
        facts |= _upstream_facts(checkout, state.ref, state.head, timeout_seconds)
    is_shared = request.write_mode == WriteMode.SHARED
    if not observation.is_clean and not is_shared and dirty is not DirtyMode.REFUSE:
        paths = _uncommitted_paths(observation)
        facts["uncommitted"] = {"mode": str(dirty), "count": len(paths), "paths": paths[:MAX_NAMED_PATHS]}
        if dirty is DirtyMode.IGNORE:
            facts["notice"] = f"{len(paths)} uncommitted paths of the checkout are not in what the worker starts from."
    return facts


def _upstream_facts(checkout: Path, ref: str, head: str, timeout_seconds: float) -> dict[str, Any]:
    try:
        distance = upstream_distance(discover(checkout), ref, head, timeout_seconds=timeout_seconds)
    except BridgeError as error:
        # It is told for information alone; that it could not be is told instead.
        return {"upstream_unknown": error.code}
    if distance is None:
        return {"upstream": None}
    return {"upstream": distance.upstream, "ahead": distance.ahead, "behind": distance.behind}


def _uncommitted_paths(observation: Observation) -> list[str]:
    return [] if observation.manifest is None else [plain_path(row.path) for row in observation.manifest.rows]
