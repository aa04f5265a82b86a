"""What an adoption would do, found out without changing anything.

Blocking; run in a helper thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridge.control.controller import Controller
from bridge.control.delegations.adoption.adopting import distinct, is_adopted, is_forward_alone
from bridge.control.delegations.adoption.assembling import Assembly, assemble, conflict_of, drafts
from bridge.control.delegations.adoption.judging import adopted_already, entry_payload, judge
from bridge.control.delegations.adoption.model import (
    Check,
    Obstacle,
    Part,
    PartOutcome,
    Preview,
    PreviewedTask,
    Target,
    Verification,
    VerificationStatus,
    Wish,
)
from bridge.control.delegations.adoption.scratching import check_log, scratch_of
from bridge.control.delegations.adoption.targets import find_target
from bridge.control.delegations.adoption.verifying import run_check, verification
from bridge.control.delegations.model import Delegation
from bridge.foundation.errors import BridgeError
from bridge.git.commits import require_identity
from bridge.git.history import changed_paths
from bridge.git.merging import require_way
from bridge.git.paths import plain_path


def preview(controller: Controller, *delegations: Delegation, wish: Wish | None = None) -> Preview:
    """Return what adopting some tasks would do, and everything that would stop it; a wanted check is run.

    Raises
    ------
    AdoptionRefused
        If no task or too many are named. Whatever else is in the way is part of the answer.
    """
    wish = wish or Wish()
    tasks = distinct(delegations)
    blocked: list[Obstacle] = []
    target: Target | None = None
    try:
        target = find_target(controller, tasks, wish.into)
    except BridgeError as error:
        blocked.append(_obstacle(error))
    if target is None:
        told = tuple(_untold(task, None) for task in tasks)
        return Preview(told, None, None, is_checked_out=False, files_changed=(), blocked_by=tuple(blocked))
    parts, refused = _judged(controller, target, tasks, wish)
    assembly = assemble(target.location, target.tip, parts, wish, drafts(target.location))
    check = None
    for attempt in _steps(target, assembly):
        blocked += _tried(attempt)
    if wish.check is not None and parts and not assembly.conflicts:
        try:
            check = _checked(controller, target, assembly, parts, wish)
        except BridgeError as error:
            blocked.append(_obstacle(error))
    outcomes = {outcome.part.delegation.id: outcome for outcome in assembly.outcomes}
    shown = tuple(
        _previewed(controller, target, task, outcomes[task.id], assembly)
        if task.id in outcomes
        else _untold(task, refused.get(task.id))
        for task in tasks
    )
    files = _files(target, assembly)
    return Preview(shown, target.branch, target.tip, target.is_checked_out, files, tuple(blocked), check)


def _judged(
    controller: Controller, target: Target, tasks: Sequence[Delegation], wish: Wish
) -> tuple[list[Part], dict[str, Obstacle]]:
    parts: list[Part] = []
    refused: dict[str, Obstacle] = {}
    for task in tasks:
        try:
            if is_adopted(controller, task):
                raise adopted_already(task)
            parts.append(judge(controller, target.location, task, wish))
        except BridgeError as error:
            refused[task.id] = _obstacle(error)
    return parts, refused


def _steps(target: Target, assembly: Assembly) -> list[Callable[[], None]]:
    """Return what would be asked for before anything moves."""
    if assembly.tip == target.tip:
        return []
    steps: list[Callable[[], None]] = []
    if not is_forward_alone(assembly):
        steps.append(lambda: require_identity(target.location))
    if target.is_checked_out:
        steps.append(lambda: require_way(target.location, target.tip, assembly.tip))
    return steps


def _tried(step: Callable[[], None]) -> list[Obstacle]:
    try:
        step()
    except BridgeError as error:
        return [_obstacle(error)]
    return []


def _checked(controller: Controller, target: Target, assembly: Assembly, parts: Sequence[Part], wish: Wish) -> Check:
    with scratch_of(controller, target.location, assembly.tip) as scratch:
        return run_check(controller, scratch, check_log(controller, parts[0].delegation), wish, assembly.tip)


def _previewed(
    controller: Controller, target: Target, task: Delegation, outcome: PartOutcome, assembly: Assembly
) -> PreviewedTask:
    base = entry_payload(controller, task.request_entry_id).get("request", {}).get("base", {})
    part = outcome.part
    return PreviewedTask(
        delegation=task,
        method=outcome.method,
        files_changed=outcome.files or tuple(plain_path(path) for path in part.files),
        out_of_scope=part.out_of_scope,
        conflicts=outcome.conflicts,
        conflicts_with=outcome.with_tasks,
        base_commit=task.base_commit,
        has_base_moved=base.get("head", task.base_commit) != target.tip,
        verification=verification(target.location, part, assembly.tip),
        obstacle=_obstacle(conflict_of(outcome)) if outcome.conflicts else None,
    )


def _untold(task: Delegation, obstacle: Obstacle | None) -> PreviewedTask:
    """Return a task of which nothing can be said because it, or the branch, stands in the way."""
    nothing = Verification(VerificationStatus.NONE)
    strays = () if obstacle is None else tuple(obstacle.details.get("paths", ()))
    is_stray = obstacle is not None and obstacle.code == "out_of_scope_writes"
    return PreviewedTask(
        delegation=task,
        method="none",
        files_changed=(),
        out_of_scope=strays if is_stray else (),
        conflicts=(),
        conflicts_with=(),
        base_commit=task.base_commit,
        has_base_moved=False,
        verification=nothing,
        obstacle=obstacle,
    )


def _files(target: Target, assembly: Assembly) -> tuple[str, ...]:
    if assembly.tip == target.tip:
        return ()
    changes = changed_paths(target.location, target.tip, assembly.tip, find_renames=False)
    return tuple(plain_path(change.path) for change in changes)


def _obstacle(error: BridgeError) -> Obstacle:
    return Obstacle(error.code, error.message, error.hint, error.details)
