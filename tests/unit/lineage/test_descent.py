"""Lineage on plain values: lines, circles, limits, and who goes on with whom."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.foundation.errors import InvalidId
from bridge.lineage.descent import (
    MAX_CHILDREN,
    MAX_DEPTH,
    Stop,
    ancestors,
    descendants,
    require_acyclic,
    resolve_predecessor,
)
from bridge.lineage.errors import LineageCycle


@dataclass(frozen=True)
class Told:
    id: str
    parent_session_id: str | None = None
    kind: str = "chat"
    workspace_id: str | None = "w1"
    agent_id: str | None = None
    created_at: str = "2026-01-01T00:00:00.000000Z"
    updated_at: str = "2026-01-01T00:00:00.000000Z"


def line(length: int) -> dict[str, Told]:
    return {f"s{n}": Told(f"s{n}", f"s{n + 1}" if n + 1 < length else None) for n in range(length)}


def children_in(sessions: dict[str, Told]):
    return lambda parent, limit: [told for told in sessions.values() if told.parent_session_id == parent][:limit]


def names(found) -> list[str]:
    return [told.id for told in found.sessions]


def test_without_a_parent_there_is_nothing():
    assert ancestors(Told("a"), {}.get).sessions == ()
    assert ancestors(Told("a"), {}.get).stop is None


def test_the_depth_limit_at_its_edge():
    whole = line(MAX_DEPTH + 1)
    found = ancestors(whole["s0"], whole.get)
    assert (len(found.sessions), found.stop) == (MAX_DEPTH, None)
    longer = line(MAX_DEPTH + 2)
    found = ancestors(longer["s0"], longer.get)
    assert (len(found.sessions), found.stop) == (MAX_DEPTH, Stop.DEPTH)


def test_a_parent_that_was_removed_ends_the_line():
    found = ancestors(Told("a", "b"), {"b": Told("b", "gone")}.get)
    assert names(found) == ["b"]
    assert found.stop is Stop.MISSING


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_a_circle_ends_both_walks_and_is_told(size):
    ring = {f"s{n}": Told(f"s{n}", f"s{(n + 1) % size}") for n in range(size)}
    found = ancestors(ring["s0"], ring.get)
    assert found.stop is Stop.CYCLE
    assert len(found.sessions) == size - 1
    down = descendants(ring["s0"], children_in(ring))
    seen = []
    while True:
        seen.append(down.session.id)
        if not down.children:
            break
        (down,) = down.children
    assert down.stop is Stop.CYCLE
    assert len(seen) == size


def test_descendants_stop_at_depth_and_width():
    whole = line(MAX_DEPTH + 2)
    down = descendants(whole[f"s{MAX_DEPTH + 1}"], children_in(whole))
    depth = 0
    while down.children:
        (down,) = down.children
        depth += 1
    assert (depth, down.stop) == (MAX_DEPTH, Stop.DEPTH)
    for count, stop in ((MAX_CHILDREN, None), (MAX_CHILDREN + 1, Stop.CHILDREN)):
        many = {f"c{n}": Told(f"c{n}", "top") for n in range(count)}
        broad = descendants(Told("top"), children_in(many))
        assert (len(broad.children), broad.stop) == (min(count, MAX_CHILDREN), stop)


def test_a_session_cannot_descend_from_itself():
    parents = {"b": "c", "c": None}
    require_acyclic("a", "b", parents.get)
    require_acyclic(None, "b", parents.get)
    with pytest.raises(LineageCycle):
        require_acyclic("a", "a", parents.get)
    with pytest.raises(LineageCycle) as caught:
        require_acyclic("c", "b", parents.get)
    assert caught.value.details == {"parent_session_id": "b", "session_id": "c"}


def test_a_circle_that_is_there_already_is_refused():
    with pytest.raises(LineageCycle):
        require_acyclic(None, "b", {"b": "c", "c": "b"}.get)


@pytest.mark.parametrize("reference", ["../x", "a/b", "", "a" * 65, "a b", "ä"])
def test_ids_are_checked_where_they_enter(reference):
    with pytest.raises(InvalidId):
        require_acyclic(None, reference, {}.get)
    with pytest.raises(InvalidId):
        require_acyclic(reference, "b", {}.get)


def test_the_predecessor_is_the_chat_touched_last_of_that_workspace_and_agent():
    later = "2026-01-02T00:00:00.000000Z"
    sessions = [
        Told("a"),
        Told("b", updated_at=later),
        Told("worker", kind="worker", updated_at="2026-02-01T00:00:00.000000Z"),
        Told("hidden", kind="hidden", updated_at="2026-02-01T00:00:00.000000Z"),
        Told("elsewhere", workspace_id="w2", updated_at="2026-02-01T00:00:00.000000Z"),
        Told("other-agent", agent_id="x", updated_at="2026-02-01T00:00:00.000000Z"),
    ]
    found = resolve_predecessor(sessions, workspace_id="w1", agent_id=None)
    assert found is not None
    assert found.id == "b"
    excluded = resolve_predecessor(sessions, workspace_id="w1", agent_id=None, excluding="b")
    assert excluded is not None
    assert excluded.id == "a"


def test_sessions_without_a_workspace_share_nothing():
    assert resolve_predecessor([Told("a", workspace_id=None)], workspace_id=None, agent_id=None) is None


TIMES = st.sampled_from(["2026-01-01T00:00:00.000000Z", "2026-01-02T00:00:00.000000Z"])


@given(st.permutations(range(6)), st.lists(st.tuples(TIMES, TIMES), min_size=6, max_size=6))
def test_equal_times_do_not_make_the_predecessor_a_matter_of_order(order, times):
    sessions = [Told(f"s{n}", created_at=times[n][0], updated_at=times[n][1]) for n in order]
    found = resolve_predecessor(sessions, workspace_id="w1", agent_id=None)
    assert found is not None
    assert found == max(sessions, key=lambda told: (told.updated_at, told.created_at, told.id))


@given(st.dictionaries(st.integers(0, 12), st.integers(0, 12), max_size=13))
def test_any_graph_of_parents_is_walked_to_an_end(parents):
    graph = {f"s{child}": Told(f"s{child}", f"s{parent}") for child, parent in parents.items()}
    for told in graph.values():
        up = ancestors(told, graph.get)
        assert len(up.sessions) <= MAX_DEPTH
        assert len(set(names(up))) == len(up.sessions)
        descendants(told, children_in(graph))


def test_a_check_may_be_limited_to_the_nearest_ancestors():
    asked: list[str] = []

    def parent_of(session_id: str) -> str:
        asked.append(session_id)
        return f"s{len(asked)}"

    require_acyclic(None, "s0", parent_of, limit=MAX_DEPTH)
    assert len(asked) == MAX_DEPTH + 1
