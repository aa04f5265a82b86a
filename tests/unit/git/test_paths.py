"""Names as text: printable, reversible, never able to end their quotation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.git.paths import display_path, parse_path, plain_path

NAMES = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(alphabet='\\"xuU0ntr\n\u202e', max_size=12).map(str.encode),
)


@given(NAMES)
def test_both_forms_give_the_bytes_back(path):
    assert parse_path(display_path(path)) == path
    assert parse_path(plain_path(path)) == path


@given(NAMES)
def test_a_shown_name_is_one_printable_line_in_closed_quotes(path):
    shown = display_path(path)
    assert all(character.isprintable() or character.isspace() for character in shown)
    assert len(shown.splitlines()) == 1
    assert shown[0] == shown[-1] == '"'
    assert shown[1:-1].replace("\\\\", "").replace('\\"', "").count('"') == 0
    shown.encode("utf-8")


@given(NAMES, NAMES)
def test_different_names_look_different(one, other):
    assert (display_path(one) == display_path(other)) == (one == other)
    assert (plain_path(one) == plain_path(other)) == (one == other)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"src/main.py", '"src/main.py"'),
        ("café ü.txt".encode(), '"café ü.txt"'),
        (b"new\nline", r'"new\nline"'),
        (b'say "hi"\\', r'"say \"hi\"\\"'),
        (b"byte\xff", r'"byte\xff"'),
        (b"\x1b[31mred", r'"\x1b[31mred"'),
        ("bidi\u202egnp.exe".encode(), r'"bidi\u202egnp.exe"'),
        ("line\u2028sep".encode(), r'"line\u2028sep"'),
        ("tag\U000e0041".encode(), r'"tag\U000e0041"'),
    ],
)
def test_examples(path, shown):
    assert display_path(path) == shown


def test_the_plain_form_quotes_only_where_needed():
    assert plain_path(b"src/main.py") == "src/main.py"
    assert plain_path(b'"quoted"') == r'"\"quoted\""'
    assert plain_path(b"\xff") == r'"\xff"'


@pytest.mark.parametrize("text", ['"', '"open', '"a"b"', r'"\q"', r'"\x1"', '"end\\"'])
def test_what_was_never_written_is_refused(text):
    with pytest.raises(ValueError, match="path"):
        parse_path(text)
