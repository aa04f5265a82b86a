"""Commands in processes of their own, forked from one that stands ready with what is installed beside Bridge loaded.

A command takes most of its processor time for loading libraries. Here one process has loaded them, and nothing of
Bridge: each command is a fork of it that loads Bridge as the program does, in its order, with streams, directory and
environment of its own, and ends as processes end. A test about the start itself (the interpreter's options, where
modules are found, a terminal, limits) starts a process from the beginning.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: What commands load; what is not installed is left out.
LIBRARIES = (
    "anyio._backends._asyncio",
    "asyncio",
    "jsonschema_rs",
    "orjson",
    "platformdirs",
    "psutil",
    "rich.console",
    "rich.table",
    "rich.text",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "sqlalchemy.pool",
    "structlog",
    "typer",
)
#: A command line and an environment are shorter.
MAX_MESSAGE_BYTES = 200_000


class Prepared:
    """The process that stands ready. Takes commands from any thread."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_MESSAGE_BYTES)
        self._shaping = shaping(environment)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=dict(environment),
        )
        theirs.close()

    def fits(self, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter that begins with this environment is like the one that stands ready."""
        return shaping(environment) == self._shaping

    def run(
        self, words: list[str], *, cwd: str | Path, environment: Mapping[str, str], stdin: bytes, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command line to its end, as ``subprocess.run`` does."""
        with contextlib.ExitStack() as ours:
            ends: list[int] = []
            files: list[Any] = []
            for number in range(4):
                reading, writing = os.pipe()
                kept, given = (writing, reading) if number == 0 else (reading, writing)
                files.append(ours.enter_context(open(kept, "rb" if number else "wb", buffering=0)))  # noqa: PTH123
                ends.append(given)
            try:
                request = json.dumps([words, str(cwd), dict(environment)]).encode()
                assert len(request) <= MAX_MESSAGE_BYTES, "a command line and environment that long need another way"
                socket.send_fds(self._socket, [request], ends)
            finally:
                for end in ends:
                    os.close(end)
            return self._follow(words, files, stdin, timeout)

    def _follow(
        self, words: list[str], files: list[Any], stdin: bytes, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        told = threading.Thread(target=_tell, args=(files[0], stdin), daemon=True)
        told.start()
        found = {file: bytearray() for file in files[1:]}
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for file in found:
                selector.register(file, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    self._kill(found[files[3]])
                    raise subprocess.TimeoutExpired(words, timeout, bytes(found[files[1]]), bytes(found[files[2]]))
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    if data:
                        found[key.fileobj] += data
                    else:
                        selector.unregister(key.fileobj)
        told.join()
        _pid, status = found[files[3]].split()
        return subprocess.CompletedProcess(words, int(status), bytes(found[files[1]]), bytes(found[files[2]]))

    @staticmethod
    def _kill(progress: bytearray) -> None:
        if progress and len(progress.split()) == 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(progress.split()[0]), signal.SIGKILL)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_one: Prepared | None = None


def prepared(environment: Mapping[str, str]) -> Prepared | None:
    """Return the process that stands ready for all tests of this one; None if it could not stand in for such a one."""
    global _one  # noqa: PLW0603 - as a fixture it could not be had by the fixtures of modules
    if _one is None:
        _one = Prepared(environment)
        atexit.register(_one.close)
    return _one if _one.fits(environment) else None


def run_command(
    words: list[str], *, cwd: str | Path, environment: Mapping[str, str], stdin: bytes = b"", timeout: float = 100.0
) -> subprocess.CompletedProcess[bytes]:
    """Run a command line of Bridge in a process of its own, prepared if it may be."""
    ready = prepared(environment)
    if ready is not None:
        return ready.run(words, cwd=cwd, environment=environment, stdin=stdin, timeout=timeout)
    command = [sys.executable, "-c", "import sys; from bridge.cli.main import main; sys.exit(main())", *words]
    own = {**environment, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=own, input=stdin, capture_output=True, timeout=timeout, check=False)


def _tell(file: Any, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]


def shaping(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an environment the interpreter takes at its start, and so does not change any more."""
    names = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_")
    found = {name: value for name, value in environment.items() if name.startswith(names)}
    if found.get("PYTHONPATH") == str(ROOT):
        del found["PYTHONPATH"]  # where Bridge is found in any case
    return found


def stand_ready(requests: socket.socket) -> int:
    """Fork a process for each request until there will be none; in the forks: run the command, return its status."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert not any(name.partition(".")[0] == "bridge" for name in sys.modules)
    gc.collect()
    gc.freeze()
    running: dict[int, int] = {}
    waking, woken = os.pipe()
    for end in (waking, woken):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    # A handler must be there, or nobody is woken.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(waking, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is waking:
                    with contextlib.suppress(BlockingIOError):
                        os.read(waking, 4096)
                    _bury(running)
                    continue
                request, ends, _, _ = socket.recv_fds(requests, MAX_MESSAGE_BYTES, 4)
                if not request:
                    return 0
                child = os.fork()
                if child == 0:
                    break
                *streams, status = ends
                os.write(status, f"{child} ".encode())
                running[child] = status
                for end in streams:
                    os.close(end)
            else:
                continue
            break
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for end in (waking, woken, *running.values()):
        os.close(end)
    requests.close()
    return _be_a_command(*json.loads(request), ends)


def _bury(running: dict[int, int]) -> None:
    for child in list(running):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            end = running.pop(child)
            os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(end)


def _be_a_command(words: list[str], cwd: str, environment: dict[str, str], ends: list[int]) -> int:
    for number, end in enumerate(ends[:3]):
        os.dup2(end, number, inheritable=True)
    for end in ends:
        os.close(end)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(cwd)
    sys.argv = ["bridge", *words]
    for name, number, mode in (("stdin", 0, "rb"), ("stdout", 1, "wb"), ("stderr", 2, "wb")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        stream = io.TextIOWrapper(
            open(number, mode, closefd=False),  # noqa: SIM115 - lives as long as the process
            encoding="utf-8",
            errors=errors,
            line_buffering=name == "stderr",
        )
        stream.mode = mode[0]  # type: ignore[misc] - as the interpreter sets it
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    from bridge.cli.main import main

    return main()


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    sys.exit(stand_ready(socket.socket(fileno=int(sys.argv[1]))))
