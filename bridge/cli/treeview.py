"""Drawing the tree of a session in text.

The way that goes on, the active one or else the one touched last, keeps its column; the ways beside it are drawn
before it, one step further in. So a long conversation is a straight line however often it was forked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.cli.output import printable
from bridge.cli.rendering import MIN_TEXT_WIDTH, NARROW, cut, hidden_words, label_words, text_width, unreadable_words
from bridge.control.reading.trees import TreeNode
from bridge.foundation.ids import short_entry, short_session


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What a tree is drawn with; every one of ``side`` and ``bar`` is two characters wide."""

    active: str
    other: str
    side: str
    bar: str
    more: str
    here: str


UNICODE: Final = Glyphs(active="●", other="○", side="├─", bar="│ ", more="⋮", here="◀ ")
ASCII: Final = Glyphs(active="*", other="o", side="|-", bar="| ", more=":", here="<- ")
#: Steps that ways are drawn further in, at most, and of how much of the width they may take; deeper ones stay there.
MAX_INDENT: Final = 20
_INDENT_SHARE: Final = 3
#: Forks named at an entry; the others are counted.
_FORKS_NAMED: Final = 3


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return glyphs that an output with that encoding can show."""
    return UNICODE if (encoding or "").lower().replace("-", "") in {"utf8", "utf8sig"} else ASCII


def tree_lines(nodes: Sequence[TreeNode], *, glyphs: Glyphs, width: int) -> list[str]:
    """Return the drawn tree, one line per shown entry; what is not shown is counted where it stands.

    Parameters
    ----------
    nodes
        All entries of one session but its root, in the order of sequence.
    """
    indent = 2 * min(MAX_INDENT, width // (2 * _INDENT_SHARE))
    lines: list[str] = []
    hidden = 0
    prefix_of_hidden = ""
    for prefix, rest, tree_node in _walk(nodes, glyphs, indent):
        if not tree_node.is_shown:
            hidden, prefix_of_hidden = hidden + 1, rest
            continue
        if hidden:
            lines.append(f"{prefix_of_hidden}{glyphs.more} {hidden} more")
            hidden = 0
        lines.append(_line(prefix, tree_node, glyphs, width))
    if hidden:
        lines.append(f"{prefix_of_hidden}{glyphs.more} {hidden} more")
    return lines


def _walk(nodes: Sequence[TreeNode], glyphs: Glyphs, indent: int) -> Iterator[tuple[str, str, TreeNode]]:
    """Yield the nodes in the order of drawing, with the prefix of a way's first line and that of its others."""
    children: dict[str | None, list[TreeNode]] = {}
    latest: dict[str, int] = {}
    for tree_node in nodes:
        children.setdefault(tree_node.node.parent_entry_id, []).append(tree_node)
    for tree_node in reversed(nodes):
        below = [latest[child.node.id] for child in children.get(tree_node.node.id, ())]
        latest[tree_node.node.id] = max([tree_node.node.sequence, *below])
    roots = children.get(nodes[0].node.parent_entry_id, []) if nodes else []
    waiting = _ways(roots, latest, "", glyphs, indent)
    while waiting:
        prefix, rest, tree_node = waiting.pop()
        yield prefix, rest, tree_node
        waiting.extend(_ways(children.get(tree_node.node.id, []), latest, rest, glyphs, indent))


def _ways(
    ways: list[TreeNode], latest: dict[str, int], prefix: str, glyphs: Glyphs, indent: int
) -> list[tuple[str, str, TreeNode]]:
    """Return the ways on from an entry, the main one at the front: the last is drawn first."""
    if not ways:
        return []
    ordered = sorted(ways, key=lambda way: (way.is_active, latest[way.node.id]))
    main, sides = ordered[-1], sorted(ordered[:-1], key=lambda way: -way.node.sequence)
    drawn = [(prefix, prefix, main)]
    start = prefix if len(prefix) < indent else prefix[:-2]
    drawn.extend((start + glyphs.side, start + glyphs.bar, side) for side in sides)
    return drawn


def _line(prefix: str, tree_node: TreeNode, glyphs: Glyphs, width: int) -> str:
    node = tree_node.node
    glyph = glyphs.active if tree_node.is_active else glyphs.other
    kind = printable(node.kind if width >= NARROW else node.kind.partition(".")[0])
    start = f"{prefix}{glyph} {short_entry(node.id)}  {kind}  "
    words = tree_node.summary if tree_node.is_readable else unreadable_words(node.semantic_schema_version)
    before = label_words(tree_node.labels) + hidden_words(node.kind, node.context_visibility)
    standing = ["head"] if tree_node.is_head else []
    standing += [f"cursor {cut(owner, MIN_TEXT_WIDTH * 2)}" for owner in tree_node.cursors]
    if tree_node.forks:
        more = len(tree_node.forks) - _FORKS_NAMED
        standing.append("forks " + " ".join(map(short_session, tree_node.forks[:_FORKS_NAMED])))
        standing += [f"{more} more"] if more > 0 else []
    tail = f"  {glyphs.here}{cut(', '.join(standing), max(width // 2, MIN_TEXT_WIDTH))}" if standing else ""
    room = max(width - text_width(start) - text_width(tail), MIN_TEXT_WIDTH)
    return f"{start}{cut(before + words, room)}".rstrip() + tail
