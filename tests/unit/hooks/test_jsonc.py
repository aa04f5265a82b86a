"""Changing JSON with comments at one place and nowhere else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.hooks.jsonc import MAX_DEPTH, NotJson, added, edited, parse, removed

VALUE = {"SessionStart": [{"hooks": [{"command": "x"}]}]}
COMMENTED = """{
  // theme of the evenings
  "theme": "dark", /* not light */
  "list": [1, 2,], // both
  "nested": {"a": "b // no comment", "c": "/* neither */"}
}
"""


def add(text, name="hooks", value=VALUE):
    return edited(text, added(text, parse(text), value, name=name))


def take_out(text, name="hooks"):
    root = parse(text)
    return edited(text, removed(text, root, [root.keys.index(name)]))


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": 1\n}\n',
        '{\n\t"a": 1\n}',
        '{\r\n    "a": {\r\n        "b": []\r\n    }\r\n}\r\n',
        COMMENTED,
        '\ufeff{\n  "a": 1\n}\n',
    ],
)
def test_what_is_added_comes_out_again_byte_for_byte(text):
    changed = add(text)
    assert parse(changed).get("hooks").plain() == VALUE
    assert take_out(changed) == text


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', "{ /* nothing */ }", '{\n  "a": 1,\n}', '{"a": 1, }', "{\n}\n"])
def test_other_forms_are_changed_to_what_means_the_same(text):
    before = parse(text).plain()
    changed = add(text)
    assert parse(changed).plain() == {**before, "hooks": VALUE}
    assert parse(take_out(changed)).plain() == before
    assert ("/* nothing */" in changed) == ("/* nothing */" in text)


def test_neighbours_keep_their_comments_and_their_indentation():
    changed = add(COMMENTED)
    for line in COMMENTED.splitlines()[:-2]:
        assert line in changed.splitlines()
    assert '  "hooks": {\n    "SessionStart": [\n' in changed


def test_an_item_in_the_middle_goes_with_its_line_and_its_comma():
    text = '{\n  "x": [\n    1, // one\n    2,\n    3\n  ]\n}\n'
    items = parse(text).get("x")
    assert edited(text, removed(text, items, [1])) == '{\n  "x": [\n    1, // one\n    3\n  ]\n}\n'
    assert edited(text, removed(text, items, [2])) == '{\n  "x": [\n    1, // one\n    2\n  ]\n}\n'
    assert parse(edited(text, removed(text, items, [0, 1, 2]))).plain() == {"x": []}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", 1),
        ('{"a" 1}', 1),
        ('{\n"a": 1\n"b": 2}', 3),
        ('{"a": tru}', 1),
        ('{"a": "b}', 1),
        ("{} {}", 1),
        ('{"a": 1 /* open }', 1),
        ("[" * (MAX_DEPTH + 2), 1),
        ('{"a": "\\q"}', 1),
        ("{,}", 1),
    ],
)
def test_what_is_no_json_is_said_with_its_line(text, line):
    with pytest.raises(NotJson) as raised:
        parse(text)
    assert raised.value.line == line


def test_the_deepest_nesting_is_read():
    assert parse("[" * MAX_DEPTH + "]" * MAX_DEPTH).kind == "array"


@given(st.text(max_size=60) | st.text(alphabet='{}[]",:/*\n 1atrue\\', max_size=60))
def test_nothing_but_its_own_error_comes_out_of_any_text(text):
    try:
        parse(text)
    except NotJson:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), JSON, max_size=4),
    st.sampled_from([None, 2, "\t"]),
)
def test_any_settings_keep_their_meaning(value, indent):
    text = json.dumps(value, indent=indent)
    assert parse(text).plain() == value
    changed = add(text)
    assert json.loads(changed) == {**value, "hooks": VALUE}
    assert json.loads(take_out(changed)) == value
