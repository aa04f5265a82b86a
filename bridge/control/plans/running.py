"""Running a plan file from where somebody stands: find the checkout, mend what a crash left, check, run."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from bridge.control.controller import Controller
from bridge.control.delegations.bases import DirtyMode
from bridge.control.delegations.recovery import recover
from bridge.control.errors import PlanUnreadable, RunStopped
from bridge.control.plans.file import MAX_PLAN_BYTES, Plan, load_plan
from bridge.control.plans.progress import ProgressSink, ignore_progress
from bridge.control.plans.scheduling import PlanOutcome, request_of, run_plan
from bridge.control.sessions import initialise
from bridge.control.standpoint import Standpoint, find_session
from bridge.control.taskgroups import sole_error_group
from bridge.git.errors import NotARepository
from bridge.workspaces.models import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Which plan to run, and how.

    Parameters
    ----------
    path
        The plan file.
    session
        Reference to the session that delegates; None makes a new one.
    dirty
        Overrides what the plan says of uncommitted work.
    """

    path: Path
    session: str | None = None
    dirty: DirtyMode | None = None


async def run_plan_file(
    controller: Controller, standpoint: Standpoint, request: RunRequest, *, progress: ProgressSink = ignore_progress
) -> PlanOutcome:
    """Run a plan file in the checkout that the standpoint lies in, which is registered on the way.

    SIGTERM ends the run in order: workers are ended and their results recorded as cancelled.

    Raises
    ------
    PlanUnreadable, InvalidPlan
        If the file cannot be read, or anything in it is wrong.
    NotARepository
        If the standpoint lies in no checkout.
    RunStopped
        If SIGTERM ended the run.
    SessionNotFound, BaseUnavailable, UncommittedWork, ReferenceNotFound, …
        What :func:`bridge.control.plans.scheduling.run_plan` raises; nothing is started then.
    """
    await to_thread.run_sync(partial(recover, controller))
    workspace, plan, session_id = await to_thread.run_sync(partial(_prepare, controller, standpoint, request))
    outcome: PlanOutcome | None = None

    async def stop_on_signal(scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                scope.cancel()

    async with sole_error_group() as group:
        group.start_soon(stop_on_signal, group.cancel_scope)
        outcome = await run_plan(
            controller, workspace, request_of(plan, session_id=session_id, dirty=request.dirty), progress=progress
        )
        group.cancel_scope.cancel()
    if outcome is None:
        raise RunStopped("The run was asked to stop; its workers were ended and their results recorded as cancelled.")
    return outcome


def _prepare(controller: Controller, standpoint: Standpoint, request: RunRequest) -> tuple[Workspace, Plan, str | None]:
    if standpoint.directory is None:
        raise NotARepository("A plan runs in a checkout, and none was named. Nothing was started.")
    workspace = initialise(controller, standpoint.directory).registration.workspace
    plan = load_plan(
        read_plan_text(request.path),
        path=request.path,
        repository_root=workspace.folder,
        harnesses=controller.settings.harness,
    )
    session_id = None
    if request.session is not None:
        with controller.store.read() as connection:
            session_id = find_session(connection, standpoint, request.session)
    return workspace, plan, session_id


def read_plan_text(path: Path) -> str:
    """Return the text of a plan file.

    Raises
    ------
    PlanUnreadable
        If it is not there, cannot be read, is too large or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PLAN_BYTES + 1)
        return content.decode()
    except OSError as error:
        raise PlanUnreadable(
            f"The plan {str(path)!r} cannot be read: {error.strerror}. Nothing was started.",
            details={"path": str(path)},
        ) from error
    except UnicodeDecodeError as error:
        raise PlanUnreadable(
            f"The plan {str(path)!r} is not UTF-8 (byte {error.start}). Nothing was started.",
            details={"path": str(path)},
        ) from error
