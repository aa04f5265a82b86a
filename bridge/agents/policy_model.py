"""The values of the policy: what is asked, what is the case, what may be, and what was decided. See ``policy``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: Depth of an orchestrator; a worker's is one more than its parent's.
ORCHESTRATOR_DEPTH = 0
#: Deepest worker: an orchestrator's workers do not delegate further.
DEFAULT_MAX_DEPTH = 1
#: Workers that run at once.
DEFAULT_MAX_RUNNING = 4
#: Workers that one orchestrator may start in all.
DEFAULT_MAX_WORKERS = 64
#: Attempts at one delegation.
DEFAULT_MAX_ATTEMPTS = 2
#: Worktrees of workers that may exist at once, kept ones included.
DEFAULT_MAX_WORKTREES = 100


class WriteMode(StrEnum):
    """What a worker may do to files."""

    #: Change nothing.
    READ_ONLY = "read_only"
    #: Change files in its parent's own checkout.
    SHARED = "shared"
    #: Change files in a worktree of its own, to be adopted later.
    ISOLATED = "isolated"


class Verdict(StrEnum):
    """What becomes of a request."""

    APPROVED = "approved"
    REJECTED = "rejected"
    #: It may run later, when what blocks it has passed.
    QUEUED = "queued"


class Reason(StrEnum):
    """Why; a program's word, stable."""

    APPROVED = "approved"
    DEPTH_EXCEEDED = "depth_exceeded"
    ROLE_UNKNOWN = "role_unknown"
    WRITE_MODE_NOT_ALLOWED = "write_mode_not_allowed"
    OWNED_PATH_INVALID = "owned_path_invalid"
    NETWORK_NOT_ALLOWED = "network_not_allowed"
    TOOL_NOT_ALLOWED = "tool_not_allowed"
    RETRIES_EXHAUSTED = "retries_exhausted"
    FAILURE_IS_FINAL = "failure_is_final"
    NEED_FAILED = "need_failed"
    WORKER_BUDGET_EXHAUSTED = "worker_budget_exhausted"
    UNIT_BUDGET_EXHAUSTED = "unit_budget_exhausted"
    TOKEN_BUDGET_EXHAUSTED = "token_budget_exhausted"  # noqa: S105 - a token of a language model
    WALL_TIME_BUDGET_EXHAUSTED = "wall_time_budget_exhausted"
    WORKTREES_EXHAUSTED = "worktrees_exhausted"
    QUEUE_TIMED_OUT = "queue_timed_out"
    HARNESS_NOT_ALLOWED = "harness_not_allowed"
    NEED_UNFINISHED = "need_unfinished"
    QUOTA_PAUSED = "quota_paused"
    CONCURRENCY_REACHED = "concurrency_reached"
    ROLE_CONCURRENCY_REACHED = "role_concurrency_reached"
    WORKSPACE_CONCURRENCY_REACHED = "workspace_concurrency_reached"
    HARNESS_CONCURRENCY_REACHED = "harness_concurrency_reached"
    SHARED_CHECKOUT_BUSY = "shared_checkout_busy"
    OWNED_PATHS_BUSY = "owned_paths_busy"


