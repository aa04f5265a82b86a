"""``bridge init``: make a repository's checkout a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli
from bridge.cli.errors import UsageInvalid
from bridge.cli.relinkhint import RELINK_OFFERED, offer

if TYPE_CHECKING:
    from bridge.control.sessions import Initialised


@command()
def init(
    cli: Cli,
    path: Annotated[
        str, typer.Argument(help="The repository, or anything in it. Default: the current directory.")
    ] = ".",
    *,
    label: Annotated[str | None, typer.Option("--label", help="A name for people.")] = None,
    relink: Annotated[
        bool, typer.Option("--relink", help="This is a registered repository that was moved or cloned anew.")
    ] = False,
    workspace: Annotated[
        str | None, typer.Option("--workspace", metavar="ID", help="With --relink: which workspace it was.")
    ] = None,
) -> int:
    """Register a repository as a workspace

    Nothing is written into the repository. Doing it again changes nothing, except for the label if one is given.

    With --relink the repository takes the place of a workspace whose own is gone, so that its sessions and stamps
    are about this one. The proof is a root commit that both have; a shallow clone has none. Stamps are not edited.
    """
    from bridge.cli.composition import open_controller
    from bridge.control.relinking import relink_candidates
    from bridge.control.sessions import initialise

    if relink:
        return _relink(cli, path, label, workspace)
    if workspace is not None:
        raise UsageInvalid("--workspace goes with --relink.")
    with open_controller(cli) as controller:
        lost = relink_candidates(controller, cli.directory / Path(path))
        done = initialise(controller, cli.directory / Path(path), label=label)
    for found in lost:
        cli.output.warn(offer(found), code=RELINK_OFFERED)
    _emit_registered(cli, done)
    return 0


def _relink(cli: Cli, path: str, label: str | None, workspace_id: str | None) -> int:
    from bridge.cli.composition import open_controller
    from bridge.cli.rendering import facts
    from bridge.control.relinking import relink_workspace

    if label is not None:
        raise UsageInvalid("--label and --relink exclude each other: the workspace keeps its label.")
    with open_controller(cli) as controller:
        done = relink_workspace(controller, cli.directory / Path(path), workspace_id)
    proof = None if done.proof is None else f"root commit {done.proof.shared_roots[0][:12]}"
    shown = facts(
        [
            ("workspace", f"{done.workspace.id} ({'relinked' if done.links else 'stood here already'})"),
            ("path", done.workspace.path),
            ("was at", done.links[0].old_path if done.links else None),
            ("known by", proof),
            ("worktrees", f"{len(done.links) - 1} followed" if len(done.links) > 1 else None),
            ("sessions", f"{done.moved_sessions} moved from {done.absorbed.id}" if done.absorbed else None),
        ]
    )
    cli.output.emit(done.to_json(), shown)
    return 0


def _emit_registered(cli: Cli, done: Initialised) -> None:
    from bridge.cli.rendering import facts, one_line, state_words

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
