"""``bridge init``: make a repository's checkout a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli


@command()
def init(
    cli: Cli,
    path: Annotated[
        str, typer.Argument(help="The repository, or anything in it. Default: the current directory.")
    ] = ".",
    *,
    label: Annotated[str | None, typer.Option("--label", help="A name for people.")] = None,
) -> int:
    """Register a repository as a workspace

    Nothing is written into the repository. Doing it again changes nothing, except for the label if one is given.
    """
    from bridge.cli.composition import open_controller
    from bridge.cli.rendering import facts, one_line, state_words
    from bridge.control.sessions import initialise

    with open_controller(cli) as controller:
        done = initialise(controller, cli.directory / Path(path), label=label)
    workspace, state = done.registration.workspace, done.observation.state
    unknown = None if done.observation.unknown is None else str(done.observation.unknown)
    value = {
        **workspace.to_json(),
        "workspace_id": workspace.id,
        "registered": done.registration.is_new,
        "head": None if state is None else state.head,
        "ref": None if state is None else state.ref,
        "dirty_hash": None if state is None else state.dirty_hash,
        "unknown": unknown,
        "replaced_workspace_id": None if done.registration.replaced is None else done.registration.replaced.id,
    }
    shown = facts(
        [
            ("workspace", f"{workspace.id} ({'new' if done.registration.is_new else 'registered before'})"),
            ("label", None if workspace.label is None else one_line(workspace.label)),
            ("path", workspace.path),
            ("head", state_words(state) if state is not None else f"unknown: {unknown}"),
        ]
    )
    cli.output.emit(value, shown)
    return 0