@dataclass(frozen=True, slots=True)
class DelegationRequest:
    """What is asked for.

    Parameters
    ----------
    delegation_id
        Whose start is decided; also what ``needs`` of others refer to.
    role
        Free word; the limits may tie rules to it.
    write_mode
        See :class:`WriteMode`.
    parent_depth
        Depth of who delegates, :data:`ORCHESTRATOR_DEPTH` for an orchestrator.
    checkout
        Identity of the parent's checkout, which a shared writer writes into.
    owned_paths
        Claimed prefixes; none is no claim, and overlaps nothing.
    needs
        Delegations that must have succeeded first.
    network
        Whether it asks for network access.
    tools
        Tools it asks for by name.
    units
        Capability units it costs.
    tokens
        Tokens it may use at most; they count as used from the start.
    timeout_seconds
        Its time limit, which counts as used from the start; None: no limit.
    attempt
        From 1.
    previous_failure
        Failure class of the attempt before this one.
    harness, workspace, credential
        What it would run through, from which workspace, and with which credential; see the limits.
    waited_seconds
        How long it has been waiting for a free place.
    """

    delegation_id: str
    role: str
    write_mode: WriteMode
    parent_depth: int = ORCHESTRATOR_DEPTH
    checkout: str = ""
    owned_paths: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    network: bool = False
    tools: tuple[str, ...] = ()
    units: int = 1
    tokens: int = 0
    timeout_seconds: float | None = None
    attempt: int = 1
    previous_failure: str | None = None
    harness: str = ""
    workspace: str = ""
    credential: str = ""
    waited_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker that runs now, as far as it can stand in another's way.

    ``is_paused`` says that it holds its worktree and its paths, but no place: it waits for a quota.
    """

    delegation_id: str
    write_mode: WriteMode
    checkout: str = ""
    owned_paths: tuple[str, ...] = ()
    role: str = ""
    harness: str = ""
    workspace: str = ""
    is_paused: bool = False


@dataclass(frozen=True, slots=True)
class QuotaPause:
    """A credential that nothing is started with until a time (a timestamp)."""

    credential: str
    until: str


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What is the case for the orchestrator at the moment of the decision.

    What running workers may still use counts as used: ``units_used``, ``tokens_used`` and ``wall_seconds_used``
    include their reservations. ``elsewhere`` are workers of other orchestrators, which count for the limits of a
    workspace and of a harness.
    """

    running: tuple[RunningWorker, ...] = ()
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    workers_started: int = 0
    units_used: int = 0
    tokens_used: int = 0
    wall_seconds_used: float = 0.0
    worktrees: int = 0
    elsewhere: tuple[RunningWorker, ...] = ()
    paused: tuple[QuotaPause, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleRule:
    """What workers of a role may: write modes, how many at once, the network. None leaves it to the other limits."""

    role: str
    write_modes: tuple[WriteMode, ...]
    max_running: int | None = None
    is_network_allowed: bool | None = None


@dataclass(frozen=True, slots=True)
class HarnessRule:
    """What holds for a harness: how many of its workers run at once, everywhere."""

    harness: str
    max_running: int


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often an attempt that failed in a certain way is tried again."""

    failure: str
    times: int


#: Those who look into things do not write into their parent's checkout; in a worktree of their own they may.
DEFAULT_ROLE_RULES = (
    RoleRule("research", (WriteMode.READ_ONLY, WriteMode.ISOLATED)),
    RoleRule("planning", (WriteMode.READ_ONLY, WriteMode.ISOLATED)),
    RoleRule("verification", (WriteMode.READ_ONLY, WriteMode.ISOLATED)),
    RoleRule("implementation", tuple(WriteMode)),
    RoleRule("documentation", tuple(WriteMode)),
)


#: A quota that is used up is waited for, however often; every other failure is the orchestrator's to judge.
DEFAULT_RETRY_RULES = (RetryRule("quota_exhausted", 100),)


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What may be. None as a limit: there is none.

    ``allowed_tools`` None allows every tool; an empty tuple allows none. ``final_failures`` are failure classes after
    which a delegation is not tried again; ``retry_rules`` say after which failures it is by itself, and how often.
    """

    max_depth: int = DEFAULT_MAX_DEPTH
    max_running: int = DEFAULT_MAX_RUNNING
    max_workers: int = DEFAULT_MAX_WORKERS
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    max_worktrees: int = DEFAULT_MAX_WORKTREES
    max_units: int | None = None
    max_tokens: int | None = None
    max_wall_seconds: float | None = None
    is_network_allowed: bool = True
    allowed_tools: tuple[str, ...] | None = None
    role_rules: tuple[RoleRule, ...] = DEFAULT_ROLE_RULES
    are_unknown_roles_allowed: bool = True
    final_failures: tuple[str, ...] = ("cancelled",)
    max_running_in_workspace: int | None = None
    max_queue_seconds: float | None = None
    allowed_harnesses: tuple[str, ...] | None = None
    harness_rules: tuple[HarnessRule, ...] = ()
    retry_rules: tuple[RetryRule, ...] = DEFAULT_RETRY_RULES


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, the program's word for why, and a sentence for people."""

    outcome: Verdict
    reason: Reason
    explanation: str

    def to_json(self) -> dict[str, Any]:
        return {"outcome": str(self.outcome), "reason": str(self.reason), "explanation": self.explanation}


@dataclass(frozen=True, slots=True)
class Considered:
    """One request of a queue, the facts as they were when its turn came, and the decision."""

    request: DelegationRequest
    facts: PolicyFacts
    decision: Decision
