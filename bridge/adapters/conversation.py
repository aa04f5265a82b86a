"""What the controller asks of a harness that it talks to turn by turn, beside the task-shaped ``base.Harness``.

A conversation yields normalized events and knows neither what was recorded nor where. It never hangs: silence, a
crash and rubbish end a turn with a typed fault and a ``turn.completed``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from bridge.adapters.base import DEFAULT_SILENCE_SECONDS, Capabilities
from bridge.adapters.events import AdapterEvent
from bridge.adapters.permission import PermissionPolicy, refuse
from bridge.process.children import ChildExit
from bridge.process.confinement import Confinement
from bridge.process.groups import DEFAULT_GRACE_SECONDS
from bridge.process.identity import ProcessIdentity

#: Seconds that a harness has for each step of the greeting: the start, a new or resumed session.
DEFAULT_START_SECONDS = 120.0
#: Seconds from the request to end a turn to the end of the process that does not heed it.
DEFAULT_CANCEL_SECONDS = 15.0
#: Bytes of one message of the harness.
DEFAULT_MESSAGE_BYTES = 16 * 2**20
#: Bytes of all its messages in one turn.
DEFAULT_TURN_BYTES = 256 * 2**20
#: Bytes it may write to standard error.
DEFAULT_STDERR_BYTES = 16 * 2**20
#: Messages in one conversation that are no JSON objects, before it is given up; programs do print now and then.
DEFAULT_MALFORMED_MESSAGES = 16


class LiveKind(StrEnum):
    """What a passing text belongs to."""

    MESSAGE = "message"
    REASONING = "reasoning"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class LiveText:
    """A piece of text as it arrives, for whoever watches. Never recorded: the whole follows as an event."""

    kind: LiveKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how much; see the constants of this module."""

    silence_seconds: float = DEFAULT_SILENCE_SECONDS
    start_seconds: float = DEFAULT_START_SECONDS
    cancel_seconds: float = DEFAULT_CANCEL_SECONDS
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    message_bytes: int = DEFAULT_MESSAGE_BYTES
    turn_bytes: int = DEFAULT_TURN_BYTES
    stderr_bytes: int = DEFAULT_STDERR_BYTES
    malformed_messages: int = DEFAULT_MALFORMED_MESSAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """What a conversation is opened with.

    Parameters
    ----------
    directory
        Where the agent works; requests for files and terminals are confined to it.
    folder
        A private folder, outside ``directory``, for what the agent writes to standard error and its terminals' output.
    environment
        What the child inherits, before it is stripped (see ``child_environment``).
    additions
        Variables added for this child.
    marker
        Value of the variable that finds the agent's processes after a crash.
    context
        What the agent is to know of the conversation so far, handed over with the first prompt; None: nothing.
    native_session_id
        The harness's own session to take up again; then ``context`` is not needed.
    model
        Model asked for, by the harness's own name; None: its default.
    mcp_servers
        Servers the agent may use, in the form of the protocol.
    permission
        Decides what the agent may do where it asks.
    live
        Is shown text as it arrives.
    spending
        Is told, while a turn runs and as often as the harness says, how many tokens the turn used at least.
    started
        Is told of the process at once, before anything else; what it raises ends the child.
    confinement
        Where the agent's processes, and those that Bridge runs for it, may write; None: wherever this process may.
    """

    directory: Path
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    additions: Mapping[str, str] = field(default_factory=dict)
    marker: str | None = None
    context: str | None = None
    native_session_id: str | None = None
    model: str | None = None
    mcp_servers: Sequence[Mapping[str, Any]] = ()
    permission: PermissionPolicy = refuse
    live: Callable[[LiveText], None] | None = None
    spending: Callable[[int], None] | None = None
    started: Callable[[ProcessIdentity], Awaitable[None]] | None = None
    confinement: Confinement | None = None
    limits: Limits = field(default_factory=Limits)


class Conversation(Protocol):
    """One conversation with an agent, in a process of its own."""

    @property
    def native_session_id(self) -> str: ...

    @property
    def model(self) -> str | None:
        """The model in use, as far as the harness says."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether another prompt can be sent."""
        ...

    @property
    def ended(self) -> ChildExit | None:
        """How its process ended; None while it runs."""
        ...

    def prompt(self, text: str, *, turn_id: str, notices: Sequence[str] = ()) -> AsyncGenerator[AdapterEvent, None]:
        """Send a message and yield what happens until the turn is over; the last event is its ``turn.completed``.

        Parameters
        ----------
        text
            The message, as it is.
        turn_id
            Stands in every event.
        notices
            What the agent is told before the message: facts, never part of it.

        Raises
        ------
        ConversationEnded
            If it is not open any more; nothing was sent.
        """
        ...

    async def cancel(self) -> None:
        """Ask the agent to end the running turn; one that does not within ``cancel_seconds`` is ended."""
        ...

    async def kill(self) -> None:
        """End the agent's processes now; a running turn ends as cancelled."""
        ...

    async def close(self) -> None:
        """End the conversation and the agent's processes. Safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a harness says of itself once its program runs.

    Parameters
    ----------
    version
        As its program tells it; None if it does not.
    lacks
        What of ``config.HARNESS_CAPABILITIES`` the program itself cannot do.
    """

    version: str | None
    lacks: tuple[str, ...] = ()


class ConversationHarness(Protocol):
    """A program that can be talked to. The name is for display and never decides anything."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    async def introduce(self, request: OpenRequest) -> Introduction:
        """Start the program, ask what it is and can do, and end it; no session is made. Raises as :meth:`open`."""
        ...

    async def open(self, request: OpenRequest) -> Conversation:
        """Start the program and a session in it, or take one up again.

        Raises
        ------
        ProgramNotFound, ProgramNotExecutable, WorkingDirectoryMissing, SpawnFailed
            If it cannot be started.
        HarnessStartFailed, HarnessProtocolBroken, HarnessLoginNeeded
            If it does not come to a session; no process is left.
        NativeResumeFailed
            If the session named is not to be had. Nothing else is wrong: a new one may be opened.
        ModelNotOffered
            If the model is not one of those the harness offers.
        """
        ...
