"""Sessions in pages: the same list, in the same order, whatever is touched in between."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bridge.conversations import store
from bridge.foundation.clock import FixedClock


def pages(connection, limit, **conditions):
    found, before = [], None
    while True:
        page = store.list_sessions(connection, limit=limit, before=before, **conditions)
        found += [session.id for session in page]
        if len(page) < limit:
            return found
        before = (page[-1].updated_at, page[-1].id)


@pytest.fixture
def many(forest):
    made = []
    for number in range(12):
        kind = "worker" if number % 4 == 3 else "chat"
        made.append(forest.session(kind=kind, workspace_id=None if number % 2 else "w1"))
        if number % 3:
            forest.clock = FixedClock(forest.clock.now() + timedelta(seconds=1))
            forest.recorder = type(forest.recorder)(forest.store, forest.clock)
    return made


@pytest.mark.parametrize("looked_at", [1, 5, 1000])
@pytest.mark.parametrize("conditions", [{}, {"kinds": ["chat"]}, {"workspace_ids": ["w1"]}, {"workspace_ids": [None]}])
def test_pages_are_the_list(forest, many, monkeypatch, looked_at, conditions):
    monkeypatch.setattr(store, "LATEST_LOOKED_AT", looked_at)
    with forest.store.read() as connection:
        whole = [session.id for session in store.list_sessions(connection, **conditions)]
        assert whole
        for limit in (1, 2, 5, 100):
            assert pages(connection, limit, **conditions) == whole


def test_a_session_touched_between_two_pages_is_not_listed_again(forest, many):
    with forest.store.read() as connection:
        first = store.list_sessions(connection, limit=3)
    last = first[-1]
    forest.clock = FixedClock(forest.clock.now() + timedelta(seconds=9))
    forest.recorder = type(forest.recorder)(forest.store, forest.clock)
    forest.say(last.id, "u1")
    with forest.store.read() as connection:
        rest = store.list_sessions(connection, limit=100, before=(last.updated_at, last.id))
        assert store.list_sessions(connection, limit=1)[0].id == last.id
    assert not {session.id for session in rest} & {session.id for session in first}


def test_a_change_of_the_row_counts_as_touched(forest, many):
    oldest = many[0]
    forest.clock = FixedClock(forest.clock.now() + timedelta(seconds=9))
    forest.recorder = type(forest.recorder)(forest.store, forest.clock)
    forest.recorder.transact(lambda recording: recording.update_session(oldest, status="ended"))
    with forest.store.read() as connection:
        (first,) = store.list_sessions(connection, limit=1)
    assert (first.id, first.status) == (oldest, "ended")
    assert first.updated_at > first.created_at
