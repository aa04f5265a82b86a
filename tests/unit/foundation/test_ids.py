"""Ids: their one form, the tails people type, and what may not stand in a path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.errors import InvalidId
from bridge.foundation.ids import (
    SAFE_ID,
    entry_id,
    new_session_id,
    require_safe_id,
    short_entry,
    short_session,
    split_entry_id,
)

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_session_id_tells_its_time_in_utc() -> None:
    assert new_session_id(MOMENT, "9f3a") == "20260102-030405-9f3a"
    assert new_session_id(MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30))), "9f3a") == "20260102-030405-9f3a"


def test_a_random_suffix_has_four_hex_digits() -> None:
    assert len({new_session_id(MOMENT) for _ in range(20)}) > 1
    assert all(set(short_session(new_session_id(MOMENT))) <= set("0123456789abcdef") for _ in range(20))
    assert len(short_session(new_session_id(MOMENT))) == 4


@given(st.from_regex(SAFE_ID, fullmatch=True), st.integers(0, 10**18 - 1))
def test_an_entry_id_splits_into_what_it_was_made_of(session_id: str, sequence: int) -> None:
    assert split_entry_id(entry_id(session_id, sequence)) == (session_id, sequence)


@pytest.mark.parametrize(
    ("sequence", "tail"), [(0, "000000"), (31, "000031"), (999_999, "999999"), (1_000_000, "1000000")]
)
def test_a_sequence_is_padded_to_six_digits_and_then_grows(sequence: int, tail: str) -> None:
    assert entry_id("20260102-030405-9f3a", sequence) == f"20260102-030405-9f3a-{tail}"


def test_the_tails_that_people_type() -> None:
    assert short_session("20260102-030405-9f3a") == "9f3a"
    assert short_entry("20260102-030405-9f3a-000031") == "9f3a.31"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9f3a",
        "9f3a.31",
        "20260102-030405-9f3a",
        "s-31",
        "s-00031",
        "s-0000031",
        "s-000031\n",
        "s/x-000031",
        "s-٠٠٠٠٣١",
        "-000031",
    ],
)
def test_what_is_no_entry_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidId) as caught:
        split_entry_id(text)
    assert caught.value.details == {"id": text}


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a/b", "a\\b", "a b", "a\n", "a\x00", "é", "a" * 65, "../../etc/passwd"]
)
def test_what_may_not_stand_in_a_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidId):
        require_safe_id(text)


@pytest.mark.parametrize("text", ["a", "A-Z_9", "a" * 64, "20260102-030405-9f3a"])
def test_what_may_stand_in_a_path_is_returned(text: str) -> None:
    assert require_safe_id(text) == text


def test_a_long_refused_id_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidId) as caught:
        require_safe_id("/" * 100_000, "task id")
    assert len(caught.value.message) < 200
    assert len(caught.value.details["id"]) == 200
    assert "task id" in caught.value.message
