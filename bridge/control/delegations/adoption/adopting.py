"""Adoption: what tasks did becomes part of a git branch.

Everything is made without a checkout, as objects; only the last step touches the branch and the files, and that step
either happens whole or not at all. Bridge's own preserving commits never reach a user's branch: what a worker left
uncommitted arrives in a commit made in the user's name.

A kill between two steps leaves either nothing but unused objects, or commits in the branch that a ref of the task's
names: adopting again records them then.

Blocking; run in a helper thread.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.adoption.assembling import Assembly, assemble, drafts, require_no_conflict, users
from bridge.control.delegations.adoption.judging import adopted_already, inspected_again, judge
from bridge.control.delegations.adoption.model import (
    MAX_TASKS,
    Adopted,
    Adoption,
    Check,
    Part,
    PartOutcome,
    Target,
    Verification,
    VerificationStatus,
    Wish,
    shown,
)
from bridge.control.delegations.adoption.scratching import check_log, scratch_of
from bridge.control.delegations.adoption.targets import checkout_of, find_target
from bridge.control.delegations.adoption.verifying import run_check, verification
from bridge.control.delegations.changing import change_delegation
from bridge.control.delegations.model import AdoptionStatus, Delegation
from bridge.control.delegations.releasing import release_worktree
from bridge.control.errors import AdoptionRefused
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import EntryDraft
from bridge.git.commits import move_branch, read_ref, require_identity, update_ref
from bridge.git.history import changed_paths, is_ancestor, is_in_a_branch
from bridge.git.merging import fast_forward_checkout, require_way
from bridge.git.observe import Observation
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation, discover
from bridge.git.usercommits import CommitSettings, commit_settings, reset_scratch
from bridge.workspaces.store import save_state

#: Names the commit that a branch is about to be moved to for a task, until that is recorded.
ADOPTING_REF: Final = "refs/bridge/tasks/{delegation_id}/adopting"


def adopt(controller: Controller, *delegations: Delegation, wish: Wish | None = None) -> Adoption:
    """Bring the commits of tasks, and what they left uncommitted, onto the branch they were asked for on.

    Several tasks come together or not at all, in the order given.

    Raises
    ------
    TaskStillOpen, NothingToAdopt, AdoptionRefused, OutOfScopeWrites
        If there is nothing that could or may be adopted, or no branch to take it.
    GitFailed, WorktreeNotRegistered
        If a task's worktree could not be inspected when it ended, and still cannot.
    AdoptionConflict
        If the commits do not merge with the branch or with each other.
    CheckoutBlocked
        If uncommitted edits, or files git does not track, stand where adopted files would go.
    BranchCheckedOut
        If another worktree has the branch checked out.
    GitIdentityMissing, CommitRefused
        If a commit has to be made and git does not know in whose name, a hook refuses it, or it cannot be signed.
    AdoptionCheckFailed
        If the wanted check does not end well.
    RefMoved
        If the branch moved meanwhile.

    Notes
    -----
    In every one of these cases branch, index and files are as they were.
    """
    wish = wish or Wish()
    tasks = [inspected_again(controller, delegation) for delegation in distinct(delegations)]
    require_unadopted(controller, tasks)
    target = find_target(controller, tasks, wish.into)
    arrived = _arrived(target, tasks)
    if arrived is not None:
        return _recorded(controller, tasks, target, arrived, arrived)
    parts = [judge(controller, target.location, task, wish) for task in tasks]
    assembly = assemble(target.location, target.tip, parts, wish, drafts(target.location))
    require_no_conflict(assembly)
    if target.is_checked_out and assembly.tip != target.tip:
        require_way(target.location, target.tip, assembly.tip)
    check = None
    if assembly.tip != target.tip:
        assembly, check = _made(controller, target, parts, wish, assembly)
        _move(target, tasks, assembly.tip)
    return _recorded(controller, tasks, target, assembly.tip, target.tip, assembly=assembly, check=check)


def distinct(delegations: Sequence[Delegation]) -> list[Delegation]:
    """Return tasks each once, in their order.

    Raises
    ------
    AdoptionRefused
        If there are none, or more than :data:`MAX_TASKS`.
    """
    tasks = list({delegation.id: delegation for delegation in delegations}.values())
    if not 0 < len(tasks) <= MAX_TASKS:
        raise AdoptionRefused(
            f"{len(tasks)} tasks were named; from 1 to {MAX_TASKS} can be adopted together. Nothing was changed.",
            details={"tasks": len(tasks), "limit": MAX_TASKS},
        )
    return tasks


def require_unadopted(controller: Controller, tasks: Sequence[Delegation]) -> None:
    """Return if no task's commits are in a branch already; what was taken back again may be adopted anew.

    A worktree that an interrupted adoption left is given up on the way.

    Raises
    ------
    NothingToAdopt
        If one was adopted.
    """
    for task in tasks:
        if is_adopted(controller, task):
            release_worktree(controller, task, kept_in=(str(task.adoption_commit),))
            raise adopted_already(task)


def is_adopted(controller: Controller, task: Delegation) -> bool:
    """Tell whether a task was adopted and a branch still has it."""
    if task.adoption_status is not AdoptionStatus.ADOPTED or task.adoption_commit is None:
        return False
    return is_in_a_branch(discover(checkout_of(controller, task)), task.adoption_commit)


def _arrived(target: Target, tasks: Sequence[Delegation]) -> str | None:
    """Return the commit with which an adoption of just these tasks reached the branch without being recorded."""
    named = {read_ref(target.location, ADOPTING_REF.format(delegation_id=task.id)) for task in tasks}
    commit = named.pop() if len(named) == 1 else None
    return commit if commit is not None and is_ancestor(target.location, commit, target.tip) else None


def _made(
    controller: Controller, target: Target, parts: Sequence[Part], wish: Wish, draft: Assembly
) -> tuple[Assembly, Check | None]:
    """Make the user's own commits, with hooks and signature, and check what came out."""
    settings = commit_settings(target.location, runs_hooks=wish.runs_hooks, is_signing_wanted=wish.is_signed)
    if not is_forward_alone(draft):
        require_identity(target.location)
    is_scratch_needed = wish.check is not None or (settings.hooks is not None and not is_forward_alone(draft))
    with _scratch(controller, target, draft.tip, is_needed=is_scratch_needed) as scratch:
        made = _users(target, parts, wish, settings, scratch)
        require_no_conflict(made)
        if wish.check is None or scratch is None:
            return made, None
        reset_scratch(scratch, made.tip)
        return made, run_check(controller, scratch, check_log(controller, parts[0].delegation), wish, made.tip)


