"""Looking up along a path for the turn that an entry belongs to, no further than needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.conversations.facets import OUTSIDE, TurnIndex, TurnPlace, is_anchor
from bridge.conversations.models import Node, Record
from bridge.conversations.paths import node_pages
from bridge.conversations.references import require_listed
from bridge.conversations.turns import TURN_BEGINNINGS
from bridge.storage.transaction import Connection

#: Entries looked at above one for the beginning of its turn. A history with none in so many has no turns to speak of.
MAX_LOOK_BACK: Final = 10_000
#: Size of the first look, in entries.
_FIRST_LOOK: Final = 32


def turn_place(connection: Connection, entry_id: str | None) -> TurnPlace:
    """Return where the path to an entry, the entry included, has led; None stands for before everything.

    Raises
    ------
    EntryNotFound
        If there is no such entry.
    PathBroken
        If the path above it is damaged.
    """
    if entry_id is None:
        return OUTSIDE
    above: list[Node] = []
    for page in node_pages(connection, entry_id, first=_FIRST_LOOK):
        above.extend(page)
        if len(above) >= MAX_LOOK_BACK or _start(above) is not None:
            break
    start = _start(above)
    needed = above if start is None else above[: start + 1]
    index, place = TurnIndex(), OUTSIDE
    for node in reversed(needed):
        place = index.place(node)
    return place


def turn_of(connection: Connection, entry_id: str) -> str | None:
    """Return the id of the entry that began the turn of an entry, which exists; None if it belongs to none."""
    entry = require_listed(connection, entry_id)
    index = TurnIndex()
    seed_parent(connection, index, entry)
    return index.turn_of(entry)


def seed_parent(connection: Connection, index: TurnIndex, node: Record | Node) -> None:
    """Let an index know where the path to an entry's parent has led, unless it does."""
    parent = node.parent_entry_id
    if parent is not None and index.place_at(node.session_id, parent) is None:
        index.seed(node.session_id, parent, turn_place(connection, parent))


def _start(above: Sequence[Node]) -> int | None:
    """Return from which entry on, nearest first, everything below is certain; None if none of these is far enough up.

    That is the first one above a beginning after which a new beginning can belong to no turn that began before.
    """
    has_begun = False
    for number, node in enumerate(above):
        if has_begun and is_anchor(node.kind):
            return number
        has_begun = has_begun or node.kind in TURN_BEGINNINGS
    return None
