"""Values of a delegation: one request to a worker, where it stands, and its tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class DelegationStatus(StrEnum):
    """Where a delegation stands. The last seven are ends; all but ``rejected`` are a result's own status."""

    #: Known, waiting for what it needs or for a free place.
    QUEUED = "queued"
    #: Approved; its worktree is being made.
    PREPARING = "preparing"
    #: Its worker runs.
    RUNNING = "running"
    #: The worker ended; its result is being checked.
    SETTLING = "settling"
    REJECTED = "rejected"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BLOCKED = "blocked"
    NEEDS_DELEGATION = "needs_delegation"
    INVALID = "invalid"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to it."""
        return self not in OPEN_STATUSES


OPEN_STATUSES = frozenset(
    {
        DelegationStatus.QUEUED,
        DelegationStatus.PREPARING,
        DelegationStatus.RUNNING,
        DelegationStatus.SETTLING,
    }
)


class AdoptionStatus(StrEnum):
    """What became of the commits of a delegation."""

    #: There are commits that nobody has taken or thrown away yet.
    PENDING = "pending"
    ADOPTED = "adopted"
    DISCARDED = "discarded"
    #: The worker changed nothing.
    EMPTY = "empty"
    #: Another try goes on with them in the same worktree; its result holds them.
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Request:
    """What an orchestrator asks of one worker.

    Parameters
    ----------
    name
        Short name, unique in its plan.
    role, harness, objective, acceptance_criteria
        Who should do it, through what, to what end, and how one sees that it is done.
    command, environment
        For the ``command`` harness: the program with its arguments, and variables to add.
    needs
        Names of delegations of the same plan whose results it gets as evidence.
    evidence
        Further evidence references, as entry ids or short references.
    write_mode
        ``read_only``, ``shared`` or ``isolated``.
    owned_paths
        Paths, relative to the repository root, that it may write; empty for no limit.
    output_schema
        JSON Schema for the result's ``data``; None for none.
    timeout_seconds
        Time limit of one attempt.
    attempts_permitted
        How many tries there may be; a further one is made only after an invalid result.
    network
        True asks for the network, False has it kept from the worker; None leaves it to the checkout and the policy.
    tokens
        Tokens it may use at most, for the budget; 0 where nobody counts.
    """

    name: str
    objective: str
    role: str = "implementation"
    harness: str = "command"
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    acceptance_criteria: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    write_mode: str = "isolated"
    owned_paths: tuple[str, ...] = ()
    output_schema: Mapping[str, Any] | None = None
    timeout_seconds: float = 1800.0
    attempts_permitted: int = 1
    network: bool | None = None
    tokens: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the request as it is recorded."""
        return {
            "name": self.name,
            "objective": self.objective,
            "role": self.role,
            "harness": self.harness,
            "command": list(self.command),
            "environment": dict(self.environment),
            "acceptance_criteria": list(self.acceptance_criteria),
            "needs": list(self.needs),
            "evidence": list(self.evidence),
            "write_mode": self.write_mode,
            "owned_paths": list(self.owned_paths),
            "output_schema": None if self.output_schema is None else dict(self.output_schema),
            "timeout_seconds": self.timeout_seconds,
            "attempts_permitted": self.attempts_permitted,
            "network": self.network,
            "tokens": self.tokens,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Request:
        """Read a request written by :meth:`to_json`."""
        tuples = ("command", "acceptance_criteria", "needs", "evidence", "owned_paths")
        values: dict[str, Any] = {key: tuple(item) if key in tuples else item for key, item in value.items()}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Delegation:
    """The row that joins agent, workspace and conversation. Ids of the trees are values."""

    id: str
    plan_id: str | None
    name: str | None
    parent_session_id: str
    status: DelegationStatus
    request: Request
    created_at: str
    updated_at: str
    #: Place in its plan, from 0.
    position: int = 0
    request_entry_id: str | None = None
    result_entry_id: str | None = None
    worker_session_id: str | None = None
    worker_agent_id: str | None = None
    workspace_id: str | None = None
    controller_id: str | None = None
    base_commit: str | None = None
    result_commit: str | None = None
    #: The worker's own last commit; differs from the result where that was preserved by Bridge.
    worker_commit: str | None = None
    result_ref: str | None = None
    adoption_status: AdoptionStatus | None = None
    adoption_commit: str | None = None
    kept_reason: str | None = None
    cancel_requested_at: str | None = None
    finished_at: str | None = None
    #: The delegation that this one tries again.
    retry_of: str | None = None
    #: Harness and name of what it works with; see ``steering.quotas``.
    credential: str | None = None
    #: Why it does not go on now, in policy's words, and until when, as far as that is known.
    waiting_reason: str | None = None
    waiting_until: str | None = None
    decision: Mapping[str, Any] | None = None

    @property
    def cursor_owner(self) -> str:
        """The owner under which the delegation holds its place in the parent's session."""
        return f"delegation:{self.id}"

    def to_json(self) -> dict[str, Any]:
        """Return the delegation as the command line and RPC show it."""
        return {
            "id": self.id,
            "plan_id": self.plan_id,
            "name": self.name,
            "status": str(self.status),
            "role": self.request.role,
            "harness": self.request.harness,
            "objective": self.request.objective,
            "needs": list(self.request.needs),
            "session_id": self.parent_session_id,
            "request_entry_id": self.request_entry_id,
            "result_entry_id": self.result_entry_id,
            "worker_session_id": self.worker_session_id,
            "worker_agent_id": self.worker_agent_id,
            "workspace_id": self.workspace_id,
            "base_commit": self.base_commit,
            "result_commit": self.result_commit,
            "result_ref": self.result_ref,
            "adoption_status": None if self.adoption_status is None else str(self.adoption_status),
            "adoption_commit": self.adoption_commit,
            "kept_reason": self.kept_reason,
            "retry_of": self.retry_of,
            "credential": self.credential,
            "waiting_reason": self.waiting_reason,
            "waiting_until": self.waiting_until,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "finished_at": self.finished_at,
        }


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try: a child process, when it ran and how it ended. Times are timestamps as text."""

    delegation_id: str
    number: int
    status: str
    started_at: str
    pid: int | None = None
    process_start_time: float | None = None
    finished_at: str | None = None
    exit_status: int | None = None
    failure_class: str | None = None
    lease_expires_at: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the attempt for ``task show``."""
        return {
            "number": self.number,
            "status": self.status,
            "pid": self.pid,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "exit_status": self.exit_status,
            "failure_class": self.failure_class,
            "lease_expires_at": self.lease_expires_at,
        }


#: How often an agent may hand in a result during one attempt; what it handed in last then counts, valid or not.
MAX_SUBMISSIONS = 3


@dataclass(frozen=True, slots=True)
class Submission:
    """Something that an agent handed in as its result while it worked.

    Parameters
    ----------
    attempt, number
        During which attempt, and as which try of it, both from 1.
    is_accepted
        Whether it keeps the contract and the delegation's output schema.
    text
        What was handed in, after redaction.
    field_errors
        What is wrong with it; empty if it was accepted.
    """

    delegation_id: str
    attempt: int
    number: int
    is_accepted: bool
    received_at: str
    text: str
    field_errors: tuple[Mapping[str, str], ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether it ends its attempt."""
        return self.is_accepted or self.number >= MAX_SUBMISSIONS


class PlanStatus(StrEnum):
    """Where the run of a plan stands."""

    RUNNING = "running"
    #: Every worker completed.
    COMPLETED = "completed"
    #: It came to its end, and some worker did not complete.
    INCOMPLETE = "incomplete"
    #: It was stopped, or its controller was lost.
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class PlanRun:
    """One run of a plan file."""

    id: str
    label: str | None
    session_id: str
    path: str | None
    status: str
    created_at: str
    updated_at: str
    finished_at: str | None = None

    @property
    def cursor_owner(self) -> str:
        """The owner under which the plan holds its place in its session."""
        return plan_cursor(self.id)


def plan_cursor(plan_id: str) -> str:
    """Return the owner of the cursor that a run of a plan holds."""
    return f"plan:{plan_id}"
