"""The line index against documents written by hand and against generated ones, with tomllib as the judge."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge.control.plans.tomlindex import KeyPath, line_index, nearest_line


def paths_of(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    """Every path that tomllib's own reading of a document has."""
    found = {path}
    if isinstance(value, dict):
        for key, item in value.items():
            found |= paths_of(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found |= paths_of(item, (*path, number))
    return found


def test_a_document_with_everything() -> None:
    text = '''# comment = 1
title = "x" # [not.a.table]

[[worker]]
  id = 'a'
text = """
[[worker]]
id = "no" \\""" still
"""
list = [
  1, # ], "
  "],[", [ 2,

  3 ],
  { a = 1, "b c" = [4] },
]

[[worker]]
"quoted.\\u0041 key" = 5
dotted . inner."x" = 1979-05-27 07:32:00
[worker.environment]
A = \'\'\'
]
\'\'\'\'\'
[[worker.deep]]
x = """"quoted"""""
[[worker.deep]]
[ last ]
empty = ""
'''
    index = line_index(text)
    assert set(index) == paths_of(tomllib.loads(text))
    assert {path: line for path, line in index.items() if path} == {
        ("title",): 2,
        ("worker",): 4,
        ("worker", 0): 4,
        ("worker", 0, "id"): 5,
        ("worker", 0, "text"): 6,
        ("worker", 0, "list"): 10,
        ("worker", 0, "list", 0): 11,
        ("worker", 0, "list", 1): 12,
        ("worker", 0, "list", 2): 12,
        ("worker", 0, "list", 2, 0): 12,
        ("worker", 0, "list", 2, 1): 14,
        ("worker", 0, "list", 3): 15,
        ("worker", 0, "list", 3, "a"): 15,
        ("worker", 0, "list", 3, "b c"): 15,
        ("worker", 0, "list", 3, "b c", 0): 15,
        ("worker", 1): 18,
        ("worker", 1, "quoted.A key"): 19,
        ("worker", 1, "dotted"): 20,
        ("worker", 1, "dotted", "inner"): 20,
        ("worker", 1, "dotted", "inner", "x"): 20,
        ("worker", 1, "environment"): 21,
        ("worker", 1, "environment", "A"): 22,
        ("worker", 1, "deep"): 25,
        ("worker", 1, "deep", 0): 25,
        ("worker", 1, "deep", 0, "x"): 26,
        ("worker", 1, "deep", 1): 27,
        ("last",): 28,
        ("last", "empty"): 29,
    }


def test_line_ends_of_windows_count_once() -> None:
    assert line_index('a = """\r\n\r\n"""\r\nb = 1\r\n')[("b",)] == 4


def test_what_is_missing_is_where_it_should_have_been() -> None:
    index = line_index("\n[[worker]]\nid = 'a'\n")
    assert nearest_line(index, ("worker", 0, "objective")) == 2
    assert nearest_line(index, ("elsewhere", 3)) == 1


def test_the_empty_document() -> None:
    assert line_index("") == {(): 1}
    assert line_index("# only this") == {(): 1}


# -- generated documents -----------------------------------------------------------------------------------------------

NASTY = st.text(st.sampled_from("ab \"'\\[]{}#=.,\n\té"), max_size=8)


class Writer:
    """Writes TOML and notes on which line it put what."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[KeyPath, int] = {(): 1}
        self.names = 0

    def mark(self, path: KeyPath) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def name(self) -> str:
        self.names += 1
        return f"k{self.names}" + self.draw(st.sampled_from(["", "-_", ".x", " #", '"', "é", "]", "\\", "="]))

    def key(self, name: str) -> str:
        if name.replace("-", "").replace("_", "").isascii() and name.replace("-", "").replace("_", "").isalnum():
            return self.draw(st.sampled_from([name, json.dumps(name), f"'{name}'"]))
        return json.dumps(name, ensure_ascii=self.draw(st.booleans()))

    def blank(self, *, lines: bool) -> str:
        return self.draw(st.sampled_from(["", " ", "\t"] + (["\n", " # ], }\n", "\n\n"] if lines else [])))

    def string(self) -> str:
        content = self.draw(NASTY)
        style = self.draw(st.integers(0, 3))
        if style == 1 and "'" not in content and "\n" not in content:
            return f"'{content}'"
        if style == 2:
            escaped = content.replace("\\", "\\\\").replace('"""', '""\\"')
            return (
                '"""\n'
                + escaped
                + self.draw(st.sampled_from(["", '"', '""']) if not escaped.endswith('"') else st.just(""))
                + '"""'
            )
        if style == 3 and "''" not in content and not content.endswith("'"):
            return "'''\n" + content + self.draw(st.sampled_from(["", "'", "''"])) + "'''"
        return json.dumps(content)

    def value(self, path: KeyPath, depth: int, *, inline: bool) -> None:
        kind = self.draw(st.sampled_from(["scalar", "string"] + (["array", "table"] if depth < 3 else [])))
        if kind == "scalar":
            self.text += self.draw(
                st.sampled_from(
                    ["1", "-2.5e3", "true", "inf", "0x1F", "1979-05-27", "07:32:00", "1979-05-27 07:32:00Z"]
                )
            )
        elif kind == "string":
            self.text += self.string()
        elif kind == "array":
            self.text += "["
            count = self.draw(st.integers(0, 3))
            for number in range(count):
                self.text += self.blank(lines=True)
                self.mark((*path, number))
                self.value((*path, number), depth + 1, inline=inline)
                self.text += self.blank(lines=True) + ("," if number < count - 1 or self.draw(st.booleans()) else "")
            self.text += self.blank(lines=True) + "]"
        else:
            self.text += "{"
            count = self.draw(st.integers(0, 2))
            for number in range(count):
                self.text += self.blank(lines=False)
                self.pair(path, depth + 1, inline=True)
                self.text += self.blank(lines=False) + ("," if number < count - 1 else "")
            self.text += self.blank(lines=False) + "}"

    def pair(self, table: KeyPath, depth: int, *, inline: bool) -> None:
        names = [self.name() for _ in range(self.draw(st.integers(1, 3)))]
        path = table
        for name in names:
            path = (*path, name)
            self.mark(path)
        self.text += f"{self.blank(lines=False)}.{self.blank(lines=False)}".join(map(self.key, names))
        self.text += self.blank(lines=False) + "=" + self.blank(lines=False)
        self.value(path, depth, inline=inline)

    def document(self) -> None:
        arrays: dict[str, int] = {}
        table: KeyPath = ()
        for _ in range(self.draw(st.integers(0, 8))):
            self.text += self.blank(lines=True)
            kind = self.draw(st.sampled_from(["pair", "pair", "table", "array", "again", "inner"]))
            if kind == "pair":
                self.pair(table, 0, inline=False)
            elif kind == "table":
                name = self.name()
                table = (name,)
                self.mark(table)
                self.text += f"[{self.key(name)}]"
            elif kind == "inner" and arrays:
                outer, name = self.draw(st.sampled_from(sorted(arrays))), self.name()
                table = (outer, arrays[outer] - 1, name)
                self.mark(table)
                self.text += f"[ {self.key(outer)} . {self.key(name)} ]"
            else:
                name = self.draw(st.sampled_from(sorted(arrays))) if kind == "again" and arrays else self.name()
                arrays[name] = arrays.get(name, 0) + 1
                table = (name, arrays[name] - 1)
                self.mark((name,))
                self.mark(table)
                self.text += f"[[{self.key(name)}]]"
            self.text += self.draw(st.sampled_from(["\n", " # [x] = '\n", "\n\n"]))


@st.composite
def documents(draw: Any) -> Writer:
    writer = Writer(draw)
    writer.document()
    return writer


@given(documents())
def test_generated_documents(document: Writer) -> None:
    parsed = tomllib.loads(document.text)
    index = line_index(document.text)
    assert set(index) == paths_of(parsed)
    assert index == document.lines
