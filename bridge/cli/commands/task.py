"""``bridge task``: look at delegations, end them, take over or give up what they did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.controller import Controller
    from bridge.control.delegations.model import Delegation
    from bridge.control.delegations.steering.looking import Replay
    from bridge.control.delegations.steering.model import Pause
    from bridge.control.delegations.tasks import TaskDetails

Task = Annotated[
    str, typer.Argument(help="Task: its name (the newest of that name), PLAN/NAME, or its id or the id's beginning.")
]


@command()
def list_(
    cli: Cli,
    *,
    plan: Annotated[str | None, typer.Option("--plan", help="Only those of one plan, by its id.")] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="Only those on the active branch of one session.")
    ] = None,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that have not ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, the newest.", min=1)] = 50,
) -> int:
    """List tasks, oldest first"""
    from bridge.cli.standing import open_if_there, standpoint_of
    from bridge.control.delegations.recovery import recover
    from bridge.control.delegations.steering.quotas import list_pauses
    from bridge.control.delegations.tasks import list_tasks, session_of

    with open_if_there(cli) as controller:
        tasks: list[Delegation] = []
        pauses: list[Pause] = []
        if controller is not None:
            _tell_recovered(cli, recover(controller))
            session_id = None if session is None else session_of(controller, standpoint_of(cli), session)
            tasks = list_tasks(controller, plan_id=plan, session_id=session_id, open_only=open_only, limit=limit)
            pauses = list_pauses(controller)
    cli.output.emit([task.to_json() for task in tasks], _table(tasks))
    for pause in pauses:
        known = "" if pause.is_reset_known else ", a guess"
        cli.output.status(
            f"{pause.credential}: its quota is used up; paused until {pause.resets_at}{known}. "
            f"Go on before: bridge task resume {pause.credential}"
        )
    return 0


@command(exits={1: "With --replay: the decision is another now."})
def show(
    cli: Cli,
    task: Task,
    *,
    replay: Annotated[
        bool, typer.Option("--replay", help="Decide again from the stored input, and say whether it is the same.")
    ] = False,
) -> int:
    """Show a task with its request, decision, attempts and result"""
    from bridge.control.delegations.steering.looking import replay_decision
    from bridge.control.delegations.tasks import task_details

    with found_task(cli, task) as (controller, delegation):
        if replay:
            again = replay_decision(delegation)
            cli.output.emit(again.to_json(), _replayed(again))
            return 0 if again.is_same else 1
        details = task_details(controller, delegation)
    cli.output.emit(details.to_json(), _details(details))
    return 0


def _replayed(again: Replay) -> str:
    name = again.delegation.name or again.delegation.id
    stored, decided = again.stored, again.decided
    if again.is_same:
        return f"{name}: decided the same again: {decided.outcome} ({decided.reason}): {decided.explanation}"
    return (
        f"{name}: decided otherwise now\n"
        f"  then: {stored['outcome']} ({stored['reason']}): {stored['explanation']}\n"
        f"  now:  {decided.outcome} ({decided.reason}): {decided.explanation}"
    )


@command()
def path(cli: Cli, task: Task) -> int:
    """Print the path of a task's worktree"""
    from bridge.control.delegations.tasks import worktree_path

    with found_task(cli, task) as (controller, delegation):
        folder = worktree_path(controller, delegation)
    cli.output.emit({"id": delegation.id, "path": str(folder)}, str(folder))
    return 0


@command()
def cancel(cli: Cli, task: Task) -> int:
    """Ask for the end of a task; its worker gets a moment to stop"""
    from bridge.control.delegations.tasks import request_cancel

    with found_task(cli, task) as (controller, delegation):
        asked = request_cancel(controller, delegation)
    cli.output.emit(asked.to_json(), f"{asked.name or asked.id}: asked to end; it was {asked.status}")
    return 0


