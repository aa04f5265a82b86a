"""Response items of Codex as entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from bridge.transcripts.foreign.neutral import (
    Part,
    Recent,
    mapping,
    name_of,
    opaque,
    text_or_none,
    without_nothing,
)
from bridge.transcripts.foreign.records import Record

#: Items that are calls of tools, and those that are their results.
CALLS: Final = frozenset(
    {"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"}
)
RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
#: How texts begin that the program puts into a conversation under the name of a person.
_CONTEXT: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<skill",
    "<subagent_notification>",
    "<user_shell_command>",
    "# AGENTS.md instructions",
)


def item_parts(payload: Mapping[str, Any], record: Record) -> list[Part]:
    """Return the entries of an item that neither calls a tool nor is a result."""
    kind = text_or_none(payload.get("type"))
    if kind == "message":
        return _message(payload, record)
    if kind == "reasoning":
        texts = [text for part in _parts(payload.get("summary")) if (text := text_or_none(part.get("text")))]
        texts += [text for part in _parts(payload.get("content")) if (text := text_or_none(part.get("text")))]
        meta = {"provider_meta": {"is_encrypted": True}} if payload.get("encrypted_content") else {}
        return [("reasoning.completed", {"text": "\n\n".join(texts), **meta}, None)]
    if kind in {"compaction", "compaction_summary", "context_compaction"}:
        return [("context.compacted", {"harness": "codex"}, None)]
    return [("provider.unknown", opaque(f"response_item.{kind}", record), None)]


def _message(payload: Mapping[str, Any], record: Record) -> list[Part]:
    role = payload.get("role")
    content = _parts(payload.get("content"))
    text = "\n".join(part["text"] for part in content if text_or_none(part.get("text")))
    images = [part for part in content if text_or_none(part.get("type")) in {"input_image", "output_image"}]
    if role == "assistant" and text:
        return [("assistant.message", {"text": text}, None)]
    if role == "user" and (text or images) and not _is_context(payload, text):
        attachments = [{"name": "image"} for _ in images]
        shown = {"text": text or "[attachment]", **({"attachments": attachments} if attachments else {})}
        return [("user.message", shown, None)]
    return [("provider.unknown", opaque(f"message.{name_of(role, 'unknown')}"[:1024], record), None)]


def _is_context(payload: Mapping[str, Any], text: str) -> bool:
    """Return whether a message was put there by the program."""
    meta = mapping(payload.get("internal_chat_message_metadata_passthrough"))
    kinds = meta.get("content_item_kinds")
    if isinstance(kinds, list) and kinds and all(isinstance(kind, str) for kind in kinds):
        return not any(kind.startswith("user.") for kind in kinds) and "unknown" not in kinds
    return text.lstrip().startswith(_CONTEXT)


def _parts(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def call_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a call."""
    kind = text_or_none(payload.get("type"))
    key = name_of(payload.get("call_id"), name_of(payload.get("id"), "unknown"))
    if kind == "local_shell_call":
        name, given = "local_shell", payload.get("action")
    elif kind in {"web_search_call", "tool_search_call"}:
        name, given = str(kind).removesuffix("_call"), payload.get("action") or payload.get("arguments")
    else:
        name = name_of(payload.get("name"), "unknown")
        given = payload.get("arguments") if kind == "function_call" else payload.get("input")
        space = text_or_none(payload.get("namespace"))
        name = name if space is None else f"{space}.{name}"[:1024]
    status = text_or_none(payload.get("status"))
    return {"tool_call_id": key, "name": name, **without_nothing(input=_parsed(given), status=status)}


def result_of(payload: Mapping[str, Any], tools: Recent) -> dict[str, Any]:
    """Return the payload of a result; whether the call failed is told where the program tells it in a field."""
    key = name_of(payload.get("call_id"), "unknown")
    name = tools.pop(key) or "unknown"
    output = payload.get("output", payload.get("tools"))
    status = "completed"
    told = mapping(output)
    if told.get("success") is False or mapping(told.get("metadata")).get("exit_code") not in (None, 0):
        status = "failed"
    parsed = _parsed(output)
    code = mapping(mapping(parsed).get("metadata")).get("exit_code")
    if isinstance(code, int) and code != 0:
        status = "failed"
    return {"tool_call_id": key, "name": name, **without_nothing(output=output), "status": status}


def _parsed(value: Any) -> Any:
    """Return what a text of JSON says, where it is an object or a list; else the value as it is."""
    if not isinstance(value, str) or value[:1] not in {"{", "["}:
        return value
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return found
