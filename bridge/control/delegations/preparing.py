"""A worker's place: its worktree set up, ports, temporary files, environment and border; and the way back from there.

``placed`` is entered before the first attempt and left when the worker's processes have ended, whatever happened.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread

from bridge.adapters.base import Capabilities
from bridge.adapters.taskfolder import unusable
from bridge.agents.policy_model import WriteMode
from bridge.control.controller import Controller
from bridge.control.delegations import store as rows
from bridge.control.delegations.confining import WORDS, confine
from bridge.control.delegations.model import Delegation
from bridge.control.delegations.placesettings import (
    WorkerSettings,
    WorktreeSettings,
    worker_settings,
    worktree_settings,
)
from bridge.control.delegations.ports import Ports, reserve_ports
from bridge.control.delegations.setupcache import SetupCache
from bridge.control.delegations.setups import Setup, SetupReport, run_setup
from bridge.control.errors import SetupFailed
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import EntryDraft
from bridge.foundation.errors import BridgeError
from bridge.foundation.logs import get_logger
from bridge.git.errors import GitError
from bridge.git.lending import lend, location_of, take_back
from bridge.git.paths import plain_path
from bridge.git.repository import RepositoryLocation, discover
from bridge.process.confinement import Confinement
from bridge.process.environment import worker_environment
from bridge.semantics.kinds import HIDDEN
from bridge.workspaces.models import Workspace, folder_of
from bridge.workspaces.store import find_workspace, get_workspace

#: Variables that every worker has, and the lines of a setup.
WORKTREE_VARIABLE: Final = "BRIDGE_WORKTREE"
CHECKOUT_VARIABLE: Final = "BRIDGE_CHECKOUT"
DELEGATION_VARIABLE: Final = "BRIDGE_DELEGATION"
#: What the lines of a setup print, in the folder of the task.
SETUP_LOG: Final = "setup.log"
#: Says, in the worktree's git directory, that it was set up: another try in the same one does not do it again.
_DONE: Final = "bridge-prepared"
#: Digits of the repository id that name its folder of kept outcomes.
_REPOSITORY_DIGITS: Final = 12
#: Paths of files that a setup made and git does not ignore, as they are named in a note.
_NAMED: Final = 10

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker's processes get of their place.

    Parameters
    ----------
    inherited
        What they may inherit, before it is stripped of ``BRIDGE_*`` and ``GIT_*``.
    additions
        Variables that are added.
    confinement
        Where they may write; None: wherever the user may.
    """

    inherited: Mapping[str, str]
    additions: Mapping[str, str] = field(default_factory=dict)
    confinement: Confinement | None = None

    def confined_to(self, *folders: Path) -> Confinement | None:
        """Return the confinement with further folders that may be written."""
        if self.confinement is None:
            return None
        return replace(self.confinement, writable=(*self.confinement.writable, *folders))


@dataclass
class _Making:
    """A place while it is made and used; what is set has to be undone."""

    controller: Controller
    delegation: Delegation
    session_id: str
    worktree: Path
    checkout: Path
    worktree_settings: WorktreeSettings = field(default_factory=WorktreeSettings)
    worker_settings: WorkerSettings = field(default_factory=WorkerSettings)
    location: RepositoryLocation | None = None
    ports: Ports = field(default_factory=lambda: Ports({}, []))
    is_lent: bool = False
    is_network_allowed: bool = True
    notices: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.controller.settings.tasks / self.delegation.id

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def lent(self) -> Path:
        return lent_folder(self.controller, self.delegation.id)

    @property
    def is_isolated(self) -> bool:
        return self.delegation.request.write_mode == WriteMode.ISOLATED

    @property
    def is_own(self) -> bool:
        """Whether the worktree is the worker's own, to be set up; nobody sets up the user's checkout."""
        return self.delegation.request.write_mode != WriteMode.SHARED


