"""The table ``[policy]`` of ``bridge.toml`` and ``config.toml``: limits, rules, approvals, retries.

A person's own ``config.toml`` goes before a project's ``bridge.toml``, key by key: a repository that somebody cloned
cannot loosen what they set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from bridge.agents.approval import ApprovalPolicy, ApprovalRule, Permission
from bridge.agents.errors import InvalidOwnedPath
from bridge.agents.ownership import normalise
from bridge.agents.policy_model import HarnessRule, PolicyLimits, RetryRule, RoleRule, WriteMode
from bridge.foundation.errors import InvalidConfiguration

#: Seconds that a used-up quota is waited for where the harness does not say when it is full again.
DEFAULT_UNKNOWN_RESET_SECONDS: Final = 900.0
#: Rules of one list.
MAX_RULES: Final = 200

_W = TypeVar("_W", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class WorkspacePolicy:
    """What a workspace's workers may, and what is done about quotas. ``stated`` are the keys that somebody wrote."""

    limits: PolicyLimits = field(default_factory=PolicyLimits)
    approvals: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    unknown_reset_seconds: float = DEFAULT_UNKNOWN_RESET_SECONDS
    stated: frozenset[str] = frozenset()


def read_policy(*tables: Mapping[str, Any]) -> WorkspacePolicy:
    """Return the policy that tables say; of two that give the same key the later one holds.

    Raises
    ------
    InvalidConfiguration
        If a key is unknown or a value is of no use; the message names it.
    """
    merged: Mapping[str, Any] = {}
    for table in tables:
        merged = _merged(merged, table)
    _require_keys("policy", merged, {*_LIMITS, "roles", "harness", "retries", "approvals", "quotas"})
    limits = PolicyLimits()
    changes = {name: check(f"policy.{key}", merged[key]) for key, (name, check) in _LIMITS.items() if key in merged}
    roles = _tables("policy.roles", merged.get("roles", {}))
    known = {rule.role: rule for rule in limits.role_rules}
    rules = {**known, **{role: _role(role, table, known.get(role)) for role, table in roles.items()}}
    harnesses = _tables("policy.harness", merged.get("harness", {}))
    retries = {rule.failure: rule for rule in limits.retry_rules}
    for failure, times in _table("policy.retries", merged.get("retries", {})).items():
        retries[failure] = RetryRule(failure, _count(f"policy.retries.{failure}", times))
    limits = replace(
        limits,
        **changes,
        role_rules=tuple(rules.values()),
        harness_rules=tuple(_harness(name, table) for name, table in harnesses.items()),
        retry_rules=tuple(retries.values()),
    )
    quotas = _table("policy.quotas", merged.get("quotas", {}))
    _require_keys("policy.quotas", quotas, {"unknown_reset_seconds"})
    seconds = quotas.get("unknown_reset_seconds", DEFAULT_UNKNOWN_RESET_SECONDS)
    return WorkspacePolicy(
        limits,
        _approvals(_table("policy.approvals", merged.get("approvals", {}))),
        _seconds("policy.quotas.unknown_reset_seconds", seconds),
        frozenset(merged),
    )


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Mapping[str, Any]:
    result = dict(below)
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = _merged(result[key], value)
        elif key == "rule" and isinstance(value, list) and isinstance(result.get(key), list):
            # The first rule that fits decides: those that go before come first.
            result[key] = [*value, *result[key]]
        else:
            result[key] = value
    return result


def _role(role: str, table: Mapping[str, Any], known: RoleRule | None) -> RoleRule:
    where = f"policy.roles.{role}"
    _require_keys(where, table, {"write_modes", "max_running", "network"})
    rule = known or RoleRule(role, tuple(WriteMode))
    if "write_modes" in table:
        rule = replace(rule, write_modes=_words(f"{where}.write_modes", table["write_modes"], WriteMode))
    if "max_running" in table:
        rule = replace(rule, max_running=_count(f"{where}.max_running", table["max_running"]))
    if "network" in table:
        rule = replace(rule, is_network_allowed=_switch(f"{where}.network", table["network"]))
    return rule


