"""What is recorded of many refusals."""

from __future__ import annotations

from bridge.rpc.refusals import IN_FULL, WINDOW_SECONDS, Tally


def recorded(tally, number, now, session="s"):
    return [count for count in (tally.count(session, now) for _ in range(number)) if count is not None]


def test_the_first_of_a_minute_are_recorded_and_then_ever_fewer():
    assert recorded(Tally(), 1000, 0.0) == [*range(1, IN_FULL + 1), 40, 80, 160, 320, 640]


def test_a_million_of_them_leave_few_records():
    assert len(recorded(Tally(), 1_000_000, 0.0)) == IN_FULL + 15


def test_the_next_minute_begins_anew():
    tally = Tally()
    assert recorded(tally, IN_FULL + 1, 0.0)[-1] == IN_FULL
    assert recorded(tally, 1, WINDOW_SECONDS - 0.1) == []
    assert recorded(tally, 2, WINDOW_SECONDS) == [1, 2]


def test_sessions_are_counted_by_themselves_and_forgotten():
    tally = Tally()
    assert recorded(tally, IN_FULL + 5, 0.0, "loud")[-1] == IN_FULL
    assert recorded(tally, 1, 0.0, "quiet") == [1]
    for number in range(2000):
        tally.count(f"s{number}", WINDOW_SECONDS + number)
    assert len(tally._windows) <= 1001