def _users(
    target: Target,
    parts: Sequence[Part],
    wish: Wish,
    settings: CommitSettings,
    scratch: RepositoryLocation | None,
) -> Assembly:
    return assemble(target.location, target.tip, parts, wish, users(target.location, settings, scratch))


def is_forward_alone(draft: Assembly) -> bool:
    """Tell whether the branch takes nothing but commits that are there already."""
    own = {outcome.part.own for outcome in draft.outcomes}
    return all(
        outcome.method == "contained" or (outcome.method == "fast_forward" and outcome.after in own)
        for outcome in draft.outcomes
    )


@contextlib.contextmanager
def _scratch(
    controller: Controller, target: Target, commit: str, *, is_needed: bool
) -> Iterator[RepositoryLocation | None]:
    if not is_needed:
        yield None
        return
    with scratch_of(controller, target.location, commit) as made:
        yield made


def _move(target: Target, tasks: Sequence[Delegation], commit: str) -> None:
    """Move the branch, having named the commit first: so it is found again should recording it never happen."""
    refs = [ADOPTING_REF.format(delegation_id=task.id) for task in tasks]
    for ref in refs:
        update_ref(target.location, ref, commit, message="bridge: adopting")
    try:
        if target.is_checked_out:
            fast_forward_checkout(target.checkout, commit, expected_head=target.tip)
        else:
            move_branch(target.location, target.branch, commit, expected=target.tip)
    except BaseException:
        for ref in refs:
            _forget(target.location, ref, commit)
        raise


def _forget(location: RepositoryLocation, ref: str, commit: str) -> None:
    """Remove a ref of ours if it still is where we put it; another adoption may have put it elsewhere."""
    if read_ref(location, ref) == commit:
        update_ref(location, ref, None, expected=commit)


