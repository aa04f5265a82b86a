"""Starting a child in a session of its own, and waiting for it within limits of time and output.

Async at the surface; every blocking call runs in a helper thread. Measured against a bare ``posix_spawn`` that costs
1.07 ×, where ``preexec_fn`` costs 3.7 × and 22 × once the controller has grown: it is never used.
"""

from __future__ import annotations

import errno
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, TypeVarTuple, Unpack

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from bridge.process.confinement import Confinement, confined
from bridge.process.errors import ProgramNotExecutable, ProgramNotFound, SpawnFailed, WorkingDirectoryMissing
from bridge.process.groups import DEFAULT_GRACE_SECONDS, KILL_WAIT_SECONDS, EndReport, end_group_blocking
from bridge.process.identity import Marker, ProcessIdentity, identity_of

#: Bytes that a child may write to its two output files together; one byte more ends it.
DEFAULT_OUTPUT_LIMIT_BYTES = 64 * 2**20
#: Seconds between two looks at the size of the output files while somebody waits for the child.
OUTPUT_CHECK_SECONDS = 0.1
#: Helper threads for children in one event loop, apart from those of the store and of git: a child that is waited
#: for takes one for the length of a look, one that is being ended for its whole grace period.
MAX_HELPER_THREADS = 64

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("bridge_child_threads")
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class EndReason(StrEnum):
    """Why a child ended."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    OUTPUT_LIMIT = "output_limit"


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended.

    Parameters
    ----------
    reason
        Whether it ended by itself, or why it was ended.
    exit_status
        Its exit status; None if a signal ended it.
    signal
        The number of the signal that ended it, else None. Both are None if the system did not tell: the child could
        not be ended, or the controller was started with SIGCHLD ignored, so that the status was thrown away.
    output_bytes
        What the child wrote to its output files, before they were cut to the limit.
    left_behind
        What still ran in its group when it had ended by itself, or when it was ended, and how that went.
    """

    reason: EndReason
    exit_status: int | None
    signal: int | None
    output_bytes: int
    left_behind: EndReport


