"""``bridge task log|diff|send|resume`` and the approvals: follow workers and tell them what to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.command import command
from bridge.cli.commands.task import Task, found_task
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.delegations.steering.looking import LogReader, TaskDiff
    from bridge.control.delegations.steering.model import Approval
    from bridge.conversations.models import Entry

#: Seconds between two looks at a task that is followed.
FOLLOW_SECONDS = 0.25
#: Who answers on the command line.
OPERATOR = "operator"

Reference = Annotated[str, typer.Argument(help="The request, as its id or the id's beginning.", metavar="ID")]


@command()
def log(
    cli: Cli,
    task: Task,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the task has ended; with --json one object a line.")
    ] = False,
) -> int:
    """Print what a task's worker said, did, printed and handed in

    First the entries of the worker's session, then what its attempts printed.
    """
    from bridge.control.delegations.steering.looking import LogReader

    with found_task(cli, task) as (controller, delegation):
        reader = LogReader(controller, delegation)
        if follow:
            _follow(cli, reader)
            return 0
        entries, printed = reader.entries(), _joined(reader)
    value = [_entry_item(entry) for entry in entries]
    value += [{"attempt": attempt, "name": name, "text": text} for (attempt, name), text in printed.items()]
    lines = [_entry_line(cli, entry) for entry in entries]
    lines += [
        f"== attempt {attempt}, {name}\n{text.rstrip()}" for (attempt, name), text in printed.items() if text.strip()
    ]
    cli.output.emit(value, "\n".join(lines) if lines else "nothing was said or printed")
    return 0


def _follow(cli: Cli, reader: LogReader) -> None:
    """Print what is new again and again until the task has ended and all of it is printed."""
    from bridge.cli.output import json_bytes, printable

    while True:
        # Asked before reading: what comes after the end was there before it.
        has_ended = reader.refresh().status.is_final
        for entry in reader.entries():
            item, line = _entry_item(entry), _entry_line(cli, entry)
            cli.output.write(json_bytes(item) + b"\n" if cli.output.as_json else f"{printable(line)}\n".encode())
        for (attempt, name), text in _joined(reader).items():
            if cli.output.as_json:
                cli.output.write(json_bytes({"attempt": attempt, "name": name, "text": text}) + b"\n")
            else:
                cli.output.write("".join(f"{name}| {line}\n" for line in printable(text).splitlines()).encode())
        if has_ended:
            return
        time.sleep(FOLLOW_SECONDS)


def _joined(reader: LogReader) -> dict[tuple[int, str], str]:
    found: dict[tuple[int, str], bytes] = {}
    for attempt, name, data in reader.printed():
        found[attempt, name] = found.get((attempt, name), b"") + data
    return {key: data.decode("utf-8", "backslashreplace") for key, data in found.items()}


def _entry_item(entry: Entry) -> dict[str, Any]:
    from bridge.control.reading.views import summary_of

    return {"entry_id": entry.id, "kind": entry.kind, "at": entry.created_at, "text": summary_of(entry)}


def _entry_line(cli: Cli, entry: Entry) -> str:
    from bridge.cli.rendering import cut, entry_words, line_width, local_time

    start = f"{local_time(entry.created_at)[11:]}  {entry.kind:<18}  "
    return start + cut(entry_words(entry), max(20, line_width(cli.output) - len(start)))


@command()
def diff(
    cli: Cli,
    task: Task,
    *,
    stat: Annotated[bool, typer.Option("--stat", help="One line per path; this is the default.")] = False,
    patch: Annotated[bool, typer.Option("--patch", "-p", help="The changes line by line.")] = False,
) -> int:
    """Show what a task's worker changed since it started, uncommitted work included

    While its worktree is there, these are the files as they are now; afterwards what its result holds.
    """
    from bridge.control.delegations.steering.looking import task_diff

    if stat and patch:
        raise UsageInvalid("Give either --stat or --patch.")
    with found_task(cli, task) as (controller, delegation):
        found = task_diff(controller, delegation, with_patch=patch)
    cli.output.emit(found.to_json(), _diff_text(found))
    return 0


def _diff_text(found: TaskDiff) -> str:
    from bridge.git.paths import plain_path

    if not found.files:
        return "no changes"
    if found.patch is not None:
        return found.patch.decode("utf-8", "backslashreplace")
    lines = []
    for one in found.files:
        old = "" if one.change.old_path is None else f"{plain_path(one.change.old_path)} -> "
        counts = "binary" if one.additions is None else f"+{one.additions} -{one.deletions}"
        lines.append(f"{one.change.status}  {old}{plain_path(one.change.path)}  {counts}")
    return "\n".join(lines)


@command()
def send(
    cli: Cli,
    task: Task,
    text: Annotated[list[str], typer.Argument(help="What to say; - reads it from standard input.")],
) -> int:
    """Say something to a running worker, without ending its turn

    It is recorded in the worker's session at once, and is the worker's next prompt when its running turn is over. A
    command cannot be told anything; bridge task retry --feedback can.
    """
    from bridge.cli.commands.delegate import text_or_stdin
    from bridge.control.delegations.steering.messages import send_message

    message = text_or_stdin(cli, " ".join(text))
    with found_task(cli, task) as (controller, delegation):
        sent = send_message(controller, delegation, message)
    cli.output.emit(sent.to_json(), f"{delegation.name or delegation.id}: will be told when its turn is over")
    return 0


@command()
def resume(
    cli: Cli,
    what: Annotated[
        str | None, typer.Argument(help="Credential as task list names it, or a task that waits for one.")
    ] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Every credential that is paused.")] = False,
) -> int:
    """Go on with a paused credential before its quota resets

    Nothing is started with a credential whose quota is used up, until the time of its reset. Tasks that wait for it
    go on within a moment.
    """
    from bridge.cli.composition import open_controller
    from bridge.control.delegations.steering.quotas import lift
    from bridge.control.delegations.tasks import find_task
    from bridge.control.errors import TaskNotFound

    if all_ == (what is not None):
        raise UsageInvalid("Name a credential or a task, or give --all.")
    with open_controller(cli) as controller:
        credential = what
        if what is not None and "/" not in what:
            with controller.store.read() as connection:
                try:
                    credential = find_task(connection, what).credential or what
                except TaskNotFound:
                    credential = what  # then it is told that no credential of that name is paused
        lifted = lift(controller, credential, by=OPERATOR)
    cli.output.emit([one.to_json() for one in lifted], "\n".join(f"{one.credential}: goes on" for one in lifted))
    return 0


@command()
def approvals(
    cli: Cli,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also those that are not open any more.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, the newest.", min=1)] = 50,
) -> int:
    """List what workers want allowed"""
    from bridge.cli.standing import open_if_there
    from bridge.control.delegations.steering.approvals import list_approvals

    with open_if_there(cli) as controller:
        found = [] if controller is None else list_approvals(controller, pending_only=not all_, limit=limit)
    cli.output.emit([one.to_json() for one in found], "\n".join(map(_approval_line, found)) or "nothing is asked")
    return 0


@command()
def approve(
    cli: Cli,
    reference: Reference,
    *,
    always: Annotated[
        bool, typer.Option("--always", help="Also the like of it from now on, where the agent offers that.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for people.")] = None,
) -> int:
    """Allow what a worker wants"""
    return _decide(cli, reference, allows=True, always=always, reason=reason)


@command()
def deny(
    cli: Cli,
    reference: Reference,
    *,
    always: Annotated[
        bool, typer.Option("--always", help="Also the like of it from now on, where the agent offers that.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why, for people.")] = None,
) -> int:
    """Deny what a worker wants"""
    return _decide(cli, reference, allows=False, always=always, reason=reason)


def _decide(cli: Cli, reference: str, *, allows: bool, always: bool, reason: str | None) -> int:
    from bridge.cli.standing import open_if_there
    from bridge.control.delegations.steering.approvals import decide, find_approval
    from bridge.control.errors import ApprovalNotFound

    with open_if_there(cli) as controller:
        if controller is None:
            raise ApprovalNotFound(f"There is no request for approval {reference[:80]!r}.")
        with controller.store.read() as connection:
            approval = find_approval(connection, reference)
        done = decide(controller, approval, allows=allows, by=OPERATOR, always=always, reason=reason)
    cli.output.emit(done.to_json(), f"{done.id}: {done.status}")
    return 0


def _approval_line(approval: Approval) -> str:
    from bridge.cli.rendering import cut, local_time

    paths = f"  {', '.join(approval.paths[:3])}" if approval.paths else ""
    until = f"until {local_time(approval.expires_at)[11:]}" if approval.status == "pending" else str(approval.status)
    return (
        f"{approval.id}  {approval.delegation_id}  {until:<16}  {approval.tool_kind or '-':<8}  "
        f"{cut(approval.title, 60)}{paths}"
    )
