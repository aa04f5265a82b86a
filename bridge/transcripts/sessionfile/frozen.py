"""JSON values that nobody can change: mappings that only read, and tuples."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from bridge.foundation.canonical import MAX_DEPTH
from bridge.foundation.errors import NotCanonical


def freeze(value: Any) -> Any:
    """Return a JSON value whose objects are read-only mappings and whose arrays are tuples, all the way down."""
    if isinstance(value, dict):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return value


def thaw(value: Any, *, depth: int = 0) -> Any:
    """Return a copy of a frozen value made of ``dict`` and ``list``.

    Values of other types are left as they are, and nothing of theirs is called: they are for a validator to judge.

    Raises
    ------
    NotCanonical
        If it nests deeper than a canonical value may.
    """
    if depth > MAX_DEPTH:
        raise NotCanonical(f"The value nests deeper than {MAX_DEPTH} levels.")
    if type(value) in {dict, MappingProxyType}:
        return {key: thaw(item, depth=depth + 1) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return [thaw(item, depth=depth + 1) for item in value]
    return value
