"""Whether a delegation may start, must wait, or is refused: a pure function of what is asked, what is, and what may be.

Nothing here reads a clock, a file or a table. The whole input of a decision is one value with a canonical JSON form;
it is stored with the decision, and reading it back gives the same decision again (:func:`replay`).

The checks run in this order, and the first that speaks decides. Every reason to refuse comes before every reason to
wait, so that nothing waits for a turn it can never have:

1. depth: a worker does not delegate further than ``max_depth``
2. role: known to the limits, or unknown roles are allowed
3. write mode: one that the role may have
4. owned paths: inside the repository, no patterns
5. harness, network, 6. tools: only what the limits allow
7. retries: number of attempts, and failures after which there is none
8. needs: none of them has failed
9. budgets: workers, units, tokens, wall time
10. worktrees: room for one more
11. needs: all of them have succeeded (else wait, as for all that follows)
12. quota: the credential is not paused
13. concurrency: of the orchestrator, of the role, of the workspace, of the harness
14. shared writers: one to a checkout
15. owned paths: no running writer's claim overlaps

What waits for a free place longer than ``max_queue_seconds`` is refused then. Waiting for a need or for a quota has no
such limit: the first has an end of its own, and nothing that Bridge could start instead would help with the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from bridge.agents.errors import InvalidOwnedPath
from bridge.agents.ownership import first_overlap, normalise
from bridge.agents.policy_model import (
    Considered,
    Decision,
    DelegationRequest,
    PolicyFacts,
    PolicyLimits,
    Reason,
    RoleRule,
    RunningWorker,
    Verdict,
    WriteMode,
)


def decide(request: DelegationRequest, facts: PolicyFacts, limits: PolicyLimits) -> Decision:
    """Decide on one request. Pure: equal inputs give equal decisions."""
    for check in CHECKS:
        decision = check(request, facts, limits)
        if decision is not None:
            return _or_timed_out(decision, request, limits)
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


def running_worker(request: DelegationRequest, *, is_paused: bool = False) -> RunningWorker:
    """Return what a request is once it runs."""
    return RunningWorker(
        delegation_id=request.delegation_id,
        write_mode=request.write_mode,
        checkout=request.checkout,
        owned_paths=request.owned_paths,
        role=request.role,
        harness=request.harness,
        workspace=request.workspace,
        is_paused=is_paused,
    )


def with_started(facts: PolicyFacts, request: DelegationRequest) -> PolicyFacts:
    """Return the facts after a request was started: it runs, and what it may use counts as used."""
    worker = running_worker(request)
    return replace(
        facts,
        running=(*facts.running, worker),
        workers_started=facts.workers_started + 1,
        units_used=facts.units_used + request.units,
        tokens_used=facts.tokens_used + request.tokens,
        wall_seconds_used=facts.wall_seconds_used + (request.timeout_seconds or 0.0),
        worktrees=facts.worktrees + (request.write_mode is not WriteMode.SHARED),
    )


def is_tried_again(limits: PolicyLimits, failures: Sequence[str]) -> bool:
    """Tell whether a delegation is tried again by itself after the last of its failures. Pure.

    Parameters
    ----------
    failures
        The failure classes of its attempts so far, in order.
    """
    last = failures[-1]
    if last in limits.final_failures:
        return False
    rule = next((rule for rule in limits.retry_rules if rule.failure == last), None)
    return rule is not None and sum(failure == last for failure in failures) <= rule.times


def is_network_allowed(limits: PolicyLimits, role: str) -> bool:
    """Tell whether workers of a role may reach the network: only where nothing forbids it. Pure."""
    rule = next((rule for rule in limits.role_rules if rule.role == role), None)
    is_allowed = limits.is_network_allowed
    if rule is not None and rule.is_network_allowed is not None:
        is_allowed = is_allowed and rule.is_network_allowed
    return is_allowed


#: Reasons to wait that pass by themselves at a known end.
_ENDLESS = frozenset({Reason.NEED_UNFINISHED, Reason.QUOTA_PAUSED})


def is_limited(reason: Reason) -> bool:
    """Tell whether ``max_queue_seconds`` counts while something waits for this reason."""
    return reason not in _ENDLESS


def _or_timed_out(decision: Decision, request: DelegationRequest, limits: PolicyLimits) -> Decision:
    """Return the decision, or a refusal if waiting on has lasted too long."""
    most = limits.max_queue_seconds
    if decision.outcome is not Verdict.QUEUED or most is None or not is_limited(decision.reason):
        return decision
    if request.waited_seconds < most:
        return decision
    return _reject(
        Reason.QUEUE_TIMED_OUT,
        f"It waited {request.waited_seconds:g} of at most {most:g} seconds. {decision.explanation}",
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
    if not request.network or is_network_allowed(limits, request.role):
        return None
    return _reject(Reason.NETWORK_NOT_ALLOWED, "It asks for the network, which is not allowed.")


def _check_harness(request: DelegationRequest, _facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    allowed = limits.allowed_harnesses
    if allowed is None or request.harness in allowed:
        return None
    known = ", ".join(allowed) or "none"
    return _reject(Reason.HARNESS_NOT_ALLOWED, f"The harness {request.harness!r} is none of those allowed: {known}.")


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


def _check_quota(request: DelegationRequest, facts: PolicyFacts, _limits: PolicyLimits) -> Decision | None:
    for pause in facts.paused:
        if pause.credential == request.credential:
            return _wait(
                Reason.QUOTA_PAUSED, f"The quota of {pause.credential} is used up; it is paused until {pause.until}."
            )
    return None


def _check_concurrency(request: DelegationRequest, facts: PolicyFacts, limits: PolicyLimits) -> Decision | None:
    ours = [worker for worker in facts.running if not worker.is_paused]
    if len(ours) >= limits.max_running:
        return _wait(Reason.CONCURRENCY_REACHED, f"{len(ours)} workers run, at most {limits.max_running} may at once.")
    rule = _rule_for(request, limits)
    of_role = sum(worker.role == request.role for worker in ours)
    if rule is not None and rule.max_running is not None and of_role >= rule.max_running:
        return _wait(
            Reason.ROLE_CONCURRENCY_REACHED,
            f"{of_role} workers of role {request.role!r} run, at most {rule.max_running} may at once.",
        )
    everywhere = [*ours, *(worker for worker in facts.elsewhere if not worker.is_paused)]
    here = sum(worker.workspace == request.workspace for worker in everywhere)
    if limits.max_running_in_workspace is not None and here >= limits.max_running_in_workspace:
        return _wait(
            Reason.WORKSPACE_CONCURRENCY_REACHED,
            f"{here} workers of this workspace run, at most {limits.max_running_in_workspace} may at once.",
        )
    most = next((rule.max_running for rule in limits.harness_rules if rule.harness == request.harness), None)
    through = sum(worker.harness == request.harness for worker in everywhere)
    if most is not None and through >= most:
        return _wait(
            Reason.HARNESS_CONCURRENCY_REACHED,
            f"{through} workers run through {request.harness!r}, at most {most} may at once.",
        )
    return None


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
    _check_harness,
    _check_network,
    _check_tools,
    _check_retries,
    _check_failed_needs,
    _check_budgets,
    _check_worktrees,
    _check_open_needs,
    _check_quota,
    _check_concurrency,
    _check_shared_writers,
    _check_overlap,
)
