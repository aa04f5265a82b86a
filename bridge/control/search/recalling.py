"""Use case: finding again what was said in one chat. No other chat is looked into, and no model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.delegations.evidence import RESULT_KIND
from bridge.control.delegations.store import workers_of_results
from bridge.control.search.indexing import SEARCH_PATIENCE_SECONDS, catch_up
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.models import Entry, Node
from bridge.conversations.paths import path_nodes
from bridge.conversations.references import require_entry
from bridge.foundation.ids import entry_id
from bridge.recall.index import require_readable_session, require_whole_texts
from bridge.recall.recalling import Place, Scope, search
from bridge.recall.store import unreadable_entry
from bridge.recall.terms import Query, excerpt, parse_query
from bridge.recall.texts import searchable_text
from bridge.semantics.interpretation import require_readable
from bridge.storage.transaction import Connection

#: Hits on one page, unless another number is asked for, and at most.
DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that was found.

    Parameters
    ----------
    excerpt
        Its words around the match, on one line.
    is_active
        Whether it lies on the session's active path.
    is_source
        Whether it lies in a session whose result the active path cites; only for a deep question.
    """

    entry: Entry
    excerpt: str
    is_active: bool
    is_source: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.entry.id,
            "session_id": self.entry.session_id,
            "parent_entry_id": self.entry.parent_entry_id,
            "sequence": self.entry.sequence,
            "kind": self.entry.kind,
            "created_at": self.entry.created_at,
            "active": self.is_active,
            "source": self.is_source,
            "excerpt": self.excerpt,
        }


@dataclass(frozen=True, slots=True)
class Recalled:
    """A page of hits.

    Parameters
    ----------
    is_relaxed
        Whether no entry holds every word, so that these hold some of them.
    ignored
        Words left out because there were too many.
    is_empty_query
        Whether there was no letter and no digit to look for.
    is_complete
        Whether everything recorded in the session was looked through.
    """

    session_id: str
    hits: tuple[Hit, ...]
    has_more: bool
    is_relaxed: bool
    ignored: int
    is_empty_query: bool
    is_complete: bool = True

    def to_json(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "hits": [hit.to_json() for hit in self.hits],
            "hasMore": self.has_more,
            "relaxed": self.is_relaxed,
            "ignored": self.ignored,
            "empty_query": self.is_empty_query,
            "complete": self.is_complete,
        }


def recall(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    text: str,
    *,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    deep: bool = False,
) -> Recalled:
    """Return the conversational entries of a session that hold the words of a text, the best first.

    A session that is a fork includes what lies before it on its origin's path. Entries that are new since the last
    search are indexed first, for a while; what is missing after that is said.

    Parameters
    ----------
    deep
        Whether to look also into the sessions of workers whose results lie on the active path. Nothing of that is
        recorded, or becomes part of any context.

    Raises
    ------
    UnsupportedSemanticVersion
        If the session holds an entry that this Bridge does not read.
    SessionNotFound, AmbiguousReference, InvalidReference
        If it cannot be found.
    """
    query = parse_query(text)
    limit, offset = max(1, min(limit, MAX_LIMIT)), max(0, offset)
    with controller.store.read() as connection:
        session_id = find_session(connection, standpoint, session)
        scopes = _scopes(connection, session_id)
        sources = _sources(connection, session_id) if deep else ()
        scopes += tuple(Scope(source) for source in sources if source not in {scope.session_id for scope in scopes})
    is_complete = not query.phrases or catch_up(
        controller, [scope.session_id for scope in scopes], patience_seconds=SEARCH_PATIENCE_SECONDS
    )
    with controller.store.read() as connection:
        require_whole_texts(connection, [scope.session_id for scope in scopes] if query.phrases else ())
        page = search(connection, scopes, query, limit=limit, offset=offset)
        active = {node.id for node in _path(connection, session_id)}
        hits = tuple(_hit(connection, place, query, active, sources) for place in page.places)
    is_empty = not query.phrases
    return Recalled(session_id, hits, page.has_more, page.is_relaxed, query.ignored, is_empty, is_complete)


def _scopes(connection: Connection, session_id: str) -> tuple[Scope, ...]:
    """Return the session itself, and of those it was forked from what lies on its path; refuse what is unreadable."""
    require_readable_session(connection, session_id)
    shared: dict[str, set[int]] = {}
    for node in _path(connection, session_id):
        if node.session_id != session_id:
            require_readable(node.semantic_schema_version, entry_id=node.id)
            shared.setdefault(node.session_id, set()).add(node.sequence)
    return (Scope(session_id), *(Scope(owner, frozenset(sequences)) for owner, sequences in shared.items()))


def _sources(connection: Connection, session_id: str) -> tuple[str, ...]:
    """Return the sessions of the workers whose results lie on the active path, as far as this Bridge reads them."""
    path = _path(connection, session_id)
    results = {node.id for node in path if node.kind == RESULT_KIND}
    workers = workers_of_results(connection, {node.session_id for node in path}, results) if results else []
    return tuple(worker for worker in workers if unreadable_entry(connection, worker) is None)


def _path(connection: Connection, session_id: str) -> Sequence[Node]:
    return path_nodes(connection, require_session(connection, session_id).active_entry_id)


def _hit(connection: Connection, place: Place, query: Query, active: set[str], sources: Sequence[str]) -> Hit:
    entry = require_entry(connection, entry_id(place.session_id, place.sequence))
    text = searchable_text(entry.semantic_schema_version, entry.kind, entry.payload_text, entry.context_visibility)
    return Hit(entry, excerpt(text, query), entry.id in active, entry.session_id in sources)
