"""The outline of a long JSON text: a short one of the same form, with long strings and lists cut. Pure."""

from __future__ import annotations

from typing import Any, Final

from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.errors import NotCanonical

#: Longest outline, in characters.
MAX_OUTLINE_CHARACTERS: Final = 2000
#: What is kept, from the most to the least: characters of a string, members of an object or a list.
_STEPS: Final = ((1200, 48), (600, 32), (200, 24), (60, 12), (20, 4))
#: Objects and lists inside each other that are kept; a deeper one is left out.
_DEPTH: Final = 3
#: Names longer than this are left out with what they name.
_LONGEST_NAME: Final = 60


def outline_of(value: Any) -> str:
    """Return the outline of a JSON value, of at most :data:`MAX_OUTLINE_CHARACTERS`."""
    for characters, members in _STEPS:
        shown = canonical_text(_cut(value, characters, members, _DEPTH))
        if len(shown) <= MAX_OUTLINE_CHARACTERS:
            return shown
    return "[]" if isinstance(value, list) else "{}"


def outline_of_text(text: str) -> str:
    """Return the outline of a JSON text; of one that is no JSON its beginning, which is none either."""
    try:
        return outline_of(parse_json(text))
    except NotCanonical:
        return text[:MAX_OUTLINE_CHARACTERS]


def is_outline(outline: str, text: str) -> bool:
    """Return whether all that an outline says is in a text, however it was made."""
    try:
        return _agrees(parse_json(outline), parse_json(text))
    except NotCanonical:
        return text.startswith(outline)


def _cut(value: Any, characters: int, members: int, depth: int) -> Any:
    if isinstance(value, str):
        return value[:characters]
    if isinstance(value, dict):
        names = [name for name in sorted(value) if len(name) <= _LONGEST_NAME and _is_kept(value[name], depth)]
        return {name: _cut(value[name], characters, members, depth - 1) for name in names[:members]}
    if isinstance(value, (list, tuple)):
        kept = value if depth > 1 else value[:0]
        return [_cut(item, characters, members, depth - 1) for item in kept[:members]]
    return value


def _is_kept(value: Any, depth: int) -> bool:
    return depth > 1 or not isinstance(value, (dict, list, tuple))


def _agrees(outline: Any, value: Any) -> bool:
    if isinstance(outline, str):
        return isinstance(value, str) and value.startswith(outline)
    if isinstance(outline, dict):
        return isinstance(value, dict) and all(
            name in value and _agrees(item, value[name]) for name, item in outline.items()
        )
    if isinstance(outline, list):
        return (
            isinstance(value, list)
            and len(outline) <= len(value)
            and all(_agrees(item, other) for item, other in zip(outline, value, strict=False))
        )
    return bool(outline == value)
