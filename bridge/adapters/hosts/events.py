"""What a hook of a host reports, in one vocabulary. Which host it was is display from here on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Moment(StrEnum):
    """When in a conversation a hook was called."""

    SESSION_STARTED = "session_started"
    PROMPT = "prompt"
    TOOL_STARTED = "tool_started"
    TOOL_COMPLETED = "tool_completed"
    TURN_ENDED = "turn_ended"
    SUBAGENT_STARTED = "subagent_started"
    SUBAGENT_ENDED = "subagent_ended"
    COMPACTING = "compacting"
    COMPACTED = "compacted"
    SESSION_ENDED = "session_ended"


class Source(StrEnum):
    """How a session came to start."""

    STARTUP = "startup"
    RESUME = "resume"
    CLEAR = "clear"
    COMPACT = "compact"
    FORK = "fork"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """A call of a tool, before or after it.

    Parameters
    ----------
    call_id
        The host's id; None where it has none.
    status
        After it: completed or failed.
    paths_read, paths_written
        Files that the input names.
    """

    name: str
    call_id: str | None = None
    input: Any = None
    output: Any = None
    status: str | None = None
    duration_seconds: float | None = None
    paths_read: tuple[str, ...] = ()
    paths_written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    """One event of a host.

    Parameters
    ----------
    host
        The host's name, as the harness of a session bears it.
    name
        The host's own name of the event.
    session
        The host's id of the session.
    directory
        Where the agent works.
    transcript
        The host's own record; None where it says none.
    text
        The prompt without Bridge's own words, the last message of a turn, or why a session ended.
    subagent
        The host's id of the sub-agent that this is about; None for the session's own agent.
    """

    host: str
    name: str
    moment: Moment
    session: str
    directory: str | None = None
    transcript: str | None = None
    source: Source | None = None
    turn: str | None = None
    model: str | None = None
    text: str | None = None
    tool: ToolUse | None = None
    subagent: str | None = None
    subagent_role: str | None = None
    subagent_transcript: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
