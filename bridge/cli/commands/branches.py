"""``bridge branches``: the ways in which a conversation went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridge.cli.command import command
from bridge.cli.context import Cli

if TYPE_CHECKING:
    from bridge.control.reading import Branches


@command()
def branches(
    cli: Cli,
    session: Annotated[str | None, typer.Argument(help="Session, as id, tail or label. Default: @.")] = None,
    *,
    all_: Annotated[
        bool, typer.Option("--all", help="Every fork of the tree, not only those of the conversation.")
    ] = False,
) -> int:
    """List the branches of a session

    Each with its last entry, which bridge goto takes, the entry where it left the others, and the words it began
    with. * marks the active one. No branch is active while the head is on what they have in common.
    """
    from bridge.cli.rendering import session_title
    from bridge.cli.standing import open_existing, standpoint_of
    from bridge.control.reading import read_branches
    from bridge.foundation.ids import short_entry

    with open_existing(cli) as controller:
        found = read_branches(controller, standpoint_of(cli), session, include_all=all_)
    cli.output.emit(found.to_json(), _as_text(found) or None)
    if not found.branches:
        cli.output.status(f"{session_title(found.session)} has no entries yet")
    elif not any(branch.tip.is_active for branch in found.branches):
        cli.output.status(f"the head is at {short_entry(found.session.active_entry_id)}, before they part")
    return 0


def _as_text(found: Branches) -> str:
    from bridge.cli.rendering import cut, label_words, local_time, table
    from bridge.foundation.ids import short_entry, split_entry_id

    rows = []
    for branch in found.branches:
        tip = branch.tip
        point = tip.branch_point_entry_id
        start = "-"
        if point is not None:
            start = f"from {short_entry(point)}" if split_entry_id(point)[1] else "from the start"
        rows.append(
            [
                "*" if tip.is_active else " ",
                short_entry(tip.leaf_entry_id),
                local_time(branch.leaf_created_at),
                start,
                f"{tip.entries} {'entry' if tip.entries == 1 else 'entries'}",
                cut(label_words(branch.labels) + branch.summary, 80),
            ]
        )
    return table(rows)
