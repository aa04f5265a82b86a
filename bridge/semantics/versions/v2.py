"""Semantic schema v2: typed kinds, and how the untyped payloads of v1 read today.

The payload contract itself is the JSON Schema of the kind; the table repeats its required fields so that imports and
upcasts can tell cheaply what is missing (a test holds the two together).

The upcast is pure: payload in, payload out; stored bytes are never touched. A field that v2 knows moves to its v2 name,
one that v2 lacks (or that has another type there and is optional) moves under ``provider_meta``. Nothing is invented:
what v2 requires and v1 did not record stays missing, and the caller treats the entry as opaque.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from bridge.semantics.contracts import HIDDEN, Kind
from bridge.semantics.schemas import field_errors, load_schema, validator

_TABLE: Final = (
    Kind("user.message", ("text",), is_conversational=True),
    Kind("assistant.message", ("text",), is_conversational=True),
    Kind("reasoning.completed", ("text",)),
    Kind("tool.started", ("tool_call_id", "name")),
    Kind("tool.completed", ("tool_call_id", "name")),
    Kind("approval.requested", ("approval_id",)),
    Kind("approval.resolved", ("approval_id",)),
    Kind("delegation.requested", ("delegation_id",)),
    Kind("delegation.approved", ("delegation_id",)),
    Kind("delegation.rejected", ("delegation_id",)),
    Kind("worker.result", ("delegation_id", "status", "summary"), is_conversational=True),
    Kind("checkpoint", ("summary", "decisions", "files_touched", "open_work"), is_conversational=True),
    Kind("compaction", ("summary", "first_retained_entry_id", "tokens_before", "reason"), is_conversational=True),
    Kind("compaction.requested", ("reason",), HIDDEN),
    Kind("compaction.failed", ("reason",), HIDDEN),
    Kind("context.compacted", ("harness",), HIDDEN),
    Kind("branch.summary", ("summary", "from_entry_id"), is_conversational=True),
    # Eligible although they are never text: a projection carries the latest model and effort.
    Kind("model.changed", ("model",)),
    Kind("effort.changed", ("effort",)),
    Kind("session.root", (), HIDDEN),
    Kind("session.status", ("status",), HIDDEN),
    Kind("session.resume_failed", ("reason",), HIDDEN),
    Kind("turn.started", ("turn_id",), HIDDEN),
    Kind("turn.completed", ("turn_id",), HIDDEN),
    Kind("usage.updated", ("tokens",), HIDDEN),
    Kind("plan.updated", ("steps",), HIDDEN),
    Kind("artifact.created", ("path",)),
    Kind("handoff.brief", ("text",)),
    Kind("note", ("text",)),
    Kind("provider.unknown", ("raw_type",), HIDDEN),
    Kind("error", ("message",)),
)

#: Every kind of this contract by name.
KINDS: Final = MappingProxyType({kind.name: kind for kind in _TABLE})

_TARGET: Final = "semantic/v2"
_META: Final = "provider_meta"
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])[A-Z]")

#: v1 names whose v2 name is not simply their own in snake case; where several name one field, the first wins.
_RENAMES: Final = MappingProxyType(
    {
        "tool.started": {"toolId": "tool_call_id", "itemId": "tool_call_id", "toolName": "name"},
        "tool.completed": {"toolId": "tool_call_id", "itemId": "tool_call_id", "toolName": "name"},
        "approval.requested": {"itemId": "approval_id", "toolId": "tool_call_id"},
        "approval.resolved": {"itemId": "approval_id", "toolId": "tool_call_id"},
        "delegation.requested": {"requestId": "delegation_id", "itemId": "delegation_id"},
        "delegation.approved": {"requestId": "delegation_id", "itemId": "delegation_id"},
        "delegation.rejected": {"requestId": "delegation_id", "itemId": "delegation_id"},
        "worker.result": {"requestId": "delegation_id", "itemId": "delegation_id"},
    }
)


def from_previous(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a v1 payload as v2 would have written it, as far as it goes; kinds that v2 lacks come back unchanged."""
    if kind not in KINDS:
        return payload
    special = _SPECIAL.get(kind)
    renamed = _rename(kind, payload if special is None else special(payload))
    return _set_aside_misfits(kind, renamed)


def _worker_result(payload: dict[str, Any]) -> dict[str, Any]:
    # The older contract's word for output that broke it.
    return {**payload, "status": "invalid"} if payload.get("status") == "protocol_invalid" else payload


_SPECIAL: Final[MappingProxyType[str, Callable[[dict[str, Any]], dict[str, Any]]]] = MappingProxyType(
    {"worker.result": _worker_result}
)


@cache
def _known_fields(kind: str) -> frozenset[str]:
    schema = load_schema(f"{_TARGET}/{kind}")
    if "properties" not in schema:  # worker.result refers to the contract of worker results as a whole
        schema = load_schema("worker-result/v2")
    return frozenset(schema["properties"])


def _rename(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    known, renames = _known_fields(kind), _RENAMES.get(kind, {})
    result: dict[str, Any] = {}
    aside: dict[str, Any] = {}
    # Fields that already bear their v2 name take precedence, then the renames in their order of preference.
    preference = list(renames)
    for name in sorted(
        payload, key=lambda name: (name not in known, preference.index(name) if name in renames else -1)
    ):
        target = name if name in known else renames.get(name, _snake_case(name))
        if target in known and target not in result and target != _META:
            result[target] = payload[name]
        elif name != _META:
            aside[name] = payload[name]
    return _with_meta(result, payload.get(_META, {}), aside)


def _set_aside_misfits(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Move optional fields that v2 types differently under ``provider_meta``, where any type may stand."""
    required = KINDS[kind].required
    errors = field_errors(validator(f"{_TARGET}/{kind}"), payload)
    named = {error["path"].split("/")[1] for error in errors if error["path"]}
    misfits = {name: payload[name] for name in sorted(named) if name in payload and name not in {*required, _META}}
    if not misfits:
        return payload
    kept = {name: value for name, value in payload.items() if name not in misfits and name != _META}
    return _with_meta(kept, payload.get(_META, {}), misfits)


def _with_meta(payload: dict[str, Any], meta: Any, aside: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(meta, dict):
        meta = {_META: meta}
    merged = {**aside, **meta}
    return {**payload, _META: merged} if merged else payload


def _snake_case(name: str) -> str:
    return _CAPITAL.sub(lambda match: "_" + match.group().lower(), name)
