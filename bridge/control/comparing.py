"""Use cases that compare the files with conversations, for references as people type them."""

from __future__ import annotations

from pathlib import Path

from bridge.control.controller import Controller
from bridge.control.divergence import CheckoutStatus, SessionDivergence, checkout_status, session_divergence
from bridge.control.standpoint import Standpoint, find_entry, find_session
from bridge.foundation.ids import split_entry_id
from bridge.git.repository import discover


def require_checkout(directory: Path) -> None:
    """Return if a folder lies in a repository; what is no checkout at all has no status.

    Raises
    ------
    NotARepository
        If it does not.
    """
    discover(directory)


def status_of(controller: Controller, standpoint: Standpoint, session: str | None) -> SessionDivergence:
    """Return how the files are to a session's active leaf. Raises as ``find_session``."""
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
    return session_divergence(
        controller.store,
        controller.observer,
        session_id,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )


def status_here(controller: Controller, directory: Path) -> CheckoutStatus:
    """Return how a checkout is to every open session about it."""
    return checkout_status(
        controller.store,
        controller.observer,
        directory,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )


def difference_to(controller: Controller, standpoint: Standpoint, entry: str) -> SessionDivergence:
    """Return how the files of an entry's own session are to that entry. Raises as ``find_entry``."""
    with controller.store.read() as connection:
        entry_id = find_entry(connection, standpoint, entry)
    session_id, _ = split_entry_id(entry_id)
    return session_divergence(
        controller.store,
        controller.observer,
        session_id,
        entry_id=entry_id,
        timeout_seconds=controller.settings.git_timeout_seconds,
    )