def _harness(name: str, table: Mapping[str, Any]) -> HarnessRule:
    where = f"policy.harness.{name}"
    _require_keys(where, table, {"max_running"})
    if "max_running" not in table:
        raise _wrong(where, "a table with max_running")
    return HarnessRule(name, _count(f"{where}.max_running", table["max_running"]))


def _approvals(table: Mapping[str, Any]) -> ApprovalPolicy:
    _require_keys("policy.approvals", table, {"default", "timeout_seconds", "rule"})
    policy = ApprovalPolicy()
    if "default" in table:
        policy = replace(policy, default=_word("policy.approvals.default", table["default"], Permission))
    if "timeout_seconds" in table:
        seconds = _seconds("policy.approvals.timeout_seconds", table["timeout_seconds"])
        policy = replace(policy, timeout_seconds=seconds)
    rules = table.get("rule", [])
    if not isinstance(rules, list) or len(rules) > MAX_RULES:
        raise _wrong("policy.approvals.rule", f"a list of at most {MAX_RULES} tables: [[policy.approvals.rule]]")
    return replace(policy, rules=tuple(_rule(number, rule) for number, rule in enumerate(rules, start=1)))


def _rule(number: int, rule: object) -> ApprovalRule:
    where = f"policy.approvals.rule {number}"
    table = _table(where, rule)
    _require_keys(where, table, {"permission", "tools", "paths", "roles"})
    if "permission" not in table:
        raise _wrong(where, "a table with permission: allow, deny or ask")
    try:
        paths = tuple(normalise(path) for path in _texts(f"{where}, paths", table.get("paths", [])))
    except InvalidOwnedPath as error:
        raise _wrong(f"{where}, paths", "prefixes relative to the repository root") from error
    return ApprovalRule(
        _word(f"{where}, permission", table["permission"], Permission),
        tools=_texts(f"{where}, tools", table.get("tools", [])),
        paths=paths,
        roles=_texts(f"{where}, roles", table.get("roles", [])),
    )


def _require_keys(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise InvalidConfiguration(
            f"{where}: unknown key {unknown[0]!r}.", hint=f"Known keys: {', '.join(sorted(known))}."
        )


def _wrong(where: str, wanted: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"{where} must be {wanted}.", hint="Mend it; docs/policy.md describes every key.")


def _table(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(where, "a table")
    return value


def _tables(where: str, value: object) -> Mapping[str, Mapping[str, Any]]:
    return {name: _table(f"{where}.{name}", item) for name, item in _table(where, value).items()}


def _count(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(where, "a whole number, 0 or more")
    return value


def _seconds(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise _wrong(where, "a positive number of seconds")
    return float(value)


def _switch(where: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, "true or false")
    return value


def _texts(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _wrong(where, "a list of strings")
    return tuple(value)


def _word(where: str, value: object, words: type[_W]) -> _W:
    if not isinstance(value, str) or value not in set(words):
        raise _wrong(where, " or ".join(words))
    return words(value)


def _words(where: str, value: object, words: type[WriteMode]) -> tuple[WriteMode, ...]:
    return tuple(_word(where, item, words) for item in _texts(where, value))


#: Keys that are one value each: the field of the limits, and what makes a value of it.
_LIMITS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = MappingProxyType(
    {
        "max_depth": ("max_depth", _count),
        "max_running": ("max_running", _count),
        "max_running_in_workspace": ("max_running_in_workspace", _count),
        "max_workers": ("max_workers", _count),
        "max_worktrees": ("max_worktrees", _count),
        "max_attempts": ("max_attempts", _count),
        "max_units": ("max_units", _count),
        "max_tokens": ("max_tokens", _count),
        "max_wall_seconds": ("max_wall_seconds", _seconds),
        "max_queue_seconds": ("max_queue_seconds", _seconds),
        "network": ("is_network_allowed", _switch),
        "unknown_roles": ("are_unknown_roles_allowed", _switch),
        "tools": ("allowed_tools", _texts),
        "harnesses": ("allowed_harnesses", _texts),
        "final_failures": ("final_failures", _texts),
    }
)
