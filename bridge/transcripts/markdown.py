"""A document as Markdown: readable as text, and harmless in whatever renders it.

Prose stands as a quotation, so that nothing in it can end it or become a heading of ours. Prose that holds raw HTML,
an image (which a viewer would fetch) or definitions of links (which hold for a whole document) stands as code instead:
whether it does is asked of a Markdown parser rather than guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from bridge.transcripts.document import Block, Fields, Fold, Head, Link, Part, Prose, Section, Verbatim
from bridge.transcripts.visible import one_line, visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: Longest title, summary or table cell, in characters.
MAX_LINE_CHARACTERS: Final = 300
#: Longest prose that is parsed, in characters; what is longer stands as code.
MAX_PROSE_CHARACTERS: Final = 200_000
_SPECIAL: Final = re.compile(r"([\\`*_\[\]<>#|~&])")
_FENCES: Final = re.compile(r"`{3,}|~{3,}")
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_UNSAFE_TOKENS: Final = frozenset({"html_block", "html_inline", "image"})


class MarkdownRenderer:
    """Renders a document as Markdown (CommonMark with tables; ``<details>`` for what is folded)."""

    def head(self, head: Head) -> str:
        lines = [f"# {_inline(head.title)}", "", *_table(("", ""), head.facts), ""]
        if len(head.sections) > 1:
            lines += [*(f"- {_link(section)}" for section in head.sections), ""]
        return "\n".join(lines) + "\n"

    def section(self, section: Section) -> str:
        lines = [f'<a id="{_anchor(section.anchor)}"></a>', "", f"## {_inline(section.title)}", ""]
        if section.origin is not None:
            lines += [f"from {_link(section.origin)}", ""]
        return "\n".join(lines) + "\n"

    def block(self, block: Block) -> str:
        anchors = "".join(f'<a id="{_anchor(anchor)}"></a>' for anchor in block.anchors)
        turn = "" if block.turn is None else f" · turn {block.turn}"
        lines = [anchors, "", f"### {_inline(block.title)}{turn}", "", _meta(block), ""]
        for part in block.parts:
            lines += _part(part)
        if block.branches:
            lines += ["goes on in another way as well:", "", *(f"- {_link(link)}" for link in block.branches), ""]
        return "\n".join(lines) + "\n"

    def foot(self) -> str:
        return ""


def _meta(block: Block) -> str:
    words = [f"`{block.reference}`", _inline(block.time)]
    words += [f"**{_inline(block.problem)}**"] if block.problem else []
    words += ["hidden"] if block.is_hidden else []
    words += [_inline(block.stamp)] if block.stamp else []
    words += [f"label {_inline(label)}" for label in block.labels]
    return " · ".join(words)


def _part(part: Part) -> Iterator[str]:
    match part:
        case Prose():
            yield from _prose(visible(part.text))
        case Verbatim():
            yield from ([f"{_inline(part.caption)}:", ""] if part.caption else [])
            yield from _code(visible(part.text))
        case Fields():
            yield from _table(("", ""), part.rows)
        case Fold():
            state = " open" if part.is_open else ""
            yield from [f"<details{state}><summary>{_inline_html(part.summary)}</summary>", ""]
            for inner in part.parts:
                yield from _part(inner)
            yield "</details>"
    yield ""


def _prose(text: str) -> Iterator[str]:
    if _is_safe(text):
        yield from (f"> {line}".rstrip() for line in text.strip("\n").split("\n"))
    else:
        yield from _code(text)


def _is_safe(text: str) -> bool:
    """Return whether a text, as Markdown, is nothing but text, lists, code, quotations, tables and links."""
    if len(text) > MAX_PROSE_CHARACTERS:
        return False
    if "<" not in text and "[" not in text:
        return True  # neither HTML nor an image, a link or the definition of one begins in another way
    environment: dict[str, Any] = {}
    tokens = _parser().parse(text, environment)
    for token in (inner for outer in tokens for inner in (outer, *(outer.children or ()))):
        if token.type in _UNSAFE_TOKENS or not _is_harmless(str(token.attrGet("href") or "")):
            return False
    return not environment.get("references")


def _is_harmless(url: str) -> bool:
    """Return whether a link leads to the web, to mail, or to a place beside the document."""
    scheme, colon, _ = url.partition(":")
    return not colon or "/" in scheme or "#" in scheme or scheme.lower() in _SCHEMES


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # 20 ms that no other command needs

    # With HTML, so that it is seen; without a limit on links, which some renderers do not have.
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = _any_link  # type: ignore[method-assign]  # the documented way to replace it
    return parser


def _any_link(url: str) -> bool:
    del url  # whatever it is: what was taken for a link is looked at afterwards
    return True


def _code(text: str) -> Iterator[str]:
    """Yield a text as a code block whose fence is longer than any in it."""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}text"
    yield from text.rstrip("\n").split("\n")
    yield fence


def _table(header: tuple[str, str], rows: Sequence[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    lines = [f"| {header[0]} | {header[1]} |", "|---|---|"]
    return lines + [f"| {_inline(name)} | {_inline(value)} |" for name, value in rows]


def _inline(text: str) -> str:
    """Return a text on one line that means nothing but itself in Markdown."""
    return _SPECIAL.sub(r"\\\1", one_line(text, MAX_LINE_CHARACTERS))


def _inline_html(text: str) -> str:
    """Return a text on one line that means nothing in HTML nor in Markdown."""
    line = one_line(text, MAX_LINE_CHARACTERS)
    return "".join(char if char.isalnum() or char == " " else f"&#{ord(char)};" for char in line)


def _link(link: Link) -> str:
    return f"[{_inline(link.words)}](#{_anchor(link.anchor)})"


def _anchor(anchor: str) -> str:
    """Return an anchor: an id of ours, which holds nothing else than letters, digits, ``-`` and ``_``."""
    return re.sub(r"[^A-Za-z0-9_-]", "", anchor)
