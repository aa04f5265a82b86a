"""What a command is given: settings, clock, current directory, terminal facts and the output.

This is where the environment is read. What needs more than this module (a store, a recorder, the git side) is
put together in one other place: ``bridge/cli/composition.py`` with a context manager
``open_controller(cli: Cli) -> Iterator[Controller]``, which builds ``Store``, recorder and the rest from
``cli.settings`` and ``cli.clock``, calls :meth:`Cli.prepare_logging` before anything can log, and closes what it
opened. Commands import it inside the function that uses it, because it pulls in the database library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from bridge.cli.errors import CurrentDirectoryGone
from bridge.cli.output import Output
from bridge.foundation.clock import Clock, SystemClock
from bridge.foundation.config import CONTROLLER_VARIABLE, DATABASE_VARIABLE, HOME_VARIABLE, Settings, load_settings
from bridge.foundation.errors import InvalidConfiguration
from bridge.foundation.logs import configure_on_first_use

if TYPE_CHECKING:
    from bridge.control.controller import Controller

LOG_VARIABLE = "BRIDGE_LOG"
SESSION_VARIABLE = "BRIDGE_SESSION"
#: Values of ``BRIDGE_LOG``, from most to least talkative. Without it only warnings and errors are logged.
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
DEFAULT_LOG_LEVEL = "warning"

#: Every variable that the command line reads, for the help and the reference.
VARIABLES: tuple[tuple[str, str], ...] = (
    (HOME_VARIABLE, "State directory, an absolute path. Default: the platform's user state directory."),
    (DATABASE_VARIABLE, "SQLAlchemy URL of the store. Default: SQLite in the state directory."),
    (SESSION_VARIABLE, "The session that @ means. Default: the open chat touched last in this workspace."),
    (
        CONTROLLER_VARIABLE,
        "What a command makes of a resident controller: off, auto, start or required. Default: as in config.toml.",
    ),
    ("BRIDGE_AGENT_TOKEN", "For bridge mcp: the token that makes it an agent of one session."),
    ("BRIDGE_AGENT_TOKEN_FILE", "For bridge mcp: a file with that token, mode 0600."),
    (LOG_VARIABLE, f"Log level on stderr: {', '.join(LOG_LEVELS)}. Default: {DEFAULT_LOG_LEVEL}."),
    ("NO_COLOR", "If set and not empty, no colours."),
    ("FORCE_COLOR", "If set and not empty, colours also where the terminal does not ask for them."),
)


@dataclass
class Surroundings:
    """Where a command line comes from: this process itself, or a client of the resident controller.

    Parameters
    ----------
    output
        Where results and messages go.
    environment
        The variables that commands read.
    program
        The name it was called by.
    stdin
        Standard input; None if it is closed.
    working_directory
        Where it stands; None for the current directory of this process.
    controller
        The resident controller; None to open the store for the command.
    """

    output: Output
    environment: Mapping[str, str]
    program: str = "bridge"
    stdin: BinaryIO | None = None
    working_directory: Path | None = None
    controller: Controller | None = None


@dataclass
class Cli:
    """The surroundings of one command.

    Parameters
    ----------
    output
        Where results and messages go; commands use :meth:`Output.emit` and its siblings.
    environment
        A copy of the environment of whoever gave the command. A command reads no other, and no ``sys.stdin``,
        ``sys.stdout`` and current directory either: in a resident controller those are somebody else's.
    clock
        Time, replaceable in tests.
    verbose
        Whether ``--verbose`` was given: log level ``debug``.
    stdin
        Standard input; None if it is closed.
    working_directory
        Where the command stands; None for the current directory of this process.
    controller
        The resident controller, which :func:`bridge.cli.composition.open_controller` then yields.
    """

    output: Output
    environment: Mapping[str, str]
    clock: Clock
    verbose: bool = False
    stdin: BinaryIO | None = field(default=None, repr=False)
    working_directory: Path | None = None
    controller: Controller | None = field(default=None, repr=False)

    @cached_property
    def settings(self) -> Settings:
        """Settings, read at first use so that a broken configuration does not keep ``doctor`` from running.

        Raises
        ------
        InvalidConfiguration
            If a variable or ``config.toml`` cannot be used.
        """
        return load_settings(self.environment)

    @cached_property
    def directory(self) -> Path:
        """The current directory, absolute.

        Raises
        ------
        CurrentDirectoryGone
            If it was removed or cannot be read.
        """
        if self.working_directory is not None:
            return self.working_directory
        try:
            return Path.cwd()
        except OSError as error:
            raise CurrentDirectoryGone(f"The current directory cannot be used: {error.strerror}.") from error

    @property
    def log_level(self) -> str:
        """The log level asked for by ``--verbose`` or ``BRIDGE_LOG``.

        Raises
        ------
        InvalidConfiguration
            If ``BRIDGE_LOG`` is not one of :data:`LOG_LEVELS`.
        """
        if self.verbose:
            return "debug"
        level = self.environment.get(LOG_VARIABLE, "").lower() or DEFAULT_LOG_LEVEL
        if level not in LOG_LEVELS:
            raise InvalidConfiguration(
                f"{LOG_VARIABLE} is {level!r}, which is not a log level.",
                hint=f"Use one of: {', '.join(LOG_LEVELS)}.",
            )
        return level

    def start_logging(self) -> None:
        """Send structlog to stderr: readable lines, or JSON lines with ``--json``. Idempotent.

        structlog takes 100 ms and more to import, so commands call :meth:`prepare_logging`. It must run before the
        first log line: unconfigured, structlog prints to stdout.
        """
        if self.controller is not None:
            return  # in a resident controller the log is its own
        from bridge.cli.logs import configure

        configure(self.log_level, self.output)

    def prepare_logging(self) -> None:
        """Have logging started by the first line that is logged; at once if it was asked for in this very command."""
        if self.controller is None:
            configure_on_first_use(self.start_logging)
            if self.log_level != DEFAULT_LOG_LEVEL:
                self.start_logging()


def context_of(surroundings: Surroundings, *, verbose: bool) -> Cli:
    """Return the context of a command."""
    return Cli(
        output=surroundings.output,
        environment=dict(surroundings.environment),
        clock=SystemClock(),
        verbose=verbose,
        stdin=surroundings.stdin,
        working_directory=surroundings.working_directory,
        controller=surroundings.controller,
    )
