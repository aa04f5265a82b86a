"""A used-up quota is known by codes and fields, wherever in an error's data they stand, and never by words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bridge.adapters.quotas import MAX_RESET_DAYS, quota_of
from bridge.foundation.clock import format_timestamp

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def in_seconds(seconds):
    return format_timestamp(NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("code", "data", "resets_at"),
    [
        (429, None, None),
        (-32603, {"type": "usage_limit_reached", "resets_in_seconds": 90}, in_seconds(90)),
        (-32603, {"type": "USAGE_LIMIT_REACHED", "resets_at": NOW.timestamp() + 5}, in_seconds(5)),
        (-32603, {"status": 429, "retry_after": "17"}, in_seconds(17)),
        (-32603, {"error": {"status": "RESOURCE_EXHAUSTED", "details": {"retryDelay": "34s"}}}, in_seconds(34)),
        (-32603, {"codex_error_info": "usage_limit_exceeded"}, None),
        (-32603, {"error": {"type": "rate_limit_error", "resetsAt": "2026-01-02T04:04:05Z"}}, in_seconds(3600)),
        # A reset that nobody can mean is no reset.
        (429, {"resets_in_seconds": (MAX_RESET_DAYS + 1) * 86400}, None),
        (429, {"resets_at": 5}, None),
        (429, {"resets_at": "soon", "retry_after": True}, None),
        (429, {"retry_after": float("inf")}, None),
    ],
)
def test_a_limit(code, data, resets_at):
    found = quota_of(code, data, now=NOW)
    assert found is not None
    assert found.resets_at == resets_at


@pytest.mark.parametrize(
    ("code", "data"),
    [
        (-32603, None),
        (-32603, "usage limit reached"),
        (-32603, {"message": "rate_limit_error"}),
        (-32603, {"details": "You have hit your usage limit, it resets at 5"}),
        (-32603, {"status": 500, "retry_after": 5}),
        (-32603, {"type": "overloaded_error"}),
        (-32603, {"a": {"b": {"c": {"d": {"type": "rate_limit"}}}}}),
        (True, {"status": True}),
    ],
)
def test_something_else(code, data):
    assert quota_of(code, data, now=NOW) is None
