"""Running the git program: a scrubbed environment, no optional locks, no hooks, a time limit that holds.

git may be started from a hook or from another program's shell, and then inherits variables that point it to
another repository; a path given as ``cwd`` does not win against them. So every ``GIT_*`` variable is dropped
but for those that say where configuration and helper programs live.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bridge.git.errors import GitFailed, GitMissing, GitTimedOut

#: Variables that survive the scrubbing: where git's own parts and the user's configuration are. None of them
#: selects a repository, an index or an object directory.
KEPT_VARIABLES = frozenset(
    {
        "GIT_ATTR_NOSYSTEM",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_EXEC_PATH",
    }
)
#: Variables that carry the user's identity; kept only for commits made in the user's name.
IDENTITY_VARIABLES = frozenset({"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"})
#: Options of every call. Hooks are the user's for the user's own commands; ``core.fsmonitor`` may name a program
#: too, and both it and the untracked cache answer from memory where Bridge wants what is on the disk.
BASE_OPTIONS = (
    "--no-optional-locks",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
)
#: How long git may take to remove its lock files after SIGTERM before it is killed.
GRACE_SECONDS = 2.0
_EXIT_POLL_SECONDS = 0.001
#: How much of the end of stderr an error carries.
STDERR_TAIL_BYTES = 2_000
#: Most that one read takes from a pipe; the kernel's own buffer is rarely larger.
PIPE_BYTES = 65_536
#: Time limit of one call unless the caller gives another.
DEFAULT_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class GitOutput:
    """What a git process wrote and how it ended."""

    stdout: bytes
    stderr: bytes
    status: int

    @property
    def text(self) -> str:
        """Standard output without its last line end, for answers that are ids or names."""
        return os.fsdecode(self.stdout).removesuffix("\n")


def scrubbed(environment: Mapping[str, str], *, keep: Collection[str] = ()) -> dict[str, str]:
    """Return the environment for git: no inherited ``GIT_*``, no prompts, messages in English.

    Only the language of messages is fixed. ``LC_ALL=C`` would be simpler but also reach the user's clean and
    smudge filters, whose output may depend on the character set.
    """
    result = {
        name: value
        for name, value in environment.items()
        if not name.startswith("GIT_") or name in KEPT_VARIABLES or name in keep
    }
    everything = result.pop("LC_ALL", None)
    if everything is not None:
        result["LC_CTYPE"] = everything
    result.pop("LANGUAGE", None)
    result["LC_MESSAGES"] = "C"
    result["GIT_TERMINAL_PROMPT"] = "0"
    return result


def child_environment(extra: Mapping[str, str] | None = None, *, keep: Collection[str] = ()) -> dict[str, str]:
    """Return this process's environment, scrubbed, with ``extra`` on top.

    A child inherits its parent's environment; this is where that happens for git, and no setting of Bridge is
    read from it.
    """
    result = scrubbed(os.environ, keep=keep)
    if extra:
        result.update(extra)
    return result


#: Worktrees whose pointers a worker may have turned elsewhere, each with the variables that hold instead of them.
_pinned: dict[str, dict[str, str]] = {}


def pin(worktree_root: Path, *, git_dir: Path, common_dir: Path) -> None:
    """Have every git of this process that is run at the top of a worktree work in these directories.

    A worker can write ``.git`` and ``commondir`` of its worktree, which decide whose configuration git obeys, and a
    configuration names programs. Safe to call twice.
    """
    _pinned[str(worktree_root)] = {
        "GIT_DIR": str(git_dir),
        "GIT_COMMON_DIR": str(common_dir),
        "GIT_WORK_TREE": str(worktree_root),
    }


def unpin(worktree_root: Path) -> None:
    """Let git follow a worktree's pointers again."""
    _pinned.pop(str(worktree_root), None)


def run_git(
    arguments: Sequence[str | bytes | Path],
    *,
    cwd: Path,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    stdin: bytes | None = None,
    extra_environment: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    accepted: Collection[int] = (0,),
    environment: Mapping[str, str] | None = None,
    may_prompt: bool = False,
) -> GitOutput:
    """Run ``git ARGUMENTS`` in ``cwd`` and return what it wrote.

    Parameters
    ----------
    timeout_seconds
        After this the whole process group gets SIGTERM, and SIGKILL :data:`GRACE_SECONDS` later.
    stdin
        Bytes for standard input; nothing (``/dev/null``) unless given.
    extra_environment
        Variables on top of the scrubbed environment.
    keep
        Further ``GIT_*`` variables to inherit.
    accepted
        Exit statuses that are answers, not failures.
    environment
        A whole environment made by :func:`child_environment` before, for callers that run git often.
    may_prompt
        Whether git may start programs that talk to other machines (filters that fetch): they are then kept from
        our terminal, and fail where they would ask for a password.

    Raises
    ------
    GitMissing
        If there is no git program.
    GitTimedOut
        If the time limit passed.
    GitFailed
        If git ended with a status outside ``accepted`` or could not be started in ``cwd``.
    """
    with begin_git(
        arguments,
        cwd=cwd,
        environment=child_environment(extra_environment, keep=keep) if environment is None else environment,
        has_stdin=stdin is not None,
        may_prompt=may_prompt,
    ) as running:
        return running.finish(timeout_seconds, stdin=stdin, accepted=accepted)


