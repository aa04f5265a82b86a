"""JSON as people keep it in settings files, with comments: read with places, and changed at a place and nowhere else.

``//`` and ``/* */`` comments, commas behind the last of a list, and a byte order mark are read and stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

#: Deepest nesting that is read.
MAX_DEPTH: Final = 64
_BLANK: Final = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")


class NotJson(Exception):
    """Raised for text that is no JSON, comments or not.

    Parameters
    ----------
    line
        Where, counted from 1.
    """

    def __init__(self, why: str, line: int) -> None:
        super().__init__(f"{why} in line {line}")
        self.line = line


@dataclass(slots=True)
class Node:
    """A value and where it stands.

    Parameters
    ----------
    start, end
        Where it begins, and where it has ended.
    value
        Of a string, number, true, false or null.
    keys, children
        Of an object: its members' names and values; of an array: no keys, its items.
    key_starts
        Where members' names begin.
    trailing
        Where a comma behind the last child has ended; None without one.
    """

    kind: str
    start: int
    end: int = 0
    value: Any = None
    keys: list[str] = field(default_factory=list)
    key_starts: list[int] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)
    trailing: int | None = None

    def get(self, name: str) -> Node | None:
        """Return a member; the last of that name, as programs read it."""
        for key, child in zip(reversed(self.keys), reversed(self.children), strict=True):
            if key == name:
                return child
        return None

    def plain(self) -> Any:
        """Return the value without places."""
        if self.kind == "object":
            return {key: child.plain() for key, child in zip(self.keys, self.children, strict=True)}
        if self.kind == "array":
            return [child.plain() for child in self.children]
        return self.value

    def starts(self) -> list[int]:
        """Return where children begin: members with their names."""
        return self.key_starts if self.kind == "object" else [child.start for child in self.children]


def parse(text: str) -> Node:
    """Return the value that a text holds; nothing but comments counts as an empty object.

    Raises
    ------
    NotJson
        If it is none.
    """
    reader = _Reader(text)
    reader.skip()
    if reader.at == len(text):
        return Node("nothing", len(text), len(text))
    node = reader.value(0)
    reader.skip()
    if reader.at != len(text):
        raise reader.wrong("something follows the value")
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> None:
        match = _BLANK.match(self.text, self.at)
        self.at = self.at if match is None else match.end()

    def wrong(self, why: str) -> NotJson:
        return NotJson(why, self.text.count("\n", 0, self.at) + 1)

    def value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.wrong("it is nested too deeply")
        letter = self.text[self.at : self.at + 1]
        if letter == "{":
            return self.container("object", "}", depth)
        if letter == "[":
            return self.container("array", "]", depth)
        node = Node("scalar", self.at)
        node.value = self.string() if letter == '"' else self.scalar()
        node.end = self.at
        return node

    def container(self, kind: str, closing: str, depth: int) -> Node:
        node = Node(kind, self.at)
        self.at += 1
        while True:
            self.skip()
            if self.text.startswith(closing, self.at):
                self.at += 1
                node.end = self.at
                return node
            if node.children and node.trailing is None:
                raise self.wrong("a comma is missing")
            if kind == "object":
                node.key_starts.append(self.at)
                node.keys.append(self.string())
                self.skip()
                self.expect(":")
                self.skip()
            node.children.append(self.value(depth + 1))
            node.trailing = None
            self.skip()
            if self.text.startswith(",", self.at):
                self.at += 1
                node.trailing = self.at

    def expect(self, letter: str) -> None:
        if not self.text.startswith(letter, self.at):
            raise self.wrong(f"{letter!r} is missing")
        self.at += 1

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self.wrong("a text in quotes is missing or not closed")
        try:
            found = json.loads(match[0])
        except ValueError as error:
            raise self.wrong("a text is not JSON") from error
        self.at = match.end()
        return str(found)

    def scalar(self) -> Any:
        match = _SCALAR.match(self.text, self.at)
        if match is None:
            raise self.wrong("a value is missing")
        self.at = match.end()
        return json.loads(match[0])


# -- changing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a text: what stands between two places is replaced."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with changes that do not overlap."""
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def added(text: str, container: Node, value: Any, *, name: str | None = None) -> list[Edit]:
    """Return the changes that add a value at the end of a container, as a member if it has a name.

    It comes on lines of its own, indented as its neighbours are; nothing else moves.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = indentation_of(text)
    outer = _indent_of_line(text, container.start)
    inner = outer + unit
    if container.children and _begins_line(text, container.starts()[-1]):
        inner = _indent_of_line(text, container.starts()[-1])
        outer = inner[: -len(unit)] if inner.endswith(unit) else outer
    written = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + inner)
    if name is not None:
        written = f"{json.dumps(name, ensure_ascii=False)}: {written}"
    closing = container.end - 1
    last = len(text[:closing].rstrip(" \t\r\n"))
    edits = []
    if container.children and container.trailing is None:
        comma = container.children[-1].end
        if comma == last:
            written = f",{newline}{inner}{written}"
            return [Edit(last, closing, f"{written}{newline}{outer}")]
        edits.append(Edit(comma, comma, ","))
    edits.append(Edit(last, closing, f"{newline}{inner}{written}{newline}{outer}"))
    return edits


def removed(text: str, container: Node, indices: Iterable[int]) -> list[Edit]:
    """Return the changes that take children out of a container, each with its comma and its line if it has one."""
    gone = sorted(set(indices))
    count, starts = len(container.children), container.starts()
    if not gone:
        return []
    edits: list[Edit] = []
    kept_before = [index for index in range(count) if index not in gone]
    for index in gone:
        start, end = starts[index], container.children[index].end
        comma = _comma_behind(text, container, index)
        end = end if comma is None else comma
        begin = len(text[:start].rstrip(" \t"))
        if begin and text[begin - 1] == "\n" and _ends_line(text, end):
            # With its whole line, but for the line's end before it.
            start = begin - 1 - (text[begin - 2 : begin - 1] == "\r")
            edits.append(Edit(start, _end_of_line(text, end), ""))
        else:
            following = end + (len(text[end:]) - len(text[end:].lstrip(" \t")))
            edits.append(Edit(start, following if comma is not None else end, ""))
    # A comma that has nothing behind it any more, unless the file is one of those that end lists with one.
    last_kept = kept_before[-1] if kept_before else None
    if last_kept is not None and last_kept < gone[-1] and gone[-1] == count - 1 and container.trailing is None:
        comma = _comma_behind(text, container, last_kept)
        if comma is not None:
            edits.append(Edit(comma - 1, comma, ""))
    return edits


def indentation_of(text: str) -> str:
    """Return what one level is indented by: that of the first indented line, two spaces if there is none."""
    match = re.search(r"\n([ \t]+)[^\s]", text)
    return "  " if match is None else match[1]


def _comma_behind(text: str, container: Node, index: int) -> int | None:
    """Return where the comma behind a child has ended; None if there is none."""
    end = container.children[index].end
    if index == len(container.children) - 1 and container.trailing is None:
        return None
    match = _BLANK.match(text, end)
    at = end if match is None else match.end()
    return at + 1 if text.startswith(",", at) else None


def _indent_of_line(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t") and text.rfind("\n", 0, at) >= 0


def _ends_line(text: str, at: int) -> bool:
    rest = text[at:].partition("\n")[0].strip(" \t\r")
    return not rest or rest in "]}" or rest.startswith(("]", "}"))


def _end_of_line(text: str, at: int) -> int:
    """Return where the blanks behind a place have ended, short of the line's end."""
    return at + (len(text[at:]) - len(text[at:].lstrip(" \t")))
