"""Ending a child with all it started: SIGTERM, a grace period, SIGKILL; whether or not its leader still lives.

The functions ending in ``_blocking`` are for helper threads; the async ones run them there.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from anyio import to_thread

from bridge.process.identity import (
    Marker,
    ProcessIdentity,
    carries,
    group_members,
    identity_of,
    is_running,
    marked_processes,
)

#: Seconds between the request to end (SIGTERM) and the signal that cannot be refused (SIGKILL).
DEFAULT_GRACE_SECONDS = 5.0
#: Seconds to wait after SIGKILL. Only a process stuck inside the kernel outlasts it; it is then reported.
KILL_WAIT_SECONDS = 5.0
#: Pauses between two looks at who is left: the first, and the longest they grow to.
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class EndReport:
    """What ending a group took.

    Parameters
    ----------
    found
        The processes that ran when the end began; empty when there was nothing to do.
    killed
        Those still there after the grace period, which got SIGKILL.
    survivors
        Those still there after that; None of Bridge's doing can end them.
    """

    found: tuple[ProcessIdentity, ...] = ()
    killed: tuple[ProcessIdentity, ...] = ()
    survivors: tuple[ProcessIdentity, ...] = ()


async def end_group(
    identity: ProcessIdentity, *, grace_seconds: float = DEFAULT_GRACE_SECONDS, marker: Marker | None = None
) -> EndReport:
    """End the group that a recorded child leads or led, and with a marker also what left the group.

    Parameters
    ----------
    identity
        The child as recorded. If its pid belongs to another process by now, the group is gone (a number in use
        as group id is not given out again) and nothing is signalled.
    grace_seconds
        From SIGTERM to SIGKILL.
    marker
        The child's marker. Processes carrying it are ended wherever they are; and a group whose leader is gone is
        only touched if a member carries it, since its number could have been another group's since.
    """
    return await to_thread.run_sync(lambda: end_group_blocking(identity, grace_seconds, marker))


async def find_by_environment(name: str, value: str) -> list[ProcessIdentity]:
    """Return the running processes that were started with the environment variable ``name`` set to ``value``."""
    return await to_thread.run_sync(marked_processes, Marker(value, name))


async def end_marked(marker: Marker, *, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> EndReport:
    """End every process that carries the marker: for a child that was started but never recorded."""
    return await to_thread.run_sync(lambda: end_marked_blocking(marker, grace_seconds))


def end_marked_blocking(marker: Marker, grace_seconds: float) -> EndReport:
    """Do what :func:`end_marked` says, in the calling thread."""
    return _end(None, grace_seconds, marker)


def end_group_blocking(identity: ProcessIdentity, grace_seconds: float, marker: Marker | None = None) -> EndReport:
    """Do what :func:`end_group` says, in the calling thread."""
    current = identity_of(identity.pid)
    if current is None and marker is not None:
        is_ours = any(carries(member.pid, marker) for member in group_members(identity.pid))
    else:
        is_ours = current is None or current == identity
    return _end(identity.pid if is_ours else None, grace_seconds, marker)


def _end(leader_pid: int | None, grace_seconds: float, marker: Marker | None) -> EndReport:
    found = _targets(leader_pid, marker)
    if not found:
        return EndReport()
    _signal(leader_pid, found, signal.SIGTERM)
    # A stopped process acts on SIGTERM only once it goes on.
    _signal(leader_pid, found, signal.SIGCONT)
    remaining = _wait_until_gone(leader_pid, marker, grace_seconds, then=None)
    killed = tuple(remaining)
    if remaining:
        remaining = _wait_until_gone(leader_pid, marker, KILL_WAIT_SECONDS, then=signal.SIGKILL)
    return EndReport(tuple(found), killed, tuple(remaining))


def _targets(leader_pid: int | None, marker: Marker | None) -> list[ProcessIdentity]:
    targets = set(group_members(leader_pid)) if leader_pid is not None else set()
    if marker is not None:
        targets.update(marked_processes(marker))
    return sorted(targets)


def _wait_until_gone(
    leader_pid: int | None, marker: Marker | None, seconds: float, then: signal.Signals | None
) -> list[ProcessIdentity]:
    """Look until nobody is left or the time is over; with ``then``, signal whoever is there at each look.

    Each look finds the members anew: what is ended may be starting others meanwhile.
    """
    deadline = time.monotonic() + seconds
    pause = _FIRST_PAUSE_SECONDS
    while remaining := _targets(leader_pid, marker):
        if then is not None:
            _signal(leader_pid, remaining, then)
        left = deadline - time.monotonic()
        if left <= 0:
            return remaining
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
    return []


def _signal(leader_pid: int | None, targets: list[ProcessIdentity], number: signal.Signals) -> None:
    """Signal the group in one call, so that none of it can fork meanwhile, then each target outside it."""
    signalled: set[int] = set()
    if leader_pid is not None:
        signalled = {target.pid for target in targets if _group_of(target.pid) == leader_pid}
        if signalled:
            _ignore_missing(os.killpg, leader_pid, number)
    for target in targets:
        if target.pid not in signalled and is_running(target):
            _ignore_missing(os.kill, target.pid, number)


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _ignore_missing(send: Callable[[int, int], None], pid: int, number: signal.Signals) -> None:
    try:
        send(pid, number)
    except (ProcessLookupError, PermissionError):
        # Gone meanwhile (macOS says "not permitted" of a zombie). A process of another user cannot be ended
        # from here; it stays among the survivors, where the caller sees it.
        return
