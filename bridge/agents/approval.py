"""Whether a worker may do what it asks for: rules by kind of tool and path. Pure.

The first rule that fits decides. A rule with paths that allows fits only if every file of the call lies below one of
them; one that denies or asks fits if any does. A call that names no file fits no rule with paths. What no rule fits is
answered by ``default``, but never allowed where a file lies outside the worktree: about that somebody is asked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.agents.ownership import covers
from bridge.agents.policy_model import WriteMode

#: Seconds that the operator has to answer, unless ``timeout_seconds`` says otherwise.
DEFAULT_APPROVAL_SECONDS: Final = 600.0
#: Kinds of tool calls that change files, as agents name them.
WRITING_KINDS: Final = frozenset({"edit", "delete", "move"})


class Permission(StrEnum):
    """What becomes of a request."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """What is answered where it fits.

    ``tools`` are kinds of tool calls (read, edit, delete, move, search, execute, think, fetch, other), ``paths``
    prefixes relative to the worktree, ``roles`` roles of workers. Empty fits all.
    """

    permission: Permission
    tools: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """The rules in their order, what is answered where none fits, and how long an answer may take."""

    rules: tuple[ApprovalRule, ...] = ()
    default: Permission = Permission.ALLOW
    timeout_seconds: float = DEFAULT_APPROVAL_SECONDS


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """What a worker wants to do.

    Parameters
    ----------
    tool
        Kind of the tool call; empty if the agent does not say.
    paths
        Files concerned, absolute or relative to the worktree.
    worktree
        Where it works, absolute, links resolved.
    """

    tool: str
    paths: tuple[str, ...]
    role: str
    write_mode: str
    worktree: str


@dataclass(frozen=True, slots=True)
class ApprovalVerdict:
    """The answer, and by what: the number of the rule from 1, or ``default``, ``read_only``, ``outside``."""

    permission: Permission
    because: str


def judge(question: ApprovalQuestion, policy: ApprovalPolicy) -> ApprovalVerdict:
    """Answer a question. Pure: equal inputs give equal answers."""
    if question.write_mode == WriteMode.READ_ONLY and question.tool in WRITING_KINDS:
        return ApprovalVerdict(Permission.DENY, "read_only")
    inside = [_inside(path, question.worktree) for path in question.paths]
    for number, rule in enumerate(policy.rules, start=1):
        if _fits(rule, question, inside):
            return ApprovalVerdict(rule.permission, f"rule {number}")
    if None in inside and policy.default is Permission.ALLOW:
        return ApprovalVerdict(Permission.ASK, "outside")
    return ApprovalVerdict(policy.default, "default")


def _fits(rule: ApprovalRule, question: ApprovalQuestion, inside: Sequence[str | None]) -> bool:
    if rule.tools and (question.tool or "other") not in rule.tools:
        return False
    if rule.roles and question.role not in rule.roles:
        return False
    if rule.permission is Permission.ALLOW and None in inside:
        return False
    if not rule.paths:
        return True
    below = [path is not None and covers(rule.paths, path) for path in inside]
    return bool(below) and (all(below) if rule.permission is Permission.ALLOW else any(below))


def _inside(path: str, worktree: str) -> str | None:
    """Return a path relative to the worktree, by its text alone; None if it leads out of it or into git's folder."""
    relative = posixpath.relpath(posixpath.normpath(posixpath.join(worktree, path)), worktree)
    parts = relative.split("/")
    if parts[0] == ".." or any(part.lower() == ".git" for part in parts):
        return None
    return relative
