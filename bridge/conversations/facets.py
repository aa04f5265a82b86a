"""What an entry is to somebody who looks on: of which turn and facet it is, and whether it tells of a problem. Pure.

The rules stand in one table, by kind. The turn follows from the entries before an entry on its path and from nothing
after it, so it is the same on every page, in every listing and for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Protocol

import orjson

from bridge.conversations.models import Entry, ListedEntry
from bridge.conversations.turns import AGENT_KINDS, TURN_BEGINNINGS, TURN_COMPLETED
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.interpretation import interpret, require_readable


class Facet(StrEnum):
    """Sides of a conversation that can be looked at alone."""

    #: What was said: messages, notes, briefs, summaries of branches.
    MESSAGES = "messages"
    #: What the agent thought and planned.
    THINKING = "thinking"
    #: Tool calls and what they made.
    TOOLS = "tools"
    #: Where turns begin, end and fail, and under which model and status they ran.
    TURNS = "turns"
    #: What fills the context: tokens, compactions, checkpoints.
    USAGE = "usage"
    #: Requests for approval and their answers.
    APPROVALS = "approvals"
    #: Tasks for workers and their results.
    DELEGATION = "delegation"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a kind is to an onlooker.

    Parameters
    ----------
    facet
        None for kinds that belong to no side of the conversation.
    problem
        What an entry of the kind tells of, if it tells of a problem.
    field, values
        It does only if this payload field has one of these values; without a field it always does.
    """

    facet: Facet | None
    problem: str | None = None
    field: str | None = None
    values: frozenset[str] = frozenset()


#: An entry that this Bridge cannot give a meaning.
UNREADABLE: Final = "unreadable"
_FAILED: Final = frozenset({"failed", "error", "timed_out", "crashed"})
_DENIED: Final = frozenset(
    {"denied", "deny", "rejected", "reject", "declined", "decline", "expired", "reject_once", "reject_always"}
)
_NO_RULE: Final = Rule(None)
#: Sequences that may be missing in a row, which other branches have.
_LARGEST_GAP: Final = 64

#: The rules, by kind.
RULES: Final = MappingProxyType(
    {
        "user.message": Rule(Facet.MESSAGES),
        "assistant.message": Rule(Facet.MESSAGES),
        "note": Rule(Facet.MESSAGES),
        "handoff.brief": Rule(Facet.MESSAGES),
        "branch.summary": Rule(Facet.MESSAGES),
        "reasoning.completed": Rule(Facet.THINKING),
        "plan.updated": Rule(Facet.THINKING),
        "tool.started": Rule(Facet.TOOLS),
        "tool.completed": Rule(Facet.TOOLS, "tool_failed", "status", _FAILED | {"denied"}),
        "artifact.created": Rule(Facet.TOOLS),
        "turn.started": Rule(Facet.TURNS),
        "turn.completed": Rule(Facet.TURNS, "turn_failed", "status", _FAILED),
        "model.changed": Rule(Facet.TURNS),
        "effort.changed": Rule(Facet.TURNS),
        "session.status": Rule(Facet.TURNS, "session_failed", "status", _FAILED),
        "session.resume_failed": Rule(Facet.TURNS, "resume_failed"),
        "error": Rule(Facet.TURNS, "error"),
        "usage.updated": Rule(Facet.USAGE),
        "context.compacted": Rule(Facet.USAGE),
        "compaction": Rule(Facet.USAGE),
        "compaction.requested": Rule(Facet.USAGE),
        "compaction.failed": Rule(Facet.USAGE, "compaction_failed"),
        "checkpoint": Rule(Facet.USAGE),
        "approval.requested": Rule(Facet.APPROVALS),
        "approval.resolved": Rule(Facet.APPROVALS, "approval_denied", "decision", _DENIED),
        "delegation.requested": Rule(Facet.DELEGATION),
        "delegation.approved": Rule(Facet.DELEGATION),
        "delegation.rejected": Rule(Facet.DELEGATION, "delegation_rejected"),
        "worker.result": Rule(
            Facet.DELEGATION, "result_not_completed", "status", _FAILED | {"invalid", "blocked", "needs_delegation"}
        ),
        "session.root": _NO_RULE,
        "provider.unknown": _NO_RULE,
    }
)
#: Kinds that belong to the turn before them although it has ended: the last words of whoever worked in it.
_LAST_WORDS: Final = AGENT_KINDS | {"usage.updated", "error", "worker.result"}


