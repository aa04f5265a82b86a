"""Telling controllers that are gone from those that still run.

A controller on this machine is looked for by pid and start time, and that settles it. One of another machine, of
another container, or from before this machine's last start cannot be seen: it counts as there as long as its lease
runs, which it renews all the time, and as lost afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.process.identity import is_running
from bridge.process.machine import machine_identity
from bridge.storage.transaction import Connection

#: Seconds that a lease runs from its last renewal; a clock that is wrong by more is a machine to mend.
LEASE_SECONDS = 90.0
#: Seconds between two renewals.
RENEWAL_SECONDS = 20.0


def is_lost(connection: Connection, controller_id: str, *, now: str) -> bool:
    """Tell whether a controller has ended or died.

    Parameters
    ----------
    now
        The current time as a timestamp, which leases are held against.
    """
    found = rows.controller_by_id(connection, controller_id)
    if found is None or found.has_ended:
        return True
    if found.machine == machine_identity():
        return not is_running(found.identity)
    return found.lease_expires_at is None or found.lease_expires_at < now


def lost_controllers(connection: Connection, delegations: Iterable[Delegation], *, now: str) -> set[str]:
    """Return the controllers of delegations that are gone."""
    ids = {delegation.controller_id for delegation in delegations}
    return {key for key in ids if key is not None and is_lost(connection, key, now=now)}


def sees_processes_of(connection: Connection, controller_id: str) -> bool:
    """Tell whether the pids that a controller noted mean processes of this machine."""
    found = rows.controller_by_id(connection, controller_id)
    return found is not None and found.machine == machine_identity()
