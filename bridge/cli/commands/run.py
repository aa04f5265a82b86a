"""``bridge run``: carry out a plan file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid

if TYPE_CHECKING:
    from bridge.control.plans.scheduling import PlanOutcome

_DIRTY = ("refuse", "ignore", "carry")


@command(progress=True, exits={1: "A worker did not complete."})
def run(
    cli: Cli,
    plan: Annotated[str, typer.Argument(help="Plan file (TOML); see docs/plan-file.md.", metavar="PLAN.toml")],
    *,
    session: Annotated[
        str | None, typer.Option("--session", help="Session that delegates. Default: a new one.")
    ] = None,
    dirty: Annotated[
        str | None,
        typer.Option("--dirty", help="Uncommitted work: refuse, ignore or carry. Default: what the plan says."),
    ] = None,
) -> int:
    """Run the workers of a plan file, each in a worktree of its own

    Everything is checked before anything starts. Workers start from the commit that the checkout is at, run side
    by side as far as the plan allows, and hand in results that later workers receive as evidence. Their commits
    wait for bridge task adopt.
    """
    import anyio

    from bridge.cli.composition import open_controller
    from bridge.cli.running import progress_display, result_lines
    from bridge.cli.standing import standpoint_of
    from bridge.control.delegations.bases import DirtyMode
    from bridge.control.plans.running import RunRequest, run_plan_file

    if dirty is not None and dirty not in _DIRTY:
        raise UsageInvalid(f"--dirty takes {', '.join(_DIRTY)}, not {dirty!r}.")
    request = RunRequest(
        path=cli.directory / Path(plan), session=session, dirty=None if dirty is None else DirtyMode(dirty)
    )
    with open_controller(cli) as controller, progress_display(cli) as show:

        async def main() -> PlanOutcome:
            return await run_plan_file(controller, standpoint_of(cli), request, progress=show)

        outcome = anyio.run(main)
    cli.output.emit(outcome.to_json(), result_lines(outcome))
    return 0 if outcome.is_completed else 1
