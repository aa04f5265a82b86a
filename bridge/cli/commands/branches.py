"""``bridge branches``: the ways in which a conversation went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.reading.trees import Branches


@command()
def branches(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    all_: Annotated[
        bool, typer.Option("--all", help="Every fork of the tree, not only those of the conversation.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only so many, those with the last entries.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", help="Only branches whose last entry was recorded before this one.")
    ] = None,
) -> int:
    """List the branches of a session

    Each with its last entry, which bridge goto takes, the entry where it left the others, and the words it began
    with. * marks the active one. No branch is active while the head is on what they have in common. Cursors are named
    where they stand on a branch: whoever holds one goes on writing there.
    """
    from bridge.cli.rendering import line_width, session_title
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading.trees import read_branches
    from bridge.foundation.ids import short_entry

    with open_existing(cli) as controller:
        found = read_branches(controller, standpoint_of(cli), session, include_all=all_, limit=limit, before=before)
    cli.output.emit(found.to_json(), _as_text(found, line_width(cli.output)) or None)
    if found.has_more:
        cli.output.status(f"there are more: --before {short_entry(found.branches[0].tip.leaf_entry_id)}")
    if not found.branches:
        what = "no entries yet" if before is None else "no such branches"
        cli.output.status(f"{session_title(found.session)} has {what}")
    elif limit is None and before is None and not any(branch.tip.is_active for branch in found.branches):
        cli.output.status(f"the head is at {short_entry(found.session.active_entry_id)}, before they part")
    return 0


def _as_text(found: Branches, width: int) -> str:
    from bridge.cli.rendering import MIN_TEXT_WIDTH, NARROW, WIDE, cut, label_words, local_time, table, text_width
    from bridge.foundation.ids import short_entry, split_entry_id

    rows = []
    for branch in found.branches:
        tip = branch.tip
        point = tip.branch_point_entry_id
        start = "-"
        if point is not None:
            start = f"from {short_entry(point)}" if split_entry_id(point)[1] else "from the start"
        row = ["*" if tip.is_active else " ", short_entry(tip.leaf_entry_id)]
        if width >= NARROW:
            row += [local_time(branch.leaf_created_at)[0 if width >= WIDE else 11 :]]
        row += [start]
        if width >= NARROW:
            row += [f"{tip.entries} {'entry' if tip.entries == 1 else 'entries'}"]
        rows.append(row)
    lines = []
    for line, branch in zip(table(rows).split("\n"), found.branches, strict=bool(rows)):
        room = max(width - max(map(text_width, table(rows).split("\n"))) - 2, MIN_TEXT_WIDTH)
        standing = [f"cursor {cursor.owner} at {short_entry(cursor.leaf_entry_id)}" for cursor in branch.cursors]
        held = f"({', '.join(standing)}) " if standing else ""
        lines.append((line, cut(label_words(branch.labels) + held + branch.summary, room)))
    return table(lines) if rows else ""
