"""The policy: every reason, their order, the queue, and that a stored input decides the same again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.errors import InvalidPolicyInput
from bridge.agents.policy import decide, is_tried_again, select_runnable, with_started
from bridge.agents.policy_input import PolicyInput, replay
from bridge.agents.policy_model import (
    DelegationRequest,
    HarnessRule,
    PolicyFacts,
    PolicyLimits,
    QuotaPause,
    Reason,
    RetryRule,
    RoleRule,
    RunningWorker,
    Verdict,
    WriteMode,
)

REQUEST = DelegationRequest("d1", "implementation", WriteMode.ISOLATED)
FACTS = PolicyFacts()
LIMITS = PolicyLimits()


def running(
    name: str, mode: WriteMode = WriteMode.ISOLATED, *paths: str, checkout: str = "", **more: Any
) -> RunningWorker:
    return RunningWorker(name, mode, checkout, paths, **more)


PAUSED = QuotaPause("agent/work", "2026-01-01T00:00:00.000000Z")


def test_nothing_against_it() -> None:
    decision = decide(REQUEST, FACTS, LIMITS)
    assert (decision.outcome, decision.reason) == (Verdict.APPROVED, Reason.APPROVED)


REJECTED: list[tuple[Reason, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (Reason.DEPTH_EXCEEDED, {"parent_depth": 1}, {}, {}),
    (Reason.ROLE_UNKNOWN, {"role": "poet"}, {}, {"are_unknown_roles_allowed": False}),
    (Reason.WRITE_MODE_NOT_ALLOWED, {"role": "research", "write_mode": WriteMode.SHARED}, {}, {}),
    (Reason.OWNED_PATH_INVALID, {"owned_paths": ("src", "../x")}, {}, {}),
    (Reason.NETWORK_NOT_ALLOWED, {"network": True}, {}, {"is_network_allowed": False}),
    (Reason.TOOL_NOT_ALLOWED, {"tools": ("read", "shell")}, {}, {"allowed_tools": ("read",)}),
    (Reason.RETRIES_EXHAUSTED, {"attempt": 3, "previous_failure": "timed_out"}, {}, {}),
    (Reason.FAILURE_IS_FINAL, {"attempt": 2, "previous_failure": "cancelled"}, {}, {}),
    (Reason.NEED_FAILED, {"needs": ("a", "b")}, {"failed": ("b",)}, {}),
    (Reason.WORKER_BUDGET_EXHAUSTED, {}, {"workers_started": 3}, {"max_workers": 3}),
    (Reason.UNIT_BUDGET_EXHAUSTED, {"units": 3}, {"units_used": 8}, {"max_units": 10}),
    (Reason.TOKEN_BUDGET_EXHAUSTED, {"tokens": 1}, {"tokens_used": 10}, {"max_tokens": 10}),
    (Reason.WALL_TIME_BUDGET_EXHAUSTED, {"timeout_seconds": 2.5}, {"wall_seconds_used": 8}, {"max_wall_seconds": 10}),
    (Reason.WALL_TIME_BUDGET_EXHAUSTED, {"timeout_seconds": None}, {}, {"max_wall_seconds": 10}),
    (Reason.WORKTREES_EXHAUSTED, {}, {"worktrees": 2}, {"max_worktrees": 2}),
    (Reason.HARNESS_NOT_ALLOWED, {"harness": "agent"}, {}, {"allowed_harnesses": ("command",)}),
    (
        Reason.NETWORK_NOT_ALLOWED,
        {"network": True, "role": "poet"},
        {},
        {"role_rules": (RoleRule("poet", tuple(WriteMode), is_network_allowed=False),)},
    ),
    (
        Reason.QUEUE_TIMED_OUT,
        {"waited_seconds": 5.0},
        {"running": (running("x"),)},
        {"max_running": 1, "max_queue_seconds": 5.0},
    ),
]
QUEUED: list[tuple[Reason, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (Reason.NEED_UNFINISHED, {"needs": ("a", "b")}, {"succeeded": ("a",)}, {}),
    (Reason.CONCURRENCY_REACHED, {}, {"running": (running("x"), running("y"))}, {"max_running": 2}),
    (
        Reason.SHARED_CHECKOUT_BUSY,
        {"write_mode": WriteMode.SHARED, "checkout": "w"},
        {"running": (running("x", WriteMode.SHARED, checkout="w"),)},
        {},
    ),
    (
        Reason.OWNED_PATHS_BUSY,
        {"owned_paths": ("./src/web/",)},
        {"running": (running("x", WriteMode.ISOLATED, "src"),)},
        {},
    ),
    (Reason.OWNED_PATHS_BUSY, {"owned_paths": (".",)}, {"running": (running("x", WriteMode.SHARED, "src"),)}, {}),
    (Reason.QUOTA_PAUSED, {"credential": "agent/work"}, {"paused": (PAUSED,)}, {}),
    (
        Reason.ROLE_CONCURRENCY_REACHED,
        {"role": "poet"},
        {"running": (running("x", role="poet"), running("y", role="painter"))},
        {"role_rules": (RoleRule("poet", tuple(WriteMode), max_running=1),)},
    ),
    (
        Reason.WORKSPACE_CONCURRENCY_REACHED,
        {"workspace": "w"},
        {"running": (running("x", workspace="w"),), "elsewhere": (running("y", workspace="w"),)},
        {"max_running_in_workspace": 2},
    ),
    (
        Reason.HARNESS_CONCURRENCY_REACHED,
        {"harness": "agent"},
        {"elsewhere": (running("x", harness="agent"),)},
        {"harness_rules": (HarnessRule("agent", 1),)},
    ),
    # Waiting for a need or for a quota is not limited.
    (Reason.NEED_UNFINISHED, {"needs": ("a",), "waited_seconds": 9.0}, {}, {"max_queue_seconds": 5.0}),
    (
        Reason.QUOTA_PAUSED,
        {"credential": "agent/work", "waited_seconds": 9.0},
        {"paused": (PAUSED,)},
        {"max_queue_seconds": 5.0},
    ),
    (
        Reason.CONCURRENCY_REACHED,
        {"waited_seconds": 4.9},
        {"running": (running("x"),)},
        {"max_running": 1, "max_queue_seconds": 5.0},
    ),
]


@pytest.mark.parametrize(
    ("outcome", "reason", "request_changes", "fact_changes", "limit_changes"),
    [(Verdict.REJECTED, *case) for case in REJECTED] + [(Verdict.QUEUED, *case) for case in QUEUED],
)
def test_each_reason(
    outcome: Verdict,
    reason: Reason,
    request_changes: dict[str, Any],
    fact_changes: dict[str, Any],
    limit_changes: dict[str, Any],
) -> None:
    decision = decide(
        replace(REQUEST, **request_changes), replace(FACTS, **fact_changes), replace(LIMITS, **limit_changes)
    )
    assert (decision.outcome, decision.reason) == (outcome, reason)
    assert decision.explanation.endswith(".")


def test_every_reason_is_tested() -> None:
    assert {case[0] for case in REJECTED + QUEUED} | {Reason.APPROVED} == set(Reason)


@pytest.mark.parametrize(
    ("request_changes", "fact_changes", "limit_changes"),
    [
        ({}, {"workers_started": 2}, {"max_workers": 3}),
        ({"units": 2}, {"units_used": 8}, {"max_units": 10}),
        ({"tokens": 2}, {"tokens_used": 8}, {"max_tokens": 10}),
        ({"timeout_seconds": 2.0}, {"wall_seconds_used": 8}, {"max_wall_seconds": 10}),
        ({}, {"worktrees": 1}, {"max_worktrees": 2}),
        ({"write_mode": WriteMode.SHARED}, {"worktrees": 2}, {"max_worktrees": 2}),
        ({"attempt": 2, "previous_failure": "timed_out"}, {}, {}),
        ({}, {"running": (running("x"),)}, {"max_running": 2}),
        # Who waits for a quota takes up no place, and another credential's pause is none of one's own.
        ({}, {"running": (running("x", is_paused=True),)}, {"max_running": 1}),
        ({"credential": "agent/home"}, {"paused": (PAUSED,)}, {}),
        ({"harness": "agent"}, {}, {"allowed_harnesses": ("agent",)}),
        ({"workspace": "w"}, {"elsewhere": (running("x", workspace="v"),)}, {"max_running_in_workspace": 1}),
        ({"harness": "a"}, {"elsewhere": (running("x", harness="b"),)}, {"harness_rules": (HarnessRule("a", 1),)}),
        ({"role": "poet"}, {}, {}),
        ({"needs": ("a",)}, {"succeeded": ("a",)}, {}),
        # Who claims nothing overlaps nothing, not even a claim on everything.
        ({"owned_paths": ()}, {"running": (running("x", WriteMode.ISOLATED, "."),)}, {}),
        ({"owned_paths": (".",)}, {"running": (running("x"),)}, {}),
        ({"owned_paths": ("src2",)}, {"running": (running("x", WriteMode.ISOLATED, "src"),)}, {}),
        # Readers stand in nobody's way.
        (
            {"write_mode": WriteMode.READ_ONLY, "owned_paths": ("src",)},
            {"running": (running("x", WriteMode.SHARED, "src"),)},
            {},
        ),
        ({"owned_paths": ("src",)}, {"running": (running("x", WriteMode.READ_ONLY, "src"),)}, {}),
        (
            {"write_mode": WriteMode.SHARED, "checkout": "w"},
            {"running": (running("x", WriteMode.SHARED, checkout="v"),)},
            {},
        ),
    ],
)
def test_just_within(
    request_changes: dict[str, Any], fact_changes: dict[str, Any], limit_changes: dict[str, Any]
) -> None:
    decision = decide(
        replace(REQUEST, **request_changes), replace(FACTS, **fact_changes), replace(LIMITS, **limit_changes)
    )
    assert decision.outcome is Verdict.APPROVED


def test_refusals_come_before_waiting_and_depth_comes_first() -> None:
    request = replace(REQUEST, needs=("a",), owned_paths=("/x",), parent_depth=1, attempt=9)
    facts = replace(FACTS, running=(running("x"),) * 9, workers_started=99)
    assert decide(request, facts, LIMITS).reason is Reason.DEPTH_EXCEEDED
    request = replace(request, parent_depth=0)
    assert decide(request, facts, LIMITS).reason is Reason.OWNED_PATH_INVALID
    request = replace(request, owned_paths=())
    assert decide(request, facts, LIMITS).reason is Reason.RETRIES_EXHAUSTED
    request = replace(request, attempt=1)
    assert decide(request, facts, LIMITS).reason is Reason.WORKER_BUDGET_EXHAUSTED
    facts = replace(facts, workers_started=0)
    assert decide(request, facts, LIMITS).reason is Reason.NEED_UNFINISHED
    facts = replace(facts, succeeded=("a",))
    assert decide(request, facts, LIMITS).reason is Reason.CONCURRENCY_REACHED


def test_role_rules_are_limits_not_code() -> None:
    limits = replace(LIMITS, role_rules=(RoleRule("poet", (WriteMode.READ_ONLY,)),))
    assert decide(replace(REQUEST, role="poet"), FACTS, limits).reason is Reason.WRITE_MODE_NOT_ALLOWED
    assert (
        decide(replace(REQUEST, role="research", write_mode=WriteMode.SHARED), FACTS, limits).outcome
        is Verdict.APPROVED
    )


def test_queue_passes_over_what_is_blocked() -> None:
    queue = [
        replace(REQUEST, delegation_id="a", owned_paths=("src",)),
        replace(REQUEST, delegation_id="b", owned_paths=("src/web",)),
        replace(REQUEST, delegation_id="c", needs=("a",)),
        replace(REQUEST, delegation_id="d", owned_paths=("docs",)),
        replace(REQUEST, delegation_id="e", attempt=9),
        replace(REQUEST, delegation_id="f", needs=("e",)),
        replace(REQUEST, delegation_id="g"),
    ]
    considered = select_runnable(queue, FACTS, replace(LIMITS, max_running=2))
    assert [item.request for item in considered] == queue
    assert [(item.decision.outcome, item.decision.reason) for item in considered] == [
        (Verdict.APPROVED, Reason.APPROVED),
        (Verdict.QUEUED, Reason.OWNED_PATHS_BUSY),
        (Verdict.QUEUED, Reason.NEED_UNFINISHED),
        (Verdict.APPROVED, Reason.APPROVED),
        (Verdict.REJECTED, Reason.RETRIES_EXHAUSTED),
        (Verdict.REJECTED, Reason.NEED_FAILED),
        (Verdict.QUEUED, Reason.CONCURRENCY_REACHED),
    ]
    assert all(decide(item.request, item.facts, replace(LIMITS, max_running=2)) == item.decision for item in considered)


def test_budgets_hold_within_one_pass_over_the_queue() -> None:
    queue = [replace(REQUEST, delegation_id=name, units=4, timeout_seconds=1) for name in "abc"]
    outcomes = [item.decision.outcome for item in select_runnable(queue, FACTS, replace(LIMITS, max_units=10))]
    assert outcomes == [Verdict.APPROVED, Verdict.APPROVED, Verdict.REJECTED]


def test_a_start_counts_everything_it_may_use() -> None:
    request = replace(REQUEST, units=2, tokens=3, timeout_seconds=4.5, owned_paths=("src",), checkout="w")
    facts = with_started(FACTS, request)
    assert facts == PolicyFacts(
        running=(running("d1", WriteMode.ISOLATED, "src", checkout="w", role="implementation"),),
        workers_started=1,
        units_used=2,
        tokens_used=3,
        wall_seconds_used=4.5,
        worktrees=1,
    )
    assert with_started(FACTS, replace(request, write_mode=WriteMode.SHARED)).worktrees == 0


# -- replay ------------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "research", "implementation", "poet", "timed_out", "cancelled"])
TUPLES = st.lists(NAMES, max_size=3).map(tuple)
PATHS = st.lists(st.sampled_from(["src", "src/web", "docs", ".", "a/b"]), max_size=3).map(tuple)
ANY_PATHS = st.lists(st.sampled_from(["src", "./src/", "../x", "/y", "a*"]) | st.text(max_size=5), max_size=3).map(
    tuple
)
COUNTS = st.integers(0, 2**62)
SECONDS = st.floats(0, 1e15, allow_nan=False) | st.integers(0, 10**6)
MODES = st.sampled_from(WriteMode)
RULES = st.builds(RoleRule, role=NAMES, write_modes=st.lists(MODES, max_size=3).map(tuple))
INPUTS = st.builds(
    PolicyInput,
    request=st.builds(
        DelegationRequest,
        delegation_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        role=NAMES,
        write_mode=MODES,
        parent_depth=st.integers(0, 2),
        checkout=NAMES,
        owned_paths=ANY_PATHS,
        needs=TUPLES,
        network=st.booleans(),
        tools=TUPLES,
        units=st.integers(1, 9),
        tokens=COUNTS,
        timeout_seconds=st.none() | SECONDS,
        attempt=st.integers(1, 3),
        previous_failure=st.none() | NAMES,
    ),
    facts=st.builds(
        PolicyFacts,
        running=st.lists(st.builds(RunningWorker, NAMES, MODES, NAMES, PATHS), max_size=3).map(tuple),
        succeeded=TUPLES,
        failed=TUPLES,
        workers_started=st.integers(0, 70),
        units_used=COUNTS,
        tokens_used=COUNTS,
        wall_seconds_used=SECONDS,
        worktrees=st.integers(0, 110),
    ),
    limits=st.builds(
        PolicyLimits,
        max_depth=st.integers(0, 3),
        max_running=st.integers(1, 4),
        max_units=st.none() | COUNTS,
        max_tokens=st.none() | COUNTS,
        max_wall_seconds=st.none() | SECONDS,
        is_network_allowed=st.booleans(),
        allowed_tools=st.none() | TUPLES,
        role_rules=st.lists(RULES, max_size=3).map(tuple),
        are_unknown_roles_allowed=st.booleans(),
        final_failures=TUPLES,
    ),
)


@given(INPUTS)
def test_stored_input_replays_to_the_same_decision(policy_input: PolicyInput) -> None:
    text = policy_input.to_text()
    assert PolicyInput.from_text(text) == policy_input
    assert PolicyInput.from_text(text).to_text() == text
    assert replay(text) == policy_input.decide()
    assert policy_input.decide() == policy_input.decide()


def test_stored_form_is_plain_json() -> None:
    text = PolicyInput(replace(REQUEST, timeout_seconds=1.5), FACTS, LIMITS).to_text()
    stored = json.loads(text)
    assert stored["version"] == 2
    assert stored["request"]["write_mode"] == "isolated"
    assert stored["limits"]["role_rules"][0] == {
        "role": "research",
        "write_modes": ["read_only", "isolated"],
        "max_running": None,
        "is_network_allowed": None,
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.update(version=1),
        lambda stored: stored.update(version=3),
        lambda stored: stored.pop("facts"),
        lambda stored: stored["request"].update(extra=1),
        lambda stored: stored["limits"].pop("max_depth"),
        lambda stored: stored["request"].update(write_mode="full"),
        lambda stored: stored.update(request=[]),
    ],
)
def test_what_cannot_be_replayed_says_so(change: Any) -> None:
    stored = json.loads(PolicyInput(REQUEST, FACTS, LIMITS).to_text())
    change(stored)
    with pytest.raises(InvalidPolicyInput):
        replay(json.dumps(stored))


def test_damaged_text_says_so() -> None:
    for text in ("", "[]", "1", '{"version":1,"version":1}'):
        with pytest.raises(InvalidPolicyInput):
            replay(text)


def test_an_input_of_the_first_version_decides_as_it_did() -> None:
    stored = {
        "version": 1,
        "request": {
            "delegation_id": "d1",
            "role": "implementation",
            "write_mode": "isolated",
            "parent_depth": 0,
            "checkout": "w",
            "owned_paths": ["src"],
            "needs": [],
            "network": False,
            "tools": [],
            "units": 1,
            "tokens": 0,
            "timeout_seconds": 60.0,
            "attempt": 1,
            "previous_failure": None,
        },
        "facts": {
            "running": [{"delegation_id": "x", "write_mode": "isolated", "checkout": "w", "owned_paths": ["src/web"]}],
            "succeeded": [],
            "failed": [],
            "workers_started": 1,
            "units_used": 0,
            "tokens_used": 0,
            "wall_seconds_used": 0.0,
            "worktrees": 1,
        },
        "limits": {
            "max_depth": 1,
            "max_running": 4,
            "max_workers": 64,
            "max_attempts": 2,
            "max_worktrees": 100,
            "max_units": None,
            "max_tokens": None,
            "max_wall_seconds": None,
            "is_network_allowed": True,
            "allowed_tools": None,
            "role_rules": [{"role": "implementation", "write_modes": ["isolated"]}],
            "are_unknown_roles_allowed": True,
            "final_failures": ["cancelled"],
        },
    }
    decision = replay(json.dumps(stored))
    assert (decision.outcome, decision.reason) == (Verdict.QUEUED, Reason.OWNED_PATHS_BUSY)
    stored["facts"]["running"] = []  # type: ignore[index] # a dictionary of dictionaries
    assert replay(json.dumps(stored)).outcome is Verdict.APPROVED
    stored["facts"]["elsewhere"] = []  # type: ignore[index]
    with pytest.raises(InvalidPolicyInput):
        replay(json.dumps(stored))


def test_a_failure_is_tried_again_as_often_as_its_rule_says() -> None:
    limits = replace(LIMITS, retry_rules=(RetryRule("crashed", 2),))
    assert is_tried_again(limits, ["crashed"])
    assert is_tried_again(limits, ["crashed", "stalled", "crashed"])
    assert not is_tried_again(limits, ["crashed", "crashed", "crashed"])
    assert not is_tried_again(limits, ["crashed", "stalled"])
    assert not is_tried_again(replace(limits, final_failures=("crashed",)), ["crashed"])
    assert is_tried_again(LIMITS, ["quota_exhausted"])
    assert not is_tried_again(LIMITS, ["crashed"])
