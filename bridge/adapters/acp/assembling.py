"""From the updates of a session to events worth recording. No I/O: updates in, events out.

Text arrives in pieces and is put together until something else begins. A tool call is told once when it starts, with
its input, and once when it has ended. Agents are taken as they are: a missing or odd field is left out, an update
that nobody knows is kept as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridge.adapters import events
from bridge.adapters.conversation import LiveKind, LiveText
from bridge.adapters.events import AdapterEvent

#: Characters of one recorded message; a longer one is recorded in several.
MAX_MESSAGE_CHARACTERS: Final = 1_000_000
#: Characters of one text in a tool's input or output; what is longer is cut, and says so.
MAX_TOOL_TEXT: Final = 200_000
#: Items of one list or object in a tool's input or output, and levels of them.
MAX_TOOL_ITEMS: Final = 2_000
MAX_TOOL_DEPTH: Final = 24
#: Characters of a title or a name.
MAX_NAME: Final = 1_000
#: Tool calls that may be open at once; beyond it the end of the oldest is not waited for any more.
MAX_OPEN_CALLS: Final = 1_000

_READING: Final = frozenset({"read", "search"})
_WRITING: Final = frozenset({"edit", "delete", "move"})
_ENDED: Final = {"completed": "completed", "failed": "failed"}
_STEP_STATES: Final = frozenset({"pending", "in_progress", "completed", "cancelled"})
_PRIORITIES: Final = frozenset({"high", "medium", "low"})
#: State of the agent's own surface, which says nothing about the conversation.
_UNRECORDED: Final = frozenset(
    {
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "user_message_chunk",
    }
)
_USAGE_NAMES: Final = {
    "inputTokens": "input",
    "outputTokens": "output",
    "thoughtTokens": "reasoning",
    "cachedReadTokens": "cache_read",
    "cachedWriteTokens": "cache_write",
    "totalTokens": "total",
}


@dataclass
class _Call:
    id: str
    title: str = ""
    kind: str = ""
    name: str = ""
    status: str = "pending"
    input: Any = None
    output: Any = None
    content: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    has_started: bool = False


class Assembler:
    """Puts the events of one turn together.

    Parameters
    ----------
    turn_id
        Stands in every event.
    directory
        Paths below it are told relative to it.
    live
        Is shown text as it arrives.
    spending
        Is told of the tokens that the agent has in its window: the turn used as many at least.
    """

    def __init__(
        self,
        turn_id: str,
        directory: Path,
        live: Callable[[LiveText], None] | None = None,
        spending: Callable[[int], None] | None = None,
    ) -> None:
        self._turn_id = turn_id
        self._directory = str(directory).rstrip("/") + "/"
        self._live = live
        self._spending = spending
        self._text: list[str] = []
        self._text_length = 0
        self._text_kind: LiveKind | None = None
        self._message_id: str | None = None
        self._calls: dict[str, _Call] = {}
        self._usage: dict[str, Any] = {}
        self._refused: set[str] = set()

    def take(self, update: Mapping[str, Any]) -> list[AdapterEvent]:
        """Return the events that an update completes."""
        kind = update.get("sessionUpdate")
        if kind == "agent_message_chunk":
            return self._chunk(LiveKind.MESSAGE, update)
        if kind == "agent_thought_chunk":
            return self._chunk(LiveKind.REASONING, update)
        if kind in ("tool_call", "tool_call_update"):
            return self._tool(update)
        if kind == "plan":
            return [*self.flush_text(), *self._plan(update)]
        if kind == "usage_update":
            self._window(update)
            return []
        if kind in _UNRECORDED:
            return []
        raw = trimmed(dict(update))
        return [events.unknown(_name(kind) or "session_update", raw, turn_id=self._turn_id)]

    def flush_text(self) -> list[AdapterEvent]:
        """Return the message or reasoning that was being put together, if there is one."""
        text, kind = "".join(self._text), self._text_kind
        self._text, self._text_length, self._text_kind, self._message_id = [], 0, None, None
        if not text.strip():
            return []
        if kind is LiveKind.REASONING:
            return [events.reasoning(text, turn_id=self._turn_id)]
        return [events.message(text, turn_id=self._turn_id)]

    def announce(self, tool_call: Mapping[str, Any]) -> list[AdapterEvent]:
        """Return what has to be told before somebody is asked about a call: the text so far, and the call itself."""
        call = self._merged(tool_call)
        if call is None:
            return self.flush_text()
        return [*self.flush_text(), *self._start(call)]

    def refused(self, tool_call_id: str) -> None:
        """Take note that a call was not allowed: if it fails now, it was denied."""
        if len(self._refused) < MAX_OPEN_CALLS:
            self._refused.add(tool_call_id)

    def finish(self, *, status: str, usage: Any = None) -> list[AdapterEvent]:
        """Return what is left when the turn is over: text, calls that never ended (as ``status``), usage."""
        found = self.flush_text()
        for call in [*self._calls.values()]:
            found += [*self._start(call), self._end(call, status)]
        return [*found, *self._used(usage)]

    # -- text --------------------------------------------------------------------------------------------------

    def _chunk(self, kind: LiveKind, update: Mapping[str, Any]) -> list[AdapterEvent]:
        content = update.get("content")
        message_id = update.get("messageId")
        found: list[AdapterEvent] = []
        other = message_id is not None and self._message_id is not None and message_id != self._message_id
        if self._text_kind is not None and (self._text_kind is not kind or other):
            found += self.flush_text()
        if not isinstance(content, Mapping):
            return found
        text = content.get("text") if content.get("type") == "text" else None
        if not isinstance(text, str):
            raw = {"type": content.get("type"), "mimeType": content.get("mimeType"), "uri": content.get("uri")}
            return [*found, *self.flush_text(), events.unknown("content_block", trimmed(raw), turn_id=self._turn_id)]
        if self._text_length + len(text) > MAX_MESSAGE_CHARACTERS:
            found += self.flush_text()
        self._text_kind = kind
        self._message_id = message_id if isinstance(message_id, str) else self._message_id
        for piece in _pieces(text):
            if self._text_length + len(piece) > MAX_MESSAGE_CHARACTERS:
                found += self.flush_text()
                self._text_kind = kind
            self._text.append(piece)
            self._text_length += len(piece)
        if self._live is not None and text:
            self._live(LiveText(kind, text))
        return found

    # -- tools -------------------------------------------------------------------------------------------------

    def _tool(self, update: Mapping[str, Any]) -> list[AdapterEvent]:
        call = self._merged(update)
        if call is None:
            return [events.unknown("tool_call", trimmed(dict(update)), turn_id=self._turn_id)]
        found: list[AdapterEvent] = []
        ended = _ENDED.get(call.status)
        # Agents announce a call before they know its input; it is worth recording once that is known.
        if ended is not None or call.status == "in_progress" or call.input not in (None, {}, ""):
            found += [] if call.has_started else [*self.flush_text(), *self._start(call)]
        if ended is not None:
            found.append(self._end(call, ended))
        return found

    def _merged(self, update: Mapping[str, Any]) -> _Call | None:
        identity = update.get("toolCallId")
        if not isinstance(identity, str) or not identity:
            return None
        call = self._calls.get(identity)
        if call is None:
            if len(self._calls) >= MAX_OPEN_CALLS:
                self._calls.pop(next(iter(self._calls)))
            call = self._calls[identity] = _Call(identity)
        call.title = _name(update.get("title")) or call.title
        call.kind = _name(update.get("kind")) or call.kind
        call.status = _name(update.get("status")) or call.status
        call.name = _tool_name(update) or call.name
        for name, key in (("input", "rawInput"), ("output", "rawOutput")):
            if update.get(key) is not None:
                setattr(call, name, trimmed(update[key]))
        if isinstance(update.get("content"), list):
            call.content = update["content"]
        locations = update.get("locations")
        if isinstance(locations, list):
            call.paths = [item["path"] for item in locations if _has_path(item)]
        return call

    def _start(self, call: _Call) -> list[AdapterEvent]:
        if call.has_started:
            return []
        call.has_started = True
        if self._live is not None:
            self._live(LiveText(LiveKind.TOOL, call.title or call.kind))
        return [AdapterEvent("tool.started", self._fields(call) | _present(input=call.input))]

    def _end(self, call: _Call, status: str) -> AdapterEvent:
        self._calls.pop(call.id, None)
        status = "denied" if status == "failed" and call.id in self._refused else status
        texts = [text for item in call.content if (text := _content_text(item))]
        output = call.output if call.output is not None else ("\n".join(texts)[:MAX_TOOL_TEXT] or None)
        paths = self._paths(call)
        fields = _present(
            output=output,
            paths_read=paths if call.kind in _READING and paths else None,
            paths_written=paths if call.kind in _WRITING and paths and status == "completed" else None,
        )
        return AdapterEvent("tool.completed", self._fields(call) | {"status": status} | fields)

    def _fields(self, call: _Call) -> dict[str, Any]:
        name = call.name or call.kind or call.title or "tool"
        return _present(tool_call_id=call.id[:MAX_NAME], name=name, title=call.title or None, turn_id=self._turn_id)

    def _paths(self, call: _Call) -> list[str]:
        found = [*call.paths, *(item["path"] for item in call.content if _is_diff(item) and _has_path(item))]
        relative = [path.removeprefix(self._directory) for path in found]
        return [path for path in dict.fromkeys(relative) if path][:MAX_TOOL_ITEMS]

    # -- the rest ----------------------------------------------------------------------------------------------

    def _plan(self, update: Mapping[str, Any]) -> list[AdapterEvent]:
        steps = []
        for item in update.get("entries") or ():
            if isinstance(item, Mapping) and isinstance(item.get("content"), str) and item["content"]:
                status, priority = item.get("status"), item.get("priority")
                steps.append(
                    _present(
                        text=item["content"][:MAX_TOOL_TEXT],
                        status=status if status in _STEP_STATES else None,
                        priority=priority if priority in _PRIORITIES else None,
                    )
                )
        payload = {"steps": steps[:MAX_TOOL_ITEMS], "turn_id": self._turn_id}
        return [AdapterEvent("plan.updated", payload)] if steps else []

    def _window(self, update: Mapping[str, Any]) -> None:
        # Told many times in a turn; the last one is recorded at its end.
        if _is_count(update.get("used")):
            self._usage["tokens"] = {"context": update["used"]}
            if self._spending is not None:
                self._spending(update["used"])
        if _is_count(update.get("size")):
            self._usage["context_window_tokens"] = update["size"]
        cost = update.get("cost")
        if isinstance(cost, Mapping) and isinstance(cost.get("currency"), str) and cost["currency"]:
            amount = cost.get("amount")
            if isinstance(amount, (int, float)) and not isinstance(amount, bool) and amount >= 0:
                self._usage["cost"] = {"amount": amount, "currency": cost["currency"][:MAX_NAME]}

    def _used(self, usage: Any) -> list[AdapterEvent]:
        counts = usage if isinstance(usage, Mapping) else {}
        tokens = {name: counts[key] for key, name in _USAGE_NAMES.items() if _is_count(counts.get(key))}
        tokens = {**self._usage.get("tokens", {}), **tokens}
        if not tokens:
            return []
        return [AdapterEvent("usage.updated", {**self._usage, "tokens": tokens, "turn_id": self._turn_id})]


def trimmed(value: Any, *, depth: int = 0) -> Any:
    """Return a JSON value with overlong texts and lists cut, each saying that it was."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TOOL_TEXT else f"{value[:MAX_TOOL_TEXT]}… [{len(value)} characters]"
    if isinstance(value, Mapping):
        if depth >= MAX_TOOL_DEPTH:
            return f"[{len(value)} fields]"
        return {str(key): trimmed(item, depth=depth + 1) for key, item in list(value.items())[:MAX_TOOL_ITEMS]}
    if isinstance(value, list):
        if depth >= MAX_TOOL_DEPTH:
            return f"[{len(value)} items]"
        shown = [trimmed(item, depth=depth + 1) for item in value[:MAX_TOOL_ITEMS]]
        return shown if len(value) <= MAX_TOOL_ITEMS else [*shown, f"[{len(value)} items]"]
    return value


def _pieces(text: str) -> list[str]:
    return [text[at : at + MAX_MESSAGE_CHARACTERS] for at in range(0, len(text), MAX_MESSAGE_CHARACTERS)]


def _tool_name(update: Mapping[str, Any]) -> str:
    """Return the tool's own name where an agent tells it beside the protocol: a ``toolName`` anywhere in ``_meta``."""
    meta = update.get("_meta")
    if not isinstance(meta, Mapping):
        return ""
    for holder in (meta, *(value for value in meta.values() if isinstance(value, Mapping))):
        name = _name(holder.get("toolName"))
        if name:
            return name
    return ""


def _name(value: Any) -> str:
    return value[:MAX_NAME] if isinstance(value, str) else ""


def _has_path(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("path"), str) and bool(item["path"])


def _is_diff(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type") == "diff"


def _content_text(item: Any) -> str:
    if not isinstance(item, Mapping):
        return ""
    inner = item.get("content")
    if item.get("type") == "content" and isinstance(inner, Mapping) and isinstance(inner.get("text"), str):
        return str(inner["text"])
    if _is_diff(item) and _has_path(item):
        return f"changed {item['path']}"
    return ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
