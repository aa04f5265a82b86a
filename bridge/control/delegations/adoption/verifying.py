"""What tests say about a tree: those that a worker ran, and a command that is run in the combined files.

Evidence is tied to the very tree it was gained on. Blocking; run in a helper thread.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from bridge.control.controller import Controller
from bridge.control.delegations.adoption.model import Check, Part, Verification, VerificationStatus, Wish
from bridge.control.errors import AdoptionCheckFailed
from bridge.git.commits import tree_of
from bridge.git.repository import RepositoryLocation
from bridge.process.children import ChildExit, spawn
from bridge.process.environment import child_environment

#: Bytes of the end of a log that an error shows.
LOG_TAIL_BYTES: Final = 2_000


def verification(location: RepositoryLocation, part: Part, commit: str) -> Verification:
    """Return what the tests of a task's worker say about a commit.

    They hold only where they ran on exactly its files: the recorded stamp is known, and the worker's files are the
    commit's.
    """
    tests = tuple(part.payload.get("tests", ()))
    if not tests:
        return Verification(VerificationStatus.NONE)
    adopted = tree_of(location, commit)
    stamp: Any = part.payload.get("stamp") or {}
    is_known = isinstance(stamp, dict) and "unknown" not in stamp
    is_same_result = part.payload.get("result_commit") == part.result
    tested = tree_of(location, part.result) if is_known and is_same_result else None
    status = VerificationStatus.HOLDS if tested == adopted else VerificationStatus.REOPENED
    return Verification(status, tests, tested, adopted)


def run_check(controller: Controller, scratch: RepositoryLocation, log: Path, wish: Wish, commit: str) -> Check:
    """Run the wanted command in the combined files, and return how it ended.

    Raises
    ------
    AdoptionCheckFailed
        If it did not end well; its log is kept.
    ProgramNotFound, SpawnFailed
        If it could not be started.
    """
    command = wish.check or ""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    started = time.monotonic()
    ended = anyio.run(partial(_run, controller, scratch.root, log, command, wish.check_timeout_seconds))
    check = Check(
        command=command,
        exit_status=ended.exit_status,
        reason=str(ended.reason),
        seconds=time.monotonic() - started,
        log=log,
        tree=tree_of(scratch, commit),
    )
    if not check.has_passed:
        raise AdoptionCheckFailed(
            f"The check {command[:80]!r} {_how(check, ended)}, so nothing was adopted. "
            f"Your branch and files are unchanged. Its log: {log}",
            details={**check.to_json(), "signal": ended.signal, "log_tail": _tail(log)},
        )
    return check


async def _run(controller: Controller, folder: Path, log: Path, command: str, timeout_seconds: float) -> ChildExit:
    child = await spawn(
        ["/bin/sh", "-c", command],
        cwd=folder,
        environment=child_environment(controller.environment, {}),
        stdout_path=log,
        stderr_path=log,
    )
    try:
        return await child.wait(timeout_seconds)
    finally:
        if not child.has_ended:
            with anyio.CancelScope(shield=True):
                await child.cancel()


def _how(check: Check, ended: ChildExit) -> str:
    if check.reason != "exited":
        return f"was ended ({check.reason})"
    if ended.signal is not None:
        return f"was ended by signal {ended.signal}"
    return f"ended with status {check.exit_status}"


def _tail(log: Path) -> str:
    return log.read_bytes()[-LOG_TAIL_BYTES:].decode("utf-8", "backslashreplace")
