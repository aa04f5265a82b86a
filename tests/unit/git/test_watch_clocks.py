"""When the clocks say that something was missed."""

from __future__ import annotations

import pytest

from bridge.git.watching import CLOCK_TOLERANCE_SECONDS, ClockReading, read_clocks

START = ClockReading(100.0, 150.0, 1_000_000.0)
EDGE = CLOCK_TOLERANCE_SECONDS


@pytest.mark.parametrize(
    ("monotonic", "boot", "wall", "has_jumped"),
    [
        (5, 5, 5, False),
        (3_600, 3_600, 3_600, False),
        (5, 5 + EDGE, 5 + EDGE, False),  # as long asleep as is let pass
        (5, 5.5 + EDGE, 5.5 + EDGE, True),  # asleep
        (5, 5, 5 + EDGE, False),
        (5, 5, 5.5 + EDGE, True),  # set forward
        (5, 5, 4.5 - EDGE, True),  # set back
    ],
)
def test_a_jump_is_told_from_time_that_passed(monotonic, boot, wall, has_jumped):
    later = ClockReading(START.monotonic + monotonic, START.boot + boot, START.wall + wall)
    assert later.has_jumped(START) is has_jumped


def test_the_machines_clocks_agree_with_themselves():
    assert not read_clocks().has_jumped(read_clocks())
