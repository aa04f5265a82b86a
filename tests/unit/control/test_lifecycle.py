"""The states of a delegation: one table, whose words are those of the code and whose ends are ends."""

from __future__ import annotations

import itertools

import pytest

from bridge.control.delegations.lifecycle import STARTED_STATUSES, TRANSITIONS, require_transition
from bridge.control.delegations.model import OPEN_STATUSES, DelegationStatus
from bridge.control.errors import TransitionRefused


def test_the_table_has_every_state_and_no_other():
    assert set(TRANSITIONS) == set(DelegationStatus)


def test_ends_lead_nowhere_and_everything_open_leads_to_an_end():
    assert {state for state, following in TRANSITIONS.items() if not following} == set(DelegationStatus) - OPEN_STATUSES
    for state in OPEN_STATUSES:
        reached, edge = set(), {state}
        while edge:
            reached |= edge
            edge = set().union(*(TRANSITIONS[one] for one in edge)) - reached
        assert reached - OPEN_STATUSES
        assert state == DelegationStatus.QUEUED or DelegationStatus.QUEUED not in reached - {state}


def test_every_end_is_reached():
    reached = set(itertools.chain.from_iterable(TRANSITIONS.values()))
    assert set(DelegationStatus) - reached == {DelegationStatus.QUEUED}
    assert DelegationStatus.QUEUED not in STARTED_STATUSES


@pytest.mark.parametrize(("one", "other"), list(itertools.product(DelegationStatus, DelegationStatus)))
def test_each_step(one, other):
    if one is other or other in TRANSITIONS[one]:
        require_transition("d1", one, other)
        return
    with pytest.raises(TransitionRefused) as caught:
        require_transition("d1", one, other)
    assert caught.value.details == {"delegation_id": "d1", "from": str(one), "to": str(other)}
