"""``bridge demo``: the main job on a clone of a real repository, offline, through the code that everybody uses."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import DemoFailed, UsageInvalid

if TYPE_CHECKING:
    from bridge.control.controller import Controller
    from bridge.control.plans.scheduling import PlanOutcome
    from bridge.control.standpoint import Standpoint

_AUTHOR = ("Demonstration", "demo@example.invalid")


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where the demonstration takes place."""

    folder: Path
    checkout: Path
    controller: Controller
    standpoint: Standpoint


@command(progress=True)
def demo(
    cli: Cli,
    repository: Annotated[
        str | None, typer.Argument(help="Repository to clone. Default: the one that the current directory lies in.")
    ] = None,
    *,
    into: Annotated[
        str | None, typer.Option("--into", help="Empty or new folder for clone and state. Default: a temporary one.")
    ] = None,
) -> int:
    """Show the main job on a clone of a real repository, offline

    Clones the repository, runs a plan of three workers in worktrees of their own, hands the first one's result to
    the third as evidence, adopts the commits, then edits files behind Bridge's back and says what diverged. The
    repository itself is only read, and the clone stays for a look around.
    """
    from bridge.control.controller import Controller
    from bridge.control.standpoint import Standpoint

    source = _source(cli, repository)
    folder = _folder(into)
    settings = replace(cli.settings, home=folder / "state", database_url=f"sqlite:///{folder / 'state' / 'bridge.db'}")
    cli.output.status(f"1. clone {source} into {folder}")
    checkout = _clone(source, folder)
    with Controller(settings, clock=cli.clock, environment=cli.environment) as controller:
        stage = _Stage(folder, checkout, controller, Standpoint(directory=checkout))
        outcome = _run(cli, stage)
        evidence = _check_evidence(cli, stage, outcome)
        commits = _adopt(cli, stage, outcome)
        divergence = _edit_and_compare(cli, stage, outcome.plan.session_id)
        tree = _tree(cli, stage, outcome.plan.session_id)
    value = {
        "folder": str(folder),
        "checkout": str(checkout),
        "home": str(settings.home),
        "plan": outcome.to_json(),
        "evidence": evidence,
        "commits": commits,
        **divergence,
    }
    cli.output.emit(value, "\n".join([*tree, "", *_next_steps(stage, outcome)]))
    return 0


def _source(cli: Cli, repository: str | None) -> Path:
    from bridge.git.errors import NotARepository
    from bridge.git.repository import discover

    start = cli.directory if repository is None else cli.directory / repository
    try:
        return discover(start).run_directory
    except NotARepository as error:
        raise UsageInvalid(
            f"{str(start)!r} is not inside a git repository, and none was named.",
            hint="Name one: bridge demo PATH",
        ) from error


def _folder(into: str | None) -> Path:
    if into is None:
        return Path(tempfile.mkdtemp(prefix="bridge-demo-"))
    folder = Path(into).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageInvalid(f"{str(folder)!r} is not empty.", hint="Name a new folder: bridge demo --into FOLDER")
    return folder


def _clone(source: Path, folder: Path) -> Path:
    from bridge.git.clones import clone_local, set_identity
    from bridge.git.repository import discover

    location = clone_local(discover(source), folder / "repository")
    set_identity(location, *_AUTHOR)
    return location.root


def _run(cli: Cli, stage: _Stage) -> PlanOutcome:
    import anyio

    from bridge.cli.demo.plan import write_plan
    from bridge.cli.running import progress_display, result_lines
    from bridge.control.plans.running import RunRequest, run_plan_file

    plan = write_plan(stage.folder)
    cli.output.status(f"2. run {plan}: two workers side by side, a third that needs the first one's result")

    async def main() -> PlanOutcome:
        request = RunRequest(path=plan)
        return await run_plan_file(stage.controller, stage.standpoint, request, progress=show)

    with progress_display(cli) as show:
        outcome = anyio.run(main)
    cli.output.status(result_lines(outcome))
    if not outcome.is_completed:
        raise DemoFailed(
            "A worker of the demonstration did not complete.",
            details={"tasks": [task.to_json() for task in outcome.delegations]},
        )
    return outcome


