"""The kinds of the current contract and what the rest of Bridge needs to know about each.

Which contract is current follows from the modules of ``versions``; see ``registry``.
"""

from __future__ import annotations

from typing import Final

from bridge.semantics.contracts import ELIGIBLE, HIDDEN, Kind, Visibility
from bridge.semantics.registry import REGISTRY

__all__ = [
    "CONVERSATIONAL_KINDS",
    "CURRENT_VERSION",
    "ELIGIBLE",
    "HIDDEN",
    "KINDS",
    "READABLE_VERSIONS",
    "TRANSIENT_PARTS",
    "Kind",
    "Visibility",
    "default_visibility",
    "is_transient",
]

#: The contract that new entries are written under.
CURRENT_VERSION: Final = REGISTRY.current.version
#: The contracts that readers take; any other fails closed.
READABLE_VERSIONS: Final = REGISTRY.readable
#: Every kind of the current contract by name.
KINDS: Final = REGISTRY.current.kinds

#: Last parts of the names of streaming frames: pieces of an event, and reports that one is under way.
TRANSIENT_PARTS: Final = frozenset({"delta", "progress"})
#: Kinds that make a fork of the tree a branch point of the conversation.
CONVERSATIONAL_KINDS: Final = frozenset(kind.name for kind in KINDS.values() if kind.is_conversational)


def is_transient(kind: str) -> bool:
    """Return whether a kind is a streaming frame, which is never stored."""
    return kind.rpartition(".")[2] in TRANSIENT_PARTS


def default_visibility(kind: str) -> Visibility:
    """Return the visibility an entry of a kind has unless its writer says otherwise; unknown kinds are hidden."""
    known = KINDS.get(kind)
    return HIDDEN if known is None else known.visibility
