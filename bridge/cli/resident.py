"""Running the command lines of clients inside the resident controller.

Each runs in a thread, on the client's own streams. A client that is gone or was interrupted ends its command at the
next thing it reads or writes; streams are never waited on without looking at that.
"""

from __future__ import annotations

import io
import os
import select
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO, cast

from bridge.cli import remote
from bridge.cli.context import Surroundings
from bridge.cli.line import run_line
from bridge.cli.output import output_for
from bridge.control.controller import Controller
from bridge.foundation.config import ControllerMode
from bridge.git.process import KEPT_VARIABLES
from bridge.rpc.errors import CommandNotTaken
from bridge.rpc.resident.residency import CommandLine

#: What must be as in the controller itself, which answers with its own: time zone, and what git goes by.
SAME_VARIABLES: Final = KEPT_VARIABLES | {"HOME", "TZ", "XDG_CONFIG_HOME"}
#: Milliseconds between two looks whether a client that lets its command wait is still there.
_LOOK_MS: Final = 100
#: Bytes that can be written to whatever is ready for writing without waiting.
_SLICE: Final = 4096
#: What a thread ends with when its client is gone.
_INTERRUPTED: Final = 130


class ClientStream(io.RawIOBase):
    """A client's file descriptor: waited for in short turns, so that a client that is gone holds no thread.

    The descriptor's own flags are the client's and are left as they are; so no more is written at once than fits.
    """

    def __init__(self, descriptor: int, command: CommandLine) -> None:
        self._descriptor = descriptor
        self._command = command
        self._is_over = False
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # what the buffered reader hands over
        self._wait(select.POLLIN)
        data = os.read(self._descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: memoryview) -> int:  # type: ignore[override] # what the buffered writer hands over
        if self._is_over:
            return len(data)
        self._wait(select.POLLOUT)
        return os.write(self._descriptor, data if self._is_file else data[:_SLICE])

    def give_up(self) -> None:
        """Swallow what is still buffered for a client that is gone."""
        self._is_over = True

    def _wait(self, event: int) -> None:
        watch = select.poll()
        watch.register(self._descriptor, event)
        while True:
            if self._command.cancelled.is_set():
                raise KeyboardInterrupt
            if self._is_file or watch.poll(_LOOK_MS):
                return


class ResidentCommands:
    """Runs the command lines of clients on a controller. Safe to use from several threads.

    Parameters
    ----------
    environment
        That of the controller's process.
    is_outdated
        Tells whether the controller runs on settings that were changed.
    """

    def __init__(self, controller: Controller, environment: Mapping[str, str], is_outdated: Callable[[], bool]) -> None:
        self._controller = controller
        self._is_outdated = is_outdated
        self._own = {name: environment.get(name) for name in SAME_VARIABLES}

    def __call__(self, command: CommandLine) -> int:
        """Run a command line and return its exit status.

        Raises
        ------
        CommandNotTaken
            If it is better run by the client itself.
        """
        self._require_fit(command)
        if command.cancelled.is_set():
            return _INTERRUPTED
        stdin, stdout, stderr = (
            None if descriptor is None else ClientStream(descriptor, command) for descriptor in command.descriptors
        )
        out, err = _text(stdout, command.encodings[1]), _text(stderr, command.encodings[2])
        output = output_for(command.arguments, out, err, command.environment)
        surroundings = Surroundings(
            output=output,
            environment=command.environment,
            program=command.program,
            stdin=None if stdin is None else cast("BinaryIO", io.BufferedReader(cast("Any", stdin))),
            working_directory=command.directory,
            controller=self._controller,
        )
        try:
            return run_line(command.arguments, surroundings)
        except KeyboardInterrupt:
            return _INTERRUPTED  # its client is gone: telling it that failed as well
        finally:
            for stream in (stdout, stderr):
                if stream is not None:
                    stream.give_up()

    def _require_fit(self, command: CommandLine) -> None:
        if self._controller.settings.controller is ControllerMode.OFF:
            raise CommandNotTaken("config.toml turns this off. Nothing was run.", details={"reason": "off"})
        if self._is_outdated():
            raise CommandNotTaken("The settings were changed. Nothing was run.", details={"reason": "outdated"})
        if not remote.is_fit(command.arguments, command.environment):
            raise CommandNotTaken("This command is not run by a controller. Nothing was run.")
        if not Path(command.directory).is_dir():
            raise CommandNotTaken(f"There is no {str(command.directory)!r} here. Nothing was run.")
        for name, value in self._own.items():
            if command.environment.get(name) != value:
                raise CommandNotTaken(
                    f"{name} is another one in the controller. Nothing was run.",
                    details={"reason": "environment", "variable": name},
                )


def _text(stream: ClientStream | None, encoding: str | None) -> TextIO | None:
    if stream is None:
        return None
    return io.TextIOWrapper(io.BufferedWriter(cast("Any", stream)), encoding=encoding)
