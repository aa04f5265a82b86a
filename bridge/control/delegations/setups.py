"""Running the setup of a worktree: shell lines before the worker starts, logged, timed, ended if they take too long."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from bridge.control.delegations.placesettings import WorktreeSettings
from bridge.control.delegations.setupcache import SetupCache
from bridge.control.errors import SetupFailed
from bridge.process.children import EndReason, spawn
from bridge.process.environment import child_environment
from bridge.process.identity import Marker

#: Bytes that all lines of a setup may print; more ends it.
MAX_LOG_BYTES: Final = 64 * 2**20
#: Seconds between two looks whether the task was cancelled.
CANCEL_LOOK_SECONDS: Final = 0.2
#: How long a worker waits for another one that makes what it needs, between two looks.
_TURN_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Setup:
    """What a setup needs to run.

    Parameters
    ----------
    worktree
        Where its lines are run.
    log
        What they print is appended to it, after each line itself.
    environment, additions
        What they inherit before it is stripped, and what is added.
    marker
        Finds their processes after a crash.
    is_cancelled
        Whether the task was cancelled; then the running line is ended.
    cache
        Where outcomes are kept; None without.
    """

    worktree: Path
    log: Path
    environment: Mapping[str, str]
    additions: Mapping[str, str]
    marker: str
    is_cancelled: Callable[[], Awaitable[bool]]
    cache: SetupCache | None = None


@dataclass(frozen=True, slots=True)
class SetupReport:
    """What a setup came to.

    Parameters
    ----------
    lines
        How many lines were run.
    seconds
        How long all of it took.
    restored_files
        Files that came from what another setup made; None if none did.
    is_kept
        Whether what it made is kept for the next.
    """

    lines: int
    seconds: float
    restored_files: int | None = None
    is_kept: bool = False


async def run_setup(settings: WorktreeSettings, setup: Setup) -> SetupReport:
    """Run the lines of a setup, or take what another one made of the same files, and return what it came to.

    Raises
    ------
    SetupFailed
        If a line ended with an error or the time is over, the task was cancelled, or a kept outcome could not be
        copied. What was made stays in the worktree.
    """
    began = time.monotonic()
    deadline = began + settings.timeout_seconds
    restored: int | None = None
    is_kept = False
    lines = 0
    if setup.cache is None:
        lines += await _run_lines(settings.setup, settings, setup, deadline)
    else:
        cache = setup.cache
        async with _Turn(cache.folder / "turn.lock", setup, deadline, settings):
            # Named before anything is run: a line may change the very files that the name is made of.
            key = await to_thread.run_sync(cache.key, setup.worktree)
            restored = await _copied(setup, partial(cache.restore, key, setup.worktree))
            if restored is None:
                lines += await _run_lines(settings.setup, settings, setup, deadline)
                is_kept = bool(await _copied(setup, partial(cache.keep, key, setup.worktree)))
    lines += await _run_lines(settings.always, settings, setup, deadline)
    return SetupReport(lines, time.monotonic() - began, restored, is_kept)


async def _copied(setup: Setup, copy: Callable[[], int | bool | None]) -> int | None:
    try:
        return await to_thread.run_sync(copy)
    except OSError as error:
        raise _failed(setup, f"what an earlier setup made could not be copied: {error}") from error


async def _run_lines(lines: tuple[str, ...], settings: WorktreeSettings, setup: Setup, deadline: float) -> int:
    for line in lines:
        await _run_line(line, settings, setup, deadline)
    return len(lines)


async def _run_line(line: str, settings: WorktreeSettings, setup: Setup, deadline: float) -> None:
    await to_thread.run_sync(_note, setup.log, f"$ {line}\n")
    child = await spawn(
        ["/bin/sh", "-c", line],
        cwd=setup.worktree,
        environment=child_environment(setup.environment, setup.additions),
        stdout_path=setup.log,
        stderr_path=setup.log,
        output_limit_bytes=MAX_LOG_BYTES,
        marker=Marker(setup.marker),
    )
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_end_when_cancelled, setup, child.cancel)
            ended = await child.wait(max(0.0, deadline - time.monotonic()))
            group.cancel_scope.cancel()
    except BaseException:
        await child.cancel()
        raise
    match ended.reason:
        case EndReason.TIMED_OUT:
            raise _failed(setup, f"{line!r} was ended: {settings.timeout_seconds:g} seconds are over")
        case EndReason.CANCELLED:
            raise _failed(setup, f"{line!r} was ended: the task was cancelled", is_cancelled=True)
        case EndReason.OUTPUT_LIMIT:
            raise _failed(setup, f"{line!r} was ended: it printed more than {MAX_LOG_BYTES} bytes")
    if ended.exit_status != 0:
        how = f"signal {ended.signal}" if ended.exit_status is None else f"exit status {ended.exit_status}"
        raise _failed(setup, f"{line!r} ended with {how}")


async def _end_when_cancelled(setup: Setup, end: Callable[[], Awaitable[object]]) -> None:
    while not await setup.is_cancelled():  # noqa: ASYNC110 - somebody else writes that into the store
        await anyio.sleep(CANCEL_LOOK_SECONDS)
    await end()


def _failed(setup: Setup, why: str, *, is_cancelled: bool = False) -> SetupFailed:
    return SetupFailed(
        f"The setup of the worktree failed: {why}. The worker was not started. Output: {setup.log}",
        details={"log": str(setup.log), "worktree": str(setup.worktree), "is_cancelled": is_cancelled},
    )


def _note(log: Path, text: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


class _Turn:
    """One setup of a repository at a time where outcomes are kept: the others then find what the first one made."""

    def __init__(self, path: Path, setup: Setup, deadline: float, settings: WorktreeSettings) -> None:
        self._path = path
        self._setup = setup
        self._deadline = deadline
        self._settings = settings
        self._lock: int | None = None

    async def __aenter__(self) -> None:
        while not await to_thread.run_sync(self._take):
            if time.monotonic() >= self._deadline:
                raise _failed(
                    self._setup, f"another setup did not end within {self._settings.timeout_seconds:g} seconds"
                )
            if await self._setup.is_cancelled():
                raise _failed(self._setup, "the task was cancelled", is_cancelled=True)
            await anyio.sleep(_TURN_SECONDS)

    async def __aexit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take(self) -> bool:

        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True
