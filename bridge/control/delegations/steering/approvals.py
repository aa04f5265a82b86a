"""What workers want allowed: answered by the workspace's rules, or by the operator within a time.

A question that nobody answers in time ends as ``timed_out``, in the store, in the worker's session and towards the
agent; nothing ever calls that a refusal.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from bridge.adapters.permission import PermissionAnswer, PermissionOption, PermissionRequest
from bridge.agents.approval import ApprovalPolicy, ApprovalQuestion, Permission, judge
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.steering import store as steering
from bridge.control.delegations.steering.model import Approval, ApprovalStatus
from bridge.control.errors import ApprovalNotFound, ApprovalNotPending
from bridge.control.recording import RecordingTransaction
from bridge.foundation.clock import format_timestamp
from bridge.foundation.logs import get_logger
from bridge.foundation.redaction import redact, redact_text
from bridge.foundation.texts import is_storable
from bridge.storage.errors import DatabaseBusy
from bridge.storage.transaction import Connection

#: How often a worker's question is looked at for its answer.
POLL_SECONDS: Final = 0.2
#: Shortest beginning of an id that is taken for one.
MIN_PREFIX_CHARACTERS: Final = 3
#: How many a list shows unless asked for more or fewer.
DEFAULT_LIST_LIMIT: Final = 50
#: Who answered, where it was the rules or nobody.
BY_POLICY: Final = "policy"
BY_NOBODY: Final = "nobody"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Approver:
    """Answers what one attempt's worker asks; a ``PermissionPolicy`` of the adapters.

    Parameters
    ----------
    worktree
        Where the worker works; files outside of it are asked about.
    """

    controller: Controller
    delegation: Delegation
    attempt: int
    worktree: Path
    policy: ApprovalPolicy

    async def __call__(self, request: PermissionRequest) -> PermissionAnswer:
        """Answer by the rules, or have the operator answer."""
        question = await to_thread.run_sync(partial(self._question, request))
        verdict = judge(question, self.policy)
        if verdict.permission is Permission.ASK:
            return await self._ask(request)
        by = f"{BY_POLICY}: {verdict.because}"
        return PermissionAnswer(chosen_option(request.options, allows=verdict.permission is Permission.ALLOW), by)

    def _question(self, request: PermissionRequest) -> ApprovalQuestion:
        # A link in the worktree may lead out of it: what counts is where a write would land.
        root = os.path.realpath(self.worktree)
        paths = tuple(os.path.realpath(self.worktree / path) for path in request.paths)
        asked = self.delegation.request
        return ApprovalQuestion(request.kind, paths, asked.role, asked.write_mode, root)

    async def _ask(self, request: PermissionRequest) -> PermissionAnswer:
        asked = await to_thread.run_sync(partial(self._record, request))
        status: ApprovalStatus | None = None
        try:
            decided = await self._decided(asked)
            status = decided.status
        finally:
            if status is None:
                # The worker was cancelled or is gone while somebody thought about it.
                with anyio.CancelScope(shield=True):
                    lapse = partial(_close, self.controller, asked, ApprovalStatus.LAPSED, by=BY_NOBODY)
                    await to_thread.run_sync(lapse)
        if status in (ApprovalStatus.ALLOWED, ApprovalStatus.DENIED):
            return PermissionAnswer(decided.option_id, decided.decided_by or BY_NOBODY, str(status), decided.reason)
        return PermissionAnswer(None, BY_NOBODY, str(status), decided.reason)

    def _record(self, request: PermissionRequest) -> Approval:
        expires_at = format_timestamp(self.controller.clock.now() + timedelta(seconds=self.policy.timeout_seconds))

        def record(recording: RecordingTransaction) -> Approval:
            asked = Approval(
                id=f"q{secrets.token_hex(5)}",
                delegation_id=self.delegation.id,
                attempt=self.attempt,
                status=ApprovalStatus.PENDING,
                title=redact_text(request.title)[0],
                tool_kind=request.kind,
                tool_call_id=request.tool_call_id,
                approval_id=request.approval_id,
                paths=request.paths,
                details=redact(request.details).value,
                options=tuple({"id": one.id, "name": one.name, "kind": one.kind} for one in request.options),
                requested_at=recording.moment,
                expires_at=expires_at,
            )
            steering.add_approval(recording.tx.connection, asked)
            body = {"delegation_id": self.delegation.id, "approval_id": asked.id, "expires_at": expires_at}
            recording.event(self.delegation.parent_session_id, "approval.requested", body)
            return asked

        return self.controller.recorder.transact(record)

    async def _decided(self, asked: Approval) -> Approval:
        """Return the approval once it is answered or its time is over."""
        while True:
            try:
                found = await to_thread.run_sync(partial(_approval, self.controller, asked.id))
                if found.status is not ApprovalStatus.PENDING:
                    return found
                if self.controller.now() >= asked.expires_at:
                    reason = f"Nobody answered within {self.policy.timeout_seconds:g} seconds."
                    close = partial(
                        _close, self.controller, asked, ApprovalStatus.TIMED_OUT, by=BY_NOBODY, reason=reason
                    )
                    await to_thread.run_sync(close)
                    # Somebody may have answered in this very moment; what the row says holds.
                    return await to_thread.run_sync(partial(_approval, self.controller, asked.id))
            except DatabaseBusy as error:
                # A question is not lost for a look that did not succeed; the next one will.
                _log.warning("the store is busy", action="approval_poll", approval_id=asked.id, code=error.code)
            await anyio.sleep(POLL_SECONDS)


def chosen_option(options: Sequence[PermissionOption], *, allows: bool, always: bool = False) -> str | None:
    """Return the id of the answer to give; for once where the agent offers that, unless ``always``."""
    kinds = ("allow_once", "allow_always") if allows else ("reject_once", "reject_always")
    for kind in reversed(kinds) if always else kinds:
        for option in options:
            if option.kind == kind:
                return option.id
    return None


def list_approvals(
    controller: Controller, *, pending_only: bool = True, limit: int = DEFAULT_LIST_LIMIT
) -> list[Approval]:
    """Return what workers ask, oldest first. What is over its time counts as open until its worker is told."""
    with controller.store.read() as connection:
        return steering.list_approvals(connection, pending_only=pending_only, limit=limit)


def find_approval(connection: Connection, reference: str) -> Approval:
    """Return the approval of an id or its unique beginning.

    Raises
    ------
    ApprovalNotFound
        If it names none, or several.
    """
    known = steering.list_approvals(connection) if is_storable(reference) else []
    found = [one for one in known if one.id == reference]
    if not found and len(reference) >= MIN_PREFIX_CHARACTERS:
        found = [one for one in known if one.id.startswith(reference)]
    if len(found) == 1:
        return found[0]
    raise ApprovalNotFound(
        f"{reference[:80]!r} names {len(found) or 'no'} requests for approval."
        if found
        else f"There is no request for approval {reference[:80]!r}.",
        details={"reference": reference[:200], "matches": [one.id for one in found[:20]]},
    )


def decide(
    controller: Controller,
    approval: Approval,
    *,
    allows: bool,
    by: str,
    always: bool = False,
    reason: str | None = None,
) -> Approval:
    """Answer a request for approval; its worker goes on within a moment.

    Raises
    ------
    ApprovalNotPending
        If it was answered, timed out or lapsed, or if it is over its time; ``details["status"]`` says which.
    """
    options = [PermissionOption(one["id"], one["name"], one["kind"]) for one in approval.options]
    status = ApprovalStatus.ALLOWED if allows else ApprovalStatus.DENIED

    def record(recording: RecordingTransaction) -> Approval:
        connection, moment = recording.tx.connection, recording.moment
        is_late = moment >= approval.expires_at
        changes = {
            "decided_at": moment,
            "decided_by": by,
            "option_id": chosen_option(options, allows=allows, always=always),
            "reason": None if reason is None else redact_text(reason)[0],
        }
        if is_late or not steering.decide_approval(connection, approval.id, status, **changes):
            current = steering.approval_by_id(connection, approval.id) or approval
            found = ApprovalStatus.TIMED_OUT if current.status is ApprovalStatus.PENDING else current.status
            raise ApprovalNotPending(
                f"{approval.id} is {str(found).replace('_', ' ')}. Nothing was changed.",
                details={"approval_id": approval.id, "status": str(found)},
            )
        _tell(recording, approval, status)
        return replace(approval, status=status, **changes)  # type: ignore[arg-type] # fields of these names and types

    return controller.recorder.transact(record)


def _close(
    controller: Controller, approval: Approval, status: ApprovalStatus, *, by: str, reason: str | None = None
) -> None:
    """Close a request that nobody answered, unless somebody just did."""

    def record(recording: RecordingTransaction) -> None:
        changes = {"decided_at": recording.moment, "decided_by": by, "reason": reason}
        if steering.decide_approval(recording.tx.connection, approval.id, status, **changes):
            _tell(recording, approval, status)

    controller.recorder.transact(record)


def _tell(recording: RecordingTransaction, approval: Approval, status: ApprovalStatus) -> None:
    parent = rows.require_delegation(recording.tx.connection, approval.delegation_id).parent_session_id
    body = {"delegation_id": approval.delegation_id, "approval_id": approval.id, "status": str(status)}
    recording.event(parent, "approval.decided", body)


def _approval(controller: Controller, approval_id: str) -> Approval:
    with controller.store.read() as connection:
        found = steering.approval_by_id(connection, approval_id)
    if found is None:
        raise LookupError(f"no approval {approval_id}")
    return found
