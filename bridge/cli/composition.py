"""Puts a controller together for a command: the one place where settings, store and clock meet.

Commands import this module inside the function that uses it, because it pulls in the database library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from bridge.cli.context import Cli
from bridge.control.controller import Controller
from bridge.control.notices import Tell, log_notice

#: Who is told what a resident controller has to say to people, by the command that it runs.
_listener: ContextVar[Tell | None] = ContextVar("listener", default=None)


def tell_listener(message: str, *, code: str, details: Mapping[str, Any]) -> None:
    """Tell the client whose command runs; where none does, the log."""
    (_listener.get() or log_notice)(message, code=code, details=details)


@contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Tell people through ``tell`` as long as the block runs in this thread."""
    before = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def open_controller(cli: Cli, *, create: bool = True) -> Iterator[Controller]:
    """Open the store for one command and close it afterwards; or yield the resident controller, if this is it.

    Parameters
    ----------
    create
        Whether a missing store is made; reading commands that should not leave one behind say no.

    Raises
    ------
    UnsupportedSchemaVersion, SchemaUpgradeNeeded, DatabaseMissing, DatabaseFailed, InvalidConfiguration
        What opening the store raises.
    """
    if cli.controller is not None:
        with telling(cli.output.warn):
            yield cli.controller
        return
    cli.prepare_logging()
    with Controller(
        cli.settings,
        clock=cli.clock,
        environment=cli.environment,
        create=create,
        tell=cli.output.warn,
        open_door=partial(_open_door, cli),
    ) as controller:
        done = controller.store.upgraded
        if done is not None:
            cli.output.status(f"upgraded the store from schema {done.found} to {done.target}; backup: {done.backup}")
        yield controller


def _open_door(cli: Cli) -> None:
    """Start the resident controller unless it runs: agents that this command starts have their tools from it."""
    # What it takes to connect is not needed by commands that start no agent.
    from bridge.cli.residing import endpoint_of
    from bridge.rpc.resident.starting import connect_or_start

    connect_or_start(endpoint_of(cli.settings), cli.environment).close()
