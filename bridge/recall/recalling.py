"""Looking entries up in one session, and in the parts of others that belong to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.recall import store
from bridge.recall.index import scope_of_session
from bridge.recall.ranking import score_entry
from bridge.recall.terms import Phrase, Query
from bridge.storage import fulltext
from bridge.storage.transaction import Connection

#: Newest matches that are put in order by what they say; older ones follow by their time.
WINDOW: Final = 1_000
#: Words of a query that are weighed one by one.
MAX_WEIGHED: Final = 12


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a search may look.

    Parameters
    ----------
    sequences
        Which entries of the session; None means all. A fork sees of its origin what lies on the shared path.
    """

    session_id: str
    sequences: frozenset[int] | None = None

    def includes(self, sequence: int) -> bool:
        return self.sequences is None or sequence in self.sequences


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hit lies."""

    session_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some hits, the best first.

    Parameters
    ----------
    has_more
        Whether a further one follows; known from having looked at it.
    is_relaxed
        Whether no entry holds everything asked for, so that these hold a part of it.
    """

    places: tuple[Place, ...]
    has_more: bool
    is_relaxed: bool


def search(connection: Connection, scopes: Iterable[Scope], query: Query, *, limit: int, offset: int = 0) -> Page:
    """Return the entries within some scopes that hold everything asked for; if none does, those that hold a part."""
    known = {scope.session_id: scope for scope in scopes}
    chats = _chats(connection, known)
    if not query.phrases or not chats:
        return Page((), has_more=False, is_relaxed=False)
    weights = _weights(connection, query.phrases)
    found = _found(connection, chats, [(phrase,) for phrase in query.phrases], weights, offset + limit)
    is_relaxed = False
    if not found and len(query.phrases) > 1:
        found = _found_in_part(connection, chats, query.phrases, weights, offset + limit)
        is_relaxed = bool(found)
    page = tuple(found[offset : offset + limit])
    return Page(page, has_more=len(found) > offset + limit, is_relaxed=is_relaxed)


def _chats(connection: Connection, scopes: Mapping[str, Scope]) -> dict[int, Scope]:
    found = {}
    for session_id, scope in scopes.items():
        mark = store.mark_of(connection, session_id)
        if mark is not None:
            found[mark.chat] = scope
    return found


def _weights(connection: Connection, phrases: Sequence[Phrase]) -> list[float]:
    counts = store.frequencies(connection, {term for phrase in phrases for term in phrase})
    total = max(store.state(connection).get("documents", 0), 1)
    return [math.log(1 + total / max(1, min(counts.get(term, 0) for term in phrase))) for phrase in phrases]


def _found(
    connection: Connection,
    chats: Mapping[int, Scope],
    groups: Sequence[fulltext.Group],
    weights: Sequence[float],
    wanted: int,
) -> list[Place]:
    """Return the entries that hold one phrase of each group, in order, one more than wanted if there is one."""
    rows = _rows(connection, chats, groups, wanted)
    average = sum(row[3] for row in rows) / len(rows) if rows else 0.0
    scored = [(score_entry(sum(weights), row[3], average), row) for row in rows[:WINDOW]]
    scored.sort(key=lambda one: (-one[0], -one[1][0]))
    return _places(chats, [row for _, row in scored] + rows[WINDOW:], wanted)


def _found_in_part(
    connection: Connection, chats: Mapping[int, Scope], phrases: Sequence[Phrase], weights: Sequence[float], wanted: int
) -> list[Place]:
    rows: dict[int, tuple[int, ...]] = {}
    said: dict[int, float] = {}
    for phrase, weight in zip(phrases[:MAX_WEIGHED], weights, strict=False):
        for row in _rows(connection, chats, [(phrase,)], wanted):
            rows[row[0]] = row
            said[row[0]] = said.get(row[0], 0.0) + weight
    average = sum(row[3] for row in rows.values()) / len(rows) if rows else 0.0
    scored = [(score_entry(said[number], row[3], average), row) for number, row in rows.items()]
    scored.sort(key=lambda one: (-one[0], -one[1][0]))
    return _places(chats, [row for _, row in scored], wanted)


def _rows(
    connection: Connection, chats: Mapping[int, Scope], groups: Sequence[fulltext.Group], wanted: int
) -> list[tuple[int, ...]]:
    """Return the newest matches that belong to the scopes, enough for the page that is wanted."""
    scopes = [scope_of_session(chat) for chat in chats]
    limit = max(WINDOW, wanted + 1)
    while True:
        rows = fulltext.newest_entries(connection, scopes, groups, limit=limit)
        # Matches beyond a fork's part of its origin, and further parts of one entry, leave room that others fill.
        inside = [row for row in rows if chats[row[1]].includes(row[2])]
        if len(rows) < limit or len({(row[1], row[2]) for row in inside}) > wanted:
            return inside
        limit *= 4


def _places(chats: Mapping[int, Scope], rows: Sequence[tuple[int, ...]], wanted: int) -> list[Place]:
    """Return where matches lie, each entry once."""
    found: dict[Place, None] = {}
    for row in rows:
        found[Place(chats[row[1]].session_id, row[2])] = None
        if len(found) > wanted:
            break
    return list(found)
