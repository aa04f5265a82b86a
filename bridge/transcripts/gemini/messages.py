"""What messages of Gemini CLI say: text, thoughts, usage, and tool calls in their stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.transcripts.foreign.neutral import Part, count_of, mapping, name_of, text_or_none, without_nothing

#: How a text begins that the program puts into a chat under the name of a person.
_CONTEXT: Final = ("<session_context>", "<hook_context>")
#: Status words of calls that are over, and what they are called here.
_ENDS: Final = {"success": "completed", "error": "failed", "cancelled": "cancelled"}
_READING: Final = frozenset({"read_file"})
_WRITING: Final = frozenset({"replace", "write_file"})


def is_context(text: str) -> bool:
    """Return whether the program put a text there."""
    return text.lstrip().startswith(_CONTEXT)


def text_of(content: Any) -> str:
    """Return the text of a message."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and text_or_none(part.get("text")))


def thoughts_of(value: Any) -> str:
    """Return the thoughts that a message shows."""
    found = []
    for thought in value if isinstance(value, list) else []:
        subject, said = mapping(thought).get("subject"), mapping(thought).get("description")
        found.append("\n".join(text for text in (subject, said) if isinstance(text, str) and text))
    return "\n\n".join(text for text in found if text)


def tokens_of(tokens: Mapping[str, Any]) -> dict[str, int]:
    """Return what a reply used."""
    cached = count_of(tokens.get("cached"))
    counts = {
        "input": max(count_of(tokens.get("input")) - cached, 0),
        "output": count_of(tokens.get("output")),
        "cache_read": cached,
        "reasoning": count_of(tokens.get("thoughts")),
        "tool": count_of(tokens.get("tool")),
    }
    return {name: count for name, count in counts.items() if count}


def call_parts(message: Mapping[str, Any], stages: dict[str, str]) -> list[tuple[str, Part]]:
    """Return what is new about a message's calls: suffix of the key, and entry. ``stages`` says what was taken."""
    found: list[tuple[str, Part]] = []
    calls = message.get("toolCalls")
    for call in calls if isinstance(calls, list) else []:
        if not isinstance(call, dict):
            continue
        key = name_of(call.get("id"), "unknown")
        common = {"tool_call_id": key, "name": name_of(call.get("name"), "unknown"), **_paths(call)}
        if key not in stages:
            stages[key] = "started"
            title = text_or_none(call.get("description"))
            started = {**common, **without_nothing(input=call.get("args"), title=title)}
            found.append((f"#call:{key[:200]}", ("tool.started", started, None)))
        end = _ENDS.get(str(call.get("status")))
        if end is not None and stages[key] == "started":
            stages[key] = "ended"
            ended = {**common, **without_nothing(output=_output(call.get("result"))), "status": end}
            found.append((f"#result:{key[:200]}", ("tool.completed", ended, None)))
    return found


def _output(result: Any) -> Any:
    """Return what a call gave back, without its wrapping where that is the usual one."""
    if isinstance(result, list) and len(result) == 1:
        response = mapping(mapping(mapping(result[0]).get("functionResponse")).get("response"))
        if set(response) == {"output"}:
            return response["output"]
    return result


def _paths(call: Mapping[str, Any]) -> dict[str, Any]:
    path = text_or_none(mapping(call.get("args")).get("file_path"))
    if path is None:
        return {}
    name = text_or_none(call.get("name"))
    return {"paths_read": [path]} if name in _READING else {"paths_written": [path]} if name in _WRITING else {}
