"""What a question asks for, given what an index knows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.recall.asking import MAX_NAME, MAX_NAMED, MAX_PIECES, MAX_QUOTED, MAX_WORDS, ask, edits
from bridge.recall.terms import MAX_QUERY_TERMS

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
KNOWN = {"deploy": 5, "deploys": 2, "deployment": 9, "login": 40, "users": 7, "memory": 3, "the": 900, "cursor": 4}
KNOWN |= {"foo": 8, "bar": 3, "c": 50, "c＋＋": 2, "悬": 1, "空": 2, "привет": 2, "αλφα": 1}


def question(text, **options):
    return ask(
        text,
        now=NOW,
        zone=UTC,
        harnesses=lambda: ("claude-code", "codex", "cursor", "gemini", "pi"),
        frequencies=lambda terms: {term: KNOWN[term] for term in terms if term in KNOWN},
        beginnings=lambda prefix, limit: sorted((t, n) for t, n in KNOWN.items() if t.startswith(prefix))[:limit],
        total=1_000,
        **options,
    )


def looked_up(text, **options):
    return {word.text: [" ".join(phrase) for phrase in word.alternatives] for word in question(text, **options).words}


def test_words_are_looked_up_in_their_other_forms_too():
    assert looked_up("deployed") == {"deployed": ["deploy", "deploys"]}
    assert question("deployed").words[0].is_known


def test_stopwords_go_unless_there_is_nothing_else():
    assert list(looked_up("what did we say about the login")) == ["login"]
    assert list(looked_up("the")) == ["the"]


def test_the_rarest_words_are_kept_and_the_others_named():
    found = question("login users deploy memory foo bar cursor the")
    assert [word.text for word in found.words] == ["memory", "bar", "cursor", "users", "deploy", "foo"]
    assert len(found.words) == MAX_WORDS
    assert found.ignored == ("login",)


def test_an_unknown_word_may_be_unfinished_or_mistyped_or_never_seen():
    assert looked_up("deplo") == {"deplo": ["deployment", "deploy", "deploys"]}
    assert looked_up("lgoin") == {"lgoin": ["login"]}
    assert looked_up("memry") == {"memry": ["memory"]}
    found = question("xyzzy logi")
    assert found.unseen == ("xyzzy",)
    assert not found.words[0].is_known
    # Too short to be guessed at.
    assert question("log").unseen == ("log",)


def test_the_word_that_is_being_typed_may_be_unfinished_even_if_it_is_known():
    assert "deployment" not in looked_up("login deploys", is_typing=False)["deploys"][:1]
    assert set(looked_up("use", is_typing=True)["use"]) >= {"users"}
    assert question("use ", is_typing=True).unseen == ("use",)


@pytest.mark.parametrize("text", ["login with codex", "codex: login", "in codex the login", "harness:codex login"])
def test_a_harness_is_a_filter_only_where_a_word_says_so(text):
    expected = None if text.startswith("codex") else "codex"
    assert question(text).harness == expected


def test_the_name_of_a_harness_may_be_a_plain_word():
    found = question("move the cursor with claude code")
    assert found.harness == "claude-code"
    assert "cursor" in {word.text for word in found.words}
    assert question("on cursor-pointer").harness is None


NOT_MEANT = "codex: login|the codex of laws|multiply by pi|runs on pi|in pi|in codex's parser|from codex to the login"
NOT_MEANT += "|in codex-rs|on cursor|with codexes|gemini api|pi"


@pytest.mark.parametrize("text", NOT_MEANT.split("|"))
def test_a_harness_that_is_spoken_of_is_a_word(text):
    assert question(text).harness is None


@pytest.mark.parametrize(
    ("text", "harness"),
    [
        ("with claude login", "claude-code"),
        ("in Claude  Code", "claude-code"),
        ("using gemini cli", "gemini"),
        ("with pi", "pi"),
        ("harness:pi", "pi"),
        ("HARNESS: Codex", "codex"),
        ("(via codex)", "codex"),
        ("from codex to gemini with pi", "pi"),
        ("from codex", "codex"),
    ],
)
def test_a_harness_that_is_called_for_is_a_filter(text, harness):
    found = question(text)
    assert found.harness == harness
    assert found.unseen == (("codex", "gemini") if harness == "pi" and "codex" in text else ())


def test_quotes_hold_words_together_and_keep_times_as_words():
    found = question('"foo bar" login')
    assert found.words[0].alternatives == (("foo", "bar"),)
    assert found.words[0].is_quoted
    assert question('"yesterday"').window is None
    assert question("yesterday").window is not None
    assert [word.text for word in question('"open foo').words] == ["foo"]


def test_names_of_code_and_scripts_without_blanks():
    assert looked_up("foo.bar") == {"foo.bar": ["foo bar"]}
    assert looked_up("C++") == {"C++": ["c c＋＋"]}
    assert looked_up("悬空") == {"悬空": ["悬 空"]}
    assert looked_up("空") == {"空": ["空"]}


def test_nothing_to_look_for_is_said():
    for text in ("", "   ", "*", "\0", '"', "-- ;"):
        assert question(text).is_empty


def test_a_typing_error_in_any_alphabet_and_at_any_place():
    for text, meant in {"привит": "привет", "рпивет": "привет", "αλφ": "", "αλφω": "αλφα", "kogin": "login"}.items():
        found = looked_up(text)
        assert found == ({text: [meant]} if meant else {})
    assert looked_up("ogin") == {"ogin": ["login"]}
    assert looked_up("olgin") == {"olgin": ["login"]}


def test_what_is_left_out_is_named():
    found = question(" ".join(f'"foo {n}"' for n in range(MAX_QUOTED + 2)))
    assert found.ignored == (f"foo {MAX_QUOTED}", f"foo {MAX_QUOTED + 1}")
    words = [f"w{n}" for n in range(MAX_PIECES + 1)]
    assert question(" ".join(words[:-1])).ignored == ()
    assert question(" ".join(words)).ignored == (words[-1],)
    assert len(question(" ".join(f"w{n}" for n in range(1_000))).ignored) == MAX_NAMED


def test_a_piece_of_too_many_terms_is_cut_at_the_edge_and_named():
    exact = question("空" * MAX_QUERY_TERMS)
    assert (len(exact.words[0].alternatives[0]), exact.ignored) == (MAX_QUERY_TERMS, ())
    more = question("空" * 100_000)
    assert len(more.words[0].alternatives[0]) == MAX_QUERY_TERMS
    assert [len(name) for name in more.ignored] == [MAX_NAME]


def test_edits_are_one_apart():
    assert "login" in set(edits("lgoin")) & set(edits("logn")) & set(edits("logiin")) & set(edits("logjn"))
    assert not list(edits("x" * 100))


@given(st.text(max_size=300), st.booleans())
def test_any_text_is_a_question(text, is_typing):
    found = question(text, is_typing=is_typing)
    for word in (*found.words, *found.related):
        assert word.alternatives
        assert all(term and not set(term) & set(" '\"\\*():-\0") for phrase in word.alternatives for term in phrase)
