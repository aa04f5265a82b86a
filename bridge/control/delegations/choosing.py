"""Which harness a delegation runs through that may name none, and what of a wish its harness cannot keep."""

from __future__ import annotations

from bridge.adapters.registry import chosen_harness, harness
from bridge.control.controller import Controller
from bridge.control.delegations.model import Request
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session


def choose_harness(
    controller: Controller, standpoint: Standpoint, *, session: str | None, named: str, has_command: bool
) -> str:
    """Return the harness named, or the one that follows from the command, the configuration or the session. Blocking.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If the session has to be asked and is none.
    """
    of_session = None
    if not named and not has_command:
        with controller.store.read() as connection:
            session_id = find_session(connection, standpoint, session)
            of_session = require_session(connection, session_id).harness
    settings = controller.settings
    return chosen_harness(
        named,
        has_command=has_command,
        preferred=settings.worker_harness,
        of_session=of_session,
        configured=settings.harness,
    )


def request_notices(controller: Controller, request: Request) -> tuple[str, ...]:
    """Return, in sentences, what of a request cannot be kept, or perhaps not.

    Raises
    ------
    UnknownHarness
        If there is no such harness.
    """
    settings = controller.settings
    runner = harness(request.harness, settings.harness, state=settings.home)
    if not request.tokens or runner.capabilities.usage:
        return ()
    text = (
        f"The harness {runner.name} is not known to report the tokens it uses: the budget of {request.tokens} counts "
        "for policy, and ends the worker only if the harness does report them."
    )
    return (text,)
