"""Puts a controller together for a command: the one place where settings, store and clock meet.

Commands import this module inside the function that uses it, because it pulls in the database library.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bridge.cli.context import Cli
from bridge.control.controller import Controller


@contextmanager
def open_controller(cli: Cli, *, create: bool = True) -> Iterator[Controller]:
    """Open the store for one command and close it afterwards.

    Parameters
    ----------
    create
        Whether a missing store is made; reading commands that should not leave one behind say no.

    Raises
    ------
    UnsupportedSchemaVersion, SchemaUpgradeNeeded, DatabaseMissing, DatabaseFailed, InvalidConfiguration
        What opening the store raises.
    """
    if "structlog" in sys.modules:
        # Something that logs was imported, and unconfigured it would write to stdout. What logs is imported
        # before the store is opened, so that commands that log nothing are spared structlog's start-up.
        cli.start_logging()
    with Controller(
        cli.settings, clock=cli.clock, environment=cli.environment, create=create, tell=cli.output.warn
    ) as controller:
        done = controller.store.upgraded
        if done is not None:
            cli.output.status(f"upgraded the store from schema {done.found} to {done.target}; backup: {done.backup}")
        yield controller
