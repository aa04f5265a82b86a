"""Counting tokens against a budget: turns add up, the running one counts as far as it is known."""

from __future__ import annotations

import pytest

from bridge.adapters.events import tokens_of
from bridge.adapters.tasks.metering import Meter


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ({"total": 12, "input": 3, "output": 4}, 12),
        ({"input": 3, "output": 4, "cache_read": 10, "cache_write": 1, "reasoning": 2}, 18),
        ({"context": 50, "input": 3, "output": 4, "total": 7}, 50),
        ({"context": 50}, 50),
        ({}, 0),
    ],
)
def test_what_counts_of_a_report(tokens, expected):
    assert tokens_of(tokens) == expected


def test_turns_add_up_and_the_limit_itself_is_allowed():
    meter = Meter(10)
    assert meter.used is None
    assert not meter.turn_ended({"total": 4})
    assert not meter.running(5)
    assert not meter.running(6)
    assert not meter.running(2), "what was known once stays known"
    assert meter.used == 10
    assert meter.turn_ended({"total": 7})
    assert (meter.used, meter.is_exceeded) == (11, True)


def test_a_running_turn_counts_before_it_has_ended():
    meter = Meter(10)
    assert meter.running(11)
    assert meter.turn_ended({"input": 1, "output": 1}), "a smaller report at the end takes nothing back"
    assert meter.used == 11


def test_without_a_limit_it_only_counts():
    meter = Meter(None)
    assert not meter.running(10**12)
    assert meter.used == 10**12


def test_nothing_left_is_used_up_by_the_first_token():
    assert Meter(0).running(1)
    assert not Meter(0).running(0)
