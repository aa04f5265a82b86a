"""Use cases that read the forest. Each looks at one snapshot, blocks, and leaves everything as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.control.controller import Controller
from bridge.control.exchange.foreign.store import LinkRow, links_of
from bridge.control.reading.paging import Annotated, Selection, newest, oldest, path_rows, session_rows
from bridge.control.reading.views import entry_view, session_view, stamp_view
from bridge.control.standpoint import Standpoint, find_entry, find_session, places_at
from bridge.conversations.condition.store import quarantine_reasons, unreadable_versions
from bridge.conversations.errors import EntryNotFound, PathBroken, SessionQuarantined
from bridge.conversations.facets import Annotation, Facet, facet_of, problem_of
from bridge.conversations.forest import require_session
from bridge.conversations.models import Cursor, Entry, Label, ListedEntry, Session
from bridge.conversations.paths import (
    ForkOrigin,
    fork_origin,
    lies_on_active_path,
    lies_on_shared_path,
)
from bridge.conversations.placing import turn_of
from bridge.conversations.references import require_entry
from bridge.conversations.store import (
    list_children,
    list_cursors,
    list_labels,
    list_sessions,
)
from bridge.foundation.ids import short_entry, short_session, split_entry_id
from bridge.semantics.errors import UnsupportedSemanticVersion
from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.semantics.stamps import RepositoryState, UnknownReason
from bridge.storage.transaction import Connection
from bridge.workspaces.models import Workspace
from bridge.workspaces.store import find_workspace, load_state


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """A session with what belongs to it."""

    session: Session
    workspace: Workspace | None
    origin: ForkOrigin | None
    labels: tuple[Label, ...]
    cursors: tuple[Cursor, ...]

    def to_json(self) -> dict[str, Any]:
        origin = self.origin
        return {
            **session_view(self.session),
            "workspace": None if self.workspace is None else self.workspace.to_json(),
            "forked_from": None if origin is None else {"entry_id": origin.entry_id, "entry_hash": origin.entry_hash},
            "labels": [{"name": label.name, "entry_id": label.entry_id} for label in self.labels],
            "cursors": [{"owner": cursor.owner, "leaf_entry_id": cursor.leaf_entry_id} for cursor in self.cursors],
        }


@dataclass(frozen=True, slots=True)
class Log:
    """Entries of a session, each with what it is to an onlooker.

    Parameters
    ----------
    labels
        Names of the entries that have some, by id.
    has_more
        Whether the limit left out some: older ones, or, if entries after one were asked for, newer ones.
    """

    session: Session
    rows: tuple[Annotated, ...]
    labels: dict[str, list[str]]
    has_more: bool = False

    @property
    def entries(self) -> tuple[ListedEntry, ...]:
        return tuple(row.entry for row in self.rows)

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {**entry_view(entry, labels=self.labels.get(entry.id, ())), **annotation.to_json()}
            for entry, annotation in self.rows
        ]


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """An entry with its state, its place and its names."""

    entry: Entry
    state: RepositoryState | UnknownReason | None
    labels: tuple[str, ...]
    children: tuple[str, ...]
    is_active: bool
    annotation: Annotation
    links: tuple[LinkRow, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            **entry_view(self.entry, labels=self.labels),
            **self.annotation.to_json(),
            "payload_text": self.entry.payload_text,
            "stamp": stamp_view(self.entry, self.state),
            "children": list(self.children),
            "active": self.is_active,
            "links": [
                {"relation": link.relation, "key": link.target_key, "entry_id": link.target_entry_id}
                for link in self.links
            ],
        }


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Sessions, the last touched first; ``has_more`` says whether there are others behind them."""

    sessions: tuple[Session, ...]
    has_more: bool


def session_page(
    controller: Controller,
    standpoint: Standpoint,
    *,
    everywhere: bool = False,
    kinds: Sequence[str] = ("chat",),
    limit: int | None = None,
    before: tuple[str, str] | None = None,
) -> SessionPage:
    """Return a page of the sessions of a place, the last touched first, at a cost that does not grow with their number.

    Parameters
    ----------
    everywhere
        Sessions of all workspaces and of none; else those at home where the request is made (``places_at``).
    kinds
        Which kinds; empty means all.
    limit
        At most so many; None means all.
    before
        ``(updated_at, id)`` of the last session of the page before. One that is touched in between moves to the
        front and is not listed twice.
    """
    with controller.store.read() as connection:
        places = None if everywhere else places_at(connection, standpoint.directory)
        wanted = None if limit is None else limit + 1
        found = list_sessions(connection, workspace_ids=places, kinds=kinds or None, limit=wanted, before=before)
        return SessionPage(tuple(found[:limit]), has_more=limit is not None and len(found) > limit)


def unreadable_sessions(controller: Controller) -> dict[str, dict[str, Any]]:
    """Return the sessions that this Bridge does not read, or not as a whole, and why; by id, as doors show it.

    ``code`` is that of the error that readers of the session raise: ``session_quarantined`` with the ``reason``, or
    ``unsupported_semantic_version`` with the versions ``found`` and ``supported``.
    """
    with controller.store.read() as connection:
        foreign, damaged = unreadable_versions(connection), quarantine_reasons(connection)
    supported = list(READABLE_VERSIONS)
    return {
        **{
            session_id: {"code": UnsupportedSemanticVersion.code, "found": found, "supported": supported}
            for session_id, found in foreign.items()
        },
        **{session_id: {"code": SessionQuarantined.code, "reason": reason} for session_id, reason in damaged.items()},
    }


