"""Telling controllers that are gone from those that still run."""

from __future__ import annotations

import platform
from collections.abc import Iterable

from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.process.identity import is_running
from bridge.storage.transaction import Connection


def is_lost(connection: Connection, controller_id: str) -> bool:
    """Tell whether a controller has ended or died. One on another machine cannot be seen, and counts as running."""
    found = rows.controller_identity(connection, controller_id)
    if found is None:
        return True
    identity, host, has_ended = found
    if host != platform.node():
        return False
    return has_ended or not is_running(identity)


def lost_controllers(connection: Connection, delegations: Iterable[Delegation]) -> set[str]:
    """Return the controllers of delegations that are gone."""
    ids = {delegation.controller_id for delegation in delegations}
    return {key for key in ids if key is not None and is_lost(connection, key)}
