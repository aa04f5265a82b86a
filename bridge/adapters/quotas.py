"""Telling a used-up quota from other errors of an agent: by codes and fields, never by what an error says in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bridge.foundation.clock import format_timestamp, parse_timestamp

#: The status of HTTP for too many requests, which agents pass on as their own code.
TOO_MANY_REQUESTS: Final = 429
#: Words of providers, without their case, for a limit that somebody has to wait out.
LIMIT_WORDS: Final = frozenset(
    {
        "insufficient_quota",
        "quota_exceeded",
        "quota_exhausted",
        "rate_limit",
        "rate_limit_error",
        "rate_limit_exceeded",
        "resource_exhausted",
        "usage_limit_exceeded",
        "usage_limit_reached",
    }
)
#: Farthest reset that is believed, in days.
MAX_RESET_DAYS: Final = 62
#: Fields of an error's data that hold such a word or number, a moment, a number of seconds.
_KINDS: Final = ("type", "code", "status", "kind", "error_type", "errorKind", "errorType", "codex_error_info")
_MOMENTS: Final = ("resets_at", "resetsAt", "reset_at", "resetAt")
_SECONDS: Final = (
    "resets_in_seconds",
    "resetsInSeconds",
    "retry_after_seconds",
    "retry_after",
    "retryAfter",
    "retryDelay",
)
#: How deep the data is looked into: errors of a provider travel inside those of the agent.
_MAX_DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class QuotaExhausted:
    """A credential's quota is used up. ``resets_at`` is a timestamp; None if the agent does not say."""

    resets_at: str | None


def quota_of(code: object, data: object, *, now: datetime) -> QuotaExhausted | None:
    """Return what an agent's error says of a quota, or None if it is about something else.

    Parameters
    ----------
    code, data
        Of the error, as they came.
    now
        What seconds are counted from.
    """
    tables = list(_tables(data, 0))
    is_limit = code == TOO_MANY_REQUESTS or any(
        _is_limit(table.get(name)) for table in tables for name in _KINDS if name in table
    )
    if not is_limit:
        return None
    return QuotaExhausted(next((found for table in tables if (found := _reset(table, now)) is not None), None))


def _tables(value: object, depth: int) -> Iterator[Mapping[str, Any]]:
    if not isinstance(value, Mapping) or depth >= _MAX_DEPTH:
        return
    yield value
    for item in value.values():
        yield from _tables(item, depth + 1)


def _is_limit(value: object) -> bool:
    if isinstance(value, str):
        return value.lower() in LIMIT_WORDS
    return value == TOO_MANY_REQUESTS and not isinstance(value, bool)


def _reset(table: Mapping[str, Any], now: datetime) -> str | None:
    found = [_moment(table.get(name)) for name in _MOMENTS] + [_after(table.get(name), now) for name in _SECONDS]
    known = [moment for moment in found if moment is not None and now - timedelta(1) < moment <= _latest(now)]
    return format_timestamp(known[0]) if known else None


def _latest(now: datetime) -> datetime:
    return now + timedelta(days=MAX_RESET_DAYS)


def _moment(value: object) -> datetime | None:
    try:
        if isinstance(value, str):
            return parse_timestamp(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _after(value: object, now: datetime) -> datetime | None:
    if isinstance(value, str):
        value = _number(value.removesuffix("s"))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return now + timedelta(seconds=value) if 0 <= value <= MAX_RESET_DAYS * 86400 else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
