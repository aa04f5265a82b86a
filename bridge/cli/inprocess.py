"""Running a command line in this very process, and looking after a controller where the settings want one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from bridge.cli import remote
from bridge.cli.context import Surroundings
from bridge.cli.errors import Interrupted
from bridge.cli.line import run_line
from bridge.cli.output import Output, output_for
from bridge.foundation.config import CONTROLLER_VARIABLE, ControllerMode, Settings, load_settings
from bridge.foundation.errors import BridgeError, InvalidConfiguration
from bridge.rpc.resident.endpoint import Endpoint

#: Names the program is known by; iproute2 has a ``bridge`` too, so there is a second one.
PROGRAM_NAMES = ("bridge", "brg")


def program_name() -> str:
    """Return the name that this program was called by."""
    name = PurePath(sys.argv[0]).name
    return name if name in PROGRAM_NAMES else PROGRAM_NAMES[0]


def run_here(words: Sequence[str], environment: Mapping[str, str], told: str | None) -> int:
    """Run a command line in this process and return its exit status.

    Parameters
    ----------
    told
        What came of handing the line to a controller; see :func:`bridge.cli.remote.attempt`.
    """
    output = output_for(words, sys.stdout, sys.stderr, environment)
    try:
        if told == remote.LOST:
            raise _lost()
        if told == remote.INTERRUPTED:
            raise Interrupted("Interrupted.")
        mode = _mode(words, environment)
        if mode is ControllerMode.REQUIRED:
            return _run_required(words, environment, output)
    except BridgeError as error:
        output.error(error.to_json())
        return error.exit_status
    surroundings = Surroundings(
        output=output,
        environment=environment,
        program=program_name(),
        stdin=getattr(sys.stdin, "buffer", None),
    )
    status = run_line(words, surroundings)
    if mode is ControllerMode.START and told is None:
        _start(environment, output)
    return status


def _mode(words: Sequence[str], environment: Mapping[str, str]) -> ControllerMode | None:
    """Return what a command line makes of a controller; None for one that none would run, or a setting is broken."""
    if not remote.is_fit(words, environment):
        return None
    named = environment.get(CONTROLLER_VARIABLE)
    if named in set(ControllerMode):
        return ControllerMode(named)
    try:
        return load_settings(environment).controller
    except InvalidConfiguration:
        return None  # the command itself says so


def _run_required(words: Sequence[str], environment: Mapping[str, str], output: Output) -> int:
    from bridge.rpc.errors import ControllerUnavailable
    from bridge.rpc.resident.starting import connect_or_start

    settings = load_settings(environment)
    connect_or_start(_endpoint(settings), environment).close()
    told = remote.attempt(words, {**environment, CONTROLLER_VARIABLE: ControllerMode.AUTO})
    if isinstance(told, int):
        return told
    if told == remote.LOST:
        raise _lost()
    if told == remote.INTERRUPTED:
        raise Interrupted("Interrupted.")
    raise ControllerUnavailable(
        "The controller does not take this command line. Nothing was run.",
        hint=f"Run it without: {CONTROLLER_VARIABLE}=off",
    )


def _start(environment: Mapping[str, str], output: Output) -> None:
    """Start a controller for the commands to come; that this fails is no reason for the one that ran to fail."""
    from bridge.rpc.resident.starting import start_in_background

    try:
        settings = load_settings(environment)
        if settings.home.is_dir():
            start_in_background(_endpoint(settings), environment)
    except BridgeError as error:
        output.warn(f"no controller could be started: {error.message}", code=error.code)


def _endpoint(settings: Settings) -> Endpoint:
    return Endpoint(str(settings.home), settings.database_url)


def _lost() -> BridgeError:
    from bridge.rpc.errors import ControllerLost

    return ControllerLost("The controller ended before the command was answered. Whether it was done is not known.")
