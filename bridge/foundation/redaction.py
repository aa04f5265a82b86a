"""Masking secrets in well-known formats: the first step of every write. Masks nothing yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge.foundation.canonical import canonical_bytes


@dataclass(frozen=True, slots=True)
class Redaction:
    """A value with its secrets masked, how many there were, their formats, and its canonical JSON."""

    value: Any
    count: int
    labels: tuple[str, ...]
    canonical: bytes


def redact(value: Any) -> Redaction:
    """Return the value with its secrets masked."""
    return Redaction(value, 0, (), canonical_bytes(value))
