"""Where a command stands, and the store it finds there.

Commands import this module inside the function that uses it, because it pulls in the database library.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bridge.cli.composition import open_controller
from bridge.cli.context import SESSION_VARIABLE, Cli
from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint, no_session_here
from bridge.storage.errors import DatabaseMissing


def standpoint_of(cli: Cli) -> Standpoint:
    """Return the current directory and the session that the environment names.

    Raises
    ------
    CurrentDirectoryGone
        If the current directory cannot be used.
    """
    return Standpoint(directory=cli.directory, session=cli.environment.get(SESSION_VARIABLE) or None)


@contextmanager
def open_if_there(cli: Cli) -> Iterator[Controller | None]:
    """Open the store for one command if there is one; none is made, and None is yielded instead."""
    with ExitStack() as stack:
        try:
            controller = stack.enter_context(open_controller(cli, create=False))
        except DatabaseMissing:
            controller = None
        yield controller


@contextmanager
def open_existing(cli: Cli) -> Iterator[Controller]:
    """Open the store for a command about something that exists.

    Raises
    ------
    SessionNotFound
        If there is no store, and so no session.
    """
    with open_if_there(cli) as controller:
        if controller is None:
            raise no_session_here()
        yield controller
