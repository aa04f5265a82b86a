"""The embedded harness ``command``: a worker is a program that reads one JSON file and may write another.

It finds its request in the file named by ``$BRIDGE_TASK``, the evidence in the files named there, and hands in its
result by writing the file named by ``$BRIDGE_RESULT``. A program that writes none is judged by its exit status.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

import anyio
from anyio import to_thread

from bridge.adapters import events
from bridge.adapters.base import Capabilities, FailureClass, Outcome, Sink, SubmissionSource, TaskRequest
from bridge.adapters.taskfolder import TaskFolder, prepare, read_result, read_tail
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.errors import BridgeError
from bridge.process.children import Child, ChildExit, EndReason, spawn
from bridge.process.environment import child_environment
from bridge.process.errors import ProgramNotExecutable, ProgramNotFound, SpawnFailed, WorkingDirectoryMissing
from bridge.process.identity import Marker
from bridge.semantics.results import MAX_RESULT_BYTES, ResultStatus

TASK_VARIABLE = "BRIDGE_TASK"
RESULT_VARIABLE = "BRIDGE_RESULT"
#: The end of the output that a derived summary quotes: lines, and bytes read for them.
MAX_SUMMARY_LINES = 20
MAX_SUMMARY_BYTES = 4096

_CAPABILITIES = Capabilities(cancel=True, needs_command=True)
_FAILURES: Mapping[EndReason, FailureClass] = {
    EndReason.TIMED_OUT: FailureClass.TIMED_OUT,
    EndReason.CANCELLED: FailureClass.CANCELLED,
    EndReason.OUTPUT_LIMIT: FailureClass.OUTPUT_LIMIT,
}
#: Colours and cursor movements (ECMA-48), then what else a terminal would act on.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class CommandHarness:
    """Runs the command of a task in its worktree; see the module for what the command may rely on."""

    name: str = "command"
    capabilities: Capabilities = _CAPABILITIES

    async def run(self, task: TaskRequest, sink: Sink, *, cancel: anyio.Event | None = None) -> Outcome:
        """Run one attempt to its end; see :class:`bridge.adapters.base.Harness`."""
        folder = await to_thread.run_sync(prepare, task)
        turn_id = f"{task.delegation_id}-{task.attempt}"
        began = time.monotonic()
        try:
            child = await self._spawn(task, folder)
        except (ProgramNotFound, ProgramNotExecutable, WorkingDirectoryMissing, SpawnFailed) as error:
            outcome = _not_started(error, folder)
            await sink.event(events.fault(outcome.detail, code=str(FailureClass.SPAWN_FAILED), turn_id=turn_id))
            return outcome
        try:
            await sink.started(child.identity)
            await sink.event(events.turn_started(turn_id))
            ended = await _wait(child, task, cancel)
        except BaseException:
            # Cancelled, or the controller could not take note of the child: then it must not go on unnoticed.
            await child.cancel(task.grace_seconds)
            raise
        outcome = await to_thread.run_sync(_outcome, task, folder, ended)
        if outcome.failure is not None:
            await sink.event(events.fault(outcome.detail, code=str(outcome.failure), turn_id=turn_id))
        await sink.event(
            events.turn_completed(
                turn_id,
                status=str(_status(outcome.failure)),
                reason=outcome.detail or None,
                duration_seconds=round(time.monotonic() - began, 3),
            )
        )
        return outcome

    async def _spawn(self, task: TaskRequest, folder: TaskFolder) -> Child:
        own = {TASK_VARIABLE: str(folder.request), RESULT_VARIABLE: str(folder.result)}
        return await spawn(
            task.command,
            cwd=task.worktree,
            environment=child_environment(task.environment, {**task.additions, **task.mcp_environment, **own}),
            stdout_path=folder.stdout,
            stderr_path=folder.stderr,
            output_limit_bytes=task.output_limit_bytes,
            marker=Marker(task.marker),
            confinement=task.confinement,
        )


async def _wait(child: Child, task: TaskRequest, cancel: anyio.Event | None) -> ChildExit:
    if cancel is None:
        return await child.wait(task.timeout_seconds, grace_seconds=task.grace_seconds)

    async def cancel_when_asked() -> None:
        await cancel.wait()
        await child.cancel(task.grace_seconds)

    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_asked)
        ended = await child.wait(task.timeout_seconds, grace_seconds=task.grace_seconds)
        group.cancel_scope.cancel()
    return ended


def _outcome(task: TaskRequest, folder: TaskFolder, ended: ChildExit) -> Outcome:
    failure, detail = _judge(task, ended)
    try:
        # One byte more than may be, so that whoever validates it sees that it is too large.
        submission = read_result(folder.result, MAX_RESULT_BYTES + 1)
    except OSError as error:
        submission = None
        if failure is None:
            failure, detail = FailureClass.RESULT_UNREADABLE, f"The result cannot be read: {error}."
    source = SubmissionSource.RESULT_FILE
    if submission is None:
        by_status = failure in (None, FailureClass.EXIT_NONZERO, FailureClass.SIGNALLED)
        source = SubmissionSource.EXIT_STATUS if by_status else SubmissionSource.CONTROLLER
        submission = _derived(failure, detail, folder)
    leftovers = ended.left_behind.found if ended.reason is EndReason.EXITED else ()
    return Outcome(
        submission=submission,
        source=source,
        failure=failure,
        detail=detail,
        error_code=None,
        exit_status=ended.exit_status,
        signal=ended.signal,
        output_bytes=ended.output_bytes,
        leftover_processes=len(leftovers),
        survivors=ended.left_behind.survivors,
        stdout_path=folder.stdout,
        stderr_path=folder.stderr,
    )


def _judge(task: TaskRequest, ended: ChildExit) -> tuple[FailureClass | None, str]:
    match ended.reason:
        case EndReason.TIMED_OUT:
            detail = f"The command did not end within {task.timeout_seconds:g} seconds and was ended."
        case EndReason.CANCELLED:
            detail = "The command was cancelled."
        case EndReason.OUTPUT_LIMIT:
            detail = f"The command printed more than {task.output_limit_bytes} bytes and was ended."
        case EndReason.EXITED if ended.signal is not None:
            return FailureClass.SIGNALLED, f"The command was ended by signal {ended.signal}, not by Bridge."
        case EndReason.EXITED if ended.exit_status is None:
            return FailureClass.EXIT_UNKNOWN, "The command ended, but the system did not tell with which status."
        case EndReason.EXITED if ended.exit_status != 0:
            return FailureClass.EXIT_NONZERO, f"The command ended with exit status {ended.exit_status}."
        case EndReason.EXITED:
            return None, ""
    return _FAILURES[ended.reason], detail


def _derived(failure: FailureClass | None, detail: str, folder: TaskFolder) -> bytes:
    """Return the submission of a command that wrote none: its status, and the end of what it printed."""
    last_words = _last_words(folder) if failure is None else _last_words(folder, errors_first=True)
    parts = (
        [detail, last_words] if failure is not None else [last_words or "The command succeeded and printed nothing."]
    )
    return canonical_bytes({"status": str(_status(failure)), "summary": "\n".join(part for part in parts if part)})


def _last_words(folder: TaskFolder, *, errors_first: bool = False) -> str:
    logs = (folder.stderr, folder.stdout) if errors_first else (folder.stdout,)
    for log in logs:
        text = read_tail(log, MAX_SUMMARY_BYTES).decode(errors="replace").replace("\r\n", "\n")
        plain = _CONTROLS.sub("", _ESCAPES.sub("", text)).strip()
        if plain:
            return "\n".join(plain.splitlines()[-MAX_SUMMARY_LINES:])
    return ""


def _status(failure: FailureClass | None) -> ResultStatus:
    match failure:
        case None:
            return ResultStatus.COMPLETED
        case FailureClass.CANCELLED:
            return ResultStatus.CANCELLED
        case _:
            return ResultStatus.FAILED


def _not_started(error: BridgeError, folder: TaskFolder) -> Outcome:
    return Outcome(
        submission=canonical_bytes({"status": str(ResultStatus.FAILED), "summary": error.message}),
        source=SubmissionSource.CONTROLLER,
        failure=FailureClass.SPAWN_FAILED,
        detail=error.message,
        error_code=error.code,
        exit_status=None,
        signal=None,
        output_bytes=0,
        leftover_processes=0,
        survivors=(),
        stdout_path=folder.stdout,
        stderr_path=folder.stderr,
    )
