"""What an agent asks to be allowed, and who answers: a policy, which is a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

#: Kinds of tool calls that change files, in the words of the Agent Client Protocol.
WRITING_KINDS: Final = frozenset({"edit", "delete", "move"})


@dataclass(frozen=True, slots=True)
class PermissionOption:
    """An answer that the agent offers: ``kind`` is allow_once, allow_always, reject_once or reject_always."""

    id: str
    name: str
    kind: str

    @property
    def allows(self) -> bool:
        return self.kind.startswith("allow")


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """Something the agent wants allowed.

    Parameters
    ----------
    title
        What, in the agent's words.
    kind
        Category of the tool (read, edit, execute, …); empty if it does not say.
    tool_call_id
        The call that waits for it.
    options
        The answers offered.
    details
        The tool's input, any JSON.
    paths
        Files that the call touches, as far as the agent says; absolute, or relative to where it works.
    approval_id
        As in the events about it.
    """

    title: str
    kind: str
    tool_call_id: str
    options: tuple[PermissionOption, ...]
    details: Any = None
    paths: tuple[str, ...] = ()
    approval_id: str = ""


@dataclass(frozen=True, slots=True)
class PermissionAnswer:
    """The answer: an option's id, or None for none of them, and who gave it.

    ``outcome`` is the word for an answer that is none of the options, such as ``timed_out``: nobody refused then, and
    nothing may say so. ``reason`` is for people.
    """

    option_id: str | None
    decided_by: str
    outcome: str | None = None
    reason: str | None = None


#: Decides about a request; what it raises counts as a refusal.
PermissionPolicy = Callable[[PermissionRequest], Awaitable[PermissionAnswer]]


async def refuse(request: PermissionRequest) -> PermissionAnswer:
    """Refuse whatever is asked: the policy where nobody can be asked."""
    for kind in ("reject_once", "reject_always"):
        for option in request.options:
            if option.kind == kind:
                return PermissionAnswer(option.id, "default")
    return PermissionAnswer(None, "default")


async def allow(request: PermissionRequest) -> PermissionAnswer:
    """Allow whatever is asked, once: for a worker whose place and limits are somebody else's to guard."""
    return _chosen(request, ("allow_once", "allow_always"))


async def allow_reading(request: PermissionRequest) -> PermissionAnswer:
    """Allow what changes no file by its own account, and refuse the rest: for a worker that is only to look."""
    if request.kind in WRITING_KINDS:
        return _chosen(request, ("reject_once", "reject_always"))
    return await allow(request)


def _chosen(request: PermissionRequest, kinds: tuple[str, ...]) -> PermissionAnswer:
    for kind in kinds:
        for option in request.options:
            if option.kind == kind:
                return PermissionAnswer(option.id, "policy")
    return PermissionAnswer(None, "policy")
