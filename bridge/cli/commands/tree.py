"""``bridge tree``: the whole of a session as a drawing."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

#: Entries drawn unless another number is asked for: more than anybody looks through.
DRAWN = 1000


@command()
def tree(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    all_: Annotated[
        bool, typer.Option("--all", help="Also entries that say nothing: tool calls, turns, usage.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=1, help=f"Show so many entries, the last ones. Default: {DRAWN}; with --json all."
        ),
    ] = None,
) -> int:
    """Draw the tree of a session

    The active path is drawn with filled marks. Side branches stand one step further in, before the way that goes
    on. The head is marked, and where cursors stand: there whoever holds one goes on writing. With --json: an array of
    all entries in the order of sequence, each with its parent and whether it is active; their parent of sequence 0 is
    the session's own root, which holds nothing.
    """
    from bridge.cli.rendering import line_width, session_title
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.cli.treeview import glyphs_for, tree_lines
    from bridge.control.reading.trees import read_tree
    from bridge.foundation.ids import short_entry

    as_json = cli.output.as_json
    shown = limit if limit is not None or as_json else DRAWN
    with open_existing(cli) as controller:
        found = read_tree(controller, standpoint_of(cli), session, everything=all_ or as_json, limit=shown)
    glyphs = glyphs_for(getattr(cli.output.stdout, "encoding", None))
    heading = session_title(found.session)
    if found.origin is not None:
        heading += f"  (forked from {short_entry(found.origin.entry_id)})"
    lines = tree_lines(found.nodes, glyphs=glyphs, width=line_width(cli.output))
    cli.output.emit(found.to_json() if as_json else None, "\n".join([heading, *lines]))
    if found.has_more:
        cli.output.status(f"only the last {shown} entries are shown one by one; more with --limit")
    return 0
