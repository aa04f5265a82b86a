"""Bridge's own entries as messages of a session file, and messages as entries. Pure: values in, values out.

What a role has no field for travels in ``details.bridge``; a message without it was written by another program, and all
of its ``details`` are kept under ``provider_meta``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.semantics.kinds import HIDDEN, KINDS, is_transient

#: Kind of the event that says where the head stands, where that is no leaf; it is no entry.
POSITION_KIND: Final = "session.position"
#: Where Bridge keeps what a role has no field for.
DETAILS_KEY: Final = "bridge"
#: Provider's fields of an entry that holds what a foreign message has beyond its text.
FOREIGN_KEY: Final = "session_file"
_ROLES: Final = {"user.message": "user", "assistant.message": "assistant"}
_KINDS: Final = {role: kind for kind, role in _ROLES.items()}


@dataclass(frozen=True, slots=True)
class Part:
    """An entry that a message stands for; a message that calls tools stands for several, each below the one before.

    Parameters
    ----------
    visibility
        None means the kind's default.
    """

    kind: str
    payload: dict[str, Any]
    visibility: str | None = None


def message_of(kind: str, payload: Mapping[str, Any], visibility: str, calls: Mapping[str, str]) -> dict[str, Any]:
    """Return the message that an entry becomes.

    Parameters
    ----------
    payload
        Of the current semantic version.
    calls
        The calls above the entry: call id to the tool's name.
    """
    rest = dict(payload)
    message: dict[str, Any]
    if kind in _ROLES and isinstance(rest.get("text"), str):
        message = {"role": _ROLES[kind], "content": rest.pop("text")}
    elif kind == "tool.started":
        call = {"id": rest.pop("tool_call_id"), "name": rest.pop("name")}
        if "input" in rest:
            call["arguments"] = rest.pop("input")
        message = {"role": "assistant", "content": "", "toolCalls": [call]}
    elif kind == "tool.completed" and calls.get(rest["tool_call_id"]) == rest["name"] and "output" in rest:
        message = {
            "role": "tool",
            "toolCallId": rest.pop("tool_call_id"),
            "toolName": rest.pop("name"),
            "content": rest.pop("output"),
        }
    else:
        message, rest = {"role": "event", "kind": kind, "payload": rest}, {}
    own = {"kind": kind, "visibility": visibility, **({"payload": rest} if rest else {})}
    return {**message, "details": {DETAILS_KEY: own}}


def opaque_message(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that an entry becomes which has no meaning under the current contract; nor will it have."""
    return {"role": "event", "kind": kind, "payload": dict(payload), "details": {DETAILS_KEY: {"opaque": True}}}


def parts_of(message: Mapping[str, Any]) -> list[Part]:
    """Return the entries that a message becomes: at least one, or none for a position."""
    if message["role"] == "event" and message["kind"] == POSITION_KIND:
        return []
    details = dict(message.get("details", {}))
    own = details.pop(DETAILS_KEY, None)
    if not isinstance(own, Mapping) or not isinstance(own.get("payload", {}), Mapping):
        return list(_foreign(message))
    rest = dict(own.get("payload", {}))
    visibility = own.get("visibility")
    role = message["role"]
    kind = own.get("kind")
    if role in _KINDS and kind == _KINDS[role] and isinstance(message["content"], str):
        payload = {**rest, "text": message["content"]}
    elif role == "assistant" and kind == "tool.started" and len(message.get("toolCalls", ())) == 1:
        payload = {**rest, **_call(message["toolCalls"][0])}
    elif role == "tool" and kind == "tool.completed":
        payload = {**rest, **_result(message)}
    elif role == "event" and kind == message["kind"]:
        payload = dict(message.get("payload", {}))
    else:
        return list(_foreign(message))
    if kind not in KINDS or kind == "session.root":
        return list(_foreign(message))
    return [Part(kind, payload, visibility if visibility in {"eligible", HIDDEN} else None)]


def _foreign(message: Mapping[str, Any]) -> Iterator[Part]:
    role = message["role"]
    meta = {"provider_meta": {FOREIGN_KEY: dict(message["details"])}} if message.get("details") else {}
    if role == "event":
        known = message["kind"] in KINDS and message["kind"] != "session.root" and not is_transient(message["kind"])
        if known and not meta:
            yield Part(message["kind"], dict(message.get("payload", {})))
        else:
            yield Part("provider.unknown", {"raw_type": message["kind"], "raw": dict(message)})
    elif role == "tool":
        status = {"status": "failed"} if message.get("isError") else {}
        yield Part("tool.completed", {**_result(message), **status, **meta})
    elif role == "system":
        yield Part("provider.unknown", {"raw_type": "system", "raw": dict(message)})
    else:
        text, parts = _text(message["content"])
        if parts:
            meta = {"provider_meta": {FOREIGN_KEY: {**dict(message.get("details", {})), "content": parts}}}
        calls = message.get("toolCalls", ())
        if text:
            yield Part(_KINDS[role], {"text": text, **meta})
        elif not calls:
            yield Part("provider.unknown", {"raw_type": role, "raw": dict(message)})
        for call in calls:
            yield Part("tool.started", _call(call))


def _text(content: Any) -> tuple[str, list[Any]]:
    """Return the text of a message, and its parts if it has any that are no text."""
    if isinstance(content, str):
        return content, []
    text = "\n".join(part["text"] for part in content if part["type"] == "text")
    return text, [dict(part) for part in content] if any(part["type"] != "text" for part in content) else []


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    named = {"tool_call_id": call["id"], "name": call["name"]}
    return {**named, "input": call["arguments"]} if "arguments" in call else named


def _result(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_call_id": message["toolCallId"], "name": message["toolName"], "output": message["content"]}
