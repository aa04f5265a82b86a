"""Content blocks of Claude Code's messages as entries: text, thinking, tool calls and their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.transcripts.foreign.neutral import Part, Recent, mapping, name_of, text_or_none, without_nothing

#: The kind of an entry that says the agent shortened its own context.
COMPACTED: Final = "context.compacted"
#: Tools that read or write a file, and the names of the argument that says which.
_READING: Final = {"Read": "file_path", "NotebookRead": "notebook_path"}
_WRITING: Final = {
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
}


def assistant_parts(message: Mapping[str, Any], tools: Recent, meta: dict[str, Any]) -> list[Part]:
    """Return the entries of a message of the model; its tool calls are remembered in ``tools``."""
    model = text_or_none(message.get("model"))
    stop = text_or_none(message.get("stop_reason"))
    own = {"provider_meta": meta} if meta else {}
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    found: list[Part] = []
    for block in content:
        kind = text_or_none(block.get("type")) if isinstance(block, dict) else None
        if kind == "text" and text_or_none(block.get("text")):
            payload = {"text": block["text"], **without_nothing(model=model, stop_reason=stop), **own}
            found.append(("assistant.message", payload, None))
        elif kind in {"thinking", "redacted_thinking"}:
            text = block.get("thinking")
            payload = {"text": text if isinstance(text, str) else "", **without_nothing(model=model), **own}
            found.append(("reasoning.completed", payload, None))
        elif kind in {"tool_use", "server_tool_use", "mcp_tool_use"}:
            found.append(("tool.started", {**_call(block, tools), **own}, None))
        else:
            found.append(("provider.unknown", {"raw_type": f"assistant.{name_of(kind, 'block')}"[:1024], **own}, None))
    return found


def user_parts(message: Mapping[str, Any], tools: Recent, value: Mapping[str, Any]) -> list[Part]:
    """Return the entries of a message with the role of a user: what a person said, and what tools gave back."""
    content = message.get("content")
    meta = {"provider_meta": {"is_sidechain": True}} if value.get("isSidechain") is True else {}
    if isinstance(content, str):
        return [("user.message", {"text": content, **meta}, None)] if content else []
    if not isinstance(content, list):
        return []
    found: list[Part] = []
    texts: list[str] = []
    attachments: list[dict[str, Any]] = []
    for block in content:
        kind = text_or_none(block.get("type")) if isinstance(block, dict) else None
        if kind == "text" and text_or_none(block.get("text")):
            texts.append(block["text"])
        elif kind == "tool_result":
            found.append(("tool.completed", {**_result(block, tools, value), **meta}, None))
        elif kind in {"image", "document"}:
            attachments.append(_attachment(kind, block))
        else:
            found.append(("provider.unknown", {"raw_type": f"user.{name_of(kind, 'block')}"[:1024]}, None))
    if texts or attachments:
        text = "\n".join(texts) or "[attachment]"
        payload = {"text": text, **({"attachments": attachments} if attachments else {}), **meta}
        found.append(("user.message", payload, None))
    return found


def _attachment(kind: str, block: Mapping[str, Any]) -> dict[str, Any]:
    """Return what came with a message, without its bytes: those stay in the raw line."""
    source = mapping(block.get("source"))
    return {"name": kind, **without_nothing(media_type=text_or_none(source.get("media_type")))}


def _call(block: Mapping[str, Any], tools: Recent) -> dict[str, Any]:
    key, name = name_of(block.get("id"), "unknown"), name_of(block.get("name"), "unknown")
    arguments = block.get("input")
    paths: dict[str, Any] = {}
    for field, table in (("paths_read", _READING), ("paths_written", _WRITING)):
        path = text_or_none(mapping(arguments).get(table.get(name, "")))
        if path is not None:
            paths[field] = [path]
    tools[key] = [name, paths]
    return {"tool_call_id": key, "name": name, **without_nothing(input=arguments), **paths}


def _result(block: Mapping[str, Any], tools: Recent, value: Mapping[str, Any]) -> dict[str, Any]:
    key = name_of(block.get("tool_use_id"), "unknown")
    name, paths = tools.pop(key) or ("unknown", {})
    is_failed = block.get("is_error") is True
    denied = value.get("toolUseResult") == "User rejected tool use" or value.get("toolDenialKind") is not None
    status = "denied" if denied and is_failed else "failed" if is_failed else "completed"
    output = block.get("content")
    if isinstance(output, list):
        output = [_without_bytes(item) for item in output]
    return {"tool_call_id": key, "name": name, **without_nothing(output=output), "status": status, **paths}


def _without_bytes(item: Any) -> Any:
    source = mapping(mapping(item).get("source"))
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return {**item, "source": {**source, "data": f"[{len(source['data'])} characters of base64]"}}
    return item