@asynccontextmanager
async def placed(
    controller: Controller,
    delegation: Delegation,
    *,
    worktree: Path,
    session_id: str,
    is_network_allowed: bool = True,
) -> AsyncIterator[Place]:
    """Make a delegation's worktree ready for its worker, and take things back when the worker has ended.

    Parameters
    ----------
    worktree
        Where the worker works; it exists.
    session_id
        The worker's session, which gets a hidden note of what was done and what is not kept.
    is_network_allowed
        Whether the policy lets such workers reach the network.

    Raises
    ------
    InvalidConfiguration, SetupFailed, NoFreePort, ConfinementRefused, ObjectsNotTaken
        If it cannot be made ready; what had been reserved is given back, the worktree stays as it is.
    """
    making = _Making(controller, delegation, session_id, worktree, worktree, is_network_allowed=is_network_allowed)
    try:
        place = await to_thread.run_sync(_make, making)
        report = await _set_up(making, place) if making.is_own else None
        await to_thread.run_sync(_record, making, report)
        yield place
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_undo, making)


def open_door(controller: Controller, place: Place | None, capabilities: Capabilities) -> None:
    """See to it that a worker that has tools finds the controller which offers them; it cannot start one itself.

    A controller that cannot be started is logged: the worker can do without its tools.
    """
    is_confined = place is not None and place.confinement is not None
    if not is_confined or not capabilities.mcp or controller.open_door is None:
        return
    try:
        controller.open_door()
    except BridgeError as error:
        _log.warning("no controller for a worker's tools", action="open_door", code=error.code, why=error.message)


def setup_marker(delegation_id: str) -> str:
    """Return the value by which the processes of a delegation's setup are found again."""
    return f"{delegation_id}-setup"


def lent_folder(controller: Controller, delegation_id: str) -> Path:
    """Return where a delegation's worker writes new objects while it is confined."""
    return controller.settings.lent / delegation_id


def give_back(controller: Controller, delegation: Delegation, workspace: Workspace) -> None:
    """Bring over what a worker's git left in its lent folder; for what a lost controller could not. Repeatable.

    Where that fails the folder stays, the repository goes on borrowing from it, and the reason is logged and an event.
    """
    folder = lent_folder(controller, delegation.id)
    if workspace.common_dir is None or not folder.exists():
        return
    location = location_of(folder_of(workspace.common_dir), workspace.folder)
    _take_back(controller, delegation, location, folder)


def _make(making: _Making) -> Place:
    controller, request = making.controller, making.delegation.request
    making.checkout = _checkout(making)
    making.worktree_settings = worktree_settings(making.checkout)
    making.worker_settings = worker_settings(making.checkout)
    # Left over from an attempt before.
    shutil.rmtree(making.temporary, ignore_errors=True)
    try:
        making.temporary.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise unusable(making.folder, error) from error
    making.location = discover(making.worktree)
    confining = confine(
        controller,
        request,
        making.worker_settings,
        location=making.location,
        lent=making.lent if making.is_isolated else None,
        temporary=making.temporary,
        is_network_allowed=making.is_network_allowed,
    )
    making.notices += [f"{notice}: {WORDS[notice]}." for notice in confining.notices]
    if confining.confinement is not None and making.is_isolated:
        making.is_lent = True
        lend(making.location, making.lent)
    making.ports = reserve_ports(controller.settings.ports, making.worktree_settings.ports)
    additions = {
        WORKTREE_VARIABLE: str(making.worktree),
        CHECKOUT_VARIABLE: str(making.checkout),
        DELEGATION_VARIABLE: making.delegation.id,
        **making.ports.environment,
    }
    inherited = worker_environment(controller.environment, making.worker_settings.environment)
    if confining.confinement is not None:
        additions["TMPDIR"] = str(making.temporary)
    return Place(inherited, additions, confining.confinement)


def _checkout(making: _Making) -> Path:
    """Return the checkout that delegates, whose files say how the place is made."""
    with making.controller.store.read() as connection:
        if making.delegation.workspace_id is None:
            return making.worktree
        workspace = get_workspace(connection, making.delegation.workspace_id)
        parent = None if workspace.parent_id is None else find_workspace(connection, workspace.parent_id)
    return making.worktree if parent is None or not making.is_own else parent.folder


