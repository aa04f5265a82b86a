"""From pi's messages to events worth recording. No I/O: messages in, events out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridge.adapters import events
from bridge.adapters.acp.assembling import MAX_MESSAGE_CHARACTERS, trimmed
from bridge.adapters.conversation import LiveKind, LiveText
from bridge.adapters.events import AdapterEvent

#: Tools of pi that read or write the file their ``path`` names.
_READING: Final = frozenset({"read", "grep", "find", "ls"})
_WRITING: Final = frozenset({"write", "edit"})
#: Messages that repeat what others say, or say nothing about the conversation.
_UNRECORDED: Final = frozenset(
    {
        "agent_start",
        "agent_end",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "tool_execution_update",
        "queue_update",
        "response",
        "session",
    }
)
_USAGE: Final = {
    "input": "input",
    "output": "output",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
    "totalTokens": "total",
}
_STOPS: Final = {"stop": "completed", "length": "completed", "toolUse": "completed", "aborted": "cancelled"}


@dataclass
class Reading:
    """What one turn came to so far.

    Parameters
    ----------
    turn_id
        Stands in every event.
    directory
        Paths below it are told relative to it.
    live
        Is shown text as it arrives.
    spending
        Is told what the turn used so far.
    """

    turn_id: str
    directory: Path
    live: Callable[[LiveText], None] | None = None
    spending: Callable[[int], None] | None = None
    #: Why the model stopped last, and the provider's words if it was an error.
    stop: str = ""
    error: str = ""
    _open: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _tokens: dict[str, int] = field(default_factory=dict)
    _cost: float = 0.0
    _model: str | None = None

    def take(self, message: Mapping[str, Any]) -> list[AdapterEvent]:
        """Return the events that a message completes."""
        kind = message.get("type")
        if kind == "message_update":
            self._show(message.get("assistantMessageEvent"))
        if kind == "message_end":
            return self._message(message.get("message"))
        if kind == "tool_execution_start":
            return self._tool_started(message)
        if kind == "tool_execution_end":
            return self._tool_ended(message)
        if kind in _UNRECORDED:
            return []
        return [events.unknown(str(kind)[:200] or "message", trimmed(dict(message)), turn_id=self.turn_id)]

    def outcome(self) -> tuple[str, str]:
        """Return how the turn ended, and why, as far as there is more to say."""
        if self.stop == "error":
            return "failed", f"The agent answered with an error: {self.error[:1000] or 'it gives none'}"
        return _STOPS.get(self.stop, "completed"), self.stop if self.stop == "length" else ""

    def finish(self, status: str) -> list[AdapterEvent]:
        """Return the end of what is still open, and the usage."""
        ended = "cancelled" if status == "cancelled" else "failed"
        found = [
            events.tool_completed(identity, _tool_name(call), status=ended, turn_id=self.turn_id)
            for identity, call in self._open.items()
        ]
        self._open.clear()
        if self._tokens:
            used = dict(events.usage(self._tokens, model=self._model, turn_id=self.turn_id).payload)
            if self._cost > 0:
                used["cost"] = {"amount": self._cost, "currency": "USD"}
            found.append(AdapterEvent("usage.updated", used))
        return found

    def _show(self, delta: Any) -> None:
        if self.live is None or not isinstance(delta, Mapping) or not isinstance(delta.get("delta"), str):
            return
        if delta.get("type") == "text_delta":
            self.live(LiveText(LiveKind.MESSAGE, delta["delta"]))
        elif delta.get("type") == "thinking_delta":
            self.live(LiveText(LiveKind.REASONING, delta["delta"]))

    def _message(self, found: Any) -> list[AdapterEvent]:
        if not isinstance(found, Mapping) or found.get("role") != "assistant":
            return []  # what the user said is known; what tools answered comes with the end of their call
        self.stop = str(found.get("stopReason") or "")
        self.error = str(found.get("errorMessage") or "")
        self._count(found)
        made = []
        content = found.get("content")
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, Mapping):
                continue
            text, thinking = block.get("text"), block.get("thinking")
            if block.get("type") == "text" and isinstance(text, str) and text.strip():
                made += [events.message(piece, turn_id=self.turn_id) for piece in _pieces(text)]
            elif block.get("type") == "thinking" and isinstance(thinking, str) and thinking.strip():
                made += [events.reasoning(piece, turn_id=self.turn_id) for piece in _pieces(thinking)]
        return made

    def _count(self, found: Mapping[str, Any]) -> None:
        if isinstance(found.get("model"), str) and found["model"]:
            self._model = found["model"]
        usage = found.get("usage")
        if not isinstance(usage, Mapping):
            return
        for theirs, ours in _USAGE.items():
            count = usage.get(theirs)
            if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
                self._tokens[ours] = self._tokens.get(ours, 0) + count
        if self.spending is not None:
            self.spending(events.tokens_of(self._tokens))
        cost = usage.get("cost")
        total = cost.get("total") if isinstance(cost, Mapping) else None
        if isinstance(total, (int, float)) and not isinstance(total, bool) and total > 0:
            self._cost += total

    def _tool_started(self, message: Mapping[str, Any]) -> list[AdapterEvent]:
        identity = _identity(message)
        self._open[identity] = message
        return [
            events.tool_started(
                identity, _tool_name(message), tool_input=trimmed(message.get("args")), turn_id=self.turn_id
            )
        ]

    def _tool_ended(self, message: Mapping[str, Any]) -> list[AdapterEvent]:
        identity = _identity(message)
        started = self._open.pop(identity, message)
        name, has_failed = _tool_name(message), message.get("isError") is True
        ended = events.tool_completed(
            identity,
            name,
            status="failed" if has_failed else "completed",
            tool_output=trimmed(_output(message.get("result"))),
            turn_id=self.turn_id,
        )
        path = self._path(started.get("args"))
        if path is None or has_failed:
            return [ended]
        where = {"paths_written": [path]} if name in _WRITING else {"paths_read": [path]} if name in _READING else {}
        return [AdapterEvent(ended.kind, {**ended.payload, **where})]

    def _path(self, arguments: Any) -> str | None:
        path = arguments.get("path") if isinstance(arguments, Mapping) else None
        if not isinstance(path, str) or not path:
            return None
        return path.removeprefix(str(self.directory).rstrip("/") + "/").removeprefix("./") or None


def _identity(message: Mapping[str, Any]) -> str:
    return str(message.get("toolCallId") or "unnamed")[:1024]


def _tool_name(message: Mapping[str, Any]) -> str:
    return str(message.get("toolName") or "tool")[:1024]


def _output(result: Any) -> Any:
    content = result.get("content") if isinstance(result, Mapping) else None
    if not isinstance(content, list):
        return result
    texts = [item["text"] for item in content if isinstance(item, Mapping) and isinstance(item.get("text"), str)]
    return "\n".join(texts)


def _pieces(text: str) -> list[str]:
    return [text[start : start + MAX_MESSAGE_CHARACTERS] for start in range(0, len(text), MAX_MESSAGE_CHARACTERS)]
