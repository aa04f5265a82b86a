"""Use case: which sessions a session descends from, and which descend from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from bridge.control.controller import Controller
from bridge.control.reading.views import session_view
from bridge.control.standpoint import Standpoint, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.models import Session
from bridge.conversations.store import get_session, list_sessions
from bridge.lineage.descent import Ancestry, Descendants, ancestors, descendants
from bridge.storage.transaction import Connection


@dataclass(frozen=True, slots=True)
class Lineage:
    """A session between its ancestors, its parent first, and its descendants."""

    session: Session
    ancestry: Ancestry[Session]
    descent: Descendants[Session]

    def to_json(self) -> dict[str, Any]:
        stop = self.ancestry.stop
        return {
            **session_view(self.session),
            "ancestors": [session_view(ancestor) for ancestor in self.ancestry.sessions],
            "ancestors_stop": None if stop is None else str(stop),
            "children": [_descendants_view(child) for child in self.descent.children],
            "children_stop": None if self.descent.stop is None else str(self.descent.stop),
        }


def lineage_of(controller: Controller, standpoint: Standpoint, session: str | None) -> Lineage:
    """Return the lineage of a session, ten generations at most in either direction.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        If the session cannot be found.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        return Lineage(
            found,
            ancestors(found, partial(get_session, connection)),
            descendants(found, partial(_children_of, connection)),
        )


def _children_of(connection: Connection, session_id: str, limit: int) -> list[Session]:
    return list_sessions(connection, parent_session_id=session_id, limit=limit)


def _descendants_view(descent: Descendants[Session]) -> dict[str, Any]:
    return {
        **session_view(descent.session),
        "children": [_descendants_view(child) for child in descent.children],
        "children_stop": None if descent.stop is None else str(descent.stop),
    }
