"""Terms are the same wherever they come from, and no text is an error."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.recall.terms import (
    GAP,
    MAX_EXCERPT_CHARACTERS,
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_TERMS,
    MAX_TERM_CHARACTERS,
    Query,
    excerpt,
    fold,
    parse_query,
    terms,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" \t\n\0", []),
        ("POL-358", ["pol", "358"]),
        ("don't", ["don", "t"]),
        ("don’t", ["don", "t"]),
        ("foo.bar", ["foo", "bar"]),
        ("snake_case", ["snake", "case"]),
        ("Straße ÉCOLE naïve", ["strasse", "ecole", "naive"]),
        ("ﬁne ＡＢ", ["fine", "ab"]),
        ("C++ C# a+b", ["c", "c＋＋", "c", "c＃", "a", "a＋", "b"]),
        ("重跑gen-itgc后50条", ["重", "跑", "gen", "itgc", "后", "50", "条"]),
        ("がカ", ["が", "カ"]),
        ("한국 x", ["한", "국", "x"]),
        ("хлеб", ["хлеб"]),
        ("open GitHub issue", ["open", "github", "issue", GAP, "git", "hub"]),
        ("GitHub GitHub", ["github", "github", GAP, "git", "hub"]),
        ("parseURLs", ["parseurls", GAP, "parse", "urls"]),
        ("sha256Hash", ["sha256hash", GAP, "sha", "256", "hash"]),
        ("HTTPServer", ["httpserver", GAP, "http", "server"]),
        ("ที่ดิน", ["ท", "ี", "่", "ด", "ิ", "น"]),
    ],
)
def test_terms_of_a_text(text, found):
    assert terms(text) == found


#: What is written, and what finds it; the other way round as well.
ALIKE = {
    "DIYARBAKIR": "diyarbakır",
    "İstanbul": "istanbul",
    "Łódź": "LODZ",
    "Sørensen": "sorensen",
    "encyclopædia": "Encyclopaedia",
    "Đorđe": "dorde",
    "Straße": "STRASSE",
    "STRAẞE": "straße",
    "ﬁle": "file",
    "ＨＴＴＰ": "http",
    "cafe\u0301": "café",
    "ΣΊΣΥΦΟΣ": "σισυφος",
    "Ёлка": "елка",
    "שָׁלוֹם": "שלום",
    "مُحَمَّد": "محمد",
    "محـــمد": "محمد",
    "ﾀﾜｰ": "タワー",
    "Donau\u00addampf": "donaudampf",
    "foo\u200ebar": "foobar",
    "\u202bשלום\u202c": "שלום",
    "x²": "x2",
    "www.GitHub.com": "www.github.com",
    "foo.parseUrl": "FOO.PARSEURL",
    "use JavaScript now": "use javascript now",
    "größeBerechnen": "GRÖSSEBERECHNEN",
    "हिन्दी": "हिन्दी",
}
#: What is written, and a part of it that finds it.
PARTS = [
    ("parseHttpUrl", "http"),
    ("parseHttpUrl", "http url"),
    ("parse_http_url", "parse"),
    ("parseURLs", "URLs"),
    ("größeBerechnen", "berechnen"),
    ("www.GitHub.com", "hub"),
    ("foo.bar.baz", "bar.baz"),
    ("C++17 and C#", "c#"),
    (".NET", "net"),
    ("__init__", "init"),
    ("--no-cache", "no-cache"),
    ("src/foo/bar.py", "foo/bar"),
    ("1.2.3-rc1", "1.2.3"),
    ("東京タワー", "京"),
    ("ที่ดิน", "ดิ"),
    ("ที่ดิน", "ท"),
    ("user@example.com", "example.com"),
]
#: What is written, and what does not find it.
APART = [
    ("open GitHub issue", "open.git"),
    ("GitHub JavaScript", "hub.java"),
    ("हन्दी", "हिन्दी"),
    ("ทาดน", "ที่ดิน"),
    ("C and more", "C++"),
    ("f o o", "foo"),
    ("foo x bar", "foo.bar"),
]


def holds(text, query):
    have = terms(text)
    asked = parse_query(query).phrases
    return bool(asked) and all(
        any(tuple(have[n : n + len(phrase)]) == phrase for n in range(len(have))) for phrase in asked
    )


def test_what_differs_only_in_case_accents_or_what_nobody_sees_is_alike():
    assert [pair for pair in ALIKE.items() if not holds(*pair) or not holds(*reversed(pair))] == []


def test_names_are_found_by_part_and_nothing_else_is():
    assert [pair for pair in PARTS if not holds(*pair)] == []
    assert [pair for pair in APART if holds(*pair)] == []


def test_a_long_term_is_kept_as_a_digest_at_the_edge():
    (kept,) = terms("a" * MAX_TERM_CHARACTERS)
    (hashed,) = terms("a" * (MAX_TERM_CHARACTERS + 1))
    assert kept == "a" * MAX_TERM_CHARACTERS
    assert hashed.startswith("x")
    assert len(hashed) == 65
    assert terms("a" * 5000) != terms("a" * 5001)


def test_a_query_is_its_pieces_and_none_twice():
    query = parse_query('POL-358  AND "pol-358 (a')
    assert query.phrases == (("pol", "358"), ("and",), ("a",))
    assert query.ignored == 0


def test_too_many_terms_are_cut_at_the_edge_and_counted():
    exact = parse_query(" ".join(f"w{n}" for n in range(MAX_QUERY_TERMS)))
    assert (len(exact.phrases), exact.ignored) == (MAX_QUERY_TERMS, 0)
    more = parse_query(" ".join(f"w{n}" for n in range(MAX_QUERY_TERMS + 3)))
    assert (len(more.phrases), more.ignored) == (MAX_QUERY_TERMS, 3)
    long = parse_query("字" * (MAX_QUERY_TERMS + 1))
    assert len(long.phrases[0]) == MAX_QUERY_TERMS
    assert long.ignored == 1


def test_a_text_that_is_too_long_is_cut_at_the_edge_and_it_is_said():
    padding = " " * (MAX_QUERY_CHARACTERS - len("word"))
    assert parse_query(padding + "word") == Query((("word",),))
    assert parse_query(padding + "words and more") == Query((("word",),), ignored=3)


ODD = st.text() | st.text(alphabet="abC '\"*^(){}:-+#\0\ud800é字가กี\u0301İıßहि\u200e", max_size=40)


@given(ODD)
def test_any_text_gives_terms_that_the_index_takes_whole(text):
    found = terms(text)
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, content='', tokenize='ascii')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
        connection.execute("INSERT INTO t(rowid, x) VALUES (1, ?)", (" ".join(found),))
        held = [row[0] for row in connection.execute("SELECT term FROM v ORDER BY offset")]
    connection.close()
    assert held == found


@given(ODD)
def test_folding_twice_changes_nothing_more(text):
    assert terms(fold(fold(text))) == terms(fold(text))


@given(ODD, ODD)
def test_a_query_made_of_a_text_asks_for_what_the_text_has(text, other):
    have = terms(text)
    for phrase in parse_query(text).phrases:
        assert any(tuple(have[n : n + len(phrase)]) == phrase for n in range(len(have)))
    excerpt(other, parse_query(text))


def test_an_excerpt_shows_the_place_of_the_match():
    text = "first line " * 50 + "here is POL-358 at last " + "and more " * 50
    shown = excerpt(text, parse_query("pol-358"))
    assert "POL-358" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= MAX_EXCERPT_CHARACTERS + 2
    assert excerpt("short", parse_query("nothing")) == "short"
    assert excerpt("two\nlines", parse_query("lines")) == "two lines"
