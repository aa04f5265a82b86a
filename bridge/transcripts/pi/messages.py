"""Messages of Pi as entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.transcripts.foreign.neutral import Part, Recent, count_of, mapping, name_of, text_or_none, without_nothing
from bridge.transcripts.foreign.records import Record

#: Tools of Pi that read or write a file; all name it ``path``.
_READING: Final = frozenset({"read"})
_WRITING: Final = frozenset({"edit", "write"})


def tokens_of(usage: Mapping[str, Any]) -> dict[str, int]:
    """Return what a reply used."""
    names = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}
    counts = {ours: count_of(usage.get(theirs)) for theirs, ours in names.items()}
    return {name: count for name, count in counts.items() if count}


def message_parts(message: Mapping[str, Any], tools: Recent) -> list[Part]:
    """Return the entries of a message; none for a role that has no meaning here."""
    role = message.get("role")
    if role == "user":
        return _user(message)
    if role == "assistant":
        return _assistant(message, tools)
    if role == "toolResult":
        key = name_of(message.get("toolCallId"), "unknown")
        _, paths = tools.pop(key) or ("", {})
        status = "failed" if message.get("isError") is True else "completed"
        output = _without_bytes(message.get("content"))
        name = name_of(message.get("toolName"), "unknown")
        payload = {"tool_call_id": key, "name": name, **without_nothing(output=output), "status": status, **paths}
        return [("tool.completed", payload, None)]
    if role == "branchSummary" and text_or_none(message.get("summary")):
        origin = name_of(message.get("fromId"), "unknown")
        return [("branch.summary", {"summary": message["summary"], "from_entry_id": origin}, None)]
    if role == "compactionSummary" and text_or_none(message.get("summary")):
        return [("context.compacted", {"harness": "pi", "summary": message["summary"]}, None)]
    return []


def bash_parts(message: Mapping[str, Any], record: Record) -> list[Part]:
    """Return the entry of a command that the person ran."""
    code = message.get("exitCode")
    failed = message.get("cancelled") is True or (isinstance(code, int) and code != 0)
    payload = without_nothing(
        tool_call_id=f"bash:{record.digest[:32]}",
        name="bash",
        input=without_nothing(command=text_or_none(message.get("command"))),
        output=message.get("output") if isinstance(message.get("output"), str) else None,
        status="cancelled" if message.get("cancelled") is True else "failed" if failed else "completed",
    )
    is_hidden = message.get("excludeFromContext") is True
    return [("tool.completed", payload, "hidden" if is_hidden else None)]


def _user(message: Mapping[str, Any]) -> list[Part]:
    content = message.get("content")
    if isinstance(content, str):
        return [("user.message", {"text": content}, None)] if content else []
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    text = "\n".join(block["text"] for block in blocks if text_or_none(block.get("text")))
    images = [
        {"name": "image", **without_nothing(media_type=text_or_none(block.get("mimeType")))}
        for block in blocks
        if block.get("type") == "image"
    ]
    if not text and not images:
        return []
    shown = {"text": text or "[attachment]", **({"attachments": images} if images else {})}
    return [("user.message", shown, None)]


def _assistant(message: Mapping[str, Any], tools: Recent) -> list[Part]:
    model, stop = text_or_none(message.get("model")), text_or_none(message.get("stopReason"))
    found: list[Part] = []
    content = message.get("content")
    for block in content if isinstance(content, list) else []:
        kind = text_or_none(block.get("type")) if isinstance(block, dict) else None
        if kind == "text" and text_or_none(block.get("text")):
            shown = {"text": block["text"], **without_nothing(model=model, stop_reason=stop)}
            found.append(("assistant.message", shown, None))
        elif kind == "thinking":
            text = block.get("thinking")
            shown = {"text": text if isinstance(text, str) else "", **without_nothing(model=model)}
            found.append(("reasoning.completed", shown, None))
        elif kind == "toolCall":
            found.append(("tool.started", _call(block, tools), None))
    failure = text_or_none(message.get("errorMessage"))
    if failure is not None:
        found.append(("error", {"message": failure, "code": stop or "error"}, None))
    return found


def _call(block: Mapping[str, Any], tools: Recent) -> dict[str, Any]:
    key, name = name_of(block.get("id"), "unknown"), name_of(block.get("name"), "unknown")
    path = text_or_none(mapping(block.get("arguments")).get("path"))
    paths: dict[str, Any] = {}
    if path is not None and name in _READING:
        paths = {"paths_read": [path]}
    elif path is not None and name in _WRITING:
        paths = {"paths_written": [path]}
    tools[key] = [name, paths]
    return {"tool_call_id": key, "name": name, **without_nothing(input=block.get("arguments")), **paths}


def _without_bytes(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [
        {**block, "data": f"[{len(block['data'])} characters of base64]"}
        if isinstance(block, dict) and block.get("type") == "image" and isinstance(block.get("data"), str)
        else block
        for block in content
    ]