class Placed(Protocol):
    """What of an entry decides its turn."""

    @property
    def id(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def parent_entry_id(self) -> str | None: ...
    @property
    def sequence(self) -> int: ...
    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Annotation:
    """What an entry is to an onlooker.

    Parameters
    ----------
    turn
        Id of the entry that began its turn; None between two turns and before the first.
    facet
        None for a kind that has none.
    problem
        What it tells of, such as ``tool_failed``; None if all is well.
    """

    turn: str | None
    facet: Facet | None
    problem: str | None

    def to_json(self) -> dict[str, str | None]:
        return {"turn": self.turn, "facet": self.facet, "problem": self.problem}


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """Where the entries up to one have led.

    Parameters
    ----------
    turn
        Id of the entry that began the turn; None if there was none.
    opening
        Kind of that entry, while the turn has no other words: ``turn.started`` and the message that it answers
        come in either order.
    has_ended
        Whether the turn's end is recorded.
    """

    turn: str | None = None
    opening: str | None = None
    has_ended: bool = False


#: Before anything was said.
OUTSIDE: Final = TurnPlace()


class TurnIndex:
    """Tells of entries, parents before children, to which turn each belongs.

    A turn begins at ``turn.started`` or ``user.message``, whichever comes first of the two, and reaches to the next
    beginning. Once its ``turn.completed`` has come, only the last words of whoever worked belong to it. The first
    entry of a fork goes on from the entry placed just before it.

    Parameters
    ----------
    before
        Where the path has led at the first entry, if its parent is not among those placed.
    """

    def __init__(self, before: TurnPlace = OUTSIDE) -> None:
        self._before = before
        self._places: dict[str, _Places] = {}
        self._last: TurnPlace | None = None
        self._last_session: str | None = None

    def turn_of(self, node: Placed) -> str | None:
        """Return the id of the entry that began an entry's turn, None if it belongs to none."""
        turn, place = _step(node, self._place_before(node))
        self._keep(node.session_id, node.sequence, place)
        self._last, self._last_session = place, node.session_id
        return turn

    def place(self, node: Placed) -> TurnPlace:
        """Place an entry and return where the path to it has led."""
        self.turn_of(node)
        return self._last or OUTSIDE

    def seed(self, session_id: str, entry_id: str, place: TurnPlace) -> None:
        """Say where the path to an entry of a session has led."""
        self._keep(session_id, _sequence_of(entry_id), place)

    def place_at(self, session_id: str, entry_id: str) -> TurnPlace | None:
        """Return where the path to an entry of a session has led; None if it was not placed."""
        return self._known(session_id, _sequence_of(entry_id))

    def _place_before(self, node: Placed) -> TurnPlace:
        if node.parent_entry_id is None:
            return self._across_a_fork(node)
        sequence = _sequence_of(node.parent_entry_id)
        known = self._known(node.session_id, sequence)
        if known is not None:
            return known
        if sequence != 0:
            return self._before
        place = self._across_a_fork(node)
        self._keep(node.session_id, 0, place)
        return place

    def _across_a_fork(self, node: Placed) -> TurnPlace:
        if self._last is None:
            return self._before
        return self._last if self._last_session != node.session_id else OUTSIDE

    def _known(self, session_id: str, sequence: int) -> TurnPlace | None:
        places = self._places.get(session_id)
        return None if places is None else places.get(sequence)

    def _keep(self, session_id: str, sequence: int, place: TurnPlace) -> None:
        places = self._places.get(session_id)
        if places is None:
            places = self._places[session_id] = _Places(sequence)
        places.put(sequence, place)


class _Places:
    """Places of one session by sequence: eight bytes for each of a row of entries, however long."""

    __slots__ = ("_base", "_row", "_strays")

    def __init__(self, base: int) -> None:
        self._base = base
        self._row: list[TurnPlace | None] = []
        self._strays: dict[int, TurnPlace] = {}

    def get(self, sequence: int) -> TurnPlace | None:
        offset = sequence - self._base
        found = self._row[offset] if 0 <= offset < len(self._row) else None
        return self._strays.get(sequence) if found is None else found

    def put(self, sequence: int, place: TurnPlace) -> None:
        gap = sequence - self._base - len(self._row)
        if gap == 0:
            self._row.append(place)
        elif 0 < gap <= _LARGEST_GAP:
            self._row.extend([None] * gap)
            self._row.append(place)
        elif -len(self._row) <= gap < 0:
            self._row[gap] = place
        else:
            self._strays[sequence] = place


def annotate(entries: Iterable[Entry], *, turns: TurnIndex | None = None) -> Iterator[Annotation]:
    """Yield what each entry is to an onlooker, in the order given.

    Parameters
    ----------
    entries
        Parents before children: a path, or a session in the order of sequence; of a fork, what it shares comes
        first. Synthetic roots may be among them.
    turns
        An index that knows what lies before the first; None begins at the beginning.
    """
    index = TurnIndex() if turns is None else turns
    for entry in entries:
        yield Annotation(index.turn_of(entry), facet_of(entry.kind), problem_of(entry))


def facet_of(kind: str) -> Facet | None:
    """Return the facet of a kind; None if it has none, or is not known."""
    return RULES.get(kind, _NO_RULE).facet


def kinds_of(facet: Facet) -> frozenset[str]:
    """Return the kinds of a facet."""
    return frozenset(kind for kind, rule in RULES.items() if rule.facet is facet)


def problem_of(entry: Entry | ListedEntry) -> str | None:
    """Return what problem an entry tells of, None if all is well."""
    if not _is_readable(entry):
        return UNREADABLE
    rule = RULES.get(entry.kind, _NO_RULE)
    if rule.problem is None or rule.field is None:
        return rule.problem
    payload = interpret(entry.semantic_schema_version, entry.kind, _text_of(entry), entry_id=entry.id).payload
    value = payload.get(rule.field)
    return rule.problem if isinstance(value, str) and value.lower() in rule.values else None


def is_anchor(kind: str) -> bool:
    """Return whether a beginning after an entry of this kind begins a turn whatever came before."""
    return kind in AGENT_KINDS or kind == TURN_COMPLETED


def _text_of(entry: Entry | ListedEntry) -> str:
    """Return the payload's text, or the outline of a long one."""
    return entry.shown_text if isinstance(entry, ListedEntry) else entry.payload_text


def _is_readable(entry: Entry | ListedEntry) -> bool:
    try:
        require_readable(entry.semantic_schema_version)
        orjson.loads(_text_of(entry))
    except (UnsupportedSemanticVersion, orjson.JSONDecodeError):
        return False
    return True


def _sequence_of(entry_id: str) -> int:
    """Return the number at the end of an entry's id, which is one; checking that costs three times as much."""
    return int(entry_id.rpartition("-")[2])


def _step(node: Placed, before: TurnPlace) -> tuple[str | None, TurnPlace]:
    """Return the turn of an entry, and where the path has led with it."""
    kind = node.kind
    if kind in TURN_BEGINNINGS:
        if before.opening not in {None, kind}:
            place = replace(before, opening=None)
        else:
            place = TurnPlace(node.id, opening=kind)
        return place.turn, place
    if before.turn is None:
        return None, before
    if kind == TURN_COMPLETED:
        return before.turn, replace(before, opening=None, has_ended=True)
    if before.has_ended and kind not in _LAST_WORDS:
        return None, before
    place = replace(before, opening=None) if before.opening is not None and kind in AGENT_KINDS else before
    return place.turn, place