def _recorded(
    controller: Controller,
    tasks: Sequence[Delegation],
    target: Target,
    commit: str,
    previous: str,
    *,
    assembly: Assembly | None = None,
    check: Check | None = None,
) -> Adoption:
    """Record what is in the branch, give the worktrees up, and return what was done."""
    observation = controller.observer.observe_exactly(target.checkout)
    controller.keeper.keep(observation)
    branch = target.branch
    if target.is_checked_out and observation.state is not None and observation.state.ref is not None:
        # Where the commits went, should somebody have switched to another branch of the same commit meanwhile.
        branch = observation.state.ref
    outcomes = {} if assembly is None else {outcome.part.delegation.id: outcome for outcome in assembly.outcomes}
    adopted = tuple(_adopted(target.location, task, outcomes.get(task.id), commit) for task in tasks)
    facts = _Facts(adopted, branch, commit, observation, check)
    delegations = controller.recorder.transact(partial(_record, facts=facts))
    released = {
        delegation.id: release_worktree(controller, delegation, kept_in=(commit,)) for delegation in delegations
    }
    for task in tasks:
        _forget(target.location, ADOPTING_REF.format(delegation_id=task.id), commit)
    done = Adoption(
        tasks=adopted,
        branch=branch,
        previous=previous,
        commit=commit,
        is_checked_out=target.is_checked_out,
        files_changed=_files(target.location, previous, commit),
        undo="" if commit == previous else _undo(target, branch, previous, commit),
        check=check,
    )
    return done.with_delegations(released)


def _adopted(location: RepositoryLocation, task: Delegation, outcome: PartOutcome | None, commit: str) -> Adopted:
    if outcome is None:
        # Found in the branch: an adoption before this one brought it there, and did not come to say how.
        return Adopted(task, "contained", (), Verification(VerificationStatus.NONE))
    part = outcome.part
    tests = verification(location, part, commit)
    return Adopted(task, outcome.method, outcome.files, tests, part.out_of_scope)


@dataclass(frozen=True, slots=True)
class _Facts:
    adopted: tuple[Adopted, ...]
    branch: str
    commit: str
    observation: Observation
    check: Check | None


def _record(recording: RecordingTransaction, *, facts: _Facts) -> list[Delegation]:
    """Record an adoption once, however many callers brought the same commits in."""
    save_state(recording.tx, facts.observation, recording.moment)
    recorded: list[Delegation] = []
    texts: dict[str, list[str]] = {}
    for adopted in facts.adopted:
        task = adopted.delegation
        current = rows.require_delegation(recording.tx.connection, task.id)
        is_new = current.adoption_status is not AdoptionStatus.ADOPTED or task.adoption_status is AdoptionStatus.ADOPTED
        if not is_new:
            recorded.append(current)
            continue
        texts.setdefault(task.parent_session_id, []).extend(_words(adopted, facts))
        body = {
            "commit": facts.commit,
            "branch": facts.branch,
            "method": adopted.method,
            "verification": str(adopted.verification.status),
            "check": None if facts.check is None else {"tree": facts.check.tree, "status": facts.check.exit_status},
        }
        recorded.append(
            change_delegation(
                recording,
                task,
                "adopted",
                facts=body,
                adoption_status=AdoptionStatus.ADOPTED,
                adoption_commit=facts.commit,
            )
        )
    for session_id, lines in texts.items():
        draft = EntryDraft(kind="note", payload={"text": " ".join(lines)})
        recording.append(session_id, draft, facts.observation.stamp)
    return recorded


def _words(adopted: Adopted, facts: _Facts) -> Iterator[str]:
    name = shown(adopted.delegation)
    yield f"Adopted {name} into {facts.branch} as {facts.commit[:12]}."
    if adopted.out_of_scope:
        yield f"{name} changed {len(adopted.out_of_scope)} path(s) outside its scope; that was allowed."
    if adopted.verification.status is VerificationStatus.REOPENED:
        yield f"What {name} tested is not what was adopted: its verification is open again."
    if facts.check is not None:
        yield f"The check {facts.check.command[:200]!r} passed on the adopted files."


def _files(location: RepositoryLocation, old: str, new: str) -> tuple[str, ...]:
    if old == new:
        return ()
    changes = changed_paths(location, old, new, find_renames=False)
    return tuple(plain_path(change.path) for change in changes)


def _undo(target: Target, branch: str, previous: str, commit: str) -> str:
    folder = shlex.quote(str(target.checkout))
    if target.is_checked_out:
        # Keeps uncommitted work, and refuses where it would not; only while nothing was committed on top.
        return f'test "$(git -C {folder} rev-parse HEAD)" = {commit} && git -C {folder} reset --keep {previous}'
    return f"git -C {folder} update-ref {shlex.quote(branch)} {previous} {commit}"
