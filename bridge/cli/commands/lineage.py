"""``bridge session lineage``: which sessions a session descends from, and which from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.lineage.descent import Lineage
    from bridge.conversations.models import Session
    from bridge.lineage.descent import Descendants

_STOPPED = {
    "depth": "further ones are not shown",
    "cycle": "the line comes back to a session shown already",
    "missing": "its parent is not there any more",
    "children": "more children are not shown",
}


@command()
def lineage(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
) -> int:
    """Draw the sessions that a session descends from, and those that descend from it

    A session continues another, was delegated by one, or was forked from one. At most ten generations are shown in
    either direction; it is said where the drawing stops.
    """
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.lineage.descent import lineage_of

    with open_existing(cli) as controller:
        found = lineage_of(controller, standpoint_of(cli), session)
    cli.output.emit(found.to_json(), "\n".join(_lines(found)))
    return 0


def _lines(found: Lineage) -> list[str]:
    ancestors, stop = found.ancestry.sessions, found.ancestry.stop
    lines = [] if stop is None else [f"({_STOPPED[stop]})"]
    lines += [_line(session, depth) for depth, session in enumerate(reversed(ancestors))]
    depth = len(ancestors)
    lines.append(_line(found.session, depth) + "  <- this one")
    lines += _below(found.descent, depth + 1)
    return lines


def _below(descent: Descendants[Session], depth: int) -> list[str]:
    lines = []
    for child in descent.children:
        lines.append(_line(child.session, depth))
        lines += _below(child, depth + 1)
    if descent.stop is not None:
        lines.append(f"{'  ' * depth}({_STOPPED[descent.stop]})")
    return lines


def _line(session: Session, depth: int) -> str:
    from bridge.cli.rendering import local_time, session_title

    relation = "" if session.parent_relation is None else f"{session.parent_relation}, "
    return f"{'  ' * depth}{session_title(session)}  ({relation}{session.kind}, {local_time(session.updated_at)})"
