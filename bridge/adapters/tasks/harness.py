"""A task for an agent that is talked to: one conversation in the worktree, until there is a result or an end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread

from bridge.adapters import events
from bridge.adapters.base import (
    Capabilities,
    FailureClass,
    Handing,
    Outcome,
    Sink,
    SubmissionSource,
    TaskRequest,
)
from bridge.adapters.conversation import Conversation, ConversationHarness, Limits, OpenRequest
from bridge.adapters.errors import HarnessProtocolBroken
from bridge.adapters.events import AdapterEvent
from bridge.adapters.permission import allow, allow_reading
from bridge.adapters.taskfolder import TaskFolder, evidence_paths, prepare
from bridge.adapters.tasks.extracting import result_block
from bridge.adapters.tasks.metering import Meter
from bridge.adapters.tasks.wording import first_prompt, repair_prompt
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.errors import BridgeError
from bridge.process.errors import ProgramNotExecutable, ProgramNotFound, SpawnFailed, WorkingDirectoryMissing
from bridge.process.identity import ProcessIdentity
from bridge.semantics.results import MAX_RESULT_BYTES

#: Prompts of one attempt at most, whatever the desk says: the first one and its repairs.
MAX_PROMPTS: Final = 10
#: Characters of an agent's last words that stand in a derived result.
MAX_SUMMARY_CHARACTERS: Final = 4_000
#: Name under which agents know Bridge's tools.
SERVER_NAME: Final = "bridge"

_SPAWN_ERRORS: Final = (ProgramNotFound, ProgramNotExecutable, SpawnFailed, WorkingDirectoryMissing)


@dataclass(frozen=True, slots=True)
class TalkingHarness:
    """Runs tasks through a harness that is talked to.

    Parameters
    ----------
    talker
        The harness.
    limits
        Those of its conversations; a task's own silence and output limits replace two of them.
    """

    talker: ConversationHarness
    limits: Limits = field(default_factory=Limits)

    @property
    def name(self) -> str:
        return self.talker.name

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.talker.capabilities, messages=True)

    async def run(self, task: TaskRequest, sink: Sink, *, cancel: anyio.Event | None = None) -> Outcome:
        """Run one attempt to its end; see ``bridge.adapters.base.Harness``."""
        folder = await to_thread.run_sync(prepare, task)
        return await _Run(self, task, folder, sink).outcome(cancel or anyio.Event())


@dataclass(slots=True)
class _Ended:
    """How an attempt ended: a failure, or a result."""

    failure: FailureClass | None = None
    detail: str = ""
    error_code: str | None = None
    resets_at: str | None = None
    submission: bytes | None = None
    source: SubmissionSource = SubmissionSource.CONTROLLER


class _Run:
    """One attempt, from the start of the program to its end."""

    def __init__(self, harness: TalkingHarness, task: TaskRequest, folder: TaskFolder, sink: Sink) -> None:
        self._harness = harness
        self._task = task
        self._folder = folder
        self._sink = sink
        self._has_tools = bool(task.mcp_command) and harness.capabilities.mcp
        self._conversation: Conversation | None = None
        self._opening = anyio.CancelScope()
        #: Why somebody ended it from this side; decides what the end of the agent means.
        self._ending: _Ended | None = None
        self._sink_error: BaseException | None = None
        self._meter = Meter(task.tokens)
        self._overspent = anyio.Event()
        #: What the agent said in the running turn, whole messages.
        self._said: list[str] = []
        self._fault: AdapterEvent | None = None

    async def outcome(self, cancel: anyio.Event) -> Outcome:
        """Run it, and return how it ended; no process is left, but for survivors named."""
        ended = _Ended()
        error: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._end_when_asked, cancel)
            group.start_soon(self._end_in_time)
            group.start_soon(self._end_when_spent)
            try:
                ended = await self._work()
            except Exception as raised:  # noqa: BLE001 - raised below, outside of the group that would wrap it
                error = raised
            finally:
                if self._conversation is not None:
                    with anyio.CancelScope(shield=True):
                        await self._conversation.close()
            group.cancel_scope.cancel()
        if error is not None:
            raise error
        await self._tell_failure(ended)
        return await to_thread.run_sync(self._outcome, ended)

    async def _work(self) -> _Ended:
        conversation = await self._open()
        if isinstance(conversation, _Ended):
            return conversation
        paths = evidence_paths(self._folder, self._task.evidence)
        text = first_prompt(self._task, paths, has_tools=self._has_tools)
        handing: Handing | None = None
        for number in range(1, MAX_PROMPTS + 1):
            turn_id = f"attempt-{self._task.attempt}-{number}"
            failed = await self._turn(conversation, text, turn_id) or await self._pass_on(conversation, turn_id)
            latest = await self._latest()
            if latest is not None and latest != handing and latest.is_final:
                return _Ended(source=SubmissionSource.STRUCTURED_OUTPUT)  # handed in by the agent itself
            if failed is not None:
                return failed
            found = self._found()
            if self._task.desk is None:
                return self._unchecked(found)
            if found is not None or latest is None or latest == handing:
                # Nothing handed in counts as a try too: what the agent said instead is kept with it.
                raw = found if found is not None else self._last_words().encode("utf-8", "surrogatepass")
                handing = await self._task.desk.hand_in(raw)
            else:
                handing = latest
            if handing.is_final:
                return _Ended(source=SubmissionSource.MESSAGE)
            if not conversation.is_open:
                return _Ended(FailureClass.CRASHED, "The agent's process ended before its result could be mended.")
            text = repair_prompt(handing, self._task, has_tools=self._has_tools)
        return _Ended(source=SubmissionSource.MESSAGE)

    # -- the conversation --------------------------------------------------------------------------------------

    async def _open(self) -> Conversation | _Ended:
        task, limits = self._task, self._harness.limits
        request = OpenRequest(
            directory=task.worktree,
            folder=task.folder,
            environment=task.environment,
            additions=task.additions,
            marker=task.marker,
            mcp_servers=[self._server()] if self._has_tools else [],
            permission=task.permission or (allow_reading if task.write_mode == "read_only" else allow),
            spending=self._spending,
            started=self._started,
            confinement=task.confinement,
            limits=replace(
                limits,
                silence_seconds=min(limits.silence_seconds, task.silence_seconds),
                turn_bytes=min(limits.turn_bytes, task.output_limit_bytes),
                stderr_bytes=min(limits.stderr_bytes, task.output_limit_bytes),
                grace_seconds=task.grace_seconds,
            ),
        )
        try:
            with self._opening:
                self._conversation = await self._harness.talker.open(request)
                return self._conversation
        except _SPAWN_ERRORS as error:
            return _Ended(FailureClass.SPAWN_FAILED, error.message, error.code)
        except HarnessProtocolBroken as error:
            return _Ended(FailureClass.PROTOCOL_BROKEN, error.message, error.code)
        except BridgeError as error:
            if error is self._sink_error:
                raise
            return _Ended(FailureClass.START_FAILED, error.message, error.code)
        return self._ending or _Ended(FailureClass.CANCELLED, "The task was cancelled.")

    async def _started(self, identity: ProcessIdentity) -> None:
        try:
            await self._sink.started(identity)
        except BaseException as error:
            # The harness's own errors are outcomes; what the sink raises is not.
            self._sink_error = error
            raise

    def _server(self) -> Mapping[str, Any]:
        command = self._task.mcp_command
        environment = self._task.mcp_environment
        return {
            "name": SERVER_NAME,
            "command": command[0],
            "args": list(command[1:]),
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }

    async def _pass_on(self, conversation: Conversation, turn_id: str) -> _Ended | None:
        """Tell the agent what was said to it meanwhile, a turn each; return how one failed, if it did."""
        number = 0
        while self._task.next_message is not None and conversation.is_open:
            message = await self._task.next_message()
            if message is None:
                return None
            number += 1
            failed = await self._turn(conversation, message, f"{turn_id}.{number}", is_message=True)
            if failed is not None:
                return failed
        return None

    async def _turn(
        self, conversation: Conversation, text: str, turn_id: str, *, is_message: bool = False
    ) -> _Ended | None:
        """Say something and take what comes; return how it failed, if it did.

        A message that somebody sent is recorded already, and a result that stood before it still counts.
        """
        if (ending := self._asked_to_end()) is not None:
            return ending
        if self._meter.is_exceeded:
            return self._exhausted()  # a result of the turn before would have stood
        self._fault = None
        if not is_message:
            self._said.clear()
            await self._sink.event(AdapterEvent("user.message", {"text": text, "author": "bridge", "turn_id": turn_id}))
        await self._sink.event(events.turn_started(turn_id, model=conversation.model))
        status, reason = "failed", "The agent ended the turn without saying how."
        if (ending := self._asked_to_end()) is not None:
            return ending  # what came just now found no turn to end
        async with aclosing(conversation.prompt(text, turn_id=turn_id)) as stream:
            async for event in stream:
                await self._sink.event(event)
                if event.kind == "assistant.message":
                    self._said.append(str(event.payload.get("text") or ""))
                elif event.kind == "usage.updated":
                    self._meter.turn_ended(event.payload["tokens"])
                elif event.kind == "error":
                    self._fault = event
                elif event.kind == "turn.completed":
                    status = str(event.payload.get("status"))
                    reason = str(event.payload.get("reason") or "")
        if status == "completed":
            return None
        return self._failed(status, reason)

    def _failed(self, status: str, reason: str) -> _Ended:
        if self._ending is not None:
            return self._ending
        if status == "cancelled":
            return _Ended(FailureClass.CANCELLED, reason or "The agent ended its turn as cancelled.")
        code = None if self._fault is None else self._fault.payload.get("code")
        known = {str(item) for item in FailureClass}
        failure = FailureClass(code) if code in known else FailureClass.AGENT_ERROR
        details = {} if self._fault is None else self._fault.payload.get("details") or {}
        resets_at = str(details["resets_at"]) if "resets_at" in details else None
        return _Ended(failure, reason or f"The agent's turn failed ({failure}).", resets_at=resets_at)

    # -- ends from this side -----------------------------------------------------------------------------------

    def _asked_to_end(self) -> _Ended | None:
        return self._ending

    async def _end_when_asked(self, cancel: anyio.Event) -> None:
        await cancel.wait()
        await self._end(_Ended(FailureClass.CANCELLED, "The task was cancelled."), is_polite=True)

    async def _end_in_time(self) -> None:
        seconds = self._task.timeout_seconds
        if seconds is None:
            return
        await anyio.sleep(seconds)
        text = f"The agent did not end within {seconds:g} seconds and was ended."
        await self._end(_Ended(FailureClass.TIMED_OUT, text), is_polite=False)

    def _spending(self, tokens: int) -> None:
        if self._meter.running(tokens):
            self._overspent.set()

    async def _end_when_spent(self) -> None:
        await self._overspent.wait()
        await self._end(self._exhausted(), is_polite=True)

    def _exhausted(self) -> _Ended:
        text = f"The agent used {self._meter.used} tokens, and had {self._meter.limit}. It was ended."
        return _Ended(FailureClass.TOKENS_EXHAUSTED, text)

    async def _end(self, why: _Ended, *, is_polite: bool) -> None:
        if self._ending is None:
            self._ending = why
        conversation = self._conversation
        if conversation is None:
            self._opening.cancel()
        elif is_polite and self._harness.capabilities.cancel:
            await conversation.cancel()
        else:
            await conversation.kill()

    # -- what it comes to --------------------------------------------------------------------------------------

    async def _latest(self) -> Handing | None:
        return None if self._task.desk is None else await self._task.desk.latest()

    def _found(self) -> bytes | None:
        """Return the result in what the agent said in its last turn; what it said last goes first."""
        return next((block for text in reversed(self._said) if (block := result_block(text)) is not None), None)

    def _last_words(self) -> str:
        return next((text for text in reversed(self._said) if text.strip()), "")

    def _unchecked(self, found: bytes | None) -> _Ended:
        if found is None:
            return _Ended(FailureClass.AGENT_ERROR, "The agent ended without a result.")
        return _Ended(submission=found, source=SubmissionSource.MESSAGE)

    async def _tell_failure(self, ended: _Ended) -> None:
        # A fault within a turn was an event of that turn already.
        if ended.failure is not None and self._conversation is None:
            await self._sink.event(events.fault(ended.detail, code=str(ended.failure)))

    def _outcome(self, ended: _Ended) -> Outcome:
        words = self._last_words()[-MAX_SUMMARY_CHARACTERS:]
        self._folder.stdout.write_text(self._last_words(), encoding="utf-8", errors="backslashreplace")
        submission = ended.submission
        if submission is None:
            # Stands only where nothing was handed in at the desk, which keeps what was.
            status = "cancelled" if ended.failure is FailureClass.CANCELLED else "failed"
            summary = "\n".join(part for part in (ended.detail, words) if part.strip())
            submission = canonical_bytes({"status": status, "summary": _plain(summary) or "The agent said nothing."})
        exited = None if self._conversation is None else self._conversation.ended
        return Outcome(
            submission=submission[: MAX_RESULT_BYTES + 1],
            source=ended.source,
            failure=ended.failure,
            detail=ended.detail,
            error_code=ended.error_code,
            exit_status=None if exited is None else exited.exit_status,
            signal=None if exited is None or ended.failure is None else exited.signal,
            output_bytes=0 if exited is None else exited.output_bytes,
            leftover_processes=0,
            survivors=() if exited is None else exited.left_behind.survivors,
            stdout_path=_present(self._folder.stdout),
            stderr_path=_present(self._folder.stderr),
            resets_at=ended.resets_at,
            tokens_used=self._meter.used,
        )


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().strip()


def _present(path: Path) -> Path:
    path.touch(mode=0o600, exist_ok=True)
    return path
