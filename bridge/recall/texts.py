"""What of an entry can be found: the words of conversational kinds, and of nothing that is kept from context."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.interpretation import meaning_of
from bridge.semantics.kinds import CONVERSATIONAL_KINDS, ELIGIBLE

#: Payload fields whose words can be found, by kind. A test holds it together with the conversational kinds.
FOUND_FIELDS: Final = MappingProxyType(
    {
        "user.message": ("text",),
        "assistant.message": ("text",),
        "worker.result": ("summary", "decisions", "risks", "remaining_work"),
        "checkpoint": ("summary", "decisions", "files_touched", "open_work"),
        "compaction": ("summary",),
        "branch.summary": ("summary",),
    }
)


def is_searchable(kind: str, context_visibility: str) -> bool:
    """Return whether an entry can have words that can be found, whatever its payload."""
    return kind in CONVERSATIONAL_KINDS and context_visibility == ELIGIBLE


def searchable_text(version: int, kind: str, payload_text: str, context_visibility: str) -> str:
    """Return the words of a stored entry that can be found; empty if there are none.

    An entry of a version that this Bridge does not read has none here: whether its session may be searched at all
    is decided elsewhere.
    """
    if not is_searchable(kind, context_visibility):
        return ""
    try:
        payload = meaning_of(version, kind, payload_text)
    except UnsupportedSemanticVersion:
        return ""  # the search itself refuses the session
    if payload is None:
        return ""
    return "\n".join([word for name in FOUND_FIELDS[kind] for word in _words(payload.get(name))])


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _words(item)
