"""Keeping the search index: derived data, caught up when it is about to be read, and never on the way of a write.

The mark of a session says how far it is indexed without a gap. It moves in the same transaction as what it speaks
of, so a crash leaves both behind or neither. Everything can be dropped; it comes back the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.recall import store
from bridge.recall.terms import INDEX_VERSION, Query, terms
from bridge.recall.texts import is_searchable, searchable_text
from bridge.semantics.interpretation import require_readable
from bridge.storage.transaction import Connection, Transaction

#: Entries indexed in one transaction: other writers wait no longer than that takes.
MAX_BATCH: Final = 500


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


def require_readable_session(connection: Connection, session_id: str) -> None:
    """Refuse a session that holds an entry this Bridge does not read: what was not found might be in there.

    Raises
    ------
    UnsupportedSemanticVersion
        If there is such an entry; ``details`` names the first.
    """
    found = store.unreadable_entry(connection, session_id)
    if found is not None:
        require_readable(found[1], entry_id=found[0])


def is_behind(connection: Connection, session_id: str) -> bool:
    """Return whether entries of a session are missing from the index, or were indexed in another way."""
    store.require_index(connection)
    mark = store.mark_of(connection, session_id)
    if mark is None or mark[1] != INDEX_VERSION:
        return True
    return mark[0] < store.last_sequence(connection, session_id)


def catch_up(tx: Transaction, session_id: str, *, limit: int = MAX_BATCH) -> bool:
    """Index the next entries of a session; return whether it is complete now.

    What was indexed under another version is thrown away, of all sessions: the index cannot forget a single entry.
    """
    store.require_index(tx.connection)
    mark = store.mark_of(tx.connection, session_id)
    if mark is not None and mark[1] != INDEX_VERSION:
        store.clear(tx)
        mark = None
    through = -1 if mark is None else mark[0]
    rows = store.entries_after(tx.connection, session_id, through, limit)
    for row in rows:
        if not is_searchable(row.kind, row.context_visibility):
            continue
        stored = store.text_of(tx.connection, session_id, row)
        found = terms(searchable_text(row.semantic_schema_version, row.kind, stored, row.context_visibility))
        if found:
            store.add_document(tx, session_id, row.sequence, found)
    if rows or mark is None:
        store.put_mark(tx, session_id, rows[-1].sequence if rows else through, INDEX_VERSION)
    return len(rows) < limit


def drop(tx: Transaction) -> None:
    """Throw the whole index away; the next search makes of it what it needs."""
    store.require_index(tx.connection)
    store.clear(tx)


def forget_gaps(tx: Transaction, session_id: str) -> None:
    """Throw away what was indexed if it includes a session into which entries came below its mark."""
    if tx.connection.dialect.name == "sqlite" and store.mark_of(tx.connection, session_id) is not None:
        store.clear(tx)


def is_sound(tx: Transaction) -> bool:
    """Return whether the index holds as many entries as have a place in it, after its own check of its structure.

    Raises
    ------
    DatabaseFailed
        If its structure is damaged; :func:`drop` mends that.
    """
    store.require_index(tx.connection)
    store.check_structure(tx)
    places, held = store.count_documents(tx.connection)
    return places == held


def search(connection: Connection, scopes: Iterable[Scope], query: Query, *, limit: int, offset: int = 0) -> Page:
    """Return the entries within some scopes that hold everything asked for; if none does, those that hold a part."""
    store.require_index(connection)
    known = {scope.session_id: scope for scope in scopes}
    if not query.phrases or not known:
        return Page((), has_more=False, is_relaxed=False)
    page = _page(connection, known, query, limit, offset, match_all=True)
    if page.places or len(query.phrases) == 1:
        return page
    if offset and _page(connection, known, query, 1, 0, match_all=True).places:
        return page
    return _page(connection, known, query, limit, offset, match_all=False)


def _page(
    connection: Connection, scopes: dict[str, Scope], query: Query, limit: int, offset: int, *, match_all: bool
) -> Page:
    found: list[Place] = []
    for session_id, sequence in store.search(connection, list(scopes), query.phrases, match_all=match_all):
        scope = scopes.get(session_id)
        if scope is not None and scope.includes(sequence):
            found.append(Place(session_id, sequence))
            if len(found) > offset + limit:
                break
    return Page(tuple(found[offset : offset + limit]), has_more=len(found) > offset + limit, is_relaxed=not match_all)
