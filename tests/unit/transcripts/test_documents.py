"""Sessions for people: nothing that was recorded becomes markup, a request or an order to a terminal."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bridge.transcripts.document import Block, Fields, Fold, Head, Link, Prose, Section, Verbatim
from bridge.transcripts.html import HtmlRenderer
from bridge.transcripts.markdown import MarkdownRenderer
from bridge.transcripts.visible import one_line, visible

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</pre></details></article></main><h1>mine</h1>",
    "```\n</details>\n# mine\n```",
    "~~~~\nunclosed",
    "`````\nunclosed",
    "![pixel](https://evil.example/p.png)",
    "![pixel][x]\n\n[x]: https://evil.example/p.png",
    "[click](javascript:alert(1))",
    "[click](data:text/html,<script>alert(1)</script>)",
    "<javascript:alert(1)>",
    "[x]: https://evil.example/\n\n[x]",
    "--></style><style>*{display:none}</style>",
    "a\n---\nb\n===\n# c\n## d",
    "| a | b |\n|---|---|\n| <b> | ![x](y) |",
    "&lt;script&gt; &#60;script&#62;",
    "\x1b]8;;https://evil.example\x07link\x1b]8;;\x07",
    "\x1b[2J\x1b[31mred",
    "\u202etxt.exe\u2066\u2069\u200b\u200f",
    "\x00\x07\x08\x7f\x85\x9b31m",
    "\u2028\u2029\r",
    "\U000e0041\U000e0042",
]
ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "nav", "article", "div", "span", "time"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "a", "ul", "ol", "li", "pre", "code", "em", "strong", "s", "hr", "br"),
    *("blockquote", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
}
#: What closes by itself.
VOID = {"meta", "br", "hr"}


class Page(HTMLParser):
    """What a browser makes of a page, as far as it matters: elements, attributes, whether all that opens closes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED, tag
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def ids(self) -> set[str]:
        return {str(attributes["id"]) for _, attributes in self.tags if "id" in attributes}


def document(renderer, text: str) -> str:
    """A document that says one thing wherever something recorded can stand."""
    block = Block(
        anchors=["s-000001", "s-000002"],
        reference="s.1",
        time="2026-01-02 03:04:05 UTC",
        role="assistant",
        title=text,
        parts=[
            Prose(text),
            Prose(text, breaks=True),
            Verbatim(text, text),
            Fields([(text, text)]),
            Fold(text, [Prose(text), Verbatim(text), Fields([(text, text)])], is_open=True),
        ],
        stamp=text,
        turn=1,
        problem=text,
        is_hidden=True,
        labels=[text],
        branches=[Link("branch-1", text)],
    )
    plain = Block(anchors=["s-000003"], reference="s.3", time="t", role="user", title="END", parts=[Prose("last")])
    return "".join(
        (
            renderer.head(
                Head(title=text, facts=[(text, text)], sections=[Link("main", text), Link("branch-1", text)])
            ),
            renderer.section(Section(anchor="main", title=text)),
            renderer.section(Section(anchor="branch-1", title=text, origin=Link("s-000001", text))),
            renderer.block(block),
            renderer.block(plain),
            renderer.foot(),
        )
    )


def check_html(text: str) -> None:
    page = Page(document(HtmlRenderer(), text))
    assert page.open == []
    for tag, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on")}
        assert not {"src", "srcset", "action", "formaction", "background", "style"} & set(attributes)
        if tag == "a" and attributes.get("href"):
            assert re.match(r"#|https?://|mailto:", str(attributes["href"]), re.IGNORECASE)
            assert attributes["href"].startswith("#") or "noreferrer" in str(attributes.get("rel"))
    assert page.ids() == {"main", "branch-1", "s-000001", "s-000002", "s-000003"}
    assert "END" in page.words
    assert page.tags.count(("meta", {"name": "referrer", "content": "no-referrer"})) == 1


def check_markdown(text: str) -> None:
    whole = document(MarkdownRenderer(), text)
    environment: dict[str, object] = {}
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(whole, environment)
    flat = [inner for token in tokens for inner in (token, *(token.children or ()))]
    assert not environment.get("references")
    assert all(token.type != "image" for token in flat)
    for token in flat:
        if token.type in {"html_block", "html_inline"}:
            assert re.fullmatch(
                r'(<a id="[a-z0-9-]+">|</a>|<details open><summary>[^<>]*</summary>|</details>|\s)+', token.content
            ), token.content
        href = str(token.attrGet("href") or "")
        assert re.match(r"$|#|https?:|mailto:|[^:]*$", href, re.IGNORECASE), href
    # All that was opened by what was recorded is closed before the next entry begins.
    last = [token for token in tokens if token.type == "heading_open" and token.level == 0][-1]
    assert last.tag == "h3"
    assert any(token.type == "blockquote_open" and token.level == 0 for token in tokens[tokens.index(last) :])


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_in_html(text):
    check_html(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text_in_markdown(text):
    check_markdown(text)


PIECES = st.sampled_from(
    [*HOSTILE, "\n", "\n\n", " ", "> ", "- ", "    ", "`", "*", "|", "a", "<", "[", "](", "&", "\\"]
)
TEXTS = st.lists(PIECES, max_size=8).map("".join) | st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(TEXTS)
def test_any_text_is_text(text):
    check_html(text)
    check_markdown(text)


@pytest.mark.parametrize("renderer", [HtmlRenderer(), MarkdownRenderer()])
@given(text=TEXTS)
def test_nothing_steers_a_terminal_or_reorders_a_line(renderer, text):
    for char in document(renderer, text):
        assert (
            char in "\n\t"
            or char.isprintable()
            or char in "\u200c\u200d\u3000\xa0"
            or char.isspace()
            or ord(char) > 0x5FF
        )
        assert (
            char not in "\x1b\x07\x85\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff\r"
        )


def test_what_is_not_seen_is_named_and_colours_go():
    assert visible("\x1b[1;31mred\x1b[0m\r\nnext\x07\u202e") == "red\nnext⟨U+0007⟩⟨U+202E⟩"
    assert visible("👩\u200d💻 ü\tx") == "👩\u200d💻 ü\tx"
    assert one_line(" a\n b " + "x" * 50, 10) == "a b xxxxx…"


def test_prose_is_rendered_where_it_is_harmless():
    page = document(HtmlRenderer(), "**bold** and [a link](https://example.org/)\n\n- one")
    assert "<strong>bold</strong>" in page
    assert '<a href="https://example.org/" rel="noreferrer noopener nofollow">a link</a>' in page
    assert "> **bold** and [a link](https://example.org/)" in document(
        MarkdownRenderer(), "**bold** and [a link](https://example.org/)\n\n- one"
    )


def test_the_page_asks_for_nothing_and_allows_nothing():
    page = document(HtmlRenderer(), "text")
    assert "default-src &#x27;none&#x27;; style-src &#x27;sha256-" in page
    assert "prefers-color-scheme:dark" in page
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
