"""What a resident controller has under way, and giving it up."""

from __future__ import annotations

from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.tasks import request_cancel
from bridge.control.errors import TaskAlreadyEnded


def own_workers(controller: Controller) -> list[Delegation]:
    """Return the delegations that this very process works on. Blocking."""
    controller_id = controller.id
    if controller_id is None:
        return []
    with controller.store.read() as connection:
        open_ones = rows.list_delegations(connection, open_only=True)
    return [delegation for delegation in open_ones if delegation.controller_id == controller_id]


def cancel_workers(controller: Controller) -> list[Delegation]:
    """Ask for the end of every delegation that this process works on, and return those asked. Blocking."""
    asked = []
    for delegation in own_workers(controller):
        try:
            asked.append(request_cancel(controller, delegation))
        except TaskAlreadyEnded:
            continue  # it ended by itself meanwhile
    return asked
