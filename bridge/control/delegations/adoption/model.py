"""Values of an adoption: what is wanted, what each task brings, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from bridge.control.delegations.model import Delegation
from bridge.git.repository import RepositoryLocation

#: Time limit of the command that checks the combined tree, in seconds, unless another is given.
DEFAULT_CHECK_TIMEOUT_SECONDS: Final = 1800.0
#: How many tasks may be adopted together.
MAX_TASKS: Final = 50


class Method(StrEnum):
    """How the commits of a task come onto a branch."""

    #: As they are: a fast-forward where the branch has not moved, else a merge.
    AUTO = "auto"
    #: As they are, with a merge commit in any case.
    MERGE = "merge"
    #: As one commit per task.
    SQUASH = "squash"
    #: Made anew one by one on top of the branch.
    PICK = "pick"


@dataclass(frozen=True, slots=True)
class Wish:
    """How somebody wants tasks adopted.

    Parameters
    ----------
    method
        How the commits come.
    into
        The git branch that takes them, short or full; None for the one that the tasks were asked for on.
    check
        A command line for ``/bin/sh``, run in the combined files before anything moves; None for none.
    check_timeout_seconds
        Its time limit.
    message
        The message of commits that are made for what a worker left uncommitted, squashed or merged; None for one
        that names the task.
    allows_out_of_scope
        Whether writes outside a task's owned paths may come too.
    is_forced
        Whether a result that did not complete may be adopted all the same; includes ``allows_out_of_scope``.
    runs_hooks, is_signed
        Whether the user's hooks run for commits that are made, and whether these are signed where the user signs.
    """

    method: Method = Method.AUTO
    into: str | None = None
    check: str | None = None
    check_timeout_seconds: float = DEFAULT_CHECK_TIMEOUT_SECONDS
    message: str | None = None
    allows_out_of_scope: bool = False
    is_forced: bool = False
    runs_hooks: bool = True
    is_signed: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """What one task brings.

    Parameters
    ----------
    base
        The commit that its worker started from.
    own
        The worker's own last commit; the base where it made none.
    result
        A commit with all it left; its own last one where nothing was uncommitted.
    is_carried
        Whether the base is a snapshot of somebody's uncommitted work, which must not come into the history.
    files
        What it changed, as raw paths.
    out_of_scope
        Those of them outside its owned paths.
    payload
        The recorded result.
    """

    delegation: Delegation
    base: str
    own: str
    result: str
    is_carried: bool
    files: tuple[bytes, ...]
    out_of_scope: tuple[str, ...]
    payload: Mapping[str, Any]

    @property
    def shown(self) -> str:
        return shown(self.delegation)


@dataclass(frozen=True, slots=True)
class Target:
    """What takes the commits.

    Parameters
    ----------
    location, checkout
        The checkout that asked for the tasks.
    branch
        Full name of the git branch.
    tip
        The commit that it is at.
    is_checked_out
        Whether that checkout has it checked out, so that its files move too.
    """

    location: RepositoryLocation
    checkout: Path
    branch: str
    tip: str
    is_checked_out: bool


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """How one task's commits came, or would come.

    Parameters
    ----------
    method
        What was done in fact: ``fast_forward``, ``commit``, ``merge``, ``squash``, ``pick``, ``contained``,
        or ``conflict`` in a preview.
    before, after
        The tip without and with it.
    conflicts
        Paths that do not merge, raw; with ``with_tasks`` those of the tasks adopted together that they clash with
        (empty: with the branch itself) and git's own words.
    """

    part: Part
    method: str
    before: str
    after: str
    files: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    with_tasks: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


class VerificationStatus(StrEnum):
    """What the tests that a worker ran say about the adopted tree."""

    #: It ran none.
    NONE = "none"
    #: They ran on exactly this tree.
    HOLDS = "holds"
    #: They ran on another tree, or it is not known on which.
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True)
class Verification:
    """The tests of one task, the tree they ran on, and whether that is the one that was adopted."""

    status: VerificationStatus
    tests: tuple[Mapping[str, Any], ...] = ()
    tested_tree: str | None = None
    adopted_tree: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "status": str(self.status),
            "tests": [dict(test) for test in self.tests],
            "tested_tree": self.tested_tree,
            "adopted_tree": self.adopted_tree,
        }


@dataclass(frozen=True, slots=True)
class Check:
    """A command that was run in the combined files, and how it ended."""

    command: str
    exit_status: int | None
    reason: str
    seconds: float
    log: Path
    tree: str

    @property
    def has_passed(self) -> bool:
        return self.exit_status == 0 and self.reason == "exited"

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "command": self.command,
            "exit_status": self.exit_status,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "log": str(self.log),
            "tree": self.tree,
        }


@dataclass(frozen=True, slots=True)
class Adopted:
    """One task of an adoption."""

    delegation: Delegation
    method: str
    files_changed: tuple[str, ...]
    verification: Verification
    out_of_scope: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "task": self.delegation.to_json(),
            "method": self.method,
            "files_changed": list(self.files_changed),
            "out_of_scope": list(self.out_of_scope),
            "verification": self.verification.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Adoption:
    """What an adoption did.

    Parameters
    ----------
    branch
        Full name of the git branch that took the commits.
    previous, commit
        Its tip before and after.
    undo
        A command line that takes it back, while nothing else was committed on top; empty if nothing moved.
    """

    tasks: tuple[Adopted, ...]
    branch: str
    previous: str
    commit: str
    is_checked_out: bool
    files_changed: tuple[str, ...]
    undo: str = ""
    check: Check | None = None

    @property
    def delegation(self) -> Delegation:
        """The first of the tasks."""
        return self.tasks[0].delegation

    @property
    def was_contained(self) -> bool:
        """Whether the branch held the work already, so that nothing had to move."""
        return self.commit == self.previous

    def with_delegations(self, delegations: Mapping[str, Delegation]) -> Adoption:
        """Return the same with other states of the tasks, by id."""
        tasks = tuple(replace(task, delegation=delegations[task.delegation.id]) for task in self.tasks)
        return replace(self, tasks=tasks)

    def to_json(self) -> dict[str, Any]:
        """Return the adoption as the command line and RPC show it."""
        return {
            "tasks": [task.to_json() for task in self.tasks],
            "branch": self.branch,
            "previous": self.previous,
            "commit": self.commit,
            "is_checked_out": self.is_checked_out,
            "files_changed": list(self.files_changed),
            "was_contained": self.was_contained,
            "undo": self.undo,
            "check": None if self.check is None else self.check.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why an adoption would be refused, in the words and with the code of the error that it would raise."""

    code: str
    message: str
    hint: str | None
    details: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "details": dict(self.details)}


