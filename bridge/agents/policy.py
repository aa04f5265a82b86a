"""Whether a delegation may start, must wait, or is refused: a pure function of what is asked, what is, and what may be.

Nothing here reads a clock, a file or a table. The whole input of a decision is one value with a canonical JSON form;
it is stored with the decision, and reading it back gives the same decision again (:func:`replay`).

The checks run in this order, and the first that speaks decides. Every reason to refuse comes before every reason to
wait, so that nothing waits for a turn it can never have:

1. depth: a worker does not delegate further than ``max_depth``
2. role: known to the limits, or unknown roles are allowed
3. write mode: one that the role may have
4. owned paths: inside the repository, no patterns
5. network, 6. tools: only what the limits allow
7. retries: number of attempts, and failures after which there is none
8. needs: none of them has failed
9. budgets: workers, units, tokens, wall time
10. worktrees: room for one more
11. needs: all of them have succeeded (else wait, as for all that follows)
12. concurrency
13. shared writers: one to a checkout
14. owned paths: no running writer's claim overlaps
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from bridge.agents.errors import InvalidOwnedPath
from bridge.agents.ownership import first_overlap, normalise

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
    NEED_UNFINISHED = "need_unfinished"
    CONCURRENCY_REACHED = "concurrency_reached"
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


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A worker that runs now, as far as it can stand in another's way."""

    delegation_id: str
    write_mode: WriteMode
    checkout: str = ""
    owned_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What is the case for the orchestrator at the moment of the decision.

    What running workers may still use counts as used: ``units_used``, ``tokens_used`` and ``wall_seconds_used``
    include their reservations.
    """

    running: tuple[RunningWorker, ...] = ()
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    workers_started: int = 0
    units_used: int = 0
    tokens_used: int = 0
    wall_seconds_used: float = 0.0
    worktrees: int = 0


@dataclass(frozen=True, slots=True)
class RoleRule:
    """The write modes that workers of a role may have."""

    role: str
    write_modes: tuple[WriteMode, ...]


#: Those who look into things do not write into their parent's checkout; in a worktree of their own they may.
DEFAULT_ROLE_RULES = (
    RoleRule("research", (WriteMode.READ_ONLY, WriteMode.ISOLATED)),
    RoleRule("planning", (WriteMode.READ_ONLY, WriteMode.ISOLATED)),
    RoleRule("verification", (WriteMode.READ_ONLY, WriteMode.ISOLATED)),
    RoleRule("implementation", tuple(WriteMode)),
    RoleRule("documentation", tuple(WriteMode)),
)


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """What may be. None as a limit: there is none.

    ``allowed_tools`` None allows every tool; an empty tuple allows none. ``final_failures`` are failure classes after
    which a delegation is not tried again.
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


def decide(request: DelegationRequest, facts: PolicyFacts, limits: PolicyLimits) -> Decision:
    """Decide on one request. Pure: equal inputs give equal decisions."""
    for check in CHECKS:
        decision = check(request, facts, limits)
        if decision is not None:
            return decision
    return Decision(Verdict.APPROVED, Reason.APPROVED, "Nothing stands against it.")


def select_runnable(
    queue: Iterable[DelegationRequest], facts: PolicyFacts, limits: PolicyLimits
) -> tuple[Considered, ...]:
    """Decide on a whole queue, first come first served, passing over what is blocked.

    Each approval counts as running, and each refusal as failed, for those behind it. The result has one element for
    each request, in the queue's order.
    """
    considered: list[Considered] = []
    for request in queue:
        decision = decide(request, facts, limits)
        considered.append(Considered(request, facts, decision))
        if decision.outcome is Verdict.APPROVED:
            facts = with_started(facts, request)
        elif decision.outcome is Verdict.REJECTED:
            facts = replace(facts, failed=(*facts.failed, request.delegation_id))
    return tuple(considered)


