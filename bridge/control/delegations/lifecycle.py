"""Where a delegation may go from where it stands. The ways are one table, which the database holds to as well."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bridge.control.delegations.model import OPEN_STATUSES, DelegationStatus
from bridge.control.errors import TransitionRefused
from bridge.storage.tables.lifecycle import DELEGATION_TRANSITIONS

#: From each state the states it may go to.
TRANSITIONS: Mapping[DelegationStatus, frozenset[DelegationStatus]] = MappingProxyType(
    {
        DelegationStatus(state): frozenset(map(DelegationStatus, following))
        for state, following in DELEGATION_TRANSITIONS.items()
    }
)
#: States in which something was started, or is about to be.
STARTED_STATUSES = OPEN_STATUSES - {DelegationStatus.QUEUED}


def require_transition(delegation_id: str, current: DelegationStatus, following: DelegationStatus) -> None:
    """Check that one state leads to another; staying where it is is no step.

    Raises
    ------
    TransitionRefused
        If it does not.
    """
    if following is not current and following not in TRANSITIONS[current]:
        raise TransitionRefused(
            f"Task {delegation_id} is {current}, which does not lead to {following}. Nothing was changed.",
            details={"delegation_id": delegation_id, "from": str(current), "to": str(following)},
        )
