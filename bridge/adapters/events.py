"""The one vocabulary in which every harness reports what happens in it.

An event bears the name and the fields of the semantic kind it becomes (``schema/semantic/v2``), so that the
controller records it as it is. Adapters assemble whole events: frames of a stream never get this far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class AdapterEvent:
    """Something that happened in a harness.

    Parameters
    ----------
    kind
        A kind of the current semantic schema.
    payload
        What that kind's schema asks for; JSON values only.
    external_id
        The harness's own id of it, unique in its session; lets the same report arrive twice.
    is_hidden
        Whether it stays out of restored context; None leaves that to the kind.
    """

    kind: str
    payload: Mapping[str, Any]
    external_id: str | None = field(default=None, kw_only=True)
    is_hidden: bool | None = field(default=None, kw_only=True)


def turn_started(turn_id: str, *, model: str | None = None) -> AdapterEvent:
    """The harness began to work on something it was given."""
    return AdapterEvent("turn.started", _present(turn_id=turn_id, model=model))


def turn_completed(
    turn_id: str, *, status: str, reason: str | None = None, duration_seconds: float | None = None
) -> AdapterEvent:
    """The harness stopped working on it; ``status`` is completed, failed or cancelled."""
    return AdapterEvent(
        "turn.completed", _present(turn_id=turn_id, status=status, reason=reason, duration_seconds=duration_seconds)
    )


def message(text: str, *, turn_id: str | None = None, external_id: str | None = None) -> AdapterEvent:
    """The agent said something, whole."""
    return AdapterEvent("assistant.message", _present(text=text, turn_id=turn_id), external_id=external_id)


def reasoning(text: str, *, turn_id: str | None = None, external_id: str | None = None) -> AdapterEvent:
    """The agent finished a piece of reasoning that its provider shows."""
    return AdapterEvent("reasoning.completed", _present(text=text, turn_id=turn_id), external_id=external_id)


def tool_started(tool_call_id: str, name: str, *, tool_input: Any = None, turn_id: str | None = None) -> AdapterEvent:
    """The agent called a tool."""
    return AdapterEvent(
        "tool.started", _present(tool_call_id=tool_call_id, name=name, input=tool_input, turn_id=turn_id)
    )


def tool_completed(
    tool_call_id: str, name: str, *, status: str, tool_output: Any = None, turn_id: str | None = None
) -> AdapterEvent:
    """A tool call ended; ``status`` is completed, failed, cancelled or denied."""
    return AdapterEvent(
        "tool.completed",
        _present(tool_call_id=tool_call_id, name=name, status=status, output=tool_output, turn_id=turn_id),
    )


def usage(tokens: Mapping[str, int], *, model: str | None = None, turn_id: str | None = None) -> AdapterEvent:
    """The harness told what it used so far."""
    return AdapterEvent("usage.updated", _present(tokens=dict(tokens), model=model, turn_id=turn_id))


def tokens_of(tokens: Mapping[str, int]) -> int:
    """Return how many tokens counts of one turn come to, cached ones included.

    The sum where the harness gives one, else that of the kinds; what stood in the window last was used in any case.
    Reasoning counts as output.
    """
    parts = sum(tokens.get(name, 0) for name in ("input", "output", "cache_read", "cache_write"))
    return max(tokens.get("total", parts), tokens.get("context", 0))


def fault(
    text: str, *, code: str, turn_id: str | None = None, details: Mapping[str, Any] | None = None
) -> AdapterEvent:
    """Something went wrong; ``code`` is the typed cause, ``text`` is for people, ``details`` are facts about it."""
    facts = dict(details) if details else None
    return AdapterEvent("error", _present(message=text, code=code, turn_id=turn_id, details=facts))


def unknown(raw_type: str, raw: Any, *, turn_id: str | None = None) -> AdapterEvent:
    """The harness reported something that Bridge has no word for: kept as it came, never given a meaning."""
    return AdapterEvent("provider.unknown", _present(raw_type=raw_type, raw=raw, turn_id=turn_id))


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
