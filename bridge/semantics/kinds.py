"""The kinds of semantic schema v2 and what the rest of Bridge needs to know about each.

The payload contract itself is the JSON Schema of the kind; the table repeats its required fields so that
imports and upcasts can tell cheaply what is missing (a test holds the two together).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

#: The contract that new entries are written under.
CURRENT_VERSION: Final = 2
#: The contracts that readers take; any other fails closed.
READABLE_VERSIONS: Final = (1, 2)

#: Whether the projector may put an entry into restored context.
Visibility: TypeAlias = Literal["eligible", "hidden"]
ELIGIBLE: Final = "eligible"
HIDDEN: Final = "hidden"

#: Last parts of the names of streaming frames: pieces of an event, and reports that one is under way.
TRANSIENT_PARTS: Final = frozenset({"delta", "progress"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What one kind of entry is.

    Parameters
    ----------
    name
        Provider-neutral name, dots included.
    required
        Payload fields that are always there.
    visibility
        Whether the projector may put such an entry into restored context, unless its writer says otherwise.
        Hidden entries are recorded and exported all the same, and still count where a projection looks for
        facts rather than text.
    is_conversational
        Whether a child that leads here makes its parent a branch point.
    """

    name: str
    required: tuple[str, ...]
    visibility: Visibility = ELIGIBLE
    is_conversational: bool = False


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

#: Every kind of the current contract by name.
KINDS: Final = MappingProxyType({kind.name: kind for kind in _TABLE})
#: Kinds that make a fork of the tree a branch point of the conversation.
CONVERSATIONAL_KINDS: Final = frozenset(kind.name for kind in _TABLE if kind.is_conversational)


def is_transient(kind: str) -> bool:
    """Return whether a kind is a streaming frame, which is never stored."""
    return kind.rpartition(".")[2] in TRANSIENT_PARTS


def default_visibility(kind: str) -> Visibility:
    """Return the visibility an entry of a kind has unless its writer says otherwise; unknown kinds are hidden."""
    known = KINDS.get(kind)
    return HIDDEN if known is None else known.visibility