class RunningGit:
    """A git process that was started; leaving the ``with`` block ends it if it has not ended."""

    def __init__(self, process: subprocess.Popen[bytes], arguments: Sequence[str | bytes | Path], cwd: Path) -> None:
        self._process = process
        self._arguments = arguments
        self._cwd = cwd

    def __enter__(self) -> RunningGit:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            _end_group(self._process)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def finish(
        self, timeout_seconds: float, *, stdin: bytes | None = None, accepted: Collection[int] = (0,)
    ) -> GitOutput:
        """Wait for the end and return what git wrote. Parameters and errors as for :func:`run_git`."""
        try:
            if stdin is None:
                stdout, stderr = _collect(self._process, timeout_seconds)
            else:
                stdout, stderr = self._process.communicate(stdin, timeout=timeout_seconds)
        except subprocess.TimeoutExpired as error:
            raise timed_out(self._arguments, self._cwd, timeout_seconds) from error
        output = GitOutput(stdout, stderr, self._process.returncode)
        if output.status not in accepted:
            raise failed(output, self._arguments, self._cwd)
        return output


def begin_git(
    arguments: Sequence[str | bytes | Path],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    has_stdin: bool = False,
    may_prompt: bool = False,
) -> RunningGit:
    """Start ``git ARGUMENTS``, for callers with something to do in the meantime.

    Raises
    ------
    GitMissing, GitFailed
        If it could not be started.
    """
    command = ["git", *BASE_OPTIONS, *arguments]
    stdin = subprocess.PIPE if has_stdin else None
    process = _start(command, cwd, environment, stdin=stdin, may_prompt=may_prompt)
    return RunningGit(process, arguments, cwd)


@contextlib.contextmanager
def stream_git(
    arguments: Sequence[str | bytes | Path],
    *,
    cwd: Path,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    stdin: bytes | None = None,
    extra_environment: Mapping[str, str] | None = None,
) -> Iterator[IO[bytes]]:
    """Run ``git ARGUMENTS`` and yield its standard output while it runs; leaving the block ends the process.

    For answers of which the beginning may be enough, or which are too long for memory. How git ended is not looked
    at: the reader must know by what it read whether it was all.

    Parameters
    ----------
    stdin
        Bytes for standard input, handed over in a file: whoever reads the answer need not write at the same time.
    extra_environment
        Variables on top of the scrubbed environment.

    Raises
    ------
    GitMissing, GitFailed
        If git could not be started.
    GitTimedOut
        On leaving the block, if the time limit ended the process.
    """
    command = ["git", *BASE_OPTIONS, *arguments]
    with contextlib.ExitStack() as stack:
        source = None
        if stdin is not None:
            source = stack.enter_context(tempfile.TemporaryFile())
            source.write(stdin)
            source.seek(0)
        environment = child_environment(extra_environment)
        process = _start(command, cwd, environment, stdin=source, keep_stderr=False)
        stack.enter_context(process)
        if process.stdout is None:
            raise AssertionError("a started git has a standard output")
        try:
            with _deadline(process, arguments, cwd, timeout_seconds):
                yield process.stdout
        finally:
            _end_group(process)


