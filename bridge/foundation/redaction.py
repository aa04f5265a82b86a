"""Masking secrets in well-known formats: the first step of every write, before validation and hashing (design §7).

What is masked is gone for good, and says what it was: ``[redacted:github-token]``. Guessing by entropy is not
done: a commit id or a digest that vanished would cost more than it protects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.secret_formats import FAMILIES, FIELD_FORMATS, MASKED_GROUP, Plugin, hints, marks


@dataclass(frozen=True, slots=True)
class _Compiled:
    label: str
    pattern: re.Pattern[str]


class Redaction(NamedTuple):
    """What redaction made of a value.

    Parameters
    ----------
    value
        The value with its secrets masked; the very same object if there were none.
    count
        Number of secrets masked.
    labels
        The formats met, sorted, each once.
    canonical
        Canonical JSON of ``value``, which redaction has to make anyway.
    """

    value: Any
    # Named so for who reads it; a tuple's own method of that name is not missed.
    count: int  # type: ignore[assignment]  # NamedTuple inherits tuple.count
    labels: tuple[str, ...]
    canonical: bytes


def redact(value: Any) -> Redaction:
    """Mask the secrets in every string of a JSON value, keys included. Doing it twice changes nothing more.

    Raises
    ------
    NotCanonical
        If the value is not plain JSON.
    """
    canonical = canonical_bytes(value)
    if not is_suspicious(canonical):
        return Redaction(value, 0, (), canonical)
    labels: list[str] = []
    masked = _redact_value(value, labels)
    if not labels:
        return Redaction(value, 0, (), canonical)
    return Redaction(masked, len(labels), tuple(sorted(set(labels))), canonical_bytes(masked))


def redact_text(text: str) -> tuple[str, tuple[str, ...]]:
    """Mask the secrets in a text; return it with the labels of what was masked, one per secret."""
    labels: list[str] = []
    return _redact_string(text, labels), tuple(labels)


def portable_formats() -> list[dict[str, Any]]:
    """Return every format as plain values, for a program that cannot import this one.

    Each has ``label``, ``trigger`` (a text without which the pattern cannot match), ``pattern``, ``flags`` and
    ``group``, the group of a match that is the secret. They are tried in their order. Imports what plugins need, which
    takes long.
    """
    return [
        {
            "label": known.label,
            "trigger": family.trigger,
            "pattern": known.pattern.pattern,
            "flags": int(known.pattern.flags),
            "group": _group_of(known.pattern),
        }
        for number, family in enumerate(FAMILIES)
        for known in _formats_of(number)
    ]


def _group_of(pattern: re.Pattern[str]) -> str | int:
    # As ``_masked_group`` of any match: of patterns without named groups, none has one that may be left out.
    if MASKED_GROUP in pattern.groupindex:
        return MASKED_GROUP
    return 0 if pattern.groupindex else pattern.groups


def is_suspicious(text: bytes) -> bool:
    """Return whether a text may hold a secret: what is not suspicious holds none, and most texts are not."""
    search, patterns_of = _marks_in_bytes()
    found = search(text, overlapping=True)
    if not found:
        return False
    patterns = {pattern for mark in {one[0] for one in found} for pattern in patterns_of[mark]}
    return any(pattern.search(text) is not None for pattern in patterns)


# Made at first use: 10 ms that a process which writes nothing does not spend.
@cache
def _marks_in_bytes() -> tuple[Callable[..., list[tuple[int, int, int]]], list[list[re.Pattern[bytes]]]]:
    """Return what finds all marks of secrets in one pass over a text, and by a mark's number its hints."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    patterns = {trigger: re.compile(pattern.encode()) for trigger, pattern in hints().items()}
    known = marks()
    automaton = BytesAhoCorasick([mark.encode() for mark in known], implementation=Implementation.DFA)
    return automaton.find_matches_as_indexes, [[patterns[one] for one in triggers] for triggers in known.values()]


@cache
def _hints_in_text() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((trigger, re.compile(pattern, re.ASCII)) for trigger, pattern in hints().items())


def _redact_value(value: Any, labels: list[str]) -> Any:
    if isinstance(value, str):
        return _redact_string(value, labels)
    if isinstance(value, dict):
        return _redact_object(value, labels)
    if isinstance(value, (list, tuple)):
        return [_redact_value(item, labels) for item in value]
    return value


def _redact_object(value: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    keys = {key: _redact_string(key, labels) for key in value}
    result = {key: _redact_field(key, item, labels) for key, item in value.items() if keys[key] == key}
    # Two keys may end under one mask; neither value may be lost. By sorted key, so that order does not matter.
    for key in sorted(key for key in value if keys[key] != key):
        name, number = keys[key], 1
        while name in result:
            number += 1
            name = f"{keys[key]}#{number}"
        result[name] = _redact_value(value[key], labels)
    return result


def _redact_field(name: str, value: Any, labels: list[str]) -> Any:
    # Some secrets have no mark of their own: in text the assignment before them tells, in an object the name.
    for label, names, values in FIELD_FORMATS:
        if isinstance(value, str) and name.endswith(names) and re.fullmatch(values, value):
            labels.append(label)
            return f"[redacted:{label}]"
    return _redact_value(value, labels)


def _redact_string(text: str, labels: list[str]) -> str:
    # Masking may put a boundary where there was none and so uncover a neighbour: repeat until nothing is found.
    # Each round replaces text by masks that match no format, so it ends.
    while True:
        before = len(labels)
        for known in _formats_hinted_at(text):
            text = _mask(text, known, labels)
        if len(labels) == before:
            return text


def _formats_hinted_at(text: str) -> list[_Compiled]:
    numbers = {
        int(match.lastgroup[1:])
        for trigger, pattern in _hints_in_text()
        if trigger in text
        for match in pattern.finditer(text)
        if match.lastgroup is not None
    }
    return [known for number in sorted(numbers) for known in _formats_of(number)]


@cache
def _formats_of(number: int) -> tuple[_Compiled, ...]:
    formats: list[_Compiled] = []
    for known in FAMILIES[number].formats:
        if isinstance(known, Plugin):
            formats.extend(_Compiled(known.label, pattern) for pattern in _patterns_of(known))
        else:
            formats.append(_Compiled(known.label, re.compile(known.pattern, re.ASCII)))
    return tuple(formats)


def _patterns_of(plugin: Plugin) -> Iterable[re.Pattern[str]]:
    # detect-secrets takes 170 ms to import and brings an HTTP client: only where one of its formats may be.
    # Its patterns are used, not its scanner, which reports the first group of a match rather than the secret.
    detector = getattr(import_module(f"detect_secrets.plugins.{plugin.module}"), plugin.class_name)
    patterns: Iterable[re.Pattern[str]] = detector.denylist
    return patterns


def _mask(text: str, known: _Compiled, labels: list[str]) -> str:
    mask = f"[redacted:{known.label}]"

    def replace(match: re.Match[str]) -> str:
        labels.append(known.label)
        start, end = (position - match.start() for position in match.span(_masked_group(match)))
        return match.group()[:start] + mask + match.group()[end:]

    return known.pattern.sub(replace, text)


def _masked_group(match: re.Match[str]) -> str | int:
    if MASKED_GROUP in match.re.groupindex:
        return MASKED_GROUP
    # Patterns of detect-secrets name no groups; where one has any, the last is the secret.
    return 0 if match.re.groupindex or not match.lastindex else match.lastindex