@dataclass(frozen=True, slots=True)
class PreviewedTask:
    """What one task would bring."""

    delegation: Delegation
    method: str
    files_changed: tuple[str, ...]
    out_of_scope: tuple[str, ...]
    conflicts: tuple[str, ...]
    conflicts_with: tuple[str, ...]
    base_commit: str | None
    has_base_moved: bool
    verification: Verification
    obstacle: Obstacle | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "task": self.delegation.to_json(),
            "method": self.method,
            "files_changed": list(self.files_changed),
            "out_of_scope": list(self.out_of_scope),
            "conflicts": list(self.conflicts),
            "conflicts_with": list(self.conflicts_with),
            "base_commit": self.base_commit,
            "has_base_moved": self.has_base_moved,
            "verification": self.verification.to_json(),
            "obstacle": None if self.obstacle is None else self.obstacle.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Preview:
    """What an adoption would do; making it changed nothing.

    Parameters
    ----------
    blocked_by
        What would stop it as a whole: the branch, uncommitted work in the way.
    """

    tasks: tuple[PreviewedTask, ...]
    branch: str | None
    tip: str | None
    is_checked_out: bool
    files_changed: tuple[str, ...]
    blocked_by: tuple[Obstacle, ...] = field(default=())
    check: Check | None = None

    @property
    def is_adoptable(self) -> bool:
        return not self.blocked_by and all(task.obstacle is None for task in self.tasks)

    def to_json(self) -> dict[str, Any]:
        """Return the preview as the command line and RPC show it."""
        return {
            "is_adoptable": self.is_adoptable,
            "tasks": [task.to_json() for task in self.tasks],
            "branch": self.branch,
            "tip": self.tip,
            "is_checked_out": self.is_checked_out,
            "files_changed": list(self.files_changed),
            "blocked_by": [obstacle.to_json() for obstacle in self.blocked_by],
            "check": None if self.check is None else self.check.to_json(),
        }


def shown(delegation: Delegation) -> str:
    """Return what people call a task."""
    return delegation.name or delegation.id
