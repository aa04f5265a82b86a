"""What the calls about the resident controller itself stand on (``table_controller`` has their table)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.errors import ControllerBusy
from bridge.control.residence import cancel_workers, own_workers
from bridge.control.watched import CachedObserver
from bridge.rpc.errors import CommandNotTaken, OtherBuild
from bridge.rpc.methods.shapes import param

#: Command lines that run at the same time; further ones wait.
MAX_COMMANDS: Final = 32
#: Words and bytes of one command line, and of its environment.
MAX_WORDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StopParams:
    cancel_workers: bool = param("Whether its workers are ended too.", default=False)
    build: str | None = param("Only if this is its build.", default=None, maxLength=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandParams:
    """A command line as the client has it."""

    arguments: tuple[str, ...] = param("The words after the program's name.", maxItems=MAX_WORDS)
    directory: str = param("The client's current directory.", maxLength=4096)
    environment: Mapping[str, Any] = param("The variables that commands read, as texts.")
    streams: tuple[str | None, ...] = param(
        "Encodings of stdin, stdout and stderr, in the order of their descriptors; null for one that is closed.",
        minItems=3,
        maxItems=3,
    )
    program: str = param("The name it was called by.", default="bridge", maxLength=20)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line that the controller runs for a client.

    Parameters
    ----------
    descriptors
        Where stdin, stdout and stderr of the client are; None for one that is closed.
    cancelled
        Set when the client gave up or is gone.
    """

    arguments: list[str]
    directory: Path
    environment: Mapping[str, str]
    program: str
    encodings: tuple[str | None, ...]
    descriptors: list[int | None]
    cancelled: threading.Event = field(default_factory=threading.Event)


#: Runs a command line and returns its exit status; raises ``CommandNotTaken`` to leave it to the client.
RunCommand = Callable[[CommandLine], int]


class Residency:
    """What a resident controller knows of itself. Safe to share between threads."""

    def __init__(self, controller: Controller, *, build: str, run_command: RunCommand | None) -> None:
        self.controller = controller
        self.build = build
        self.run_command = run_command
        self.pool = ThreadPoolExecutor(MAX_COMMANDS, thread_name_prefix="command")

    def workers(self) -> list[dict[str, Any]]:
        """Return what runs here and would be lost with this process. Blocking."""
        return [
            {"id": worker.id, "name": worker.name, "status": str(worker.status)}
            for worker in own_workers(self.controller)
        ]

    def cancel_workers(self) -> None:
        """Ask for the end of all workers. Blocking."""
        cancel_workers(self.controller)

    def watches(self) -> dict[str, Any] | None:
        """Return how often watches spared a look at the files, and what they cannot vouch for."""
        observer = self.controller.observer
        if not isinstance(observer, CachedObserver):
            return None
        figures = observer.figures()
        return {name: getattr(figures, name) for name in figures.__dataclass_fields__}

    def require_build(self, build: str | None) -> None:
        """Refuse a caller who means another controller than this one.

        Raises
        ------
        OtherBuild
            If this one is of another build.
        """
        if build is not None and build != self.build:
            raise other_build(self.build, build)


def other_build(controller: str, client: str) -> OtherBuild:
    """Return the error for a controller and a client of different builds."""
    return OtherBuild(
        f"The controller (process {os.getpid()}) is of build {controller}, its client of {client}. Nothing was called.",
        details={"controller": controller, "client": client, "pid": os.getpid()},
    )


def refuse_while_busy(workers: list[dict[str, Any]]) -> None:
    """Refuse to end a controller that has workers; calls that run are waited for, and keep nobody from it.

    Raises
    ------
    ControllerBusy
        If it has workers.
    """
    if workers:
        names = ", ".join(str(worker["name"] or worker["id"]) for worker in workers[:10])
        raise ControllerBusy(
            f"The controller (process {os.getpid()}) runs {len(workers)} workers: {names}. It was left alone.",
            details={"workers": workers, "pid": os.getpid()},
        )


def command_of(params: CommandParams, descriptors: list[int]) -> CommandLine:
    """Return the command line to run; the descriptors belong to whoever runs it.

    Raises
    ------
    CommandNotTaken
        If the descriptors are not those that the params speak of.
    """
    expected = sum(encoding is not None for encoding in params.streams)
    if expected != len(descriptors):
        raise CommandNotTaken(
            f"{expected} descriptors were announced and {len(descriptors)} came. Nothing was run.",
            details={"reason": "descriptors"},
        )
    left = iter(descriptors)
    return CommandLine(
        arguments=list(params.arguments),
        directory=Path(params.directory),
        environment={name: str(value) for name, value in params.environment.items()},
        program=params.program,
        encodings=params.streams,
        descriptors=[None if encoding is None else next(left) for encoding in params.streams],
    )
