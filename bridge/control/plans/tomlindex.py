"""On which line each key and each array element of a TOML document stands.

The standard library's parser keeps no positions. This one reads only as much of the syntax as it takes to tell where
things are, and only documents that ``tomllib`` has accepted; it never judges.
"""

from __future__ import annotations

import re
import tomllib
from typing import TypeAlias

#: Keys and array indexes from the top of the document.
KeyPath: TypeAlias = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
#: What a value that is neither string, array nor inline table ends at.
_SCALAR_END = re.compile(r"[,\]}#\n]")
_BLANK = re.compile(r"[ \t]*")
_BLANK_AND_COMMENTS = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_REST_OF_LINE = re.compile(r"[^\n]*")
_STRINGS = (
    # A multi-line string may end in one or two quotation marks of its own before the three that close it.
    re.compile(r'"""(?:\\.|[^\\])*?""""{0,2}', re.DOTALL),
    re.compile(r"'''.*?''''{0,2}", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)


def line_index(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every key, table and array element of a document that ``tomllib`` accepts.

    A key is where its name stands, an element where its value begins. A table that is opened more than once (by
    dotted keys or headers of its subtables) is where it was named first; the document itself, the empty path, is on
    line 1.
    """
    return _Scanner(text.replace("\r\n", "\n")).run()


def nearest_line(index: dict[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a path or, where nothing stands there, of the closest thing around it."""
    while path not in index and path:
        path = path[:-1]
    return index.get(path, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: dict[KeyPath, int] = {(): 1}
        #: How many elements each array of tables has so far.
        self._table_counts: dict[KeyPath, int] = {}
        # The line is counted on from the last place asked about, since places only ever grow.
        self._counted_to = 0
        self._line = 1

    def run(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while True:
            self._skip(_BLANK_AND_COMMENTS)
            if self._at >= len(self._text):
                return self._lines
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_REST_OF_LINE)

    def _header(self) -> KeyPath:
        is_array = self._text.startswith("[[", self._at)
        line = self._current_line()
        self._at += 2 if is_array else 1
        names = self._dotted_key()
        self._at += 2 if is_array else 1
        path: KeyPath = ()
        for position, name in enumerate(names):
            path = (*path, name)
            self._lines.setdefault(path, line)
            is_last = position == len(names) - 1
            if is_last and is_array:
                self._table_counts[path] = self._table_counts.get(path, 0) + 1
            if path in self._table_counts:
                # A name that is an array of tables means its newest element.
                path = (*path, self._table_counts[path] - 1)
                self._lines.setdefault(path, line)
        return path

    def _pair(self, table: KeyPath) -> None:
        line = self._current_line()
        path = table
        for name in self._dotted_key():
            path = (*path, name)
            self._lines.setdefault(path, line)
        self._at += 1  # the equals sign
        self._skip(_BLANK)
        self._value(path)

    def _dotted_key(self) -> list[str]:
        names: list[str] = []
        while True:
            self._skip(_BLANK)
            names.append(self._name())
            self._skip(_BLANK)
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _name(self) -> str:
        if self._text[self._at] in "\"'":
            # Escapes are tomllib's business.
            literal = self._take(_STRINGS[2] if self._text[self._at] == '"' else _STRINGS[3])
            return str(tomllib.loads(f"name = {literal}")["name"])
        return self._take(_BARE_KEY)

    def _value(self, path: KeyPath) -> None:
        match self._text[self._at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._string()
            case _:
                end = _SCALAR_END.search(self._text, self._at)
                self._at = end.start() if end else len(self._text)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        number = 0
        while True:
            self._skip_separators()
            if self._text[self._at] == "]":
                self._at += 1
                return
            element = (*path, number)
            self._lines[element] = self._current_line()
            self._value(element)
            number += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while True:
            self._skip_separators()
            if self._text[self._at] == "}":
                self._at += 1
                return
            self._pair(path)

    def _string(self) -> None:
        for pattern in _STRINGS:
            match = pattern.match(self._text, self._at)
            if match:
                self._at = match.end()
                return

    def _skip_separators(self) -> None:
        self._skip(_BLANK_AND_COMMENTS)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_BLANK_AND_COMMENTS)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        if match:
            self._at = match.end()

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"not the TOML that tomllib accepted, at character {self._at}")
        self._at = match.end()
        return match.group()

    def _current_line(self) -> int:
        self._line += self._text.count("\n", self._counted_to, self._at)
        self._counted_to = self._at
        return self._line
