"""Finding the one block of JSON in what an agent said. Pure; whether it is a result is decided above."""

from __future__ import annotations

import json
import re
from typing import Final

#: A line that opens or closes a fenced block: how it is indented, the fence, and what is written behind it.
_FENCE: Final = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n]*$", re.MULTILINE)
#: Marks of a block that is meant to be JSON.
_JSON_MARKS: Final = frozenset({"json", "json5", "jsonc"})


def result_block(text: str) -> bytes | None:
    """Return the result in a message, or None if there is none.

    That is the last fenced block marked as JSON; else the last fenced block, or the whole message, that is a JSON
    object. A marked block is taken even if it is no JSON, so that its author is told what is wrong with it.
    """
    blocks = list(_blocks(text))
    for mark, content in reversed(blocks):
        if mark.lower() in _JSON_MARKS:
            return content.strip().encode("utf-8", "surrogatepass")
    for candidate in (*(content for _, content in reversed(blocks)), text):
        if _is_object(candidate):
            return candidate.strip().encode("utf-8", "surrogatepass")
    return None


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return the fenced blocks, each with its mark; a block that is not closed reaches to the end."""
    found: list[tuple[str, str]] = []
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opened is None:
            opened = line
        elif line[1][0] == opened[1][0] and len(line[1]) >= len(opened[1]) and not line[2]:
            found.append((opened[2], text[opened.end() : line.start()]))
            opened = None
    if opened is not None:
        found.append((opened[2], text[opened.end() :]))
    return found


def _is_object(text: str) -> bool:
    plain = text.strip()
    if not plain.startswith("{"):
        return False
    try:
        return isinstance(json.loads(plain), dict)
    except (ValueError, RecursionError):
        return False
