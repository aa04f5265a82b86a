"""``bridge wake``: begin where the session before left off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import SESSION_VARIABLE, Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.lineage.waking import Woken


@command()
def wake(
    cli: Cli,
    *,
    from_session: Annotated[
        str | None,
        typer.Option("--from-session", help="Session to continue. Default: the chat of this workspace touched last."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", help="Go on with this session instead of starting one.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="A name for people.")] = None,
    harness: Annotated[str | None, typer.Option("--harness", help="The agent program; only shown.")] = None,
) -> int:
    """Start a session that continues the one before it

    Its first note is the last word of that one, unless it is too old; printed is also what changed in the files since,
    which tasks still run, and which results nobody has answered. Works in any folder. Where BRIDGE_SESSION names a
    session, that one goes on, and nothing is seeded. See docs/lineage.md.
    """
    from bridge.cli.composition import open_controller
    from bridge.cli.standing import standpoint_of
    from bridge.control.lineage import waking

    named = resume or (cli.environment.get(SESSION_VARIABLE) or None if from_session is None else None)
    if resume is not None and (from_session is not None or label is not None or harness is not None):
        raise UsageInvalid("--resume stands alone: that session has its label and what it continues already.")
    with open_controller(cli) as controller:
        here = standpoint_of(cli)
        if named is not None:
            found = waking.resume(controller, here, named)
        else:
            found = waking.wake(controller, here, from_session=from_session, label=label, harness=harness)
    cli.output.emit(found.to_json(), "\n".join(_lines(found)))
    return 0


def _lines(found: Woken) -> list[str]:
    from bridge.cli.output import printable
    from bridge.foundation.ids import short_entry, short_session

    said = "started" if found.is_new else "goes on"
    before = "" if found.predecessor is None else f", after {short_session(found.predecessor.id)}"
    lines = [f"session {found.session.id} {said}{before}"]
    if found.note is not None:
        lines.append(f"  {printable(found.note.text)}")
    if found.divergence is not None:
        lines.append(f"files: {found.divergence.report.divergence}")
    lines += [f"still open: {printable(task.name or task.id)} ({task.status})" for task in found.left.open_tasks]
    for task in found.left.unread:
        reference = "" if task.result_entry_id is None else short_entry(task.result_entry_id)
        lines.append(f"unread result: {printable(task.name or task.id)} ({task.status}) {reference}")
    lines += [f"worktree: {printable(one['path'])} ({printable(one['task'])})" for one in found.left.worktrees]
    return lines
