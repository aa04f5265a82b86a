"""What a running agent knows against where its conversation stands, to be asked before each of its turns.

What it knows is named by the last entry that was told to it, or that came from it. It matches where the conversation
stands if the same entry carries the context of both: entries that no agent is told make no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bridge.control.contexts.building import stored_path
from bridge.control.contexts.compacting import leaf_of
from bridge.control.controller import Controller
from bridge.conversations.contextmessages import message_of
from bridge.conversations.pathsource import StoredPath
from bridge.foundation.ids import short_entry
from bridge.storage.transaction import Connection


class Relation(StrEnum):
    """How what an agent knows is to where the conversation stands."""

    SAME = "same"
    #: The conversation went on without it: it lacks some entries and knows nothing else.
    BEHIND = "behind"
    #: The conversation went back: it knows more than the branch says.
    AHEAD = "ahead"
    #: Both.
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class ContextMatch:
    """What an agent knows against what the conversation says.

    Parameters
    ----------
    head_entry_id, agent_entry_id
        The entries that carry the context of each; None where nothing was said.
    common_entry_id
        The last that both hold; None if there is none.
    unseen, abandoned
        Entries on the way from there to the head, which it lacks, and to what it knows, which the branch does not say.
    """

    relation: Relation
    head_entry_id: str | None
    agent_entry_id: str | None
    common_entry_id: str | None
    unseen: int
    abandoned: int

    @property
    def matches(self) -> bool:
        """Whether the agent may go on without being told anything."""
        return self.relation is Relation.SAME

    def text(self) -> str:
        """Return what an agent that runs on should know before its next turn; empty if nothing. Facts only."""
        if self.matches:
            return ""
        common = "its beginning" if self.common_entry_id is None else short_entry(self.common_entry_id)
        facts = []
        if self.abandoned:
            facts.append(
                f"The conversation went back to {common}: the last {_count(self.abandoned)} of your context "
                "are not part of it any more. Files were not changed by that."
            )
        if self.unseen:
            facts.append(f"{_count(self.unseen).capitalize()} after {common} are not in your context.")
        return " ".join(facts)


def compare_contexts(connection: Connection, session_id: str, agent_leaf_entry_id: str | None) -> ContextMatch:
    """Return how what an agent knows is to where a session stands.

    Parameters
    ----------
    agent_leaf_entry_id
        The last entry that was told to the agent or came from it; None if it knows nothing yet.

    Raises
    ------
    SessionNotFound, EntryNotFound, SessionQuarantined, PathBroken, UnsupportedSemanticVersion
        As reading the paths.
    """
    head = stored_path(connection, leaf_of(connection, session_id, None))
    here = _carrying(head)
    agent = None if agent_leaf_entry_id is None else stored_path(connection, agent_leaf_entry_id)
    there = None if agent is None else _carrying(agent)
    if here == there:
        return ContextMatch(Relation.SAME, here, there, here, 0, 0)
    shared = 0 if agent is None else _shared_length(head, agent)
    ours, theirs = _length_to(head, here), 0 if agent is None else _length_to(agent, there)
    shared = min(shared, ours, theirs)
    unseen, abandoned = ours - shared, theirs - shared
    relation = Relation.ELSEWHERE
    if not abandoned:
        relation = Relation.BEHIND
    elif not unseen:
        relation = Relation.AHEAD
    common = head.id_at(shared - 1) if shared else None
    return ContextMatch(relation, here, there, common, unseen, abandoned)


def context_matches(controller: Controller, session_id: str, agent_leaf_entry_id: str | None) -> ContextMatch:
    """Return what :func:`compare_contexts` does, from a snapshot of its own. Blocking.

    To be asked before each turn of an agent that runs on: the conversation may have gone elsewhere meanwhile.
    """
    with controller.store.read() as connection:
        return compare_contexts(connection, session_id, agent_leaf_entry_id)


def _carrying(path: StoredPath) -> str | None:
    """Return the last entry of a path that an agent is told; None if there is none."""
    for entry_id, _, row in path.upwards():
        if row[2] is not None and message_of(entry_id, row[0], row[1], row[2]) is not None:
            return entry_id
    return None


def _length_to(path: StoredPath, entry_id: str | None) -> int:
    place = None if entry_id is None else path.position(entry_id)
    return 0 if place is None else place + 1


def _shared_length(one: StoredPath, other: StoredPath) -> int:
    """Return how many entries two paths share from their beginning on: by halves, since one id at a place tells."""
    low, high = 0, min(one.length, other.length)
    while low < high:
        middle = (low + high + 1) // 2
        if one.id_at(middle - 1) == other.id_at(middle - 1):
            low = middle
        else:
            high = middle - 1
    return low


def _count(number: int) -> str:
    return "1 entry" if number == 1 else f"{number} entries"
