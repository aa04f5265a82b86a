"""Starting a program that outlives the one that starts it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bridge.process.errors import ProgramNotExecutable, ProgramNotFound, SpawnFailed

_LOOK_SECONDS: Final = 0.01


def spawn_detached(words: Sequence[str], environment: Mapping[str, str], *, stderr: int | None = None) -> int:
    """Start a program in a session of its own and return its pid; it gets no stream of this process.

    Parameters
    ----------
    words
        The program, as an absolute path, and its arguments.
    environment
        All of its environment.
    stderr
        Descriptor for its standard error; nothing unless given.

    Raises
    ------
    ProgramNotFound, ProgramNotExecutable, SpawnFailed
        If it cannot be started.
    """
    null = os.devnull
    actions: list[tuple[object, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, null, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, null, os.O_WRONLY, 0),
    ]
    if stderr is None:
        actions.append((os.POSIX_SPAWN_OPEN, 2, null, os.O_WRONLY, 0))
    else:
        actions.append((os.POSIX_SPAWN_DUP2, stderr, 2))
    try:
        return os.posix_spawn(words[0], list(words), dict(environment), file_actions=actions, setsid=True)
    except FileNotFoundError as error:
        raise ProgramNotFound(f"There is no program {words[0]!r}.") from error
    except PermissionError as error:
        raise ProgramNotExecutable(f"{words[0]!r} cannot be executed.") from error
    except OSError as error:
        raise SpawnFailed(f"{words[0]!r} cannot be started: {error.strerror}.") from error


def wait_for_exit(pid: int, timeout_seconds: float) -> int | None:
    """Wait for a child's end and return its exit status, negative for a signal; None if it still runs by then."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(_LOOK_SECONDS)
