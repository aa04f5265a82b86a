"""How a running plan looks: a live table on a terminal, plain lines otherwise, typed lines with ``--json-lines``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bridge.cli.context import Cli
from bridge.cli.output import printable
from bridge.control.delegations.model import AdoptionStatus, Delegation
from bridge.control.plans.progress import Progress, ProgressSink
from bridge.control.plans.scheduling import PlanOutcome
from bridge.foundation.ids import short_entry, short_session

#: Redraws of the live table, per second.
REFRESHES_PER_SECOND = 8
_VERBS = {
    "plan_started": "started",
    "task_queued": "queued",
    "task_rejected": "rejected",
    "task_preparing": "preparing",
    "task_running": "running",
    "task_settling": "checking the result",
    "task_finished": "ended",
    "plan_finished": "finished",
}


@contextmanager
def progress_display(cli: Cli) -> Iterator[ProgressSink]:
    """Yield what takes the reports of a run, in the form that fits where stderr goes."""
    if cli.output.json_lines:
        yield lambda report: cli.output.progress(report.to_json())
    elif cli.output.as_json or cli.output.quiet:
        yield lambda _report: None
    elif cli.output.stderr_is_terminal:
        with _live_table(cli) as show:
            yield show
    else:
        yield lambda report: cli.output.status(progress_line(report))


def progress_line(report: Progress) -> str:
    """Return a report as one line."""
    subject = f"plan {report.plan_id}" if report.task is None else report.task
    words = _VERBS.get(report.event, report.event)
    if report.event in {"task_finished", "plan_finished"}:
        words = report.status
    return f"{subject}: {words}" + (f" ({report.message})" if report.message else "")


def result_lines(outcome: PlanOutcome) -> str:
    """Return what a person is told of a plan that ran: one line per worker, then what can be done next."""
    width = max(len(task.name or task.id) for task in outcome.delegations)
    lines = [
        f"plan {outcome.plan.id} {outcome.plan.status}, recorded in session {short_session(outcome.plan.session_id)}",
        *(f"  {task.name or task.id:<{width}}  {_task_words(task)}" for task in outcome.delegations),
    ]
    waiting = [task for task in outcome.delegations if task.adoption_status is AdoptionStatus.PENDING]
    if waiting:
        first = waiting[0].name or waiting[0].id
        lines.append(f"{len(waiting)} wait for adoption: bridge task adopt {first}")
    return "\n".join(lines)


def _task_words(task: Delegation) -> str:
    parts = [str(task.status)]
    if task.result_entry_id is not None:
        parts.append(f"result {short_entry(task.result_entry_id)}")
    if task.adoption_status is AdoptionStatus.PENDING:
        parts.append("commits wait")
    explanation = (task.decision or {}).get("explanation") if task.result_entry_id is None else None
    return ", ".join(parts) + (f": {explanation}" if explanation else "")


@contextmanager
def _live_table(cli: Cli) -> Iterator[ProgressSink]:
    # rich costs 60 ms to import, which only a terminal is worth.
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    states: dict[str, Progress] = {}

    def table() -> Table:
        grid = Table.grid(padding=(0, 2))
        for name, report in states.items():
            grid.add_row(Text(printable(name)), Text(report.status), Text(printable(report.message)))
        return grid

    with Live(table(), console=cli.output.console(stderr=True), refresh_per_second=REFRESHES_PER_SECOND) as live:

        def show(report: Progress) -> None:
            if report.task is not None:
                states[report.task] = report
                live.update(table())

        yield show
