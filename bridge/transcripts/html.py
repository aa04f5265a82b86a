"""A document as one HTML file that needs nothing else: no script, no request, its style inside; light and dark.

Nothing recorded becomes markup by itself. Prose is rendered from Markdown with raw HTML and images switched off, and
links that lead anywhere but to the web and to mail stay text. A content security policy says the same once more.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from bridge.transcripts.document import Block, Fields, Fold, Head, Link, Part, Prose, Section, Verbatim
from bridge.transcripts.visible import one_line, visible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

#: Longest title, summary or link text, in characters.
MAX_LINE_CHARACTERS: Final = 300
#: Longest prose that is rendered from Markdown, in characters; what is longer is shown as it is.
MAX_PROSE_CHARACTERS: Final = 200_000
#: What links may begin with.
_SCHEMES: Final = ("http://", "https://", "mailto:")


class HtmlRenderer:
    """Renders a document as HTML."""

    def head(self, head: Head) -> str:
        style = _style()
        allowed = b64encode(sha256(style.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
        title = escape(one_line(head.title, MAX_LINE_CHARACTERS))
        facts = "".join(_row(name, value) for name, value in head.facts)
        links = "".join(f"<li>{_link(section)}</li>" for section in head.sections)
        contents = f"<nav><h2>Branches</h2><ol>{links}</ol></nav>" if len(head.sections) > 1 else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
            f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            f'<header><h1 dir="auto">{title}</h1>\n<table class="facts">{facts}</table>\n{contents}</header>\n<main>\n'
        )

    def section(self, section: Section) -> str:
        origin = "" if section.origin is None else f'<p class="from">from {_link(section.origin)}</p>'
        title = escape(one_line(section.title, MAX_LINE_CHARACTERS))
        return f'<h2 class="section" id="{escape(section.anchor)}" dir="auto">{title}</h2>\n{origin}\n'

    def block(self, block: Block) -> str:
        first, *others = block.anchors
        turn = "" if block.turn is None else f'<div class="turn"><span>turn {block.turn}</span></div>\n'
        anchors = "".join(f'<a id="{escape(anchor)}"></a>' for anchor in others)
        classes = " ".join(
            filter(None, ("entry", block.role, "hidden" if block.is_hidden else "", "failed" if block.problem else ""))
        )
        parts = "".join(piece for part in block.parts for piece in _part(part))
        return (
            f'{turn}<article class="{classes}" id="{escape(first)}">{anchors}\n{_meta(block)}\n{parts}\n'
            f"{_branches(block)}</article>\n"
        )

    def foot(self) -> str:
        return "</main>\n</body>\n</html>\n"


def _meta(block: Block) -> str:
    pieces = [
        f'<span class="who">{escape(one_line(block.title, MAX_LINE_CHARACTERS))}</span>',
        f'<a class="ref" href="#{escape(block.anchors[0])}">{escape(block.reference)}</a>',
        f"<time>{escape(block.time)}</time>",
    ]
    marks = [("problem", block.problem), ("mark", "hidden" if block.is_hidden else None), ("stamp", block.stamp)]
    marks += [("label", label) for label in block.labels]
    pieces += [
        f'<span class="{name}">{escape(one_line(text, MAX_LINE_CHARACTERS))}</span>' for name, text in marks if text
    ]
    return f'<div class="meta">{"".join(pieces)}</div>'


def _branches(block: Block) -> str:
    if not block.branches:
        return ""
    links = "".join(f"<li>{_link(link)}</li>" for link in block.branches)
    return f'<div class="ways">goes on in another way as well:<ul>{links}</ul></div>\n'


def _part(part: Part) -> Iterator[str]:
    match part:
        case Prose():
            yield f'<div class="prose" dir="auto">{_prose(part)}</div>'
        case Verbatim():
            caption = f'<div class="caption">{escape(visible(part.caption))}</div>' if part.caption else ""
            yield f'{caption}<pre dir="auto">{escape(visible(part.text))}</pre>'
        case Fields():
            yield f'<table class="fields">{"".join(_row(name, value) for name, value in part.rows)}</table>'
        case Fold():
            summary = escape(one_line(part.summary, MAX_LINE_CHARACTERS))
            inner = "".join(piece for one in part.parts for piece in _part(one))
            state = " open" if part.is_open else ""
            yield f'<details{state}><summary dir="auto">{summary}</summary>{inner}</details>'


def _row(name: str, value: str) -> str:
    return f'<tr><th>{escape(visible(name))}</th><td dir="auto">{escape(visible(value))}</td></tr>'


def _link(link: Link) -> str:
    return f'<a href="#{escape(link.anchor)}">{escape(one_line(link.words, MAX_LINE_CHARACTERS))}</a>'


def _prose(part: Prose) -> str:
    text = visible(part.text)
    if len(text) > MAX_PROSE_CHARACTERS:
        return f"<pre>{escape(text)}</pre>"
    rendered: str = _parser(breaks=part.breaks).render(text)
    return rendered


@cache
def _parser(*, breaks: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt  # 20 ms that no other command needs

    parser = MarkdownIt("commonmark", {"html": False, "breaks": breaks})
    parser.enable(["table", "strikethrough"]).disable("image")
    parser.validateLink = _is_allowed  # type: ignore[method-assign]  # the documented way to replace it
    parser.add_render_rule("link_open", _link_open)
    return parser


def _is_allowed(url: str) -> bool:
    return url.strip().lower().startswith(_SCHEMES)


def _link_open(self: Any, tokens: Any, index: int, options: Any, _environment: Any) -> str:
    tokens[index].attrSet("rel", "noreferrer noopener nofollow")
    rendered: str = self.renderToken(tokens, index, options, _environment)
    return rendered


@cache
def _style() -> str:
    return files("bridge.transcripts").joinpath("document.css").read_text("utf-8")
