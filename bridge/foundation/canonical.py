"""Canonical JSON (design §7): what is stored, hashed and never re-serialised.

Sorted keys, no whitespace, UTF-8; no NaN, no duplicate keys, no lone surrogates; integers within 64 bits;
floats keep the digits they were first written with. orjson does the work; this module closes the gaps where
it would be lenient (NaN becomes ``null``, float text is re-rendered).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

from bridge.foundation.errors import NotCanonical

#: Deepest nesting of arrays and objects that has a canonical form; orjson itself writes 254.
MAX_DEPTH = 200
#: Integers that have a canonical form: what 64 bits hold, signed or unsigned.
MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**64 - 1

_OPTIONS = (
    orjson.OPT_SORT_KEYS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


class FloatLiteral(float):
    """A float that remembers the text it was read from, so that ``1.0`` and ``1e0`` stay what they were.

    Raises
    ------
    ValueError
        If the text is not a number as JSON writes it: what it is written back as must be JSON.
    """

    __slots__ = ("literal",)
    literal: str

    def __new__(cls, literal: str) -> FloatLiteral:
        if not _NUMBER.fullmatch(literal):
            raise ValueError(f"not a JSON number: {literal[:40]!r}")
        number = super().__new__(cls, literal)
        number.literal = literal
        return number

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]  # float's own gives back a float; copies need the text
        return (self.literal,)


def _fragment(value: object) -> orjson.Fragment:
    if isinstance(value, FloatLiteral):
        return orjson.Fragment(value.literal)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def canonical_bytes(value: Any) -> bytes:
    """Return the canonical JSON of a value, UTF-8 encoded. Enumerations and UUIDs are written as their value.

    Raises
    ------
    NotCanonical
        If the value holds NaN or an infinity, a lone surrogate, an integer beyond 64 bits, a key that is not
        a string, a type that JSON lacks, or nests deeper than :data:`MAX_DEPTH`.
    """
    try:
        encoded = orjson.dumps(value, default=_fragment, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        raise NotCanonical(f"The value has no canonical JSON form: {error}.") from error
    # orjson writes NaN and infinities as null, and its own depth limit is its business: look closer only
    # where the output gives a reason to.
    if b"null" in encoded or encoded.count(b"[") + encoded.count(b"{") > MAX_DEPTH:
        _check(value, 0)
    return encoded


def canonical_record(record: dict[str, Any]) -> bytes:
    """Return the canonical JSON of a flat record of text, small integers, None and objects of text.

    Such a record holds no float, so that the ``null`` in it needs no second look: a third of the time.

    Raises
    ------
    NotCanonical
        If a text holds a lone surrogate.
    """
    try:
        return orjson.dumps(record, option=_OPTIONS)
    except orjson.JSONEncodeError as error:
        raise NotCanonical(f"The record has no canonical JSON form: {error}.") from error


def canonical_text(value: Any) -> str:
    """Return the canonical JSON of a value as text. Raises as :func:`canonical_bytes`."""
    return canonical_bytes(value).decode()


def parse_json(text: str | bytes) -> Any:
    """Read JSON strictly; floats come back as :class:`FloatLiteral`.

    Raises
    ------
    NotCanonical
        If the text is not JSON, repeats a key, holds ``NaN`` or ``Infinity``, a number beyond the range of a
        double or of 64-bit integers, or a lone surrogate, is not UTF-8, or nests too deep.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        if not decoded.isascii():
            decoded.encode("utf-8")
        value = json.loads(
            decoded,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique_pairs,
        )
    except UnicodeDecodeError as error:
        raise NotCanonical(f"The text is not UTF-8 (byte {error.start}).") from error
    except UnicodeEncodeError as error:
        raise NotCanonical(f"The text holds a lone surrogate (character {error.start}).") from error
    except RecursionError as error:
        raise NotCanonical(f"The text nests deeper than {MAX_DEPTH} levels.") from error
    except ValueError as error:
        raise NotCanonical(f"The text is not JSON: {error}.") from error
    _check(value, 0)
    if "\\u" in decoded:
        canonical_bytes(value)  # the only other way to a lone surrogate is its escape
    return value


def _parse_float(literal: str) -> FloatLiteral:
    number = FloatLiteral(literal)
    if math.isinf(number):
        raise NotCanonical(f"The number {literal[:40]} is beyond the range of a double.")
    return number


def _refuse_constant(name: str) -> Any:
    raise NotCanonical(f"The text holds {name}, which JSON does not have.")


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotCanonical(f"The key {key[:80]!r} occurs twice in one object.", details={"key": key[:200]})
            seen.add(key)
    return result


def _check(value: Any, depth: int) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonical("The value holds NaN or an infinity, which JSON does not have.")
    elif isinstance(value, int):
        if not MIN_INTEGER <= value <= MAX_INTEGER:
            raise NotCanonical("The value holds an integer beyond 64 bits.")
    elif isinstance(value, (dict, list, tuple)):
        if depth >= MAX_DEPTH:
            raise NotCanonical(f"The value nests deeper than {MAX_DEPTH} levels.")
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth + 1)


def has_fraction(value: object) -> bool:
    """Return whether a float stands anywhere in a value that was read from JSON."""
    if isinstance(value, dict):
        return any(map(has_fraction, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(has_fraction, value))
    return isinstance(value, float)
