"""Having a task tried again: the same request, what was wrong with the try before, and where its work is. Blocking.

Only ended tasks are tried again, and each try is a delegation of its own: with its own entries, its own result, and
its own place in the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.bases import DirtyMode, require_base
from bridge.control.delegations.carriedwork import carried_work
from bridge.control.delegations.model import Delegation, DelegationStatus, Request
from bridge.control.errors import RetryRefused, TaskStillOpen
from bridge.conversations.store import get_entry, get_session
from bridge.foundation.ids import split_entry_id
from bridge.foundation.redaction import redact
from bridge.git.worktrees import require_registered
from bridge.storage.transaction import Connection
from bridge.workspaces.models import Workspace, WorkspaceStatus
from bridge.workspaces.store import find_workspace

#: Begins the part of an objective that speaks of the try before; a further try replaces it.
HEADING: Final = "\n\n# The try before\n\n"
#: Characters of the summary of the try before that the next one is told.
MAX_SUMMARY_CHARACTERS: Final = 4000
#: What redaction leaves in the place of a secret.
_MASK: Final = re.compile(r"\[redacted:[^\]\s]+\]")


@dataclass(frozen=True, slots=True)
class Retry:
    """What is tried again, and whether in its own worktree or in a new one."""

    of: Delegation
    is_in_place: bool

    def require_free(self, connection: Connection) -> None:
        """Check, in the transaction that records the try, that no other one works in the worktree.

        Raises
        ------
        RetryRefused
            If one does.
        """
        if not self.is_in_place or self.of.workspace_id is None:
            return
        others = rows.open_in_workspace(connection, self.of.workspace_id)
        if others:
            raise RetryRefused(
                f"{others[0].name or others[0].id} works in the worktree of {_name(self.of)} already. "
                "Nothing was started.",
                details={"delegation_id": self.of.id, "reason": "worktree_busy", "by": others[0].id},
            )


def prepare_retry(controller: Controller, of: Delegation, *, onto_head: bool) -> Retry:
    """Check that an ended task can be tried again, in its own worktree or from HEAD.

    Raises
    ------
    TaskStillOpen
        If it has not ended.
    RetryRefused
        If it wrote into a checkout and another place is asked for, or its worktree is gone; ``details["reason"]``.
    WorktreeNotRegistered
        If what stands at its worktree's path is none.
    RetryConflict, BaseUnavailable
        If its work does not merge onto HEAD, or there is none.
    """
    if not of.status.is_final:
        raise TaskStillOpen(
            f"{_name(of)} has not ended ({of.status}). Nothing was started.", details={"delegation_id": of.id}
        )
    is_shared = of.request.write_mode == WriteMode.SHARED
    if is_shared and onto_head:
        raise RetryRefused(
            f"{_name(of)} wrote into the checkout itself: there is no other worktree to go on in. Nothing was started.",
            hint="Try it again without --onto.",
            details={"delegation_id": of.id, "reason": "shared"},
        )
    if is_shared or of.status is DelegationStatus.REJECTED or of.workspace_id is None:
        return Retry(of, is_in_place=False)  # it left no worktree, so that there is nothing to go on from
    with controller.store.read() as connection:
        workspace = find_workspace(connection, of.workspace_id)
    if onto_head:
        _require_mergeable(controller, of)
        return Retry(of, is_in_place=False)
    if workspace is None or workspace.status is WorkspaceStatus.REMOVED:
        if of.result_commit is None:
            return Retry(of, is_in_place=False)
        raise RetryRefused(
            f"The worktree of {_name(of)} is gone. Nothing was started.",
            hint=f"Its work is kept: bridge task retry {_name(of)} --onto HEAD",
            details={"delegation_id": of.id, "reason": "worktree_gone", "result_ref": of.result_ref},
        )
    require_registered(workspace.folder)
    return Retry(of, is_in_place=True)


def checkout_of(connection: Connection, of: Delegation) -> Workspace | None:
    """Return the checkout that a task was delegated from, if its session has one."""
    session = get_session(connection, of.parent_session_id)
    if session is None or session.workspace_id is None:
        return None
    return find_workspace(connection, session.workspace_id)


def _require_mergeable(controller: Controller, of: Delegation) -> None:
    """Check, before anything is recorded, that the work of a task merges onto HEAD as it is now."""
    with controller.store.read() as connection:
        checkout = checkout_of(connection, of)
    if checkout is None:
        return
    observation = controller.observer.observe_exactly(checkout.folder)
    head = require_base(checkout.folder, observation, DirtyMode.IGNORE)
    carried_work(checkout.folder, of, head, timeout_seconds=controller.settings.git_timeout_seconds)


def require_unmasked(of: Delegation) -> None:
    """Check that a stored request is the one that was made: no secret of it was masked.

    Raises
    ------
    RetryRefused
        If one was; ``details["masked"]`` names the fields, as JSON pointers.
    """
    masked = list(_masked("", of.request.to_json()))
    if masked:
        raise RetryRefused(
            f"The request of {_name(of)} held secrets, which are not kept: {', '.join(masked[:5])}. "
            "Nothing was started.",
            hint="Delegate it anew with them: bridge delegate.",
            details={"delegation_id": of.id, "reason": "masked", "masked": masked},
        )


def request_again(controller: Controller, request: Request, retry: Retry, feedback: str | None) -> Request:
    """Return the request of the next try: what it builds on is cited, and it is told of the try before.

    ``request`` is the one that was made, as the caller has it.
    """
    of = retry.of
    with controller.store.read() as connection:
        summary = _summary(connection, of)
        cited = _cited(connection, of)
    if of.request.write_mode == WriteMode.SHARED:
        where = "What it changed is in the files you see."
    elif retry.is_in_place:
        where = "You work in its worktree, as it left it: go on from there."
    elif of.result_commit is not None:
        where = "What it changed is in your worktree, not committed."
    else:
        where = "It left no changes."
    told = f"A worker tried this before; it ended as {of.status}. {where}"
    if summary:
        told += f"\n\nIt said: {summary[:MAX_SUMMARY_CHARACTERS]}"
    if feedback:
        told += f"\n\nWhat is to be different now:\n\n{feedback}"
    objective = request.objective.partition(HEADING)[0] + HEADING + told
    return replace(request, objective=objective, needs=(), evidence=tuple(cited) or request.evidence)


def _summary(connection: Connection, of: Delegation) -> str:
    if of.result_entry_id is None:
        return str((of.decision or {}).get("explanation", ""))
    entry = get_entry(connection, split_entry_id(of.result_entry_id)[0], of.result_entry_id)
    return "" if entry is None else str(entry.payload.get("summary", ""))


def _cited(connection: Connection, of: Delegation) -> list[str]:
    if of.request_entry_id is None:
        return []
    entry = get_entry(connection, split_entry_id(of.request_entry_id)[0], of.request_entry_id)
    return [] if entry is None else list(entry.payload.get("request", {}).get("evidence", ()))


def _masked(where: str, value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if _MASK.search(value) is not None:
            yield where
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _masked(f"{where}/{key}", item)
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _masked(f"{where}/{number}", item)


def is_same_once_masked(stored: Request, made: Request) -> bool:
    """Tell whether a request that somebody has is the one that is stored with its secrets masked."""
    return bool(redact(made.to_json()).value == redact(stored.to_json()).value)


def _name(delegation: Delegation) -> str:
    return delegation.name or delegation.id
