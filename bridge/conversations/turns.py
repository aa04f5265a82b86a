"""Turns: between which two stamps of a conversation its agent was at work. Pure.

A turn begins at ``user.message`` or ``turn.started``, whichever comes first of the two, and ends at its
``turn.completed``; without one, at the last entry that only an agent writes. Its windows are the pairs of consecutive
stamps inside it, along the parents, on every branch. What lies between two turns is no window, and neither is what
lies behind the last stamp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical

TURN_STARTED: Final = "turn.started"
TURN_COMPLETED: Final = "turn.completed"
USER_MESSAGE: Final = "user.message"
#: Kinds that begin a turn.
TURN_BEGINNINGS: Final = frozenset({USER_MESSAGE, TURN_STARTED})
#: Kinds that only an agent at work writes; they go on with a turn that nobody has closed. A note, a checkpoint or a
#: delegation can be written by a person hours later, and says nothing about who was at work until then.
AGENT_KINDS: Final = frozenset(
    {
        "assistant.message",
        "reasoning.completed",
        "tool.started",
        "tool.completed",
        "approval.requested",
        "approval.resolved",
        "plan.updated",
        "artifact.created",
    }
)
#: After these, as the last word of a turn that nobody has closed, nothing says that an agent is still at work.
FINAL_KINDS: Final = frozenset({"assistant.message"})


@dataclass(frozen=True, slots=True)
class StampedNode:
    """What of an entry decides its place in a turn.

    Parameters
    ----------
    turn_payload
        Payload text of ``turn.*`` entries; None for the others.
    state_digest
        None if the state is unknown.
    """

    id: str
    session_id: str
    parent_entry_id: str | None
    kind: str
    turn_payload: str | None
    state_digest: str | None
    observed_at: str | None

    @property
    def is_stamped(self) -> bool:
        return self.state_digest is not None and self.observed_at is not None


@dataclass(frozen=True, slots=True)
class Window:
    """Two consecutive stamps of one running turn."""

    session_id: str
    after_entry_id: str
    entry_id: str
    begins_at: str
    ends_at: str


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """A turn that was begun and, as far as is recorded, not ended; nothing was stamped in it since ``begins_at``."""

    session_id: str
    after_entry_id: str
    begins_at: str


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of one session."""

    windows: tuple[Window, ...]
    running: RunningTurn | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an entry stands.

    Parameters
    ----------
    turn
        Id of the entry that began its turn; None outside one.
    opening
        Kind of the entry that began it, while the turn has no other words.
    is_final
        Whether its last word may have been the last of all.
    last
        The last stamped entry of the turn.
    """

    turn: str | None = None
    opening: str | None = None
    is_final: bool = False
    last: StampedNode | None = None


_OUTSIDE: Final = _Place()
_WORDS: Final = AGENT_KINDS | TURN_BEGINNINGS | {TURN_COMPLETED}


def turns_of(nodes: Sequence[StampedNode]) -> Turns:
    """Return the windows of one session's turns.

    Parameters
    ----------
    nodes
        Entries in the order of their sequence; the oldest may be missing, and what they began is no turn then.
    """
    closed = _closed_turns(nodes)
    places: dict[str, _Place] = {}
    windows: list[Window] = []
    for node in nodes:
        before = places.get(node.parent_entry_id or "", _OUTSIDE)
        place = _placed(node, before, closed.get(node.id))
        if _is_word_of(node, place, closed) and node.is_stamped:
            window = _window(place.last, node) if place.turn == before.turn else None
            windows += [] if window is None else [window]
            place = replace(place, last=node)
        # The end of a turn is its last window; nothing below it belongs to it.
        ends = node.kind == TURN_COMPLETED
        places[node.id] = _OUTSIDE if ends else place
    return Turns(tuple(windows), _running(nodes, places))


def _closed_turns(nodes: Sequence[StampedNode]) -> dict[str, str]:
    """Return for each entry of a turn whose end is recorded the id of the entry that began it."""
    by_id = {node.id: node for node in nodes}
    closed: dict[str, str] = {}
    for node in nodes:
        name = _turn_id(node) if node.kind == TURN_COMPLETED else None
        if name is None:
            continue
        between = [node]
        current = by_id.get(node.parent_entry_id or "")
        while current is not None and not (current.kind == TURN_STARTED and _turn_id(current) == name):
            between.append(current)
            # Another turn's end cannot lie inside this one: its own beginning is not recorded.
            current = None if current.kind == TURN_COMPLETED else by_id.get(current.parent_entry_id or "")
        if current is None:
            continue
        between.append(current)
        asked = by_id.get(current.parent_entry_id or "")
        if asked is not None and asked.kind == USER_MESSAGE and asked.id not in closed:
            between.append(asked)
        closed.update((entry.id, between[-1].id) for entry in between)
    return closed


def _placed(node: StampedNode, before: _Place, closed: str | None) -> _Place:
    if closed is not None:
        return _Place(closed, last=before.last if before.turn == closed else None)
    if node.kind in TURN_BEGINNINGS:
        # "turn.started" and the message that it answers come in either order.
        if before.opening not in {None, node.kind}:
            return replace(before, opening=None)
        return _Place(node.id, opening=node.kind)
    if node.kind in AGENT_KINDS and before.turn is not None:
        return replace(before, opening=None, is_final=node.kind in FINAL_KINDS)
    return before


def _is_word_of(node: StampedNode, place: _Place, closed: Mapping[str, str]) -> bool:
    """Return whether an entry is a word of its turn, and not one that merely lies there."""
    return place.turn is not None and (node.id in closed or node.kind in _WORDS)


def _window(last: StampedNode | None, node: StampedNode) -> Window | None:
    if last is None or last.observed_at is None or node.observed_at is None or last.observed_at > node.observed_at:
        return None  # the clock was set back in between: what lies between the two cannot be ordered
    return Window(node.session_id, last.id, node.id, last.observed_at, node.observed_at)


def _running(nodes: Sequence[StampedNode], places: Mapping[str, _Place]) -> RunningTurn | None:
    place = places[nodes[-1].id] if nodes else _OUTSIDE
    if place.turn is None or place.is_final or place.last is None or place.last.observed_at is None:
        return None
    return RunningTurn(place.last.session_id, place.last.id, place.last.observed_at)


def _turn_id(node: StampedNode) -> str | None:
    """Return which turn a ``turn.*`` entry speaks of; None if its payload does not say."""
    try:
        payload = parse_json(node.turn_payload or "")
    except NotCanonical:
        return None
    name = payload.get("turn_id") if isinstance(payload, dict) else None
    return name if isinstance(name, str) else None
