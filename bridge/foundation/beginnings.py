"""From the beginning of a JSON text to a whole one that says as much as it does. Pure."""

from __future__ import annotations

import re

#: The first half of a character outside the basic plane, whose second was cut off.
_FIRST_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_CLOSING = {"{": "}", "[": "]"}


def close_json(beginning: str) -> str | None:
    """Return a JSON text that begins as a longer one does and ends where that was cut; None if it begins like none.

    A string that was cut ends there. What else was cut, a number or a name, is left out with what it belongs to.
    """
    scan = _Scan()
    at = 0
    while at < len(beginning):
        at = scan.step(beginning, at)
        if at < 0:
            return None
    return scan.finish(beginning)


class _Scan:
    """Follows which brackets are open, and where the text could have been left off."""

    def __init__(self) -> None:
        self._open: list[str] = []
        # After the last complete value of what is open: up to there everything is valid once closed.
        self._safe = (0, 0)
        # Where the last two escapes of a string begin that has no end.
        self._escapes = (-1, -1)
        self._is_cut_string = False
        self._is_name = False
        self._expects_name = False

    def step(self, text: str, at: int) -> int:
        """Take what stands at a place and return the next one; -1 if no JSON text has it there."""
        sign = text[at]
        if sign in "{[":
            self._open.append(sign)
            self._expects_name = sign == "{"
            self._safe = at + 1, len(self._open)
        elif sign in "}]":
            if not self._open or _CLOSING[self._open.pop()] != sign:
                return -1
            self._safe = at + 1, len(self._open)
        elif sign == ",":
            self._safe = at, len(self._open)
            self._expects_name = bool(self._open) and self._open[-1] == "{"
        elif sign == ":":
            self._expects_name = False
        elif sign == '"':
            return self._string(text, at)
        return at + 1

    def finish(self, text: str) -> str | None:
        """Return the closed text."""
        if self._is_cut_string and not self._is_name:
            return text[: self._end_of_string(text)] + '"' + self._closing(len(self._open))
        end, depth = self._safe
        return text[:end] + self._closing(depth) if end else None

    def _string(self, text: str, at: int) -> int:
        self._is_name = self._expects_name
        self._escapes = -1, -1
        end = at + 1
        while end < len(text) and text[end] != '"':
            if text[end] == "\\":
                self._escapes = self._escapes[1], end
                end += 1
            end += 1
        if end >= len(text):
            self._is_cut_string = True
            return len(text)
        if not self._is_name:
            self._safe = end + 1, len(self._open)
        return end + 1

    def _end_of_string(self, text: str) -> int:
        """Return where a string that was cut can end: behind its last whole character."""
        end, (before, last) = len(text), self._escapes
        if last >= 0 and end < last + (6 if text[last + 1 : last + 2] == "u" else 2):
            end, last = last, before
        if last >= 0 and last + 6 == end and _FIRST_HALF.fullmatch(text, last, end):
            end = last
        return end

    def _closing(self, depth: int) -> str:
        return "".join(_CLOSING[sign] for sign in reversed(self._open[:depth]))
