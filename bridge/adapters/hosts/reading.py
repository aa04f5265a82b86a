"""Reading the events of the hosts. They differ in names and in what they leave out, which the table below says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from bridge.adapters.hosts.events import HostEvent, Moment, Source, ToolUse
from bridge.semantics.ownwords import without_notes

#: Longest id, in characters; a longer one is no id.
MAX_ID_CHARACTERS: Final = 200
#: Longest duration of a call that is believed, in milliseconds (a year).
MAX_MILLISECONDS: Final = 366 * 24 * 3600 * 1000
#: Paths that one call is taken to name.
MAX_PATHS: Final = 200
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Host:
    """What is particular about a host.

    Parameters
    ----------
    moments
        By the host's name of an event.
    prompt, answer
        Where a prompt, and the last message of a turn, stand.
    writers, readers
        Names of the tools that change the files they name, and that read them.
    """

    name: str
    moments: Mapping[str, Moment]
    prompt: str = "prompt"
    answer: str = "last_assistant_message"
    writers: frozenset[str] = frozenset()
    readers: frozenset[str] = frozenset()


_COMMON: Final = {
    "SessionStart": Moment.SESSION_STARTED,
    "UserPromptSubmit": Moment.PROMPT,
    "PreToolUse": Moment.TOOL_STARTED,
    "PostToolUse": Moment.TOOL_COMPLETED,
    "Stop": Moment.TURN_ENDED,
    "SubagentStart": Moment.SUBAGENT_STARTED,
    "SubagentStop": Moment.SUBAGENT_ENDED,
    "PreCompact": Moment.COMPACTING,
    "PostCompact": Moment.COMPACTED,
}

HOSTS: Final[Mapping[str, Host]] = MappingProxyType(
    {
        host.name: host
        for host in (
            Host(
                "claude-code",
                {
                    **_COMMON,
                    "PostToolUseFailure": Moment.TOOL_COMPLETED,
                    "StopFailure": Moment.TURN_ENDED,
                    "SessionEnd": Moment.SESSION_ENDED,
                },
                writers=frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"}),
                readers=frozenset({"Read", "NotebookRead"}),
            ),
            Host(
                "codex",
                {**_COMMON, "SessionEnd": Moment.SESSION_ENDED},
                readers=frozenset({"view_image"}),
            ),
            Host(
                "gemini",
                {
                    "SessionStart": Moment.SESSION_STARTED,
                    "BeforeAgent": Moment.PROMPT,
                    "BeforeTool": Moment.TOOL_STARTED,
                    "AfterTool": Moment.TOOL_COMPLETED,
                    "AfterAgent": Moment.TURN_ENDED,
                    "SessionEnd": Moment.SESSION_ENDED,
                },
                answer="prompt_response",
                writers=frozenset({"replace", "write_file"}),
                readers=frozenset({"read_file"}),
            ),
        )
    }
)
_PATH_FIELDS: Final = ("file_path", "notebook_path", "absolute_path", "path")


def read_event(host_name: str, raw: Mapping[str, Any]) -> HostEvent | None:
    """Return what an event says; None for an event that Bridge has no word for, or that names no session.

    Nothing in it is trusted: a field of another type than it should have counts as absent.
    """
    host = HOSTS.get(host_name)
    name = _text(raw.get("hook_event_name"))
    session = _identity(raw.get("session_id"))
    if host is None or name is None or session is None or name not in host.moments:
        return None
    moment = host.moments[name]
    return HostEvent(
        host=host.name,
        name=name,
        moment=moment,
        session=session,
        directory=_text(raw.get("cwd")),
        transcript=_text(raw.get("transcript_path")),
        source=_source(raw.get("source")) if moment is Moment.SESSION_STARTED else None,
        turn=_identity(raw.get("prompt_id")) or _identity(raw.get("turn_id")),
        model=_identity(raw.get("model")),
        text=_words(host, moment, raw),
        tool=_tool(host, name, raw) if moment in {Moment.TOOL_STARTED, Moment.TOOL_COMPLETED} else None,
        subagent=_identity(raw.get("agent_id")),
        subagent_role=_identity(raw.get("agent_type")),
        subagent_transcript=_text(raw.get("agent_transcript_path")),
    )


def _words(host: Host, moment: Moment, raw: Mapping[str, Any]) -> str | None:
    if moment is Moment.PROMPT:
        prompt = _text(raw.get(host.prompt))
        return None if prompt is None else without_notes(prompt)
    if moment in {Moment.TURN_ENDED, Moment.SUBAGENT_ENDED}:
        return _text(raw.get(host.answer))
    if moment in {Moment.COMPACTING, Moment.COMPACTED}:
        return _text(raw.get("trigger"))
    return _text(raw.get("reason"))


def _tool(host: Host, event: str, raw: Mapping[str, Any]) -> ToolUse | None:
    name = _identity(raw.get("tool_name"))
    if name is None:
        return None
    given, output = raw.get("tool_input"), raw.get("tool_response")
    read, written = _paths(host, name, given)
    duration = raw.get("duration_ms")
    if not isinstance(duration, (int, float)) or isinstance(duration, bool) or not 0 <= duration < MAX_MILLISECONDS:
        duration = None
    return ToolUse(
        name=name,
        call_id=_identity(raw.get("tool_use_id")),
        input=given,
        output=raw.get("error") if output is None else output,
        status="failed" if event.endswith("Failure") or _is_error(output) else "completed",
        duration_seconds=None if duration is None else duration / 1000,
        paths_read=read,
        paths_written=written,
    )


def _paths(host: Host, name: str, given: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that a call reads and writes, as far as its input names them."""
    if not isinstance(given, dict):
        return (), _patched(given)
    named = tuple(path for field in _PATH_FIELDS if (path := _text(given.get(field))))[:1]
    if name in host.writers:
        return (), named
    if name in host.readers:
        return named, ()
    # A patch is given to a tool of its own, or through the shell.
    return (), _patched(given.get("command")) or _patched(given.get("input"))


def _patched(text: Any) -> tuple[str, ...]:
    if isinstance(text, list):
        text = "\n".join(part for part in text if isinstance(part, str))
    if not isinstance(text, str) or "*** Begin Patch" not in text:
        return ()
    found = (match[1] or match[2] for match in _PATCHED.finditer(text))
    return tuple(dict.fromkeys(path.strip() for path in found))[:MAX_PATHS]


def _is_error(output: Any) -> bool:
    return isinstance(output, dict) and bool(output.get("error") or output.get("is_error"))


def _source(value: Any) -> Source:
    try:
        return Source(value)
    except ValueError:
        return Source.STARTUP


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _identity(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARACTERS else None


_VERSIONS: Final = {
    "claude-code": re.compile(rb'"version":\s*"([0-9A-Za-z.+-]{1,40})"'),
    "codex": re.compile(rb'"cli_version":\s*"([0-9A-Za-z.+-]{1,40})"'),
}


def read_version(host_name: str, head: bytes) -> str | None:
    """Return the version that the beginning of a host's own record names; None where it names none."""
    pattern = _VERSIONS.get(host_name)
    found = None if pattern is None else pattern.search(head)
    return None if found is None else found[1].decode("ascii")
