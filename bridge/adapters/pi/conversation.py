"""One session with pi: prompts in, events out, and an end in every case."""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread

from bridge.adapters import events
from bridge.adapters.asking import Asking
from bridge.adapters.base import FailureClass
from bridge.adapters.conversation import OpenRequest
from bridge.adapters.errors import ConversationEnded
from bridge.adapters.events import AdapterEvent
from bridge.adapters.permission import PermissionOption, PermissionRequest
from bridge.adapters.pi.reading import Reading
from bridge.process.children import ChildExit, Piped
from bridge.process.talking import Lines, LineTooLong

#: Seconds between two looks at the limits while nothing comes.
CHECK_SECONDS: Final = 0.25
#: Seconds from SIGTERM to SIGKILL when somebody wants the agent dead.
KILL_GRACE_SECONDS: Final = 0.5
#: Seconds that the agent has to leave by itself once its input is closed.
LEAVE_SECONDS: Final = 1.0
#: Characters kept of a line that is no message.
MAX_MALFORMED_SHOWN: Final = 500
#: Bytes of standard error that stand in an error.
LAST_WORDS_BYTES: Final = 1_000
#: Answers that an extension may offer, and characters of each.
MAX_OPTIONS: Final = 20
MAX_OPTION_TEXT: Final = 300


