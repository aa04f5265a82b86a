"""Which entries a document shows, in which stretches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.control.exchange.documents import split_into_stretches
from bridge.conversations.models import Node

SESSION = "20260102-030405-9f3a"


def nodes_of(parents, hidden=()):
    return [
        Node(
            id=f"{SESSION}-{sequence:06d}",
            session_id=SESSION,
            parent_entry_id=None if parent is None else f"{SESSION}-{parent:06d}",
            sequence=sequence,
            semantic_schema_version=2,
            kind="user.message",
            context_visibility="hidden" if sequence in hidden else "eligible",
            created_at="t",
        )
        for sequence, parent in enumerate([None, *parents])
    ]


def path_to(parents, sequence):
    found = {sequence}
    while sequence:
        sequence = parents[sequence - 1]
        found.add(sequence)
    return found


def split(parents, head, hidden=(), *, has_hidden=False):
    stretches = split_into_stretches(nodes_of(parents, hidden), path_to(parents, head), has_hidden=has_hidden)
    return [(one.sequences, None if one.after is None else int(one.after[-6:])) for one in stretches]


def test_the_active_path_comes_first_and_each_branch_where_it_leaves():
    #       0 - 1 - 2 - 5 - 6
    #            \- 3 - 4 - 7
    #                \- 8
    parents = [0, 1, 1, 3, 2, 5, 4, 3]
    assert split(parents, 7) == [([0, 1, 3, 4, 7], None), ([2, 5, 6], 1), ([8], 3)]
    assert split(parents, 6) == [([0, 1, 2, 5, 6], None), ([3, 4, 7], 1), ([8], 3)]


def test_a_branch_from_the_beginning_goes_on_from_nothing():
    assert split([0, 0], 2) == [([0, 2], None), ([1], None)]


def test_a_branch_of_hidden_entries_is_left_out_and_links_lead_to_what_is_shown():
    #       0 - 1 - 2(hidden) - 3
    #                \- 4       1 - 5(hidden)
    parents = [0, 1, 2, 2, 1]
    assert split(parents, 3, {2, 5}) == [([0, 1, 2, 3], None), ([4], 1)]
    assert split(parents, 3, {2, 5}, has_hidden=True) == [([0, 1, 2, 3], None), ([4], 2), ([5], 1)]


@given(st.data())
def test_every_entry_is_in_one_stretch_after_its_parent(data):
    size = data.draw(st.integers(1, 30))
    parents = [data.draw(st.integers(0, sequence - 1)) for sequence in range(1, size + 1)]
    head = data.draw(st.integers(0, size))
    stretches = split_into_stretches(nodes_of(parents), path_to(parents, head), has_hidden=True)
    order = [sequence for stretch in stretches for sequence in stretch.sequences]
    assert sorted(order) == list(range(size + 1))
    assert set(stretches[0].sequences) == path_to(parents, head)
    for sequence in order[1:]:
        assert order.index(parents[sequence - 1]) < order.index(sequence)
