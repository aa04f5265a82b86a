"""Finding the resident controller, and starting one where there is none: of several clients one starts it."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import bridge
from bridge.control.errors import ControllerRunning
from bridge.foundation.config import DATABASE_VARIABLE, HOME_VARIABLE
from bridge.process.detached import spawn_detached, wait_for_exit
from bridge.process.environment import child_environment
from bridge.rpc.errors import ControllerUnavailable
from bridge.rpc.resident.builds import build_id, is_older
from bridge.rpc.resident.client import Client, RemoteError
from bridge.rpc.resident.endpoint import Endpoint
from bridge.rpc.resident.holding import Hold, make_private

#: Seconds that a controller may take from its start to its first answer.
START_SECONDS: Final = 20.0
_RETRY_SECONDS: Final = 0.02
#: Characters of what a controller said before it failed that are passed on.
_MAX_REASON: Final = 2000
#: The interpreter does not look into the current directory for modules (-P): it is a repository, and could hold some.
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from bridge.cli.main import main; sys.exit(main())"


def connect_or_start(
    endpoint: Endpoint, environment: Mapping[str, str], *, start_seconds: float = START_SECONDS, **greeting: Any
) -> Client:
    """Return a connection to the controller, which is started if none runs; an idle older one is replaced.

    Parameters
    ----------
    environment
        That of the calling process; the controller gets it without what :func:`child_environment` strips.
    greeting
        Who calls, as for :meth:`Client.connect`.

    Raises
    ------
    ControllerUnavailable
        If none runs and none could be started; the message has its reason.
    RemoteError
        If the controller does not take the connection, such as a busy one of an older build.
    """
    own = build_id()
    found = _find(endpoint, own, greeting)
    if found is not None:
        return found
    with _starting(endpoint, start_seconds):
        found = _find(endpoint, own, greeting)
        if found is not None:
            return found
        try:
            _start_and_wait(endpoint, environment, start_seconds)
        except ControllerUnavailable:
            # Somebody may have started one by hand in this very moment.
            found = _find(endpoint, own, greeting)
            if found is None:
                raise
            return found
        return Client.connect(endpoint, build=own, **greeting)


def _find(endpoint: Endpoint, own: str, greeting: Mapping[str, Any]) -> Client | None:
    """Return a connection to the controller; None if there is none, or one that a new one would replace."""
    try:
        return Client.connect(endpoint, build=own, **greeting)
    except ControllerUnavailable:
        return None
    except RemoteError as error:
        if error.code == "other_build" and is_older(str(error.details.get("controller", "")), own):
            return None
        raise


def take_over(
    endpoint: Endpoint, *, build: str, replace: bool = False, cancel_workers: bool = False, wait_seconds: float
) -> Hold:
    """Become the controller. An older one without workers is replaced; with ``replace`` any without workers.

    Parameters
    ----------
    cancel_workers
        Whether the workers of the one to replace are ended.
    wait_seconds
        How long the one to replace may take to end.

    Raises
    ------
    ControllerRunning
        If one runs that is not to be replaced.
    RemoteError
        With code ``controller_busy`` if it has workers.
    """
    try:
        return Hold.take(endpoint)
    except ControllerRunning as error:
        running = error
    try:
        client = Client.connect(endpoint)
    except ControllerUnavailable:
        # It is about to end, or has only just begun.
        return Hold.take(endpoint, timeout_seconds=wait_seconds)
    with client:
        if not replace and not is_older(client.build, build):
            raise running
        client.call("controller/stop", {"build": client.build, "cancel_workers": cancel_workers})
    return Hold.take(endpoint, timeout_seconds=wait_seconds)


def stop(endpoint: Endpoint, *, cancel_workers: bool, wait_seconds: float) -> int | None:
    """End the controller, wait until it has, and return its process; None if there is none.

    Raises
    ------
    RemoteError
        With code ``controller_busy`` if it has workers and they are not to be ended.
    ControllerRunning
        If it did not end in time.
    """
    try:
        client = Client.connect(endpoint)
    except ControllerUnavailable:
        return None
    with client:
        client.call("controller/stop", {"cancel_workers": cancel_workers})
    Hold.take(endpoint, timeout_seconds=wait_seconds).release()
    return client.pid


def start_in_background(endpoint: Endpoint, environment: Mapping[str, str]) -> None:
    """Start a controller and do not wait for it. Several may be started so; all but one end at once."""
    spawn_detached(_words(), _environment(endpoint, environment))


@contextmanager
def _starting(endpoint: Endpoint, seconds: float) -> Iterator[None]:
    """Let one client at a time start a controller; whoever waited finds it running."""
    try:
        make_private(Path(endpoint.folder))
        lock = os.open(endpoint.start_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ControllerUnavailable(f"{endpoint.folder} cannot be used: {error.strerror}.") from error
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise ControllerUnavailable("Another client has been starting a controller for long.") from error
                time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(lock)


def _start_and_wait(endpoint: Endpoint, environment: Mapping[str, str], seconds: float) -> None:
    """Start a controller and return when it answers.

    Raises
    ------
    ControllerUnavailable
        If it failed, with what it said, or takes too long.
    """
    told, telling = os.pipe()
    try:
        pid = spawn_detached(_words(), _environment(endpoint, environment), stderr=telling)
        os.close(telling)
        telling = -1
        status = wait_for_exit(pid, seconds)
        if status is None:
            raise ControllerUnavailable(f"The controller did not answer within {seconds:g} seconds of its start.")
        if status != 0:
            os.set_blocking(told, False)
            raise ControllerUnavailable(f"The controller could not be started: {_reason(os.read(told, 65536), status)}")
    finally:
        os.close(told)
        if telling >= 0:
            os.close(telling)


def _reason(printed: bytes, status: int) -> str:
    try:
        return str(json.loads(printed)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        text = " ".join(printed.decode("utf-8", "replace").split())[-_MAX_REASON:]
        return text or f"it ended with status {status}."


def _words() -> list[str]:
    root = os.path.dirname(os.path.dirname(os.path.abspath(bridge.__file__)))  # noqa: PTH100, PTH120 - as in endpoint
    return [sys.executable, "-P", "-c", _START, root, "serve", "--detach", "--json"]


def _environment(endpoint: Endpoint, environment: Mapping[str, str]) -> dict[str, str]:
    additions = {HOME_VARIABLE: endpoint.home}
    if environment.get(DATABASE_VARIABLE):
        additions[DATABASE_VARIABLE] = environment[DATABASE_VARIABLE]
    return child_environment(environment, additions)
