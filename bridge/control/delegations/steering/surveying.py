"""What policy goes by: the workspace's policy, who runs here and elsewhere, what is used up or paused. Blocking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.agents.policy import is_limited, running_worker
from bridge.agents.policy_file import WorkspacePolicy, read_policy
from bridge.agents.policy_model import (
    Considered,
    DelegationRequest,
    PolicyFacts,
    QuotaPause,
    Reason,
    RunningWorker,
    Verdict,
    WriteMode,
)
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.lifecycle import STARTED_STATUSES
from bridge.control.delegations.lost import is_lost
from bridge.control.delegations.model import Delegation, DelegationStatus
from bridge.control.delegations.requesting import Orchestration, count_worktrees
from bridge.control.delegations.steering import store as steering
from bridge.control.recording import RecordingTransaction
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.projectfile import project_table
from bridge.storage.transaction import Connection
from bridge.workspaces.models import Workspace


def policy_of(controller: Controller, workspace: Workspace) -> WorkspacePolicy:
    """Return what a workspace's ``bridge.toml`` and the person's ``config.toml`` say its workers may.

    Raises
    ------
    InvalidConfiguration
        If one of them cannot be used.
    """
    return read_policy(project_table(workspace.folder, "policy"), controller.settings.policy)


def survey(
    orchestration: Orchestration, running: Sequence[DelegationRequest], ended: Mapping[str, DelegationStatus]
) -> PolicyFacts:
    """Return what is the case now for an orchestration's requests.

    Parameters
    ----------
    running
        Its own workers that run, this process's and others'.
    ended
        How those ended that others may need.
    """
    controller = orchestration.controller
    ids = {request.delegation_id for request in running}
    worktrees = count_worktrees(orchestration, running)
    with controller.store.read() as connection:
        now = controller.now()
        open_ones = rows.list_delegations(connection, open_only=True)
        own = _own(connection, orchestration)
        paused_ids = {one.id for one in open_ones if _is_paused(one)}
        elsewhere = tuple(_as_worker(one) for one in open_ones if one.id not in ids and _runs(connection, one, now=now))
        started = [
            one for one in own if one.request_entry_id is not None and one.status is not DelegationStatus.REJECTED
        ]
        return PolicyFacts(
            running=tuple(
                running_worker(request, is_paused=request.delegation_id in paused_ids) for request in running
            ),
            succeeded=tuple(key for key, status in ended.items() if status is DelegationStatus.COMPLETED),
            failed=tuple(key for key, status in ended.items() if status is not DelegationStatus.COMPLETED),
            workers_started=len(started),
            units_used=len(started),
            tokens_used=sum(one.request.tokens for one in started),
            wall_seconds_used=sum(_wall_seconds(one) for one in started),
            worktrees=worktrees,
            elsewhere=elsewhere,
            paused=_paused(connection, now=now),
        )


def _own(connection: Connection, orchestration: Orchestration) -> list[Delegation]:
    """Return all that counts for the budgets: the plan's delegations, or the session's single ones."""
    if orchestration.plan_id is not None:
        return rows.list_delegations(connection, plan_id=orchestration.plan_id)
    known = rows.list_delegations(connection, session_ids=[orchestration.session_id])
    return [one for one in known if one.plan_id is None]


def _runs(connection: Connection, delegation: Delegation, *, now: str) -> bool:
    if delegation.status not in STARTED_STATUSES:
        return False
    return delegation.controller_id is None or not is_lost(connection, delegation.controller_id, now=now)


def _is_paused(delegation: Delegation) -> bool:
    return delegation.status in STARTED_STATUSES and delegation.waiting_reason == Reason.QUOTA_PAUSED


def _as_worker(delegation: Delegation) -> RunningWorker:
    """Return a worker of another orchestration, from what policy was asked about it."""
    asked = _asked(delegation)
    return RunningWorker(
        delegation_id=delegation.id,
        write_mode=WriteMode(delegation.request.write_mode),
        checkout=str(asked.get("checkout", "")),
        owned_paths=tuple(asked.get("owned_paths", ())),
        role=delegation.request.role,
        harness=delegation.request.harness,
        workspace=str(asked.get("workspace", "")),
        is_paused=_is_paused(delegation),
    )


def _asked(delegation: Delegation) -> Mapping[str, Any]:
    found = (delegation.decision or {}).get("input", {}).get("request", {})
    return found if isinstance(found, Mapping) else {}


def _wall_seconds(delegation: Delegation) -> float:
    """Return what a worker used of the time, or may still use."""
    limit = delegation.request.timeout_seconds
    if delegation.finished_at is None:
        return limit
    spent = parse_timestamp(delegation.finished_at) - parse_timestamp(delegation.created_at)
    return min(limit, max(0.0, spent.total_seconds()))


def _paused(connection: Connection, *, now: str) -> tuple[QuotaPause, ...]:
    return tuple(pause.as_fact() for pause in steering.open_pauses(connection, now=now))


@dataclass
class Waiting:
    """How long things wait for a free place, and what their rows say of it; touched by one task at a time."""

    _since: dict[str, float] = field(default_factory=dict)
    _told: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    def seconds(self, delegation_id: str, now: float) -> float:
        """Return how long a delegation has been waiting for a place, by a monotonic clock."""
        since = self._since.get(delegation_id)
        return 0.0 if since is None else max(0.0, now - since)

    def note(self, considered: Iterable[Considered], now: float) -> list[tuple[str, str, str | None]]:
        """Take note of policy's answers; return what is new for the rows: id, reason, and until when if known."""
        changed = []
        for item in considered:
            key, decision = item.request.delegation_id, item.decision
            if decision.outcome is not Verdict.QUEUED or not is_limited(decision.reason):
                self._since.pop(key, None)
            else:
                self._since.setdefault(key, now)
            if decision.outcome is not Verdict.QUEUED:
                self._told.pop(key, None)
                continue
            until = next(
                (pause.until for pause in item.facts.paused if pause.credential == item.request.credential), None
            )
            told = (str(decision.reason), until if decision.reason is Reason.QUOTA_PAUSED else None)
            if self._told.get(key) != told:
                self._told[key] = told
                changed.append((key, *told))
        return changed


def tell_waiting(controller: Controller, changed: Sequence[tuple[str, str, str | None]]) -> None:
    """Write into the rows of queued delegations why they wait; people look there."""

    def record(recording: RecordingTransaction) -> None:
        connection = recording.tx.connection
        for key, reason, until in changed:
            if rows.require_delegation(connection, key).status is DelegationStatus.QUEUED:
                rows.update_delegation(
                    connection, key, updated_at=recording.moment, waiting_reason=reason, waiting_until=until
                )

    if changed:
        controller.recorder.transact(record)