def feed_git(
    arguments: Sequence[str | bytes | Path],
    chunks: Iterable[bytes],
    *,
    cwd: Path,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> GitOutput:
    """Run ``git ARGUMENTS`` on what ``chunks`` yields, of which no more than one is in memory, and return its output.

    What it prints must be little: it is read only once everything was written. If ``chunks`` raises, git is ended.

    Raises
    ------
    GitMissing, GitTimedOut, GitFailed
        As for :func:`run_git`.
    """
    command = ["git", *BASE_OPTIONS, *arguments]
    process = _start(command, cwd, child_environment(), stdin=subprocess.PIPE)
    with RunningGit(process, arguments, cwd) as running:
        with _deadline(process, arguments, cwd, timeout_seconds):
            if process.stdin is None:
                raise AssertionError("a git that is fed has a standard input")
            # A git that gave up says why on stderr, and finish() raises with its words.
            with contextlib.suppress(BrokenPipeError):
                for chunk in chunks:
                    process.stdin.write(chunk)
        return running.finish(timeout_seconds, stdin=b"")


@contextlib.contextmanager
def _deadline(
    process: subprocess.Popen[bytes], arguments: Sequence[str | bytes | Path], cwd: Path, timeout_seconds: float
) -> Iterator[None]:
    """Kill a process group if the block takes too long, and raise GitTimedOut then, whatever else it raised."""
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(timeout_seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # the process must not be reaped while the timer may still send it a signal
        if expired.is_set():
            raise timed_out(arguments, cwd, timeout_seconds)


def timed_out(arguments: Sequence[str | bytes | Path], cwd: Path, timeout_seconds: float) -> GitTimedOut:
    """Return the error for a call that the time limit ended."""
    return GitTimedOut(
        f"git {_name(arguments)} in {str(cwd)!r} did not end within {timeout_seconds:g} s and was stopped.",
        details={"command": _shown(arguments), "timeout_seconds": timeout_seconds},
    )


def failed(output: GitOutput, arguments: Sequence[str | bytes | Path], cwd: Path) -> GitFailed:
    """Return the error for an output whose exit status is a failure."""
    tail = stderr_tail(output.stderr)
    return GitFailed(
        f"git {_name(arguments)} in {str(cwd)!r} ended with status {output.status}"
        + (f": {tail.splitlines()[-1]}" if tail else "."),
        details={"command": _shown(arguments), "status": output.status, "stderr": tail},
    )


def stderr_tail(stderr: bytes) -> str:
    """Return the end of git's words as text that JSON can hold."""
    return stderr[-STDERR_TAIL_BYTES:].decode("utf-8", "backslashreplace").strip()


def _start(
    command: Sequence[str | bytes | Path],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    stdin: int | IO[bytes] | None,
    keep_stderr: bool = True,
    may_prompt: bool = False,
) -> subprocess.Popen[bytes]:
    pinned = _pinned.get(str(cwd))
    if pinned is not None:
        environment = {**environment, **pinned}
    try:
        # A group of its own: Ctrl-C reaches git only through us, and filters that it starts can be ended with it.
        # A session of its own would also keep ssh and the like from prompting on our terminal, but on Linux it is
        # a scheduling group too (sched_autogroup): on a busy machine a status took twice as long in one.
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if keep_stderr else subprocess.DEVNULL,
            start_new_session=may_prompt,
            process_group=None if may_prompt else 0,
        )
    except OSError as error:
        if isinstance(error, FileNotFoundError) and cwd.is_dir():
            raise GitMissing("The git program was not found; nothing was done.") from error
        raise GitFailed(
            f"git could not be started in {str(cwd)!r}: {error.strerror}.", details={"stderr": str(error.strerror)}
        ) from error


def _collect(process: subprocess.Popen[bytes], timeout_seconds: float) -> tuple[bytes, bytes]:
    """Return both outputs of a process that reads nothing, once it has ended.

    ``Popen.communicate`` with a time limit waits for the end by sleeping 0.5 ms and more between looks, which is a
    fifth of a small status. A descriptor of the process itself can be polled with its pipes; and something that
    git left behind with our pipes in its hands does not hold us up.
    """
    if process.stdout is None or process.stderr is None:
        raise AssertionError("both outputs are pipes")
    if not hasattr(os, "pidfd_open"):
        return process.communicate(timeout=timeout_seconds)
    try:
        ended = os.pidfd_open(process.pid)
    except OSError:  # a kernel or sandbox without it
        return process.communicate(timeout=timeout_seconds)
    deadline = time.monotonic() + timeout_seconds
    parts: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    poller = select.poll()
    for descriptor in (*parts, ended):
        poller.register(descriptor, select.POLLIN)
    try:
        _drain(poller, parts, ended, deadline)
    finally:
        os.close(ended)
    process.wait()
    stdout, stderr = parts.values()
    return b"".join(stdout), b"".join(stderr)


def _drain(poller: select.poll, parts: dict[int, list[bytes]], ended: int, deadline: float) -> None:
    """Read into ``parts`` until the process has ended and its pipes hold nothing more."""
    has_ended = False
    while True:
        remaining = deadline - time.monotonic()
        ready = poller.poll(0 if has_ended else max(0.0, remaining * 1_000))
        if not ready and has_ended:
            return
        if not ready and remaining <= 0:
            raise subprocess.TimeoutExpired("git", 0)
        for descriptor, _ in ready:
            if descriptor == ended:
                has_ended = True
                poller.unregister(ended)
            elif chunk := os.read(descriptor, PIPE_BYTES):
                parts[descriptor].append(chunk)
            else:
                poller.unregister(descriptor)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a git process and what it started; first politely, so that git removes its lock files."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    # Not reaped before the last signal: until then its id, which is the group's, belongs to nobody else.
    while time.monotonic() < deadline and not _has_exited(process.pid):
        time.sleep(_EXIT_POLL_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _has_exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _name(arguments: Sequence[str | bytes | Path]) -> str:
    words = [word for word in arguments if isinstance(word, str)]
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in {"-c", "-C"} else words[1:]
    return words[0] if words else ""


def _shown(arguments: Sequence[str | bytes | Path]) -> list[str]:
    return [os.fsencode(word).decode("utf-8", "backslashreplace") for word in arguments]
