"""Who a session descends from: decisions on values, whoever loaded them.

Parents are looked up by a function, so that a walk loads no more than it visits. Every walk keeps the sessions
it has seen and stops at a depth: a circle that somebody tied in the database behind Bridge's back ends it, and the
result says that it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

from bridge.foundation.ids import require_safe_id
from bridge.lineage.errors import LineageCycle

#: Generations that a walk goes in one direction.
MAX_DEPTH: Final = 10
#: Children of one session that a walk down shows.
MAX_CHILDREN: Final = 100
#: Kinds of sessions that another one may go on with by itself. A worker's session ends with its delegation.
CONTINUABLE_KINDS: Final = frozenset({"chat"})


class Stop(StrEnum):
    """Why a walk ended before it had seen everything."""

    DEPTH = "depth"
    CYCLE = "cycle"
    MISSING = "missing"
    CHILDREN = "children"


class Placed(Protocol):
    """What of a session decides its place; the sessions of the conversation forest have it."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def workspace_id(self) -> str | None: ...
    @property
    def agent_id(self) -> str | None: ...
    @property
    def parent_session_id(self) -> str | None: ...
    @property
    def created_at(self) -> str: ...
    @property
    def updated_at(self) -> str: ...


P = TypeVar("P", bound=Placed)


@dataclass(frozen=True, slots=True)
class Ancestry(Generic[P]):
    """The ancestors of a session, its parent first; ``stop`` says why the walk ended early, None if it did not."""

    sessions: tuple[P, ...]
    stop: Stop | None


@dataclass(frozen=True, slots=True)
class Descendants(Generic[P]):
    """A session with what descends from it; ``stop`` says why children are left out, None if none are."""

    session: P
    children: tuple[Descendants[P], ...]
    stop: Stop | None


def ancestors(session: P, find: Callable[[str], P | None], *, depth: int = MAX_DEPTH) -> Ancestry[P]:
    """Return the ancestors of a session, at most ``depth`` of them.

    Parameters
    ----------
    find
        Returns a session by its id; None for one that is not there (any more).
    """
    found: list[P] = []
    visited = {session.id}
    current = session
    while current.parent_session_id is not None:
        if current.parent_session_id in visited:
            return Ancestry(tuple(found), Stop.CYCLE)
        if len(found) >= depth:
            return Ancestry(tuple(found), Stop.DEPTH)
        parent = find(current.parent_session_id)
        if parent is None:
            return Ancestry(tuple(found), Stop.MISSING)
        visited.add(parent.id)
        found.append(parent)
        current = parent
    return Ancestry(tuple(found), None)


def descendants(
    session: P,
    children_of: Callable[[str, int], Sequence[P]],
    *,
    depth: int = MAX_DEPTH,
    width: int = MAX_CHILDREN,
) -> Descendants[P]:
    """Return what descends from a session, ``depth`` generations and ``width`` children of each at most.

    Parameters
    ----------
    children_of
        Returns the children of an id, at most as many as its second argument says.
    """
    return _below(session, children_of, depth, width, {session.id})


def require_acyclic(
    session_id: str | None, parent_session_id: str, parent_of: Callable[[str], str | None], *, limit: int | None = None
) -> None:
    """Refuse a parent that would make a session its own ancestor.

    Parameters
    ----------
    session_id
        The session that gets the parent; None for one that is yet to be named, and so is nobody's ancestor.
    parent_of
        Returns the parent of an id, None if it has none.
    limit
        Ancestors looked at; None means all. For a session that does not exist yet a few are enough: nothing can
        descend from it, so only the parent's own line can be at fault.

    Raises
    ------
    LineageCycle
        If the session is among the parent's ancestors, or these run in a circle already.
    InvalidId
        If an id does not have the form of a session id.
    """
    require_safe_id(parent_session_id)
    visited = set() if session_id is None else {require_safe_id(session_id)}
    current: str | None = parent_session_id
    while current is not None and (limit is None or len(visited) <= limit):
        if current in visited:
            raise LineageCycle(
                f"{parent_session_id} cannot be the parent: its line comes back to {current}. Nothing was written.",
                details={"parent_session_id": parent_session_id, "session_id": current},
            )
        visited.add(current)
        current = parent_of(current)


def resolve_predecessor(
    sessions: Iterable[P], *, workspace_id: str | None, agent_id: str | None, excluding: str | None = None
) -> P | None:
    """Return the session that a new one goes on with: the chat of that workspace and agent that was touched last.

    The order is (updated_at, created_at, id), so that equal times do not make it depend on chance. Sessions
    without a workspace share nothing: none of them is anybody's predecessor.

    Parameters
    ----------
    excluding
        A session that must not be the answer: the new one itself.
    """
    if workspace_id is None:
        return None
    fitting = [
        session
        for session in sessions
        if session.kind in CONTINUABLE_KINDS
        and session.workspace_id == workspace_id
        and session.agent_id == agent_id
        and session.id != excluding
    ]
    return max(fitting, key=lambda session: (session.updated_at, session.created_at, session.id), default=None)


def _below(
    session: P, children_of: Callable[[str, int], Sequence[P]], depth: int, width: int, visited: set[str]
) -> Descendants[P]:
    children = children_of(session.id, width + 1)
    if not children:
        return Descendants(session, (), None)
    if depth == 0:
        return Descendants(session, (), Stop.DEPTH)
    stop = Stop.CHILDREN if len(children) > width else None
    shown = []
    for child in children[:width]:
        if child.id in visited:
            stop = Stop.CYCLE
            continue
        visited.add(child.id)
        shown.append(_below(child, children_of, depth - 1, width, visited))
    return Descendants(session, tuple(shown), stop)
