"""One session with an agent over the Agent Client Protocol: prompts in, events out, and an end in every case."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread

from bridge.adapters import events
from bridge.adapters.acp.assembling import Assembler
from bridge.adapters.acp.files import ConfinedFiles
from bridge.adapters.acp.requests import ClientSide, RequestRefused
from bridge.adapters.acp.terminals import Terminals
from bridge.adapters.acp.transport import BoundedTransport
from bridge.adapters.base import FailureClass
from bridge.adapters.conversation import OpenRequest
from bridge.adapters.errors import ConversationEnded
from bridge.adapters.events import AdapterEvent
from bridge.adapters.quotas import quota_of
from bridge.process.children import ChildExit, Piped
from bridge.process.talking import Lines

#: Events that may wait to be taken; beyond it the agent is not listened to until some are.
MAX_WAITING_EVENTS: Final = 1_000
#: Seconds between two looks at the limits while nothing happens.
CHECK_SECONDS: Final = 0.25
#: Seconds from SIGTERM to SIGKILL when somebody wants the agent dead.
KILL_GRACE_SECONDS: Final = 0.5
#: Seconds that an agent has to leave by itself once its input is closed.
LEAVE_SECONDS: Final = 1.0
#: Bytes of standard error that stand in an error.
LAST_WORDS_BYTES: Final = 1_000

_KILLED: Final = "The agent was killed."
_STATUSES: Final = {
    "end_turn": "completed",
    "max_tokens": "completed",
    "max_turn_requests": "completed",
    "refusal": "failed",
    "cancelled": "cancelled",
}


class AcpConversation:
    """See ``bridge.adapters.conversation.Conversation``. Made by ``AcpHarness.open``."""

    def __init__(self, request: OpenRequest, piped: Piped, *, stderr: Path, offers_terminals: bool) -> None:
        self._opening = request
        self._limits = request.limits
        self._child = piped.child
        self._stderr = stderr
        lines = Lines(piped, max_line_bytes=request.limits.message_bytes)
        self._lines = lines
        self._transport = BoundedTransport(
            lines, max_malformed=request.limits.malformed_messages, may_read=self._has_room
        )
        confinement = request.confinement
        # What Bridge writes for an agent is not confined by the kernel: it keeps to the same border by itself.
        places = {request.directory, request.directory.resolve()}
        is_writable = confinement is None or not places.isdisjoint(confinement.writable)
        files = ConfinedFiles(request.directory, is_writable=is_writable)
        self._terminals = Terminals(
            files,
            request.folder,
            request.environment,
            marker=request.marker,
            grace_seconds=request.limits.grace_seconds,
            confinement=request.confinement,
        )
        self._client = ClientSide(
            files,
            self._terminals if offers_terminals else None,
            request.permission,
            emit=self._emit,
            announce=self._announce,
        )
        self._connection: Any = None
        self._native_session_id = ""
        self._model: str | None = None
        self._context = request.context
        self._events: deque[AdapterEvent] = deque()
        self._signal = asyncio.Event()
        self._room = asyncio.Event()
        self._assembler: Assembler | None = None
        self._cancel_asked_at: float | None = None
        self._fault_details: dict[str, Any] = {}
        self._is_killed = False
        self._is_open = True
        self._is_closed = False

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def native_session_id(self) -> str:
        return self._native_session_id

    @property
    def model(self) -> str | None:
        return self._model

    @property
    def is_open(self) -> bool:
        return self._is_open and not self._transport.has_ended

    @property
    def ended(self) -> ChildExit | None:
        return self._child.exit

    def listen(self) -> None:
        """Begin to read what the agent says; the protocol's library must be imported by then."""
        from acp.connection import Connection

        self._connection = Connection(self._handle, self._transport)

    def enter(self, native_session_id: str, model: str | None) -> None:
        """Take note of the session that is open."""
        self._native_session_id, self._model = native_session_id, model

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send a request and return its result. Raises ConnectionError, or the library's RequestError."""
        return await self._connection.send_request(method, dict(params))

    # -- a turn ------------------------------------------------------------------------------------------------

    async def prompt(
        self, text: str, *, turn_id: str, notices: Sequence[str] = ()
    ) -> AsyncGenerator[AdapterEvent, None]:
        """Send a message and yield what happens; see ``bridge.adapters.conversation.Conversation``."""
        if not self.is_open:
            raise ConversationEnded("The agent's process has ended. Nothing was sent.")
        if self._assembler is not None:
            raise RuntimeError("a turn is running already")
        began = time.monotonic()
        self._begin(turn_id)
        blocks = [*([self._context] if self._context else []), *notices, text]
        self._context = None
        params = {
            "sessionId": self._native_session_id,
            "prompt": [{"type": "text", "text": block} for block in blocks],
        }
        answer = asyncio.ensure_future(self.request("session/prompt", params))
        answer.add_done_callback(lambda _: self._signal.set())
        is_over = False
        try:
            problem = None
            while not answer.done() and problem is None:
                while self._events:
                    yield self._taken()
                problem = None if answer.done() else await self._wait()
            status, reason, fault = await self._outcome(answer, problem)
            for event in self._last_events(answer, status):
                yield event
            if fault is not None:
                yield events.fault(reason, code=str(fault), turn_id=turn_id, details=self._fault_details)
            is_over = True
            self._assembler = None
            seconds = round(time.monotonic() - began, 3)
            yield events.turn_completed(turn_id, status=status, reason=reason or None, duration_seconds=seconds)
        finally:
            if not answer.done():
                answer.cancel()
            self._events.clear()
            self._room.set()
            if not is_over:
                # Somebody stopped listening in the middle: what the agent does now belongs to no turn.
                self._is_open = False
                self._assembler = None

    async def cancel(self) -> None:
        """Ask the agent to end the running turn."""
        if self._assembler is None or self._cancel_asked_at is not None:
            return
        self._cancel_asked_at = time.monotonic()
        self._client.cancel()
        try:
            await self._connection.send_notification("session/cancel", {"sessionId": self._native_session_id})
        except ConnectionError:
            self._signal.set()  # it is gone already, which the turn is about to notice

    async def kill(self) -> None:
        """End the agent's processes now."""
        self._is_killed = True
        self._is_open = False
        self._client.cancel()
        await self._child.cancel(KILL_GRACE_SECONDS)
        self._signal.set()

    async def close(self) -> None:
        """End the conversation and everything that was started for it."""
        if self._is_closed:
            return
        self._is_closed, self._is_open = True, False
        with anyio.CancelScope(shield=True):
            self._client.cancel()
            self._lines.close_input()
            await self._child.left_within(LEAVE_SECONDS)
            await self._child.cancel(self._limits.grace_seconds)
            if self._connection is not None:
                await self._connection.close()
            self._lines.close()
            await self._terminals.close()
            self._signal.set()

    async def why_it_ended(self) -> tuple[FailureClass, str]:
        """End the process if it still runs, and return why nothing more comes of it, in one sentence."""
        failure, detail = self._transport.failure, self._transport.detail
        if failure is FailureClass.CRASHED:
            await self._child.left_within(LEAVE_SECONDS)
        ended = await self._child.cancel(self._limits.grace_seconds)
        if failure is None:
            failure = FailureClass.CRASHED
        if failure is FailureClass.CRASHED:
            if ended.signal is not None:
                detail = f"The agent was ended by signal {ended.signal}."
            elif ended.exit_status is not None:
                detail = f"The agent ended with exit status {ended.exit_status}."
        return failure, detail

    async def last_words(self) -> dict[str, str]:
        """Return the end of what the agent wrote to standard error, for the details of an error."""
        text = await to_thread.run_sync(_tail, self._stderr)
        return {"stderr": text} if text else {}

    # -- inside a turn -----------------------------------------------------------------------------------------

    def _begin(self, turn_id: str) -> None:
        self._events.clear()
        self._assembler = Assembler(turn_id, self._opening.directory, self._opening.live, self._opening.spending)
        self._cancel_asked_at = None
        self._fault_details = {}
        self._client.begin(turn_id)
        self._transport.heard_at = time.monotonic()
        self._transport.received_bytes = 0
        self._transport.malformed.clear()

    def _taken(self) -> AdapterEvent:
        event = self._events.popleft()
        if len(self._events) < MAX_WAITING_EVENTS:
            self._room.set()
        return event

    async def _wait(self) -> tuple[FailureClass, str] | None:
        """Wait for something to happen; return what ends the turn from this side, if a limit is reached."""
        self._signal.clear()
        with anyio.move_on_after(CHECK_SECONDS):
            await self._signal.wait()
        now = time.monotonic()
        if self._client.waiting:
            self._transport.heard_at = now
        asked = self._cancel_asked_at
        if asked is not None and now - asked > self._limits.cancel_seconds:
            seconds = self._limits.cancel_seconds
            return FailureClass.CANCELLED, f"The agent did not heed the request to stop within {seconds:g} seconds."
        if self._child.has_ended and now - self._transport.heard_at > LEAVE_SECONDS:
            # What it started may hold the pipe open, but nobody speaks the protocol any more.
            return FailureClass.CRASHED, "The agent's process ended."
        if now - self._transport.heard_at > self._limits.silence_seconds:
            seconds = self._limits.silence_seconds
            return FailureClass.STALLED, f"The agent said nothing for {seconds:g} seconds and was ended."
        if self._transport.received_bytes > self._limits.turn_bytes:
            return FailureClass.OUTPUT_LIMIT, f"The agent sent more than {self._limits.turn_bytes} bytes in one turn."
        if self._child.exceeds_output():
            limit = self._limits.stderr_bytes
            return FailureClass.OUTPUT_LIMIT, f"The agent wrote more than {limit} bytes to standard error."
        return None

    async def _outcome(
        self, answer: asyncio.Future[Any], problem: tuple[FailureClass, str] | None
    ) -> tuple[str, str, FailureClass | None]:
        """Return how the turn ended: status, reason, and the typed cause if it did not end well."""
        from acp.exceptions import RequestError

        if problem is not None:
            self._is_open = False
            await self._child.cancel(self._limits.grace_seconds)
            if self._is_killed:
                # The end of its process may be noticed before that of its connection.
                return "cancelled", _KILLED, None
            failure, reason = problem
            if failure is FailureClass.CRASHED:
                failure, reason = await self.why_it_ended()
            is_cancel = failure is FailureClass.CANCELLED
            return ("cancelled", reason, None) if is_cancel else ("failed", reason, failure)
        error = answer.exception()
        if error is None:
            return self._answered(answer.result())
        if isinstance(error, RequestError):
            if self._cancel_asked_at is not None:
                return "cancelled", "", None
            quota = quota_of(error.code, error.data, now=datetime.now(UTC))
            if quota is not None:
                self._fault_details = {} if quota.resets_at is None else {"resets_at": quota.resets_at}
                return "failed", f"The quota is used up: {_error_text(error)}", FailureClass.QUOTA_EXHAUSTED
            return "failed", f"The agent answered with an error: {_error_text(error)}", FailureClass.AGENT_ERROR
        if not isinstance(error, ConnectionError):
            raise error
        self._is_open = False
        if self._is_killed:
            return "cancelled", _KILLED, None
        failure, reason = await self.why_it_ended()
        words = (await self.last_words()).get("stderr")
        if words and failure is FailureClass.CRASHED:
            reason += f" Its last words: {words.splitlines()[-1][:300]}"
        return ("cancelled" if self._cancel_asked_at is not None else "failed"), reason, failure

    def _answered(self, result: Any) -> tuple[str, str, FailureClass | None]:
        stop = result.get("stopReason") if isinstance(result, Mapping) else None
        if not isinstance(stop, str):
            return "failed", "The agent ended the turn without saying why.", FailureClass.PROTOCOL_BROKEN
        status = _STATUSES.get(stop, "completed")
        if self._cancel_asked_at is not None:
            status = "cancelled"
        return status, "" if stop in ("end_turn", "cancelled") else stop[:200], None

    def _last_events(self, answer: asyncio.Future[Any], status: str) -> list[AdapterEvent]:
        result = answer.result() if answer.done() and answer.exception() is None else None
        usage = _usage(result)
        found = [*self._events]
        self._events.clear()
        if self._assembler is not None:
            ended = "cancelled" if status == "cancelled" else "failed"
            found += self._assembler.finish(status=ended, usage=usage)
        turn_id = self._client.turn_id
        found += [events.unknown("malformed_message", line, turn_id=turn_id) for line in self._transport.malformed]
        self._transport.malformed.clear()
        return found

    # -- what the agent sends ----------------------------------------------------------------------------------

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:  # noqa: FBT001 - the library's signature
        from acp.exceptions import RequestError

        if is_notification:
            if method == "session/update":
                self._update(params)
            return None
        try:
            return await self._client.answer(method, params)
        except RequestRefused as error:
            raise RequestError(error.code, error.message, error.data) from error
        finally:
            self._transport.heard_at = time.monotonic()

    def _update(self, params: Any) -> None:
        if self._assembler is None or not isinstance(params, Mapping):
            return  # played back while a session is taken up, or after a turn: it belongs to none
        if params.get("sessionId") != self._native_session_id or not isinstance(params.get("update"), Mapping):
            return
        for event in self._assembler.take(params["update"]):
            self._emit(event)

    def _announce(self, tool_call: Mapping[str, Any]) -> None:
        if self._assembler is not None:
            for event in self._assembler.announce(tool_call):
                self._emit(event)

    def _emit(self, event: AdapterEvent) -> None:
        if self._assembler is None:
            return
        if event.kind == "approval.resolved" and str(event.payload.get("decision")).startswith("reject"):
            self._assembler.refused(str(event.payload.get("tool_call_id") or ""))
        self._events.append(event)
        self._signal.set()

    async def _has_room(self) -> None:
        while len(self._events) >= MAX_WAITING_EVENTS:
            self._room.clear()
            await self._room.wait()


def _error_text(error: Any) -> str:
    data = error.data
    detail = data.get("details") or data.get("message") if isinstance(data, Mapping) else data
    words = str(error)[:500]
    return f"{words} ({str(detail)[:500]})" if detail else words


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LAST_WORDS_BYTES))
            return file.read(LAST_WORDS_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""


def _usage(result: Any) -> Any:
    """Return what an answer to a prompt says of the tokens used, also where an agent says it beside the protocol."""
    found: Any = result.get("usage") if isinstance(result, Mapping) else None
    if found is not None:
        return found
    for key in ("_meta", "quota", "token_count"):
        result = result.get(key) if isinstance(result, Mapping) else None
    if not isinstance(result, Mapping):
        return None
    return {"inputTokens": result.get("input_tokens"), "outputTokens": result.get("output_tokens")}
