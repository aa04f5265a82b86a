"""Words that say when, against a fixed present in several time zones."""

from __future__ import annotations

from datetime import UTC, datetime
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
}


@pytest.mark.parametrize(("text", "expected"), CASES.items())
def test_a_phrase_is_a_span_of_time(text, expected):
    assert window(text) == expected


WORDS = "may the bug|march on|monday meeting|last error|the last word|since v1.2|june 31|today's|foo-2026-01-01.log"
WORDS += "|on the login page|in production|before the merge|99999 days ago|"


@pytest.mark.parametrize("text", WORDS.split("|"))
def test_what_may_mean_something_else_is_a_word(text):
    assert window(text) is None


def test_days_are_those_of_the_asker():
    assert window("today", ZoneInfo("Pacific/Auckland")) == ("2026-03-18T11:00", "2026-03-19T11:00", "")
    assert window("yesterday", ZoneInfo("America/Los_Angeles")) == ("2026-03-17T07:00", "2026-03-18T07:00", "")


def test_a_day_on_which_the_clocks_change_has_23_hours():
    found = window("yesterday", ZoneInfo("Europe/Berlin"), datetime(2026, 3, 30, 12, tzinfo=UTC))
    assert found == ("2026-03-28T23:00", "2026-03-29T22:00", "")


@given(st.text(max_size=200))
def test_no_text_is_an_error(text):
    find_window(text, NOW, UTC)


@given(st.lists(st.sampled_from([*" ".join(CASES).split(), "and", "between", "31", "feb", "ago", "few"]), max_size=8))
def test_no_order_of_the_words_is_an_error(words):
    found, _ = find_window(" ".join(words), NOW, UTC)
    assert found is None or found.phrase