class _Output:
    """The output files: appended to, and held open, so that a child that deletes its log is measured all the same."""

    def __init__(self, paths: Sequence[Path], limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.files: list[int] = []
        try:
            for path in paths:
                self.files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        except OSError:
            self.close()
            raise
        # The size at the start, once per file even if both names mean the same one.
        opened = [(file, os.fstat(file)) for file in self.files]
        distinct = {(status.st_dev, status.st_ino): (file, status.st_size) for file, status in reversed(opened)}
        self._starts = list(reversed(distinct.values()))

    def size(self) -> int:
        return sum(max(0, os.fstat(file).st_size - start) for file, start in self._starts)

    def is_exceeded(self) -> bool:
        return self.size() > self.limit_bytes

    def cut(self) -> None:
        """Keep the first ``limit_bytes`` of what was written, the earlier file first."""
        left = self.limit_bytes
        for file, start in self._starts:
            written = max(0, os.fstat(file).st_size - start)
            if written > left:
                os.ftruncate(file, start + left)
            left -= min(written, left)

    def close(self) -> None:
        while self.files:
            os.close(self.files.pop())


class Child:
    """A running child process; made by :func:`spawn`.

    The limits of time and output hold while somebody waits. A child that nobody waits for stays a zombie, so that
    its pid and group stay its own until :meth:`wait` or :meth:`cancel` has ended what it left behind.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        identity: ProcessIdentity,
        *,
        output: _Output,
        marker: Marker | None,
    ) -> None:
        self.identity = identity
        self.marker = marker
        self._process = process
        self._output = output
        self._ended = threading.Event()
        self._settling = threading.Lock()
        self._is_status_lost = False
        self._exit: ChildExit | None = None
        # A daemon thread, so that a controller that must leave does not hang on a child that will not.
        threading.Thread(target=self._watch, name=f"bridge-child-{identity.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self.identity.pid

    @property
    def has_ended(self) -> bool:
        """Whether the process itself is over; what it started may still run."""
        return self._ended.is_set()

    @property
    def exit(self) -> ChildExit | None:
        """How it ended, once its whole group is gone; None before."""
        return self._exit

    async def left_within(self, seconds: float) -> bool:
        """Wait for the process itself to end by its own will; return whether it did."""
        return await _in_thread(self._ended.wait, seconds)

    def exceeds_output(self) -> bool:
        """Tell whether it wrote more to its output files than it may; for those who do not :meth:`wait`."""
        return self._exit is None and self._output.is_exceeded()

    async def wait(
        self, timeout_seconds: float | None = None, *, grace_seconds: float = DEFAULT_GRACE_SECONDS
    ) -> ChildExit:
        """Wait until the child has ended and nothing of its group is left.

        Parameters
        ----------
        timeout_seconds
            Counted from this call; past it the group is ended and the reason is ``timed_out``. None: no limit.
        grace_seconds
            From SIGTERM to SIGKILL, whatever the reason for ending the group.

        Notes
        -----
        Cancelling the waiting task leaves the child running. Who wants it ended calls :meth:`cancel`.
        """
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not await _in_thread(self._look, deadline):
            if time.monotonic() >= deadline:
                return await self._end(EndReason.TIMED_OUT, grace_seconds)
            if await _in_thread(self._output.is_exceeded):
                return await self._end(EndReason.OUTPUT_LIMIT, grace_seconds)
        return await self._end(EndReason.EXITED, grace_seconds)

    async def cancel(self, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> ChildExit:
        """Ask the whole group to end, kill what has not after the grace period, and return how the child ended.

        A child that had already ended by itself keeps its reason ``exited``. Not interrupted by cancellation.
        """
        reason = EndReason.EXITED if self._ended.is_set() else EndReason.CANCELLED
        return await self._end(reason, grace_seconds)

    async def _end(self, reason: EndReason, grace_seconds: float) -> ChildExit:
        # Once begun, an end is carried through: half of it would leave processes that nobody knows of.
        with anyio.CancelScope(shield=True):
            ended = await _in_thread(self._settle, reason, grace_seconds)
        return ended  # noqa: RET504 - returned inside the block, mypy would see a path without return

    def _look(self, deadline: float) -> bool:
        return self._ended.wait(max(0.0, min(OUTPUT_CHECK_SECONDS, deadline - time.monotonic())))

    def _settle(self, reason: EndReason, grace_seconds: float) -> ChildExit:
        with self._settling:  # the first reason holds: one who waits learns that another cancelled
            if self._exit is None:
                self._exit = self._collect(reason, grace_seconds)
            return self._exit

    def _collect(self, reason: EndReason, grace_seconds: float) -> ChildExit:
        left_behind = end_group_blocking(self.identity, grace_seconds, self.marker)
        status = self._reap()
        written = self._output.size()
        if self._output.is_exceeded():
            self._output.cut()
            if reason is EndReason.EXITED:
                reason = EndReason.OUTPUT_LIMIT  # it was done before the next look
        self._output.close()
        return ChildExit(
            reason=reason,
            exit_status=status if status is not None and status >= 0 else None,
            signal=-status if status is not None and status < 0 else None,
            output_bytes=written,
            left_behind=left_behind,
        )

    def _reap(self) -> int | None:
        """Return the child's status as ``Popen`` gives it; None if it is not to be had."""
        # Not before the watching thread is done, which would otherwise find no child to wait for.
        if not self._ended.wait(KILL_WAIT_SECONDS) or self._is_status_lost:
            return None
        return self._process.wait()

    def _watch(self) -> None:
        try:
            if hasattr(os, "waitid"):
                # WNOWAIT: the leader stays a zombie and holds its pid, hence the group id, until _collect has ended
                # the rest of the group. Reaped first, the number could be another group's when it is signalled.
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13
                self._process.wait()
        except ChildProcessError:
            # Popen would call this status 0, and a failure would pass for a success.
            self._is_status_lost = True
            self._process.returncode = 0  # so that Popen does not look for it either
        self._ended.set()


async def spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdout_path: Path,
    stderr_path: Path,
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
    marker: Marker | None = None,
    confinement: Confinement | None = None,
) -> Child:
    """Start a program as the leader of a new session and process group, reading from /dev/null.

    Parameters
    ----------
    argv
        Program and arguments. A name without a slash is looked up on the PATH of ``environment``; a relative path
        counts from ``cwd``.
    cwd
        The folder it runs in.
    environment
        All of its environment (see :func:`bridge.process.environment.child_environment`).
    stdout_path, stderr_path
        Files its output is appended to, created with mode 0600; they may be the same file.
    output_limit_bytes
        What it may write to both together.
    marker
        Added to the environment, so that everything the child starts can be found.
    confinement
        Where it, and everything it starts, may write; None: wherever this process may.

    Raises
    ------
    ProgramNotFound, ProgramNotExecutable, WorkingDirectoryMissing, SpawnFailed
        If it could not be started; then nothing runs.
    ConfinementUnavailable, ConfinementFailed
        If it could not be confined; then nothing runs either.
    """
    full_environment = dict(environment)
    if marker is not None:
        full_environment[marker.name] = marker.value

    def start() -> Child:
        _require_startable(argv, cwd)
        try:
            output = _Output((stdout_path, stderr_path), output_limit_bytes)
        except OSError as error:
            raise _explain(error, argv[0]) from error
        process = _start(list(argv), cwd, full_environment, output, confinement)
        return Child(process, _identified(process, argv[0], output), output=output, marker=marker)

    # Cancelled before the thread has begun, nothing is started; from then on anyio waits for the thread's answer.
    return await _in_thread(start)


