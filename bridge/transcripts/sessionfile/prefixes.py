"""Whether a text is a JSON object that was cut short: the one kind of damage that a crash leaves behind.

It has to be a prefix that could have gone on to become an object. Text that no object begins with, and text after a
finished object, is damage of another kind.
"""

from __future__ import annotations

import re
from typing import Final

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_PIECES: Final = r'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'
_STRING: Final = re.compile(rf'"{_PIECES}"')
_CUT_STRING: Final = re.compile(rf'"{_PIECES}(\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
#: A number that ends with the text: it may be whole, or go on.
_CUT_NUMBER: Final = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?)?\Z")
_WORDS: Final = ("true", "false", "null")

# What may come next.
_VALUE, _FIRST_KEY, _KEY, _COLON, _AFTER_MEMBER, _FIRST_ITEM, _AFTER_ITEM = range(7)
_CLOSERS: Final = {"{": "}", "[": "]"}


def completion_of(text: str) -> str | None:
    """Return what would make a text that was cut short a whole JSON object; None if nothing would.

    A whole object was not cut short: then None as well.
    """
    at = _blanks(text, 0)
    if not text.startswith("{", at):
        return None
    stack, expected, at = ["{"], _FIRST_KEY, at + 1
    while True:
        at = _blanks(text, at)
        if at == len(text):
            return _rest(expected) + _closing(stack)
        following = _after_sign(text[at], stack, expected)
        if following is not None:
            if not stack:
                return None
            at, expected = at + 1, following
            continue
        if expected in {_FIRST_KEY, _KEY}:
            end, tail, following = _string_end(text, at), ":null", _COLON
        elif expected in {_VALUE, _FIRST_ITEM}:
            end, tail, following = _scalar_end(text, at), "", _after(stack)
        else:
            return None
        if not isinstance(end, int):
            return None if end is None else end + tail + _closing(stack)
        at, expected = end, following


def _after_sign(char: str, stack: list[str], expected: int) -> int | None:
    """Return what may come after a bracket, colon or comma, keeping the stack; None if the character is none here."""
    if expected == _COLON:
        return _VALUE if char == ":" else None
    if char == "," and expected in {_AFTER_MEMBER, _AFTER_ITEM}:
        return _KEY if expected == _AFTER_MEMBER else _VALUE
    if _closes(stack, expected, char):
        stack.pop()
        return _after(stack) if stack else _AFTER_MEMBER
    if char in _CLOSERS and expected in {_VALUE, _FIRST_ITEM}:
        stack.append(char)
        return _FIRST_KEY if char == "{" else _FIRST_ITEM
    return None


def _closes(stack: list[str], expected: int, char: str) -> bool:
    may_close = (_FIRST_KEY, _AFTER_MEMBER) if stack[-1] == "{" else (_FIRST_ITEM, _AFTER_ITEM)
    return expected in may_close and char == _CLOSERS[stack[-1]]


def _after(stack: list[str]) -> int:
    return _AFTER_MEMBER if stack[-1] == "{" else _AFTER_ITEM


def _rest(expected: int) -> str:
    return {_VALUE: "null", _KEY: '"":null', _COLON: ":null"}.get(expected, "")


def _closing(stack: list[str]) -> str:
    return "".join(_CLOSERS[opened] for opened in reversed(stack))


def _blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _string_end(text: str, at: int) -> int | str | None:
    """Return where a string ends, or what would end it; None if it holds what no string may hold."""
    whole = _STRING.match(text, at)
    if whole is not None:
        return whole.end()
    cut = _CUT_STRING.match(text, at)
    if cut is None:
        return None
    escape = cut.group(1) or ""
    if not escape:
        return '"'
    return ("\\" if escape == "\\" else "0" * (6 - len(escape))) + '"'


def _scalar_end(text: str, at: int) -> int | str | None:
    """Return where a string, number or word ends, what would end it, or None if it is none of them."""
    if text[at] == '"':
        return _string_end(text, at)
    cut = _CUT_NUMBER.match(text, at)
    if cut is not None and cut.end() > at:
        return "" if text[-1].isdigit() else "0"
    number = _NUMBER.match(text, at)
    if number is not None:
        return number.end()
    for word in _WORDS:
        if text.startswith(word, at):
            return at + len(word)
        if word.startswith(text[at:]):
            return word[len(text) - at :]
    return None