def _check_evidence(cli: Cli, stage: _Stage, outcome: PlanOutcome) -> dict[str, Any]:
    """Compare what the third worker computed from its evidence with the stored bytes."""
    from bridge.control.delegations.results import resolve_result
    from bridge.foundation.ids import short_entry

    inventory, report = (
        resolve_result(stage.controller, stage.standpoint, f"{outcome.plan.id}/{name}")
        for name in ("inventory", "report")
    )
    received = report.payload["data"]["evidence_sha256"]
    reference = short_entry(inventory.evidence.reference)
    if received != inventory.evidence.digest:
        raise DemoFailed(
            f"The third worker received other bytes than {reference} holds.",
            details={"stored": inventory.evidence.digest, "received": received},
        )
    cli.output.status(
        f"3. evidence: the third worker computed sha256 {received[:16]}… from {reference}; so does Bridge"
    )
    return {"reference": inventory.evidence.reference, "digest": inventory.evidence.digest, "received": received}


def _adopt(cli: Cli, stage: _Stage, outcome: PlanOutcome) -> list[str]:
    from bridge.control.delegations.adoption.adopting import adopt
    from bridge.control.delegations.model import AdoptionStatus

    commits = []
    for task in outcome.delegations:
        if task.adoption_status is AdoptionStatus.PENDING:
            done = adopt(stage.controller, task)
            commits.append(done.commit)
            cli.output.status(f"4. adopt {task.name}: {', '.join(done.files_changed)} as {done.commit[:12]}")
    return commits


def _edit_and_compare(cli: Cli, stage: _Stage, session_id: str) -> dict[str, Any]:
    """Change files as somebody would who knows nothing of Bridge, and say what came apart."""
    from bridge.cli.divergenceview import detailed
    from bridge.control.comparing import status_of

    edited, added = stage.checkout / "BRIDGE-INVENTORY.md", stage.checkout / "notes from outside.txt"
    edited.write_text(edited.read_text(encoding="utf-8") + "\nedited behind Bridge's back\n", encoding="utf-8")
    added.write_text("made behind Bridge's back\n", encoding="utf-8")
    cli.output.status("5. edit two files behind Bridge's back, then ask: bridge status")
    found = status_of(stage.controller, stage.standpoint, session_id)
    cli.output.status(detailed(found))
    if found.report.divergence != "diverged":
        raise DemoFailed("The edits were not noticed.", details=found.to_json())
    return {"status": found.to_json()}


def _tree(cli: Cli, stage: _Stage, session_id: str) -> list[str]:
    from bridge.cli.rendering import line_width, session_title
    from bridge.cli.treeview import glyphs_for, tree_lines
    from bridge.control.reading.trees import read_tree

    found = read_tree(stage.controller, stage.standpoint, session_id, everything=False)
    glyphs = glyphs_for(getattr(cli.output.stdout, "encoding", None))
    lines = tree_lines(found.nodes, glyphs=glyphs, width=line_width(cli.output))
    return ["6. the conversation", session_title(found.session), *lines]


def _next_steps(stage: _Stage, outcome: PlanOutcome) -> list[str]:
    from bridge.foundation.ids import short_session

    session = short_session(outcome.plan.session_id)
    program = Path(sys.argv[0]).absolute()
    found = shutil.which("bridge")
    # Run from an environment that is not on the search path, or behind iproute2's program of the same name.
    is_other = found is None or Path(found).resolve() != program.resolve()
    return [
        "Try next:",
        *([f"  alias bridge={shlex.quote(str(program))}"] if is_other else []),
        f"  cd {stage.checkout}",
        f"  export BRIDGE_HOME={stage.controller.settings.home}",
        f"  bridge log {session}",
        "  bridge task show report",
        "  bridge result inventory --raw | sha256sum",
        f"  bridge status {session}",
        f"  bridge goto {session} {session}.2 && bridge tree {session}",
    ]