@dataclass(frozen=True, slots=True)
class Piped:
    """A child that is spoken to: its standard input and output are pipes, non-blocking, and the caller's to close."""

    child: Child
    input_descriptor: int
    output_descriptor: int


async def spawn_piped(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stderr_path: Path,
    output_limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES,
    marker: Marker | None = None,
    confinement: Confinement | None = None,
) -> Piped:
    """Start a program as :func:`spawn` does, but with pipes for its standard input and output.

    ``output_limit_bytes`` is for what it writes to standard error. Raises what :func:`spawn` raises.
    """
    full_environment = dict(environment)
    if marker is not None:
        full_environment[marker.name] = marker.value

    def start() -> Piped:
        _require_startable(argv, cwd)
        try:
            output = _Output((stderr_path,), output_limit_bytes)
        except OSError as error:
            raise _explain(error, argv[0]) from error
        process = _start(list(argv), cwd, full_environment, output, confinement, is_piped=True)
        ends = [os.dup(pipe.fileno()) for pipe in (process.stdin, process.stdout) if pipe is not None]
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        for end in ends:
            os.set_blocking(end, False)
        try:
            child = Child(process, _identified(process, argv[0], output), output=output, marker=marker)
        except SpawnFailed:
            for end in ends:
                os.close(end)
            raise
        return Piped(child, *ends)

    return await _in_thread(start)


def _require_startable(argv: Sequence[str], cwd: Path) -> None:
    if not argv or not argv[0]:
        raise ProgramNotFound("The command is empty, so nothing was started.")
    if not cwd.is_dir():
        raise WorkingDirectoryMissing(
            f"{str(cwd)!r} is not a folder, so {argv[0]!r} was not started.", details={"path": str(cwd)}
        )


def _start(
    argv: list[str],
    cwd: Path,
    environment: dict[str, str],
    output: _Output,
    confinement: Confinement | None,
    *,
    is_piped: bool = False,
) -> subprocess.Popen[bytes]:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE if is_piped else subprocess.DEVNULL,
            stdout=subprocess.PIPE if is_piped else output.files[0],
            stderr=output.files[-1],
            start_new_session=True,
            bufsize=0,
        )

    try:
        return start() if confinement is None else confined(confinement, start)
    except SpawnFailed:
        output.close()
        raise
    except (OSError, ValueError) as error:
        output.close()
        raise _explain(error, argv[0]) from error


def _identified(process: subprocess.Popen[bytes], program: str, output: _Output) -> ProcessIdentity:
    # Not reaped yet, so it has an identity even if it has already ended.
    identity = identity_of(process.pid)
    if identity is None:
        process.kill()
        process.wait()
        output.close()
        raise SpawnFailed(f"{program!r} was started, but the system does not tell since when it runs; it was ended.")
    return identity


def _explain(error: OSError | ValueError, program: str) -> SpawnFailed | ProgramNotFound | ProgramNotExecutable:
    details = {"program": program}
    if isinstance(error, OSError) and error.filename == program:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return ProgramNotFound(f"{program!r}, or the interpreter it names, was not found.", details=details)
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENOEXEC):
            return ProgramNotExecutable(f"{program!r} cannot be executed: {error.strerror}.", details=details)
    return SpawnFailed(f"{program!r} could not be started: {error}.", details=details)


async def _in_thread(function: Callable[[Unpack[_Ts]], _T], *arguments: *_Ts) -> _T:
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MAX_HELPER_THREADS)
        _limiter.set(limiter)
    return await to_thread.run_sync(function, *arguments, limiter=limiter)