@command(exits={1: "With --dry-run: something stands in the way."})
def adopt(
    cli: Cli,
    task: Annotated[list[str], typer.Argument(help="Tasks, as for show; several come together or not at all.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    merge: Annotated[bool, typer.Option("--merge", help="With a merge commit in any case.")] = False,
    squash: Annotated[bool, typer.Option("--squash", help="As one commit per task.")] = False,
    pick: Annotated[bool, typer.Option("--pick", help="Commit by commit, made anew on top of the branch.")] = False,
    check: Annotated[
        str | None, typer.Option("--check", help="Command to run in the combined files first; it must end well.")
    ] = None,
    check_timeout: Annotated[
        float, typer.Option("--check-timeout", help="Its time limit in seconds.", min=0.001)
    ] = 1800.0,
    into: Annotated[
        str | None, typer.Option("--into", help="Git branch that takes them, if not the one they were asked for on.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Message of commits that are made.")] = None,
    allow_out_of_scope: Annotated[
        bool, typer.Option("--allow-out-of-scope", help="Also what was written outside the owned paths.")
    ] = False,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Run no hooks for commits that are made.")] = False,
    no_gpg_sign: Annotated[bool, typer.Option("--no-gpg-sign", help="Sign no commits that are made.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also tasks that did not complete.")] = False,
) -> int:
    """Bring tasks' commits onto the git branch that they were asked for on

    Either all of it happens or nothing: with a conflict, a check that fails, or uncommitted edits in the way, branch,
    index and files stay as they are. A branch that is checked out moves forward with its files; work in progress
    stays as it is.
    """
    from bridge.cli.adoptionview import adoption_lines, preview_lines
    from bridge.cli.errors import UsageInvalid
    from bridge.control.delegations.adoption.adopting import adopt as adopt_tasks
    from bridge.control.delegations.adoption.model import Method, Wish
    from bridge.control.delegations.adoption.previewing import preview

    chosen = [
        method for method, is_on in ((Method.MERGE, merge), (Method.SQUASH, squash), (Method.PICK, pick)) if is_on
    ]
    if len(chosen) > 1:
        raise UsageInvalid("Only one of --merge, --squash and --pick can be given.")
    wish = Wish(
        method=chosen[0] if chosen else Method.AUTO,
        into=into,
        check=check,
        check_timeout_seconds=check_timeout,
        message=message,
        allows_out_of_scope=allow_out_of_scope,
        is_forced=force,
        runs_hooks=not no_verify,
        is_signed=not no_gpg_sign,
    )
    with _found(cli, *task) as (controller, delegations):
        if dry_run:
            found = preview(controller, *delegations, wish=wish)
            cli.output.emit(found.to_json(), preview_lines(found))
            return 0 if found.is_adoptable else 1
        done = adopt_tasks(controller, *delegations, wish=wish)
    cli.output.emit(done.to_json(), adoption_lines(done))
    return 0


@command()
def discard(cli: Cli, task: Task) -> int:
    """Give up a task's changes and its worktree; they stay under a ref of Bridge's own"""
    from bridge.control.delegations.adoption.discarding import discard as discard_task

    with found_task(cli, task) as (controller, delegation):
        done = discard_task(controller, delegation)
    kept = f"; kept under {done.result_ref}" if done.result_ref is not None else ""
    cli.output.emit(done.to_json(), f"{done.name or done.id}: discarded{kept}")
    if done.kept_reason is not None:
        cli.output.warn(f"its worktree was kept: {done.kept_reason}")
    return 0


@contextmanager
def found_task(cli: Cli, reference: str) -> Iterator[tuple[Controller, Delegation]]:
    """Open the store, close what a crash left open, and find a task."""
    with _found(cli, reference) as (controller, delegations):
        yield controller, delegations[0]


@contextmanager
def _found(cli: Cli, *references: str) -> Iterator[tuple[Controller, list[Delegation]]]:
    """Open the store, close what a crash left open, and find tasks."""
    from bridge.cli.standing import open_if_there
    from bridge.control.delegations.recovery import recover
    from bridge.control.delegations.tasks import find_task
    from bridge.control.errors import TaskNotFound

    with open_if_there(cli) as controller:
        if controller is None:
            first = references[0]
            raise TaskNotFound(f"There is no task {first[:80]!r}.", details={"reference": first[:200]})
        _tell_recovered(cli, recover(controller))
        with controller.store.read() as connection:
            delegations = [find_task(connection, reference) for reference in references]
        yield controller, delegations


def _tell_recovered(cli: Cli, closed: list[Delegation]) -> None:
    for task in closed:
        cli.output.warn(
            f"{task.name or task.id} was left open by a controller that is gone; it was closed as {task.status}. "
            f"See: bridge task show {task.name or task.id}",
            code="task_recovered",
            details={"delegation_id": task.id},
        )


def _table(tasks: list[Delegation]) -> str:
    if not tasks:
        return "no tasks"
    from bridge.cli.rendering import cut, one_line

    name_width = max(len(task.name or "-") for task in tasks)
    return "\n".join(
        f"{task.id}  {task.plan_id or '-':<9}  {task.name or '-':<{name_width}}  {task.status:<16}  "
        f"{task.adoption_status or '-':<9}  {cut(_waits(task) + one_line(task.request.objective), 60)}"
        for task in tasks
    )


def _waits(task: Delegation) -> str:
    if task.waiting_reason is None:
        return ""
    until = "" if task.waiting_until is None else f" until {task.waiting_until}"
    return f"({task.waiting_reason.replace('_', ' ')}{until}) "


def _details(details: TaskDetails) -> str:
    from bridge.foundation.ids import short_entry

    task, result = details.delegation, details.result or {}
    lines = [
        f"{task.name or task.id}  {task.id}  {task.status}",
        f"  objective: {task.request.objective}",
        f"  role {task.request.role}, harness {task.request.harness}, {task.request.write_mode}",
        f"  base {str(task.base_commit)[:12]}, result {str(task.result_commit)[:12]}, adoption {task.adoption_status}",
    ]
    if task.decision is not None:
        lines.append(f"  decision: {task.decision.get('outcome')}: {task.decision.get('explanation')}")
    for attempt in details.attempts:
        ended = attempt.failure_class or ("running" if attempt.finished_at is None else "ended well")
        lines.append(f"  attempt {attempt.number}: {ended}, exit status {attempt.exit_status}")
    if task.result_entry_id is not None:
        lines.append(f"  result {short_entry(task.result_entry_id)}: {result.get('summary', '')}")
        lines += [f"    changed {name}" for name in result.get("files_changed", ())]
        lines += [f"    risk: {risk}" for risk in result.get("risks", ())]
    if details.workspace is not None:
        kept = f" ({task.kept_reason})" if task.kept_reason else ""
        lines.append(f"  worktree {details.workspace.status}: {details.workspace.path}{kept}")
    return "\n".join(lines)
