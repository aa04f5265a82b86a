"""Keeping a child from writing where it should not, by Landlock; without a dependency and without a launcher.

Landlock restricts the thread that asks for it, and whatever that thread starts. So a throw-away thread restricts
itself and starts the child from there; the controller stays as free as it was. What is and what is not covered is
told in ``docs/isolation.md``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from bridge.process.errors import ConfinementFailed, ConfinementUnavailable

#: Oldest Landlock interface that is used. Before the third (Linux 6.2) files could be emptied all the same, before
#: the second nothing could be moved from folder to folder.
MIN_ABI: Final = 3
#: From this interface on connecting and listening over TCP can be refused (Linux 6.7).
NETWORK_ABI: Final = 4
#: From this one on signals and abstract sockets end at the border (Linux 6.12).
SCOPE_ABI: Final = 6
#: What every confined child may write besides, where it exists: devices that hold nothing, its terminal, and the
#: semaphores of ``multiprocessing``.
COMMON_DEVICES: Final = tuple(
    Path(name)
    for name in ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm")  # noqa: S108 - the folder of shared memory, not for temporary files
)

# The numbers are the same on all processors that Linux supports but Alpha (uapi/asm-generic/unistd.h).
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
_SET_NO_NEW_PRIVS: Final = 38

# uapi/linux/landlock.h: what is refused unless a rule allows it. Reading and executing are not among them.
_WRITE_FILE: Final = 1 << 1
_REMOVE_DIR: Final = 1 << 4
_REMOVE_FILE: Final = 1 << 5
_MAKE_ALL: Final = sum(1 << bit for bit in range(6, 13))
_REFER: Final = 1 << 13
_TRUNCATE: Final = 1 << 14
_ON_FILES: Final = _WRITE_FILE | _TRUNCATE
_ON_FOLDERS: Final = _ON_FILES | _REMOVE_DIR | _REMOVE_FILE | _MAKE_ALL | _REFER
_BIND_TCP: Final = 1 << 0
_CONNECT_TCP: Final = 1 << 1
_SCOPE_ABSTRACT_SOCKETS: Final = 1 << 0
_SCOPE_SIGNALS: Final = 1 << 1

_T = TypeVar("_T")


class Notice(StrEnum):
    """What a confinement cannot keep on this machine."""

    #: There is no Landlock, or too old a one: nothing is refused.
    LANDLOCK_UNAVAILABLE = "landlock_unavailable"
    #: The network cannot be kept from it.
    NETWORK_UNENFORCED = "network_unenforced"


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where a child may write; all the rest it may only read.

    Parameters
    ----------
    writable
        Files and folders with all below them; one that does not exist is left out. :data:`COMMON_DEVICES` are added.
    is_offline
        Whether it may neither connect nor listen over TCP; needs :data:`NETWORK_ABI`, and is not kept before.
    """

    writable: tuple[Path, ...] = ()
    is_offline: bool = False


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


#: Bytes of the attributes that each interface knows; a longer structure would be refused by an older kernel.
_ATTRIBUTE_BYTES: Final = {MIN_ABI: 8, NETWORK_ABI: 16, SCOPE_ABI: 24}


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock interface; 0 where there is none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))))


def available() -> Notice | None:
    """Return None if children can be confined here, else the notice that says they cannot."""
    return None if landlock_abi() >= MIN_ABI else Notice.LANDLOCK_UNAVAILABLE


def notices(confinement: Confinement) -> tuple[Notice, ...]:
    """Return what of a confinement cannot be kept here."""
    abi = landlock_abi()
    found = [] if abi >= MIN_ABI else [Notice.LANDLOCK_UNAVAILABLE]
    if confinement.is_offline and abi < NETWORK_ABI:
        found.append(Notice.NETWORK_UNENFORCED)
    return tuple(found)


def confined(confinement: Confinement, start: Callable[[], _T]) -> _T:
    """Call ``start`` in a thread of its own that is confined, and return what it returns. Blocking.

    What ``start`` opens for writing is refused like the child's own; open that before.

    Raises
    ------
    ConfinementUnavailable
        If this kernel has no Landlock, or too old a one; nothing was called.
    ConfinementFailed
        If the kernel refused; nothing was called.
    """
    abi = landlock_abi()
    if abi < MIN_ABI:
        raise ConfinementUnavailable(
            f"This kernel cannot confine a child (Landlock interface {abi}, {MIN_ABI} is needed). Nothing was started.",
            details={"abi": abi, "needed": MIN_ABI},
        )
    result: list[_T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            _restrict(confinement, abi)
            result.append(start())
        except BaseException as error:  # noqa: BLE001 - raised again where it belongs, in the caller's thread
            failure.append(error)

    # Never a pooled thread: what is restricted stays so, and would restrict whatever ran there next.
    thread = threading.Thread(target=run, name="bridge-confined-start", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def is_privileges_sealed(pid: int) -> bool | None:
    """Tell whether a process can gain no privileges any more, as everything confined is; None if it cannot be told.

    It stays so for a process and for all it starts, whatever becomes of their environment and their parents.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith(b"NoNewPrivs:"):
            return line.split()[1] == b"1"
    return None


def _restrict(confinement: Confinement, abi: int) -> None:
    libc = _libc()
    attributes = _RulesetAttributes(fs=_ON_FOLDERS)
    if confinement.is_offline and abi >= NETWORK_ABI:
        attributes.net = _BIND_TCP | _CONNECT_TCP
    if abi >= SCOPE_ABI:
        attributes.scoped = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS
    size = _ATTRIBUTE_BYTES[max(known for known in _ATTRIBUTE_BYTES if known <= abi)]
    ruleset = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0), "a ruleset")
    try:
        for path in _distinct((*confinement.writable, *COMMON_DEVICES)):
            _allow(libc, ruleset, path)
        _checked(libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
        _checked(libc.syscall(_RESTRICT_SELF, ruleset, 0), "the restriction")
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise ConfinementFailed(f"{str(path)!r} cannot be reached: {error.strerror}. Nothing was started.") from error
    try:
        allowed = _ON_FOLDERS if stat.S_ISDIR(os.fstat(target).st_mode) else _ON_FILES
        rule = _PathBeneath(allowed=allowed, parent=target)
        answer = libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        _checked(answer, f"a rule for {str(path)!r}")
    finally:
        os.close(target)


def _distinct(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(paths))


def _checked(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise ConfinementFailed(
            f"The kernel refused {what} for a confined child: {os.strerror(number)}. Nothing was started.",
            details={"errno": errno.errorcode.get(number, str(number))},
        )
    return answer


def _libc() -> ctypes.CDLL:
    # Cheap once the library is loaded, as it always is; use_errno keeps the number per thread.
    return ctypes.CDLL(None, use_errno=True)