async def _set_up(making: _Making, place: Place) -> SetupReport | None:
    settings = making.worktree_settings
    if making.location is None or not (settings.setup or settings.always):
        return None
    done = making.location.git_dir / _DONE
    if done.exists():
        return None
    cache = None
    if settings.cache:
        repository = making.location.repository_id[:_REPOSITORY_DIGITS]
        cache = SetupCache(making.controller.settings.setups / repository, settings)
    request = making.delegation.request
    setup = Setup(
        worktree=making.worktree,
        log=making.folder / SETUP_LOG,
        environment=place.inherited,
        additions={**request.environment, **place.additions},
        marker=setup_marker(making.delegation.id),
        is_cancelled=partial(_is_cancelled, making),
        cache=cache,
    )
    try:
        report = await run_setup(settings, setup)
    except SetupFailed as error:
        await to_thread.run_sync(_record_failure, making, error)
        raise
    await to_thread.run_sync(done.touch)
    return report


async def _is_cancelled(making: _Making) -> bool:
    def look() -> bool:
        with making.controller.store.read() as connection:
            return rows.is_cancel_requested(connection, making.delegation.id)

    return await to_thread.run_sync(look)


def _record(making: _Making, report: SetupReport | None) -> None:
    """Record what was done for the place: an audit event, and a hidden note in the worker's session."""
    facts: dict[str, Any] = {"is_lent": making.is_lent, "ports": len(making.ports.numbers)}
    words = list(making.notices)
    if report is not None:
        log = making.folder / SETUP_LOG
        facts |= {
            "setup_lines": report.lines,
            "setup_seconds": round(report.seconds, 3),
            "restored_files": report.restored_files,
            "is_kept": report.is_kept,
        }
        made = "" if report.restored_files is None else f", {report.restored_files} files of an earlier one taken over"
        words.append(
            f"The worktree was set up in {report.seconds:.1f} s: {report.lines} lines run{made}. Output: {log}"
        )
        words += _unignored(making, facts)
    if making.ports.numbers:
        given = ", ".join(f"{name}={number}" for name, number in making.ports.numbers.items())
        words.append(f"Ports: {given}.")
    if not words:
        return

    def record(recording: RecordingTransaction) -> None:
        body = {"delegation_id": making.delegation.id, **facts}
        recording.event(making.delegation.parent_session_id, "delegation.place_prepared", body)
        recording.append(making.session_id, _note(words))

    making.controller.recorder.transact(record)


def _unignored(making: _Making, facts: dict[str, Any]) -> list[str]:
    """Return a warning about what a setup changed and git does not ignore: it will pass for the worker's work."""
    observation = making.controller.observer.observe_exactly(making.worktree)
    rows_found = () if observation.manifest is None else observation.manifest.rows
    facts["unignored"] = len(rows_found)
    if not rows_found:
        return []
    named = ", ".join(plain_path(row.path) for row in rows_found[:_NAMED])
    count = len(rows_found)
    return [f"The setup changed {count} paths that git does not ignore; they will count as the worker's: {named}."]


def _record_failure(making: _Making, error: SetupFailed) -> None:
    def record(recording: RecordingTransaction) -> None:
        body = {"delegation_id": making.delegation.id, "code": error.code}
        recording.event(making.delegation.parent_session_id, "delegation.place_failed", body)
        recording.append(making.session_id, _note([error.message]))

    making.controller.recorder.transact(record)


def _note(words: Sequence[str]) -> EntryDraft:
    return EntryDraft(kind="note", payload={"text": "\n".join(words)}, context_visibility=HIDDEN)


def _undo(making: _Making) -> None:
    making.ports.release()
    # The worker may have made it unreadable; what stays is removed with the task.
    shutil.rmtree(making.temporary, ignore_errors=True)
    if making.is_lent and making.location is not None:
        _take_back(making.controller, making.delegation, making.location, making.lent)


def _take_back(controller: Controller, delegation: Delegation, location: RepositoryLocation, folder: Path) -> None:
    try:
        take_back(location, folder, timeout_seconds=controller.settings.git_timeout_seconds)
    except GitError as error:
        # The result is recorded all the same: the repository still borrows, so that nothing is missing.
        _log.exception(
            "a worker's objects were not brought over",
            action="objects_kept",
            delegation_id=delegation.id,
            code=error.code,
            folder=str(folder),
        )
        body = {"delegation_id": delegation.id, "code": error.code}
        controller.recorder.transact(
            lambda recording: recording.event(delegation.parent_session_id, "delegation.objects_kept", body)
        )
