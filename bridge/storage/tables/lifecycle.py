"""The states of a delegation and the ways between them: the one table, which code checks and the database too.

Words, not types: the layers above give them meaning (:class:`bridge.control.delegations.model.DelegationStatus`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: From each state of a delegation, the states it may go to; an end goes nowhere.
DELEGATION_TRANSITIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "queued": ("preparing", "rejected", "cancelled"),
        "preparing": ("running", "settling"),
        "running": ("settling",),
        "settling": ("completed", "failed", "cancelled", "blocked", "needs_delegation", "invalid"),
        "rejected": (),
        "completed": (),
        "failed": (),
        "cancelled": (),
        "blocked": (),
        "needs_delegation": (),
        "invalid": (),
    }
)


def known_statuses() -> str:
    """Return the condition that a row has one of the states."""
    return f"status IN ({_listed(DELEGATION_TRANSITIONS)})"


def refused_transition() -> str:
    """Return the condition, over OLD and NEW of a row, under which a change of state is not one of the table."""
    allowed = " OR ".join(
        f"OLD.status = '{state}' AND NEW.status IN ({_listed(following)})"
        for state, following in DELEGATION_TRANSITIONS.items()
        if following
    )
    return f"NEW.status <> OLD.status AND NOT ({allowed})"


def _listed(words: Mapping[str, object] | tuple[str, ...]) -> str:
    return ", ".join(f"'{word}'" for word in words)
