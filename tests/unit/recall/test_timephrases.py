"""Words that say when, against a fixed present in several time zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.recall.timephrases import find_window

#: A wednesday.
NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)


def window(text, zone=UTC, now=NOW):
    found, rest = find_window(text, now, zone)
    if found is None:
        return None
    shown = [None if moment is None else moment.isoformat()[:16] for moment in (found.start, found.end)]
    return (*shown, " ".join(rest.split()))


CASES = {
    "deploy today": ("2026-03-18T00:00", "2026-03-19T00:00", "deploy"),
    "yesterday we": ("2026-03-17T00:00", "2026-03-18T00:00", "we"),
    "the day before yesterday": ("2026-03-16T00:00", "2026-03-17T00:00", ""),
    "2 days ago": ("2026-03-16T00:00", "2026-03-17T00:00", ""),
    "auth 3 days ago": ("2026-03-14T00:00", "2026-03-17T00:00", "auth"),
    "in the last 3 days": ("2026-03-15T00:00", "2026-03-19T15:30", ""),
    "last week login": ("2026-03-09T00:00", "2026-03-16T00:00", "login"),
    "this month": ("2026-03-01T00:00", "2026-04-01T00:00", ""),
    "last month": ("2026-02-01T00:00", "2026-03-01T00:00", ""),
    "since june": ("2025-06-01T00:00", None, ""),
    "in march": ("2026-03-01T00:00", "2026-04-01T00:00", ""),
    "in may": ("2025-05-01T00:00", "2025-06-01T00:00", ""),
    "march 2025": ("2025-03-01T00:00", "2025-04-01T00:00", ""),
    "between 2026-01-01 and yesterday": ("2026-01-01T00:00", "2026-03-18T00:00", ""),
    "from monday to wednesday": ("2026-03-09T00:00", "2026-03-12T00:00", ""),
    "on monday": ("2026-03-16T00:00", "2026-03-17T00:00", ""),
    "last wednesday": ("2026-03-11T00:00", "2026-03-12T00:00", ""),
    "2 hours ago": ("2026-03-18T12:30", "2026-03-18T14:30", ""),
    "since 9am": ("2026-03-18T08:30", None, ""),
    "this morning": ("2026-03-18T00:00", "2026-03-18T12:00", ""),
    "yesterday evening": ("2026-03-17T17:00", "2026-03-18T00:00", ""),
    "2026-02-03": ("2026-02-03T00:00", "2026-02-04T00:00", ""),
    "in 2026-02": ("2026-02-01T00:00", "2026-03-01T00:00", ""),
    "before 3 march": (None, "2026-03-03T00:00", ""),
    "after 2026-01": ("2026-02-01T00:00", None, ""),
    "since 2026-03-01T10:00Z": ("2026-03-01T10:00", None, ""),
    "since 13/02/2026": ("2026-02-13T00:00", None, ""),
    "recently": ("2026-03-04T00:00", "2026-03-19T15:30", ""),
    "yesterday since march": ("2026-03-17T00:00", "2026-03-18T00:00", ""),
    # An hour is of the very day that is named, wherever it stands.
    "yesterday at 5pm": ("2026-03-17T16:30", "2026-03-17T18:00", ""),
    "at 5pm yesterday": ("2026-03-17T16:30", "2026-03-17T18:00", ""),
    "3 days ago at 5pm": ("2026-03-15T16:30", "2026-03-15T18:00", ""),
    "yesterday between 9am and 11am": ("2026-03-17T09:00", "2026-03-17T11:00", ""),
    "on monday from 9 to 11am": ("2026-03-16T09:00", "2026-03-16T11:00", ""),
    "yesterday since noon": ("2026-03-17T11:30", "2026-03-18T00:00", ""),
    "last week at 5pm": ("2026-03-09T00:00", "2026-03-16T00:00", ""),
    "at 5pm last week": ("2026-03-09T00:00", "2026-03-16T00:00", ""),
    "between 9am and 5pm": ("2026-03-18T09:00", "2026-03-18T17:00", ""),
    "between 22:00 and 02:00": ("2026-03-17T22:00", "2026-03-18T02:00", ""),
    "between 4pm and 6pm": ("2026-03-17T16:00", "2026-03-17T18:00", ""),
    "at 14:00": ("2026-03-18T13:30", "2026-03-18T15:00", ""),
    "at 23:59": ("2026-03-17T23:29", "2026-03-18T00:59", ""),
    "before 5pm": (None, "2026-03-17T17:00", ""),
    "after yesterday at 5pm": ("2026-03-17T17:00", None, ""),
    "last night": ("2026-03-17T18:00", "2026-03-18T06:00", ""),
    "since this morning": ("2026-03-18T00:00", None, ""),
    "monday morning": ("2026-03-16T00:00", "2026-03-16T12:00", ""),
    "earlier today": ("2026-03-18T00:00", "2026-03-19T00:00", ""),
    # A week of the calendar, or the last seven days.
    "in the last week": ("2026-03-11T00:00", "2026-03-19T15:30", ""),
    "past month": ("2026-02-16T00:00", "2026-03-19T15:30", ""),
    "last 24h": ("2026-03-17T15:30", "2026-03-19T15:30", ""),
    "last weekend": ("2026-03-14T00:00", "2026-03-16T00:00", ""),
    "half an hour ago": ("2026-03-18T14:45", "2026-03-18T15:15", ""),
    "3d ago": ("2026-03-14T00:00", "2026-03-17T00:00", ""),
    "9999 days ago": ("1998-10-31T00:00", "1998-11-03T00:00", ""),
    # What both ends share may be said once; the ends may be said in either order.
    "between 3 and 10 march": ("2026-03-03T00:00", "2026-03-11T00:00", ""),
    "from march 3rd to 10th": ("2026-03-03T00:00", "2026-03-11T00:00", ""),
    "between march and may": ("2025-03-01T00:00", "2025-06-01T00:00", ""),
    "between november and february": ("2025-11-01T00:00", "2026-03-01T00:00", ""),
    "between yesterday and monday": ("2026-03-16T00:00", "2026-03-18T00:00", ""),
    "between 2026-03-20 and 2026-03-10": ("2026-03-10T00:00", "2026-03-21T00:00", ""),
    "yesterday or today": ("2026-03-17T00:00", "2026-03-19T00:00", "or"),
    "today yesterday": ("2026-03-17T00:00", "2026-03-19T00:00", ""),
    "today or this week": ("2026-03-16T00:00", "2026-03-23T00:00", "or"),
    "until friday": (None, "2026-03-14T00:00", ""),
    "before friday": (None, "2026-03-13T00:00", ""),
    # Months and days that began last.
    "last march": ("2025-03-01T00:00", "2025-04-01T00:00", ""),
    "last june": ("2025-06-01T00:00", "2025-07-01T00:00", ""),
    "since march": ("2026-03-01T00:00", None, ""),
    "on wednesday": ("2026-03-11T00:00", "2026-03-12T00:00", ""),
    "since february 29": ("2024-02-29T00:00", None, ""),
    "in 2025": ("2025-01-01T00:00", "2026-01-01T00:00", ""),
    # Dates of ISO 8601, also as Bridge itself writes them.
    "2026-03-01T10:00:00.123456Z": ("2026-03-01T10:00", "2026-03-01T10:01", ""),
    "2026-03-01T10:00:00+0200": ("2026-03-01T08:00", "2026-03-01T08:01", ""),
    "2026-03-01 10:00 deploy": ("2026-03-01T10:00", "2026-03-01T10:01", "deploy"),
    "2026-3-1": ("2026-03-01T00:00", "2026-03-02T00:00", ""),
    "2026/03/01": ("2026-03-01T00:00", "2026-03-02T00:00", ""),
    "yesterday: the login": ("2026-03-17T00:00", "2026-03-18T00:00", ": the login"),
}


@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_a_phrase_is_a_span_of_time(text, expected):
    assert window(text) == expected


WORDS = "may the bug|march on|monday meeting|last error|the last word|since v1.2|june 31|today's|foo-2026-01-01.log"
WORDS += "|on the login page|in production|before the merge|99999 days ago|from sun to oracle|in sat solvers"
WORDS += "|in 2048 bytes|at 2020 rows|around 1999|in 1999|last minute changes|at 14:75|at 25:00|at 13pm|at 0am"
WORDS += "|2026-02-30|2026-13-01|in 2026-13|at 10:30:99pm|tomorrow|next week|14:00|9999 years ago|the may fail|"


@pytest.mark.parametrize("text", WORDS.split("|"))
def test_what_may_mean_something_else_is_a_word(text):
    assert window(text) is None


def test_days_are_those_of_the_asker():
    assert window("today", ZoneInfo("Pacific/Auckland")) == ("2026-03-18T11:00", "2026-03-19T11:00", "")
    assert window("yesterday", ZoneInfo("America/Los_Angeles")) == ("2026-03-17T07:00", "2026-03-18T07:00", "")


def test_a_day_on_which_the_clocks_change_has_23_hours():
    found = window("yesterday", ZoneInfo("Europe/Berlin"), datetime(2026, 3, 30, 12, tzinfo=UTC))
    assert found == ("2026-03-28T23:00", "2026-03-29T22:00", "")


def test_hours_that_are_counted_are_real_ones_when_the_clocks_change():
    berlin = ZoneInfo("Europe/Berlin")
    forward, back = datetime(2026, 3, 29, 2, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert window("2 hours ago", berlin, forward)[:2] == ("2026-03-28T23:00", "2026-03-29T01:00")
    assert window("1 hour ago", berlin, back)[:2] == ("2026-10-24T23:30", "2026-10-25T01:30")
    assert window("last 3 hours", berlin, back)[0] == "2026-10-24T22:30"
    assert window("2026-10-25T01:30:00Z", berlin, back)[:2] == ("2026-10-25T01:30", "2026-10-25T01:31")
    # A day has 25 hours then; one o'clock is there before the change and noon after it.
    assert window("today", berlin, back)[:2] == ("2026-10-24T22:00", "2026-10-25T23:00")
    assert window("today at noon", berlin, back)[0] == "2026-10-25T10:30"


def test_the_edges_of_days_and_years():
    new_year = datetime(2026, 1, 1, 0, 0, tzinfo=UTC)
    assert window("today", now=new_year)[:2] == ("2026-01-01T00:00", "2026-01-02T00:00")
    assert window("yesterday", now=new_year)[:2] == ("2025-12-31T00:00", "2026-01-01T00:00")
    assert window("last month", now=new_year)[:2] == ("2025-12-01T00:00", "2026-01-01T00:00")
    assert window("in january", now=new_year)[:2] == ("2026-01-01T00:00", "2026-02-01T00:00")
    assert window("since december", now=new_year)[0] == "2025-12-01T00:00"
    # It is still the old year in the west, and summer begins where it is already june.
    assert window("this year", ZoneInfo("America/New_York"), new_year)[0] == "2025-01-01T05:00"
    june = datetime(2026, 5, 31, 13, tzinfo=UTC)
    assert window("since june", ZoneInfo("Pacific/Auckland"), june)[0] == "2026-05-31T12:00"
    assert window("since june", UTC, june)[0] == "2025-06-01T00:00"
    leap = datetime(2028, 2, 29, 12, tzinfo=UTC)
    assert window("last year", now=leap)[:2] == ("2027-01-01T00:00", "2028-01-01T00:00")
    assert window("on 29 february", now=leap)[:2] == ("2028-02-29T00:00", "2028-03-01T00:00")


ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati", "Asia/Kathmandu", "America/Sao_Paulo"]


@given(
    st.sampled_from(sorted(CASES)),
    st.sampled_from(ZONES),
    st.integers(0, 60 * 24 * 365 * 20),
)
def test_every_phrase_is_a_span_at_any_time_and_anywhere(text, zone, minutes):
    found, _ = find_window(text, datetime(2016, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes), ZoneInfo(zone))
    if found is not None:  # "in 2025" may be still to come
        assert found.start is None or found.end is None or found.start < found.end


@given(st.text(max_size=200))
def test_no_text_is_an_error(text):
    find_window(text, NOW, UTC)


@given(st.lists(st.sampled_from([*" ".join(CASES).split(), "and", "between", "31", "feb", "ago", "few"]), max_size=8))
def test_no_order_of_the_words_is_an_error(words):
    found, _ = find_window(" ".join(words), NOW, UTC)
    assert found is None or found.phrase