def session_details(controller: Controller, standpoint: Standpoint, session: str | None) -> SessionDetails:
    """Return a session with its workspace, origin, labels and cursors. Raises as ``find_session``."""
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        return SessionDetails(
            session=found,
            workspace=None if found.workspace_id is None else find_workspace(connection, found.workspace_id),
            origin=fork_origin(connection, found.id),
            labels=tuple(list_labels(connection, found.id)),
            cursors=tuple(list_cursors(connection, found.id)),
        )


def read_log(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    limit: int | None = None,
    all_branches: bool = False,
    before: str | None = None,
    after: str | None = None,
    facets: Sequence[Facet] = (),
    problems_only: bool = False,
    turn: str | None = None,
) -> Log:
    """Return the active path of a session, oldest first, or all its own entries in the order of sequence.

    No more is read than what is returned and, with filters, what must be looked through to find it.

    Parameters
    ----------
    limit
        At most so many of the wanted entries: the last ones, or with ``after`` the first ones behind it.
    all_branches
        Whether to read every branch; what a fork shares with its origin is not part of that.
    before
        Reference to an entry of the session; only what lies before it on its path, or in sequence. The key of the
        next page: the first entry of this one.
    after
        Reference to an entry; only what lies behind it.
    facets, problems_only
        Only entries of one of these facets; only those that tell of a problem.
    turn
        Reference to any entry of a turn; only entries of that turn.

    Raises
    ------
    SessionNotFound, EntryNotFound, AmbiguousReference, InvalidReference
        As ``find_session`` and ``find_entry``.
    EntryNotOnPath
        If ``after``, or the beginning of the turn, does not lie on the path that is read.
    PathBroken
        If the path does not reach its root.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        bounds = [
            None if reference is None else find_entry(connection, standpoint, reference, session_id=found.id)
            for reference in (before, after, turn)
        ]
        for bound in bounds:
            require_belonging(connection, found, bound, own=all_branches)
        before_id, after_id, turn_id = bounds
        began = None if turn_id is None else turn_of(connection, turn_id)
        if turn_id is not None and began is None:
            return Log(found, (), {})
        selection = Selection(facets=tuple(facets), problems_only=problems_only, turn=began)
        read = session_rows if all_branches else path_rows
        rows = read(connection, found, selection, before=before_id, after=after_id, limit=limit)
        page = newest(rows, limit) if after_id is None else oldest(rows, limit)
        names = labels_of(connection, {row.entry.session_id for row in page.rows})
        return Log(found, tuple(page.rows), names, page.has_more)


def require_belonging(connection: Connection, session: Session, entry_id: str | None, *, own: bool) -> None:
    """Refuse an entry that is not one of the session's, or with ``own`` lies in the session it was forked from."""
    if entry_id is None or split_entry_id(entry_id)[0] == session.id:
        return
    if own or not lies_on_shared_path(connection, session.id, entry_id):
        raise EntryNotFound(
            f"Session {short_session(session.id)} has no entry {short_entry(entry_id)}.",
            details={"session_id": session.id, "entry_id": entry_id},
        )


def read_entry(controller: Controller, standpoint: Standpoint, entry: str) -> EntryDetails:
    """Return an entry with its state. One of an unreadable version is returned as well, marked in its view.

    Raises
    ------
    EntryNotFound, SessionNotFound, AmbiguousReference, InvalidReference
        As ``find_entry``.
    StateDamaged
        If the stored state does not match its digest.
    """
    with controller.store.read() as connection:
        return entry_details(connection, find_entry(connection, standpoint, entry))


def entry_of(controller: Controller, entry_id: str) -> EntryDetails:
    """Return an entry by its full id, as :func:`read_entry` does."""
    with controller.store.read() as connection:
        return entry_details(connection, entry_id)


def entry_details(connection: Connection, entry_id: str) -> EntryDetails:
    """Return an entry, by its full id, with its state. Raises as :func:`read_entry`."""
    entry = require_entry(connection, entry_id)
    return EntryDetails(
        entry=entry,
        state=None if entry.state_digest is None else load_state(connection, entry.state_digest),
        labels=tuple(labels_of(connection, [entry.session_id]).get(entry.id, ())),
        children=tuple(node.id for node in list_children(connection, entry.session_id, entry.id)),
        is_active=_is_active(connection, entry),
        annotation=Annotation(_turn_of(connection, entry), facet_of(entry.kind), problem_of(entry)),
        links=tuple(links_of(connection, entry.session_id, [entry.id])),
    )


def _is_active(connection: Connection, entry: Entry) -> bool:
    try:
        return lies_on_active_path(connection, entry.session_id, entry.id)
    except (SessionQuarantined, PathBroken):
        # A single entry of a damaged session can be looked at all the same.
        return False


def _turn_of(connection: Connection, entry: Entry) -> str | None:
    try:
        return turn_of(connection, entry.id)
    except (SessionQuarantined, PathBroken, EntryNotFound):
        return None


def labels_of(connection: Connection, session_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return the labels of sessions by the ids of the entries that have them."""
    names: dict[str, list[str]] = {}
    for session_id in session_ids:
        for label in list_labels(connection, session_id):
            names.setdefault(label.entry_id, []).append(label.name)
    return names
