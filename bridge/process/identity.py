"""Which process is meant: a pid alone is reused, a pid with its start time is not.

Blocking, but short; safe to call from an event loop except for :func:`marked_processes`, which reads every process's
environment.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Names the child in its own environment, so that a child whose pid was never recorded is found all the same.
MARKER_VARIABLE = "BRIDGE_CHILD"
#: Decimals that a start time keeps: the kernel counts in hundredths of a second.
_START_TIME_DECIMALS = 2
#: Whether environments are read from where psutil reads them too.
_HAS_PROC = sys.platform == "linux"


@dataclass(frozen=True, slots=True, order=True)
class ProcessIdentity:
    """One process, for as long as the machine runs.

    Parameters
    ----------
    pid
        Process id; also the id of the process group and session that a Bridge child leads.
    start_time
        Seconds from the machine's start to the process's, to a hundredth. Counted from there and not from 1970
        because setting the clock would otherwise make every recorded process a stranger.
    """

    pid: int
    start_time: float


@dataclass(frozen=True, slots=True)
class Marker:
    """An environment variable and the value by which a child, and all it starts, can be told from others."""

    value: str
    name: str = MARKER_VARIABLE


def identity_of(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process that has this pid now (a zombie counts), or None."""
    if pid <= 0:
        return None
    try:
        # Both readings add the same boot time, which a clock change moves: read until it stood still.
        while True:
            booted = psutil.boot_time()
            created = psutil.Process(pid).create_time()
            if psutil.boot_time() == booted:
                return ProcessIdentity(pid, round(created - booted, _START_TIME_DECIMALS))
    except psutil.NoSuchProcess:
        return None


def is_running(identity: ProcessIdentity) -> bool:
    """Tell whether exactly this process still runs; a zombie, or another one under the same pid, does not count."""
    return identity_of(identity.pid) == identity and not _is_zombie(identity.pid)


def marked_processes(marker: Marker) -> list[ProcessIdentity]:
    """Return the running processes whose environment holds the marker, without the calling one.

    Only environments that this user may read are looked at, and they are those the processes were started with.
    """
    found: list[ProcessIdentity] = []
    for pid in psutil.pids():
        if pid != os.getpid() and carries(pid, marker):
            identity = identity_of(pid)
            if identity is not None and not _is_zombie(pid):
                found.append(identity)
    return found


def carries(pid: int, marker: Marker) -> bool:
    """Tell whether the process was started with the marker; False too where its environment is unreadable."""
    try:
        if _HAS_PROC:
            # Without making an object of each process first: all of them are looked at when one worker ends.
            found = Path(f"/proc/{pid}/environ").read_bytes()
            return os.fsencode(f"{marker.name}={marker.value}") in found.split(b"\0")
        return psutil.Process(pid).environ().get(marker.name) == marker.value
    except (psutil.Error, OSError):
        # Gone, a zombie, or another user's: then it is none of ours.
        return False


def group_members(leader_pid: int) -> list[ProcessIdentity]:
    """Return the running processes of the group or session that ``leader_pid`` leads or led, without the caller.

    The session counts as well, since a shell with job control puts its jobs in groups of their own.
    """
    members: list[ProcessIdentity] = []
    for pid in psutil.pids():
        if pid in (os.getpid(), 0):
            continue
        try:
            belongs = leader_pid in (os.getpgid(pid), os.getsid(pid))
        except (ProcessLookupError, PermissionError):
            continue
        if belongs and not _is_zombie(pid):
            identity = identity_of(pid)
            if identity is not None:
                members.append(identity)
    return members


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return True
