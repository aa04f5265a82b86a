"""System calls that really fail, for one thread: the kernel answers them with an error of our choice.

A seccomp filter is what a broken disk or a network file system looks like from inside a process: SQLite asks the kernel
and is told no. A filter cannot be taken back, and it holds for the thread that asked for it and for those it starts.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

#: Numbers of the system calls, and the architecture's own number, by machine.
_MACHINES = {
    "x86_64": (0xC000003E, {"fcntl": 72, "flock": 73, "pwrite64": 18, "fdatasync": 75, "fsync": 74}),
    "aarch64": (0xC00000B7, {"fcntl": 25, "flock": 32, "pwrite64": 68, "fdatasync": 83, "fsync": 82}),
}
#: ``fcntl`` does much else; only these of its commands are locks: F_SETLK, F_SETLKW, and both for open files.
_LOCK_COMMANDS = (6, 7, 37, 38)
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
#: Where the call's number, the architecture and the lower half of the second argument stand in what a filter sees.
_AT_NUMBER, _AT_ARCHITECTURE, _AT_COMMAND = 0, 4, 24


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def fail(*names: str, error: int) -> None:
    """Make system calls of this thread fail from now on.

    Parameters
    ----------
    names
        ``fcntl`` (locks alone), ``flock``, ``pwrite64``, ``fdatasync``, ``fsync``.
    error
        The number from ``errno``.
    """
    architecture, numbers = _MACHINES[platform.machine()]
    refuse = (_RETURN, 0, 0, _ERRNO | error)
    allow = (_RETURN, 0, 0, _ALLOW)
    code = [(_LOAD, 0, 0, _AT_ARCHITECTURE), (_EQUAL, 1, 0, architecture), allow]
    for name in names:
        code.append((_LOAD, 0, 0, _AT_NUMBER))
        if name == "fcntl":
            commands = [(_EQUAL, len(_LOCK_COMMANDS) - at, 0, command) for at, command in enumerate(_LOCK_COMMANDS)]
            # Past what follows where the number is another; to its last line where a command is one of ours.
            code += [
                (_EQUAL, 0, len(commands) + 3, numbers[name]),
                (_LOAD, 0, 0, _AT_COMMAND),
                *commands,
                allow,
                refuse,
            ]
        else:
            code += [(_EQUAL, 0, 1, numbers[name]), refuse]
    code.append(allow)
    raw = b"".join(struct.pack("=HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(raw)
    program = _Program(len(code), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*arguments):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