class Gone(Exception):
    """Raised when nothing more comes of the agent: a typed cause and a sentence."""

    def __init__(self, failure: FailureClass, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail


class PiConversation:
    """See ``bridge.adapters.conversation.Conversation``. Made by ``PiHarness.open``."""

    def __init__(self, request: OpenRequest, piped: Piped, *, stderr: Path) -> None:
        self._opening = request
        self._limits = request.limits
        self._child = piped.child
        self._stderr = stderr
        self._lines = Lines(piped, max_line_bytes=request.limits.message_bytes)
        self._events: deque[AdapterEvent] = deque()
        self._asking = Asking(request.permission, self._events.append)
        self._numbers = itertools.count(1)
        self._context = request.context
        self._native_session_id = ""
        self._model: str | None = None
        self._malformed: list[str] = []
        self._heard_at = time.monotonic()
        self._received_bytes = 0
        self._cancel_asked_at: float | None = None
        self._is_running = False
        self._is_killed = False
        self._is_open = True
        self._is_closed = False

    @property
    def native_session_id(self) -> str:
        return self._native_session_id

    @property
    def model(self) -> str | None:
        return self._model

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def ended(self) -> ChildExit | None:
        return self._child.exit

    def enter(self, native_session_id: str, model: str | None) -> None:
        """Take note of the session that is open."""
        self._native_session_id, self._model = native_session_id, model

    async def command(self, kind: str, **fields: Any) -> Mapping[str, Any]:
        """Send a command between turns and return the response to it. Raises Gone."""
        identity = await self._send(kind, **fields)
        while True:
            message = await self._receive()
            if message.get("type") == "response" and message.get("id") == identity:
                return message

    # -- a turn ------------------------------------------------------------------------------------------------

    async def prompt(
        self, text: str, *, turn_id: str, notices: Sequence[str] = ()
    ) -> AsyncGenerator[AdapterEvent, None]:
        """Send a message and yield what happens; see ``bridge.adapters.conversation.Conversation``."""
        if not self._is_open:
            raise ConversationEnded("The agent's process has ended. Nothing was sent.")
        if self._is_running:
            raise RuntimeError("a turn is running already")
        began = time.monotonic()
        self._begin(turn_id)
        reading = Reading(turn_id, self._opening.directory, self._opening.live, self._opening.spending)
        is_over = False
        try:
            turn = _Turn(self, reading)
            parts = [*([self._context] if self._context else []), *notices, text]
            self._context = None
            fault: FailureClass | None = None
            try:
                await turn.begin("\n\n".join(parts))
                while not turn.is_over:
                    for event in await turn.step():
                        yield event
                status, reason, fault = turn.outcome(is_cancelled=self._cancel_asked_at is not None)
            except Gone as gone:
                status, reason, fault = await self._ended(gone)
            for event in self._last_events(reading, status):
                yield event
            if fault is not None:
                yield events.fault(reason, code=str(fault), turn_id=turn_id)
            is_over, self._is_running = True, False
            seconds = round(time.monotonic() - began, 3)
            yield events.turn_completed(turn_id, status=status, reason=reason or None, duration_seconds=seconds)
        finally:
            self._is_running = False
            if not is_over:
                # Somebody stopped listening in the middle: what the agent does now belongs to no turn.
                self._is_open = False

    async def cancel(self) -> None:
        """Ask the agent to end the running turn."""
        if not self._is_running or self._cancel_asked_at is not None:
            return
        self._cancel_asked_at = time.monotonic()
        self._asking.cancelled.set()
        try:
            await self._send("abort")
        except Gone:
            return  # which the turn is about to notice

    async def kill(self) -> None:
        """End the agent's processes now."""
        self._is_killed, self._is_open = True, False
        self._asking.cancelled.set()
        await self._child.cancel(KILL_GRACE_SECONDS)

    async def close(self) -> None:
        """End the conversation and everything that was started for it."""
        if self._is_closed:
            return
        self._is_closed, self._is_open = True, False
        with anyio.CancelScope(shield=True):
            self._asking.cancelled.set()
            self._lines.close_input()
            await self._child.left_within(LEAVE_SECONDS)
            await self._child.cancel(self._limits.grace_seconds)
            self._lines.close()

    async def why_it_ended(self, gone: Gone) -> Gone:
        """End the process if it still runs, and return why nothing more comes of it."""
        self._is_open = False
        if gone.failure is FailureClass.CRASHED:
            await self._child.left_within(LEAVE_SECONDS)
        ended = await self._child.cancel(self._limits.grace_seconds)
        if gone.failure is not FailureClass.CRASHED:
            return gone
        if ended.signal is not None:
            return Gone(gone.failure, f"The agent was ended by signal {ended.signal}.")
        if ended.exit_status is not None:
            return Gone(gone.failure, f"The agent ended with exit status {ended.exit_status}.")
        return gone

    async def last_words(self) -> str:
        """Return the end of what the agent wrote to standard error."""
        return await to_thread.run_sync(_tail, self._stderr)

    # -- messages ----------------------------------------------------------------------------------------------

    def _begin(self, turn_id: str) -> None:
        self._is_running = True
        self._events.clear()
        self._cancel_asked_at = None
        self._asking.turn_id, self._asking.cancelled = turn_id, anyio.Event()
        self._heard_at = time.monotonic()
        self._received_bytes = 0
        self._malformed.clear()

    async def _send(self, kind: str, **fields: Any) -> str:
        identity = f"bridge-{next(self._numbers)}"
        await self.send({"id": identity, "type": kind, **fields})
        return identity

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message as it is. Raises Gone."""
        try:
            await self._lines.send(json.dumps(message, separators=(",", ":")).encode())
        except BrokenPipeError as error:
            raise Gone(FailureClass.CRASHED, "The agent does not read any more.") from error

    async def _receive(self) -> Mapping[str, Any]:
        """Return the next message. Raises Gone."""
        while True:
            try:
                line = await self._lines.receive()
            except LineTooLong as error:
                text = "The agent sent a message above the limit."
                raise Gone(FailureClass.PROTOCOL_BROKEN, text) from error
            if line is None:
                raise Gone(FailureClass.CRASHED, "The agent closed its output.")
            self._heard_at = time.monotonic()
            self._received_bytes += len(line)
            message = _message(line)
            if message is not None:
                return message
            if line.strip():
                self._malformed.append(line[:MAX_MALFORMED_SHOWN].decode("utf-8", "backslashreplace"))
            if len(self._malformed) > self._limits.malformed_messages:
                text = f"The agent sent {len(self._malformed)} lines that are no messages of the protocol."
                raise Gone(FailureClass.PROTOCOL_BROKEN, text)

    async def receive_within_limits(self) -> Mapping[str, Any]:
        """Return the next message of a turn. Raises Gone, also when a limit is reached."""
        while True:
            message: Mapping[str, Any] | None = None
            with anyio.move_on_after(CHECK_SECONDS):
                message = await self._receive()
            self._check_limits()
            if message is not None:
                return message

    def _check_limits(self) -> None:
        now, limits = time.monotonic(), self._limits
        asked = self._cancel_asked_at
        if asked is not None and now - asked > limits.cancel_seconds:
            seconds = limits.cancel_seconds
            text = f"The agent did not heed the request to stop within {seconds:g} seconds."
            raise Gone(FailureClass.CANCELLED, text)
        if self._child.has_ended and now - self._heard_at > LEAVE_SECONDS:
            # What it started may hold the pipe open, but nobody speaks the protocol any more.
            raise Gone(FailureClass.CRASHED, "The agent's process ended.")
        if now - self._heard_at > limits.silence_seconds:
            text = f"The agent said nothing for {limits.silence_seconds:g} seconds and was ended."
            raise Gone(FailureClass.STALLED, text)
        if self._received_bytes > limits.turn_bytes:
            text = f"The agent sent more than {limits.turn_bytes} bytes in one turn."
            raise Gone(FailureClass.OUTPUT_LIMIT, text)
        if self._child.exceeds_output():
            text = f"The agent wrote more than {limits.stderr_bytes} bytes to standard error."
            raise Gone(FailureClass.OUTPUT_LIMIT, text)

    async def _ended(self, gone: Gone) -> tuple[str, str, FailureClass | None]:
        if self._is_killed:
            return "cancelled", "The agent was killed.", None
        gone = await self.why_it_ended(gone)
        if gone.failure is FailureClass.CANCELLED:
            return "cancelled", gone.detail, None
        words, reason = await self.last_words(), gone.detail
        if words and gone.failure is FailureClass.CRASHED:
            reason += f" Its last words: {words.splitlines()[-1][:300]}"
        return "failed" if self._cancel_asked_at is None else "cancelled", reason, gone.failure

    def _last_events(self, reading: Reading, status: str) -> list[AdapterEvent]:
        found = [*self.taken(), *reading.finish(status)]
        found += [events.unknown("malformed_message", line, turn_id=reading.turn_id) for line in self._malformed]
        self._malformed.clear()
        return found

    def taken(self) -> list[AdapterEvent]:
        """Return the events that asking made since the last look."""
        found = list(self._events)
        self._events.clear()
        return found

    async def answer(self, asked: Mapping[str, Any]) -> None:
        """Answer what an extension asks; what wants no answer gets none. Raises Gone."""
        method = asked.get("method")
        answer: dict[str, Any] = {"cancelled": True}
        if method not in ("select", "confirm", "input", "editor"):
            return
        request = _question(asked)
        if request is not None:
            decided = await self._asking.decide(request)
            self._heard_at = time.monotonic()
            if decided.option_id is not None and method == "confirm":
                answer = {"confirmed": decided.option_id == "yes"}
            elif decided.option_id is not None:
                answer = {"value": request.options[int(decided.option_id)].name}
        await self.send({"type": "extension_ui_response", "id": asked.get("id"), **answer})


class _Turn:
    """One prompt until the agent rests: also over retries and compactions of its own."""

    def __init__(self, conversation: PiConversation, reading: Reading) -> None:
        self._conversation = conversation
        self._reading = reading
        self._numbers = itertools.count(1)
        self._asked: str | None = None
        self._is_retrying = False
        self._refusal: str | None = None
        self.is_over = False

    async def begin(self, text: str) -> None:
        await self._conversation.send({"id": "prompt", "type": "prompt", "message": text})

    async def step(self) -> list[AdapterEvent]:
        """Take the next message and return the events it completes."""
        message = await self._conversation.receive_within_limits()
        kind = message.get("type")
        if kind == "extension_ui_request":
            await self._conversation.answer(message)
            return self._conversation.taken()
        if kind == "response":
            self._responded(message)
        elif kind == "auto_retry_start":
            self._is_retrying = True
        elif kind in ("agent_start", "auto_retry_end"):
            self._is_retrying = False
        if kind in ("agent_end", "auto_retry_end", "compaction_end"):
            # It may go on by itself, which shows before the answer to this.
            self._asked = f"state-{next(self._numbers)}"
            await self._conversation.send({"id": self._asked, "type": "get_state"})
        return self._reading.take(message)

    def outcome(self, *, is_cancelled: bool) -> tuple[str, str, FailureClass | None]:
        """Return how the turn ended: status, reason, and the typed cause if it did not end well."""
        if self._refusal is not None:
            return "failed", self._refusal, FailureClass.AGENT_ERROR
        status, reason = self._reading.outcome()
        if is_cancelled:
            return "cancelled", "", None
        return status, reason, FailureClass.AGENT_ERROR if status == "failed" else None

    def _responded(self, message: Mapping[str, Any]) -> None:
        identity = message.get("id")
        if identity == "prompt" and message.get("success") is not True:
            self._refusal = f"The agent answered with an error: {str(message.get('error'))[:1000]}"
            self.is_over = True
        elif identity is not None and identity == self._asked:
            data = message.get("data")
            state = data if isinstance(data, Mapping) else {}
            is_busy = state.get("isStreaming") is True or state.get("isCompacting") is True
            self.is_over = not is_busy and not self._is_retrying


def _message(line: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) and isinstance(value.get("type"), str) else None


def _question(asked: Mapping[str, Any]) -> PermissionRequest | None:
    """Return what an extension asks as a question with answers to choose from; None if it wants a text."""
    title = str(asked.get("title") or "a question of an extension")[:MAX_OPTION_TEXT]
    if asked.get("method") == "confirm":
        options = (PermissionOption("yes", "Yes", "allow_once"), PermissionOption("no", "No", "reject_once"))
        return PermissionRequest(title, "confirm", "", options, {"message": str(asked.get("message") or "")[:1000]})
    found = asked.get("options")
    names = [str(item) for item in found[:MAX_OPTIONS]] if isinstance(found, list) else []
    if asked.get("method") != "select" or not names:
        return None
    return PermissionRequest(
        title, "select", "", tuple(PermissionOption(str(number), name, "other") for number, name in enumerate(names))
    )


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LAST_WORDS_BYTES))
            return file.read(LAST_WORDS_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
