"""Drawing the tree of a session in text.

The way that goes on, the active one or else the one touched last, keeps its column; the ways beside it are drawn
before it, one step further in. So a long conversation is a straight line however often it was forked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.cli.rendering import MIN_TEXT_WIDTH, cut, label_words, unreadable_words
from bridge.control.reading import TreeNode
from bridge.foundation.ids import short_entry
from bridge.semantics.kinds import CONVERSATIONAL_KINDS

#: Kinds shown beside the conversational ones when not everything is asked for.
_SHOWN_KINDS: Final = frozenset({"note", "handoff.brief", "error", "artifact.created", "delegation.requested"})


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What a tree is drawn with; every one of ``side`` and ``bar`` is two characters wide."""

    active: str
    other: str
    side: str
    bar: str
    more: str
    head: str


UNICODE: Final = Glyphs(active="●", other="○", side="├─", bar="│ ", more="⋮", head="◀ head")
ASCII: Final = Glyphs(active="*", other="o", side="|-", bar="| ", more=":", head="<- head")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return glyphs that an output with that encoding can show."""
    return UNICODE if (encoding or "").lower().replace("-", "") in {"utf8", "utf8sig"} else ASCII


def tree_lines(nodes: Sequence[TreeNode], *, glyphs: Glyphs, width: int, show_all: bool) -> list[str]:
    """Return the drawn tree, one line per shown entry; what is left out is counted.

    Parameters
    ----------
    nodes
        All entries of one session but its root, in the order of sequence.
    show_all
        Whether to show entries that say nothing to people, too: tool calls, turns, bookkeeping.
    """
    lines: list[str] = []
    hidden = 0
    prefix_of_hidden = ""
    for prefix, rest, tree_node in _walk(nodes, glyphs):
        if not (show_all or _is_shown(tree_node, starts_way=prefix != rest)):
            hidden, prefix_of_hidden = hidden + 1, rest
            continue
        if hidden:
            lines.append(f"{prefix_of_hidden}{glyphs.more} {hidden} more")
            hidden = 0
        lines.append(_line(prefix, tree_node, glyphs, width))
    if hidden:
        lines.append(f"{prefix_of_hidden}{glyphs.more} {hidden} more")
    return lines


def _walk(nodes: Sequence[TreeNode], glyphs: Glyphs) -> Iterator[tuple[str, str, TreeNode]]:
    """Yield the nodes in the order of drawing, with the prefix of a way's first line and that of its others."""
    children: dict[str | None, list[TreeNode]] = {}
    latest: dict[str, int] = {}
    for tree_node in nodes:
        children.setdefault(tree_node.node.parent_entry_id, []).append(tree_node)
    for tree_node in reversed(nodes):
        below = [latest[child.node.id] for child in children.get(tree_node.node.id, ())]
        latest[tree_node.node.id] = max([tree_node.node.sequence, *below])
    roots = children.get(nodes[0].node.parent_entry_id, []) if nodes else []
    waiting = _ways(roots, latest, "", glyphs)
    while waiting:
        prefix, rest, tree_node = waiting.pop()
        yield prefix, rest, tree_node
        waiting.extend(_ways(children.get(tree_node.node.id, []), latest, rest, glyphs))


def _ways(ways: list[TreeNode], latest: dict[str, int], prefix: str, glyphs: Glyphs) -> list[tuple[str, str, TreeNode]]:
    """Return the ways on from an entry, the main one at the front: the last is drawn first."""
    if not ways:
        return []
    ordered = sorted(ways, key=lambda way: (way.is_active, latest[way.node.id]))
    main, sides = ordered[-1], sorted(ordered[:-1], key=lambda way: -way.node.sequence)
    drawn = [(prefix, prefix, main)]
    drawn.extend((prefix + glyphs.side, prefix + glyphs.bar, side) for side in sides)
    return drawn


def _is_shown(tree_node: TreeNode, *, starts_way: bool) -> bool:
    return (
        starts_way
        or tree_node.is_head
        or tree_node.children != 1
        or bool(tree_node.labels)
        or not tree_node.is_readable
        or tree_node.node.kind in CONVERSATIONAL_KINDS
        or tree_node.node.kind in _SHOWN_KINDS
    )


def _line(prefix: str, tree_node: TreeNode, glyphs: Glyphs, width: int) -> str:
    node = tree_node.node
    glyph = glyphs.active if tree_node.is_active else glyphs.other
    start = f"{prefix}{glyph} {short_entry(node.id)}  {node.kind}  "
    words = tree_node.summary if tree_node.is_readable else unreadable_words(node.semantic_schema_version)
    tail = f"  {glyphs.head}" if tree_node.is_head else ""
    room = max(width - len(start) - len(tail), MIN_TEXT_WIDTH)
    return f"{start}{cut(label_words(tree_node.labels) + words, room)}".rstrip() + tail
