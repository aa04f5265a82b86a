"""A process that is killed at a system call of one's choice, each in turn, by the kernel's own means (ptrace).

Run as a program: ``python killing.py SCRIPT.json``. The script names a module and function that does the work, its
argument, and a function that looks at what is left; for each system call that the work makes, a fresh child is killed
before it and another one after it, and what is left is looked at. The outcome is printed as JSON.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

_TRACEME, _SYSCALL, _SETOPTIONS = 0, 24, 0x4200
_EXIT_WITH_TRACER, _MARK_SYSCALLS = 0x100000, 0x1
_STOPPED_AT_CALL = signal.SIGTRAP | 0x80
#: More stops than any commit has: a loop would be found out.
MAX_STOPS = 5000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, pid, data=0):
    if _libc.ptrace(request, pid, None, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def run_until(stop, work):
    """Run work in a child and kill it at its so manieth stop (each call has two: before and after).

    Returns whether it got to its end.
    """
    pid = os.fork()
    if pid == 0:
        try:
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
        except BaseException as error:  # noqa: BLE001 - a child of fork must not go on in its parent's code
            os.write(2, f"{error!r}\n".encode())
            os._exit(3)
        os._exit(0)
    os.waitpid(pid, 0)
    _ptrace(_SETOPTIONS, pid, _EXIT_WITH_TRACER | _MARK_SYSCALLS)
    passed, pending = 0, 0
    while True:
        _ptrace(_SYSCALL, pid, pending)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                raise RuntimeError(f"the work failed with status {os.WEXITSTATUS(status)}")
            return True
        if os.WIFSIGNALED(status):
            raise RuntimeError(f"the work was ended by signal {os.WTERMSIG(status)}")
        pending = 0
        if os.WSTOPSIG(status) != _STOPPED_AT_CALL:
            pending = os.WSTOPSIG(status)
            continue
        passed += 1
        if passed > MAX_STOPS:
            raise RuntimeError("the work makes too many calls")
        if passed == stop:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False


def main(script):
    plan = json.loads(Path(script).read_text())
    spec = importlib.util.spec_from_file_location("work", plan["module"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    make, look = getattr(module, plan["make"]), getattr(module, plan["look"])
    found, stop = [], 0
    while True:
        stop += 1
        folder = Path(plan["folder"]) / str(stop)
        folder.mkdir()
        done = run_until(stop, make(folder))
        found.append(look(folder))
        if done:
            break
    print(json.dumps({"stops": stop - 1, "found": found}))


if __name__ == "__main__":
    main(sys.argv[1])
