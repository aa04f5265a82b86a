"""Every event an adapter can make is one the forest takes."""

from __future__ import annotations

import pytest

from bridge.adapters import events
from bridge.semantics.validation import validate

EVENTS = [
    events.turn_started("t1", model="m"),
    events.turn_completed("t1", status="failed", reason="why", duration_seconds=0.5),
    events.message("hello", turn_id="t1", external_id="x"),
    events.reasoning("because"),
    events.tool_started("c1", "shell", tool_input={"command": "ls"}, turn_id="t1"),
    events.tool_completed("c1", "shell", status="completed", tool_output="a.txt"),
    events.usage({"input": 3, "output": 4}, model="m"),
    events.fault("it broke", code="timed_out", turn_id="t1"),
    events.unknown("x.y", {"any": ["thing"]}),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_event_fits_the_schema_of_its_kind(event: events.AdapterEvent) -> None:
    validate(event.kind, dict(event.payload))


def test_what_is_not_known_is_left_out() -> None:
    assert events.turn_started("t1").payload == {"turn_id": "t1"}
