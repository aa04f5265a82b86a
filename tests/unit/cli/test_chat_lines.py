"""What a line at the prompt is."""

from __future__ import annotations

import pytest

from bridge.cli.chat.lines import VERBS, Message, Mistyped, Verb, help_lines, parse


@pytest.mark.parametrize(
    ("line", "meaning"),
    [
        ("", None),
        ("  \n ", None),
        ("hello /tree", Message("hello /tree")),
        ("//etc/passwd", Message("/etc/passwd")),
        ("///", Message("//")),
        ("/tree", Verb("tree", "")),
        ("  /cd  9f3a.3 ", Verb("cd", "9f3a.3")),
        ("/recall two words", Verb("recall", "two words")),
        ("/first line\nsecond", Message("/first line\nsecond")),
        ("//first\nsecond", Message("/first\nsecond")),
        ("!write a.txt x", Message("!write a.txt x")),
    ],
)
def test_a_line(line, meaning):
    assert parse(line) == meaning


@pytest.mark.parametrize("line", ["/", "/treee", "/tree\tall", "/exit", "/cd", "/sid x", "/Tree", "/zzz", "/help;"])
def test_what_begins_with_a_slash_and_is_no_verb_is_never_sent(line):
    assert isinstance(parse(line), Mistyped)


def test_the_nearest_verbs_are_offered():
    found = parse("/brnches")
    assert isinstance(found, Mistyped)
    assert "/branches" in found.problem
    assert "Nothing was sent" in found.problem


def test_the_help_names_every_verb():
    shown = "\n".join(help_lines())
    assert all(f"/{name}" in shown for name in VERBS)
    assert len(help_lines("cd")) == 1
