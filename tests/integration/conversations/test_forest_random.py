"""Whole kinds of mistakes at once: random forests with forks of forks, held against a plain model of them.

The kinds are *chain* (ancestry by anything but parent links) and *fork* (something of another branch leaks in, or the
way left behind cannot be opened any more).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.control.reading.sessions import read_log
from bridge.control.reading.trees import read_branches, read_tree, read_tree_page
from bridge.control.standpoint import Standpoint
from bridge.conversations import paths, store
from bridge.conversations.errors import EntryNotFound, EntryNotOnPath, EntryShared
from bridge.conversations.facets import Facet, annotate
from bridge.conversations.models import NewSession
from bridge.conversations.placing import turn_of
from bridge.conversations.references import resolve_entry_id
from bridge.foundation.ids import entry_id, split_entry_id

PAYLOADS = {
    "user.message": {"text": "u"},
    "assistant.message": {"text": "a"},
    "turn.started": {"turn_id": "t"},
    "turn.completed": {"turn_id": "t"},
    "tool.completed": {"tool_call_id": "c", "name": "n", "status": "failed"},
    "usage.updated": {"tokens": {}},
    "note": {"text": "n"},
}
#: Times that say nothing about the order.
TIMES = [f"2026-0{month}-01T00:00:00.000000Z" for month in (3, 1, 2)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "branch", "goto", "fork"]),
        st.integers(0, 10**6),
        st.sampled_from(sorted(PAYLOADS)),
    ),
    min_size=1,
    max_size=30,
)
FEW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@dataclass
class Model:
    """What a forest must be: each entry with the entries that lead to it, itself last."""

    entries: dict = field(default_factory=dict)
    ways: dict = field(default_factory=dict)
    heads: dict = field(default_factory=dict)
    origins: dict = field(default_factory=dict)

    def own(self, session):
        return [one for one in self.entries if split_entry_id(one)[0] == session]

    def active(self, session):
        head = self.heads[session]
        return self.ways[head] if head in self.ways else self.origin_way(session)

    def origin_way(self, session):
        return self.ways.get(self.origins.get(session), ())


def grow(forest, steps) -> Model:
    """Play the steps on the store and on the model."""
    model = Model()
    first = forest.session()
    model.heads[first] = entry_id(first, 0)
    for number, (step, choice, kind) in enumerate(steps):
        sessions = sorted(model.heads)
        session = sessions[choice % len(sessions)]
        own = model.own(session)
        if step == "fork" and model.entries:
            known = sorted(model.entries)
            origin = known[choice % len(known)]
            fork = forest.recorder.fork(origin, NewSession(parent_relation="forked", parent_session_id=session)).id
            model.heads[fork], model.origins[fork] = entry_id(fork, 0), origin
        elif step == "goto":
            model.heads[session] = [entry_id(session, 0), *own][choice % (len(own) + 1)]
            forest.recorder.move_head(session, model.heads[session])
        else:
            parent = [entry_id(session, 0), *own][choice % (len(own) + 1)] if step == "branch" else None
            under = parent or model.heads[session]
            entry = forest.append(
                session,
                kind,
                payload=PAYLOADS[kind],
                parent_entry_id=parent,
                created_at=TIMES[number % 3],
                external_id=f"z{1000 - number}",
            )
            model.entries[entry.id] = entry
            model.ways[entry.id] = (*model.ways.get(under, model.origin_way(session)), entry.id)
            if under == model.heads[session]:
                model.heads[session] = entry.id
    return model


def controller_of(forest):
    return SimpleNamespace(store=forest.store)


@FEW
@given(steps=STEPS)
def test_every_path_is_what_its_parent_links_say(forest, steps):
    model = grow(forest, steps)
    with forest.store.read() as connection:
        for leaf, way in model.ways.items():
            path = paths.path_to(connection, leaf)
            assert [entry.id for entry in path] == list(way)
            # Shared or own: ids, times and hashes are what they were when they were written.
            assert path == [model.entries[one] for one in way]
            for first in (1, 3):
                pages = list(paths.entry_pages(connection, leaf, first=first, largest=4))
                assert [entry.with_text(entry.shown_text) for page in pages for entry in page] == path[::-1]
            upwards, at = [], leaf
            while at is not None:
                (entry,) = paths.ancestors(connection, at, limit=1)
                upwards.append(entry)
                at = paths.parent_of(connection, entry)
            assert upwards == path[::-1]
        for session in model.heads:
            active = [entry.id for entry in paths.active_path(connection, session)]
            assert active == list(model.active(session))
            # Nothing of the origin that was said after the fork.
            shared = [one for one in active if split_entry_id(one)[0] != session]
            assert shared == list(model.origin_way(session))
            for one in model.entries:
                assert paths.lies_on_active_path(connection, session, one) == (one in active)
                assert paths.lies_on_shared_path(connection, session, one) == (one in shared)
            sessions = {split_entry_id(one)[0] for one in active} | {session}
            for root in (entry_id(other, 0) for other in model.heads):
                is_origin = any(
                    origin.session_id == split_entry_id(root)[0] for origin in paths.origins_of(connection, session)
                )
                assert paths.lies_on_active_path(connection, session, root) == (
                    is_origin or split_entry_id(root)[0] in sessions
                )


@FEW
@given(steps=STEPS)
def test_hashes_pin_the_whole_ancestry(forest, steps):
    model = grow(forest, steps)
    with forest.store.read() as connection:
        for leaf in model.ways:
            path = paths.path_to(connection, leaf, include_roots=True)
            for above, entry in pairwise(path):
                if entry.sequence == 0:
                    assert entry.payload["forked_from"] == {"entry_id": above.id, "entry_hash": above.entry_hash}
                    assert entry.entry_hash == entry.compute_hash(None)
                else:
                    assert entry.entry_hash == entry.compute_hash(above.entry_hash)


@FEW
@given(steps=STEPS)
def test_every_end_is_listed_and_opens_in_full(forest, steps):
    model = grow(forest, steps)
    for session, head in model.heads.items():
        own = model.own(session)
        parents = {model.entries[one].parent_entry_id for one in own}
        found = read_branches(controller_of(forest), Standpoint(), session, include_all=True)
        assert [branch.tip.leaf_entry_id for branch in found.branches] == [one for one in own if one not in parents]
        tree = read_tree(controller_of(forest), Standpoint(), session)
        assert [node.node.id for node in tree.nodes] == own
        active = {one for one in model.active(session) if split_entry_id(one)[0] == session}
        assert {node.node.id for node in tree.nodes if node.is_active} == active
        assert [node.node.id for node in tree.nodes if node.is_head] == [one for one in own if one == head]
        paged, after = [], None
        while True:
            page = read_tree_page(controller_of(forest), Standpoint(), session, after=after, limit=3)
            paged += page.nodes
            if not page.has_more:
                break
            after = page.nodes[-1].node.id
        assert paged == list(tree.nodes)
        (pages, before) = ([], None)
        while True:
            page = read_branches(controller_of(forest), Standpoint(), session, include_all=True, limit=2, before=before)
            pages = [*page.branches, *pages]
            if not page.has_more:
                break
            before = page.branches[0].tip.leaf_entry_id
        assert pages == list(found.branches)


def wanted(rows, facets, problems, turn):
    return [
        row
        for row in rows
        if (not facets or row.annotation.facet in facets)
        and (row.annotation.problem or not problems)
        and turn in {None, row.annotation.turn}
    ]


def pages_of(forest, session, limit, **filters):
    """Return all of a log, read by pages from its end."""
    backwards, before = [], None
    while True:
        page = read_log(controller_of(forest), Standpoint(), session, limit=limit, before=before, **filters)
        backwards = [*page.rows, *backwards]
        if not page.has_more:
            break
        before = page.rows[0].entry.id
    return backwards


@FEW
@given(
    steps=STEPS,
    limit=st.integers(1, 4),
    facets=st.sets(st.sampled_from(Facet), max_size=2),
    problems=st.booleans(),
    all_branches=st.booleans(),
)
def test_a_log_in_pages_is_the_whole_log(forest, steps, limit, facets, problems, all_branches):
    model = grow(forest, steps)
    filters = {"facets": sorted(facets), "problems_only": problems, "all_branches": all_branches}
    for session in model.heads:
        whole = read_log(controller_of(forest), Standpoint(), session, all_branches=all_branches)
        expected = model.own(session) if all_branches else list(model.active(session))
        assert [row.entry.id for row in whole.rows] == expected
        assert not whole.has_more
        for row in whole.rows:
            way = [model.entries[one] for one in model.ways[row.entry.id]]
            assert row.annotation == list(annotate(way))[-1]
            with forest.store.read() as connection:
                assert turn_of(connection, row.entry.id) == row.annotation.turn
        assert pages_of(forest, session, limit, **filters) == wanted(whole.rows, facets, problems, None)
        if whole.rows:
            start = whole.rows[len(whole.rows) // 2].entry.id
            behind = whole.rows[len(whole.rows) // 2 + 1 :]
            if all_branches and split_entry_id(start)[0] != session:
                continue
            page = read_log(controller_of(forest), Standpoint(), session, limit=limit, after=start, **filters)
            every = wanted(behind, facets, problems, None)
            assert list(page.rows) == every[:limit]
            assert page.has_more == (len(every) > limit)


@FEW
@given(steps=STEPS)
def test_a_turn_is_read_alone(forest, steps):
    model = grow(forest, steps)
    for session in model.heads:
        whole = read_log(controller_of(forest), Standpoint(), session).rows
        for row in whole:
            found = read_log(controller_of(forest), Standpoint(), session, turn=row.entry.id).rows
            turn = row.annotation.turn
            assert list(found) == ([] if turn is None else wanted(whole, (), False, turn))


def test_fc_40_what_comes_late_for_a_way_left_behind_stays_on_it(forest):
    s = forest.session()
    u1 = forest.say(s, "u1")
    t1 = forest.append(s, "delegation.requested", payload={"delegation_id": "d1"})
    forest.recorder.transact(lambda recording: recording.open_cursor(s, "delegation d1", t1.id))
    result = {"delegation_id": "d1", "status": "completed", "summary": "one", "files_changed": []}
    r1 = forest.append(s, "worker.result", payload=result, cursor="delegation d1")
    forest.recorder.move_head(s, u1.id)
    u2 = forest.say(s, "u2")
    late = forest.append(s, "worker.result", payload={**result, "summary": "two"}, cursor="delegation d1")
    for _ in range(2):
        with forest.store.read() as connection:
            assert paths.active_path(connection, s) == [u1, u2]
            assert paths.path_to(connection, late.id) == [u1, t1, r1, late]
        tree = {node.node.id: node for node in read_tree(controller_of(forest), Standpoint(), s).nodes}
        assert tree[late.id].cursors == ("delegation d1",)
        assert not tree[late.id].is_active
        assert tree[u2.id].is_head
        (_, left) = read_branches(controller_of(forest), Standpoint(), s).branches
        assert [(cursor.owner, cursor.leaf_entry_id) for cursor in left.cursors] == [("delegation d1", late.id)]
        forest.reopen()
    forest.recorder.move_head(s, late.id)
    with forest.store.read() as connection:
        assert paths.active_path(connection, s) == [u1, t1, r1, late]


def test_a_page_asked_for_by_an_entry_of_another_way_is_refused_or_follows_that_way(forest):
    s = forest.session()
    u1, a1 = forest.say(s, "u1"), forest.say(s, "a1")
    other = forest.say(s, "u2", parent_entry_id=u1.id)
    read = controller_of(forest), Standpoint(), s
    with pytest.raises(EntryNotOnPath):
        read_log(*read, after=other.id)
    with pytest.raises(EntryNotOnPath):
        read_log(*read, turn=other.id)
    assert [row.entry.id for row in read_log(*read, before=other.id).rows] == [u1.id]
    assert [row.entry for row in read_log(*read, after=a1.id).rows] == []
    assert [row.entry.id for row in read_log(*read, turn=other.id, all_branches=True).rows] == [other.id]


def test_a_label_of_the_origin_is_known_in_the_fork_and_its_head_stays_out_of_there(forest):
    s = forest.session()
    u1, a1 = forest.say(s, "u1"), forest.say(s, "a1")
    late = forest.say(s, "u2")
    forest.recorder.label(s, a1.id, "start")
    forest.recorder.label(s, late.id, "later")
    fork = forest.recorder.fork(a1.id, NewSession()).id
    with forest.store.read() as connection:
        assert resolve_entry_id(connection, "start", context_session_id=fork) == a1.id
        with pytest.raises(EntryNotFound):
            resolve_entry_id(connection, "later", context_session_id=fork)
        head = store.get_head(connection, fork)
    with pytest.raises(EntryShared) as refused:
        forest.recorder.move_head(fork, u1.id)
    assert "bridge fork" in refused.value.hint
    with forest.store.read() as connection:
        assert store.get_head(connection, fork) == head
