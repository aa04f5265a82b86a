"""The table [policy]: every key, what is wrong with one, and who goes before whom."""

from __future__ import annotations

import tomllib

import pytest

from bridge.agents.approval import Permission
from bridge.agents.policy_file import MAX_RULES, read_policy
from bridge.agents.policy_model import HarnessRule, PolicyLimits, RetryRule, WriteMode
from bridge.foundation.errors import InvalidConfiguration

WHOLE = """
max_depth = 2
max_running = 3
max_running_in_workspace = 5
max_workers = 6
max_worktrees = 7
max_attempts = 8
max_units = 9
max_tokens = 10
max_wall_seconds = 11
max_queue_seconds = 12.5
network = false
unknown_roles = false
tools = ["read"]
harnesses = ["codex"]
final_failures = ["cancelled", "crashed"]

[roles.research]
write_modes = ["read_only"]
max_running = 1
network = true

[harness.codex]
max_running = 2

[retries]
stalled = 1

[quotas]
unknown_reset_seconds = 60

[approvals]
default = "ask"
timeout_seconds = 30

[[approvals.rule]]
permission = "deny"
tools = ["execute"]
paths = ["./src/"]
roles = ["research"]
"""


def policy(*texts: str):
    return read_policy(*map(tomllib.loads, texts))


def test_nothing_said_is_the_default():
    found = policy()
    assert found.limits == PolicyLimits()
    assert found.approvals.default is Permission.ALLOW
    assert found.stated == frozenset()


def test_every_key():
    found = policy(WHOLE)
    limits = found.limits
    assert (limits.max_depth, limits.max_running, limits.max_running_in_workspace) == (2, 3, 5)
    assert (limits.max_workers, limits.max_worktrees, limits.max_attempts) == (6, 7, 8)
    assert (limits.max_units, limits.max_tokens, limits.max_wall_seconds) == (9, 10, 11.0)
    assert limits.max_queue_seconds == 12.5
    assert (limits.is_network_allowed, limits.are_unknown_roles_allowed) == (False, False)
    assert (limits.allowed_tools, limits.allowed_harnesses) == (("read",), ("codex",))
    assert limits.final_failures == ("cancelled", "crashed")
    [research] = [rule for rule in limits.role_rules if rule.role == "research"]
    assert research.write_modes == (WriteMode.READ_ONLY,)
    assert (research.max_running, research.is_network_allowed) == (1, True)
    assert any(rule.role == "planning" for rule in limits.role_rules), "the other roles keep their rules"
    assert limits.harness_rules == (HarnessRule("codex", 2),)
    assert RetryRule("stalled", 1) in limits.retry_rules
    assert any(rule.failure == "quota_exhausted" for rule in limits.retry_rules)
    assert found.unknown_reset_seconds == 60.0
    assert (found.approvals.default, found.approvals.timeout_seconds) == (Permission.ASK, 30.0)
    [rule] = found.approvals.rules
    assert (rule.permission, rule.tools, rule.paths, rule.roles) == (
        Permission.DENY,
        ("execute",),
        ("src",),
        ("research",),
    )
    assert "max_running" in found.stated


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("max_runing = 1", "max_runing"),
        ("max_running = -1", "policy.max_running"),
        ("max_running = true", "policy.max_running"),
        ("max_queue_seconds = 0", "policy.max_queue_seconds"),
        ("network = 1", "policy.network"),
        ("tools = 'read'", "policy.tools"),
        ("roles = 3", "policy.roles"),
        ("[roles.a]\nwrite_modes = ['everywhere']", "policy.roles.a.write_modes"),
        ("[roles.a]\ncolour = 'red'", "colour"),
        ("[harness.a]", "policy.harness.a"),
        ("[retries]\ncrashed = 'often'", "policy.retries.crashed"),
        ("[quotas]\nunknown_reset_seconds = 'x'", "policy.quotas.unknown_reset_seconds"),
        ("[approvals]\ndefault = 'maybe'", "policy.approvals.default"),
        ("[[approvals.rule]]\ntools = []", "policy.approvals.rule 1"),
        ("[[approvals.rule]]\npermission = 'allow'\npaths = ['/etc']", "policy.approvals.rule 1, paths"),
        ("[approvals]\nrule = 3", "policy.approvals.rule"),
    ],
)
def test_what_cannot_be_used_is_named(text, named):
    with pytest.raises(InvalidConfiguration) as caught:
        policy(text)
    assert named in caught.value.message


def test_rules_are_bounded():
    rule = "[[approvals.rule]]\npermission = 'allow'\n"
    assert len(policy(rule * MAX_RULES).approvals.rules) == MAX_RULES
    with pytest.raises(InvalidConfiguration):
        policy(rule * (MAX_RULES + 1))


def test_a_persons_own_table_goes_before_the_projects():
    project = "max_running = 50\nmax_workers = 5\n[[approvals.rule]]\npermission = 'allow'"
    own = "max_running = 2\n[[approvals.rule]]\npermission = 'deny'\n[approvals]\n"
    found = policy(project, own.replace("[approvals]\n", ""))
    assert (found.limits.max_running, found.limits.max_workers) == (2, 5)
    assert [rule.permission for rule in found.approvals.rules] == [Permission.DENY, Permission.ALLOW]
