"""Timestamps: one written form, whose order as text is the order in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.clock import FixedClock, SystemClock, format_timestamp, parse_timestamp

moments = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001  # hypothesis takes naive bounds and adds the zone itself
    max_value=datetime(9998, 12, 31),  # noqa: DTZ001
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)


@given(moments)
def test_a_round_trip_keeps_the_moment(moment: datetime) -> None:
    assert parse_timestamp(format_timestamp(moment)) == moment


@given(moments, moments)
def test_text_order_is_time_order(left: datetime, right: datetime) -> None:
    assert (format_timestamp(left) < format_timestamp(right)) == (left < right)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
        ("2026-01-02T03:04:05.7Z", "2026-01-02T03:04:05.700000Z"),
        ("2026-01-02T03:04:05.123Z", "2026-01-02T03:04:05.123000Z"),
        ("2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05+05:30", "2026-01-01T21:34:05.000000Z"),
    ],
)
def test_fc_65_times_of_any_precision_and_offset_have_one_form(text: str, written: str) -> None:
    assert format_timestamp(parse_timestamp(text)) == written


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02T03:04:05", "2026-01-02", "1767323045"])
def test_what_is_no_time_with_an_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_timestamp(text)


def test_the_system_clock_is_aware_and_never_goes_back() -> None:
    clock = SystemClock()

    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


def test_the_fixed_clock_moves_by_its_step_alone() -> None:
    clock = FixedClock(datetime(2026, 1, 2, tzinfo=UTC), step_seconds=0.5)

    assert [format_timestamp(clock.now()) for _ in range(2)] == [
        "2026-01-02T00:00:00.000000Z",
        "2026-01-02T00:00:00.500000Z",
    ]
    assert [clock.monotonic(), clock.monotonic()] == [0.5, 1.0]


def test_a_clocks_timestamp_is_its_time_in_the_one_form() -> None:
    clock = SystemClock()
    for _ in range(3):
        before, text, after = clock.now(), clock.timestamp(), clock.now()
        assert format_timestamp(before) <= text <= format_timestamp(after)
        assert format_timestamp(parse_timestamp(text)) == text
    fixed = FixedClock(datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    assert [fixed.timestamp(), fixed.timestamp()] == ["2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:06.000006Z"]


def test_a_timestamp_follows_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1_767_323_045_999_999_999, 1_767_323_046_000_000_001, 1_767_323_046_000_001_000])
    monkeypatch.setattr("bridge.foundation.clock.time.time_ns", lambda: next(times))
    clock = SystemClock()
    assert [clock.timestamp() for _ in range(3)] == [
        "2026-01-02T03:04:05.999999Z",
        "2026-01-02T03:04:06.000000Z",
        "2026-01-02T03:04:06.000001Z",
    ]