def with_started(facts: PolicyFacts, request: DelegationRequest) -> PolicyFacts:
    """Return the facts after a request was started: it runs, and what it may use counts as used."""
    worker = RunningWorker(request.delegation_id, request.write_mode, request.checkout, request.owned_paths)
    return replace(
        facts,
        running=(*facts.running, worker),
        workers_started=facts.workers_started + 1,
        units_used=facts.units_used + request.units,
        tokens_used=facts.tokens_used + request.tokens,
        wall_seconds_used=facts.wall_seconds_used + (request.timeout_seconds or 0.0),
        worktrees=facts.worktrees + (request.write_mode is not WriteMode.SHARED),
    )


def _reject(reason: Reason, explanation: str) -> Decision:
    return Decision(Verdict.REJECTED, reason, explanation)


def _wait(reason: Reason, explanation: str) -> Decision:
    return Decision(Verdict.QUEUED, reason, explanation)


def _check_depth(request: DelegationRequest, _facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    depth = request.parent_depth + 1
    if depth <= limits.max_depth:
        return None
    return _reject(
        Reason.DEPTH_EXCEEDED,
        f"It would run at depth {depth}, the deepest allowed is {limits.max_depth}; "
        "a worker that needs help returns needs_delegation.",
    )


def _rule_for(request: DelegationRequest, limits: PolicyLimits) -> RoleRule | None:
    return next((rule for rule in limits.role_rules if rule.role == request.role), None)


def _check_role(request: DelegationRequest, _facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    if limits.are_unknown_roles_allowed or _rule_for(request, limits) is not None:
        return None
    known = ", ".join(rule.role for rule in limits.role_rules)
    return _reject(Reason.ROLE_UNKNOWN, f"The role {request.role!r} is none of those allowed: {known}.")


def _check_write_mode(request: DelegationRequest, _facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    rule = _rule_for(request, limits)
    if rule is None or request.write_mode in rule.write_modes:
        return None
    return _reject(
        Reason.WRITE_MODE_NOT_ALLOWED,
        f"A worker of role {request.role!r} may be {' or '.join(rule.write_modes)}, not {request.write_mode}.",
    )


def _check_owned_paths(request: DelegationRequest, _facts: PolicyFacts, _limits: PolicyLimits) -> Decision | None:
    for path in request.owned_paths:
        try:
            normalise(path)
        except InvalidOwnedPath as error:
            return _reject(Reason.OWNED_PATH_INVALID, error.message)
    return None


def _check_network(request: DelegationRequest, _facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    if not request.network or limits.is_network_allowed:
        return None
    return _reject(Reason.NETWORK_NOT_ALLOWED, "It asks for the network, which is not allowed.")


def _check_tools(request: DelegationRequest, _facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    if limits.allowed_tools is None:
        return None
    refused = [tool for tool in request.tools if tool not in limits.allowed_tools]
    if not refused:
        return None
    return _reject(Reason.TOOL_NOT_ALLOWED, f"It asks for tools that are not allowed: {', '.join(refused)}.")


def _check_retries(request: DelegationRequest, _facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    if request.attempt > limits.max_attempts:
        return _reject(
            Reason.RETRIES_EXHAUSTED, f"This would be attempt {request.attempt} of at most {limits.max_attempts}."
        )
    if request.attempt > 1 and request.previous_failure in limits.final_failures:
        return _reject(
            Reason.FAILURE_IS_FINAL, f"The attempt before ended as {request.previous_failure}, which is not retried."
        )
    return None


def _check_failed_needs(request: DelegationRequest, facts: PolicyFacts, _limits: PolicyLimits) -> Decision | None:
    failed = [need for need in request.needs if need in facts.failed]
    if not failed:
        return None
    return _reject(Reason.NEED_FAILED, f"It needs the result of {', '.join(failed)}, which did not succeed.")


def _check_budgets(request: DelegationRequest, facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    if facts.workers_started >= limits.max_workers:
        return _reject(
            Reason.WORKER_BUDGET_EXHAUSTED, f"{facts.workers_started} of {limits.max_workers} workers were started."
        )
    if limits.max_units is not None and facts.units_used + request.units > limits.max_units:
        return _reject(
            Reason.UNIT_BUDGET_EXHAUSTED,
            f"It costs {request.units} units; {facts.units_used} of {limits.max_units} are used.",
        )
    if limits.max_tokens is not None and facts.tokens_used + request.tokens > limits.max_tokens:
        return _reject(
            Reason.TOKEN_BUDGET_EXHAUSTED,
            f"It may use {request.tokens} tokens; {facts.tokens_used} of {limits.max_tokens} are used.",
        )
    if limits.max_wall_seconds is None:
        return None
    if request.timeout_seconds is None:
        return _reject(
            Reason.WALL_TIME_BUDGET_EXHAUSTED,
            f"It has no time limit, but there are only {limits.max_wall_seconds:g} seconds for all.",
        )
    if facts.wall_seconds_used + request.timeout_seconds > limits.max_wall_seconds:
        return _reject(
            Reason.WALL_TIME_BUDGET_EXHAUSTED,
            f"It may take {request.timeout_seconds:g} seconds; "
            f"{facts.wall_seconds_used:g} of {limits.max_wall_seconds:g} are used.",
        )
    return None


def _check_worktrees(request: DelegationRequest, facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    if request.write_mode is WriteMode.SHARED or facts.worktrees < limits.max_worktrees:
        return None
    return _reject(
        Reason.WORKTREES_EXHAUSTED,
        f"There are {facts.worktrees} worktrees of at most {limits.max_worktrees}; adopt or discard some.",
    )


def _check_open_needs(request: DelegationRequest, facts: PolicyFacts, _limits: PolicyLimits) -> Decision | None:
    unfinished = [need for need in request.needs if need not in facts.succeeded]
    if not unfinished:
        return None
    return _wait(Reason.NEED_UNFINISHED, f"It waits for the result of {', '.join(unfinished)}.")


def _check_concurrency(_request: DelegationRequest, facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    if len(facts.running) < limits.max_running:
        return None
    return _wait(
        Reason.CONCURRENCY_REACHED, f"{len(facts.running)} workers run, at most {limits.max_running} may at once."
    )


def _check_shared_writers(request: DelegationRequest, facts: PolicyFacts, _limits: PolicyLimits) -> Decision | None:
    if request.write_mode is not WriteMode.SHARED:
        return None
    for worker in facts.running:
        if worker.write_mode is WriteMode.SHARED and worker.checkout == request.checkout:
            return _wait(Reason.SHARED_CHECKOUT_BUSY, f"{worker.delegation_id} is writing into the same checkout.")
    return None


def _check_overlap(request: DelegationRequest, facts: PolicyFacts, _limits: PolicyLimits) -> Decision | None:
    if request.write_mode is WriteMode.READ_ONLY:
        return None
    ours = _normalised(request.owned_paths)
    for worker in facts.running:
        if worker.write_mode is WriteMode.READ_ONLY:
            continue
        overlap = first_overlap(ours, _normalised(worker.owned_paths))
        if overlap is not None:
            return _wait(
                Reason.OWNED_PATHS_BUSY,
                f"It owns {overlap[0]!r}; {worker.delegation_id}, which runs, owns {overlap[1]!r}.",
            )
    return None


def _normalised(paths: Sequence[str]) -> list[str]:
    return [normalise(path) for path in paths]


_Check = Callable[[DelegationRequest, PolicyFacts, PolicyLimits], Decision | None]

#: In the order they are asked; see the module.
CHECKS: tuple[_Check, ...] = (
    _check_depth,
    _check_role,
    _check_write_mode,
    _check_owned_paths,
    _check_network,
    _check_tools,
    _check_retries,
    _check_failed_needs,
    _check_budgets,
    _check_worktrees,
    _check_open_needs,
    _check_concurrency,
    _check_shared_writers,
    _check_overlap,
)
