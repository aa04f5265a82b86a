"""Use cases that read the forest. Each looks at one snapshot, blocks, and leaves everything as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.control.controller import Controller
from bridge.control.outline import BranchTip, active_ids, branch_tips, children_of
from bridge.control.standpoint import Standpoint, find_entry, find_session, places_at
from bridge.control.views import entry_view, node_view, session_view, stamp_view, summary_of, unreadable
from bridge.conversations.errors import PathBroken, SessionQuarantined
from bridge.conversations.forest import require_session
from bridge.conversations.models import Cursor, Entry, Label, Node, Session
from bridge.conversations.paths import ForkOrigin, active_path, fork_origin, lies_on_active_path
from bridge.conversations.references import require_entry
from bridge.conversations.store import (
    iterate_entries,
    list_children,
    list_cursors,
    list_labels,
    list_nodes,
    list_sessions,
)
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
    """Entries of a session; ``labels`` holds the names of those that have some."""

    session: Session
    entries: tuple[Entry, ...]
    labels: dict[str, list[str]]

    def to_json(self) -> list[dict[str, Any]]:
        return [entry_view(entry, labels=self.labels.get(entry.id, ())) for entry in self.entries]


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An entry in the tree of its session.

    Parameters
    ----------
    is_active
        Whether the entry lies on the active path.
    is_readable
        Whether this Bridge can give it a meaning; ``summary`` is empty if not.
    """

    node: Node
    labels: tuple[str, ...]
    summary: str
    children: int
    is_active: bool
    is_head: bool
    is_readable: bool

    def to_json(self) -> dict[str, Any]:
        shown = node_view(
            self.node, labels=self.labels, active=self.is_active, is_head=self.is_head, children=self.children
        )
        return {**shown, "readable": self.is_readable, "text": self.summary}


@dataclass(frozen=True, slots=True)
class SessionTree:
    """All entries of a session but its synthetic root, in the order of sequence."""

    session: Session
    origin: ForkOrigin | None
    nodes: tuple[TreeNode, ...]

    def to_json(self) -> list[dict[str, Any]]:
        return [node.to_json() for node in self.nodes]


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """An entry with its state, its place and its names."""

    entry: Entry
    state: RepositoryState | UnknownReason | None
    labels: tuple[str, ...]
    children: tuple[str, ...]
    is_active: bool

    def to_json(self) -> dict[str, Any]:
        return {
            **entry_view(self.entry, labels=self.labels),
            "payload_text": self.entry.payload_text,
            "stamp": stamp_view(self.entry, self.state),
            "children": list(self.children),
            "active": self.is_active,
        }


@dataclass(frozen=True, slots=True)
class BranchDetails:
    """A branch with the words it began with and the names and time of its end."""

    tip: BranchTip
    summary: str
    labels: tuple[str, ...]
    leaf_created_at: str

    def to_json(self) -> dict[str, Any]:
        return {
            "leaf_entry_id": self.tip.leaf_entry_id,
            "first_entry_id": self.tip.first_entry_id,
            "branch_point_entry_id": self.tip.branch_point_entry_id,
            "entries": self.tip.entries,
            "active": self.tip.is_active,
            "labels": list(self.labels),
            "text": self.summary,
            "created_at": self.leaf_created_at,
        }


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches of a session."""

    session: Session
    branches: tuple[BranchDetails, ...]

    def to_json(self) -> list[dict[str, Any]]:
        session_id = self.session.id
        return [{"session_id": session_id, **branch.to_json()} for branch in self.branches]


def sessions_here(
    controller: Controller, standpoint: Standpoint, *, everywhere: bool = False, kinds: Sequence[str] = ("chat",)
) -> list[Session]:
    """Return the sessions of a place, the last touched first.

    Parameters
    ----------
    everywhere
        Sessions of all workspaces and of none; else those at home where the request is made (``places_at``).
    kinds
        Which kinds; empty means all.
    """
    with controller.store.read() as connection:
        places = None if everywhere else places_at(connection, standpoint.directory)
        return list_sessions(connection, workspace_ids=places, kinds=kinds or None)


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
) -> Log:
    """Return the active path of a session, oldest first, or all its own entries in the order of sequence.

    Parameters
    ----------
    limit
        At most so many, the last ones.
    all_branches
        Whether to read every branch; what a fork shares with its origin is not part of that.

    Raises
    ------
    SessionNotFound, AmbiguousReference, InvalidReference
        As ``find_session``.
    PathBroken
        If the path does not reach its root.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        if all_branches:
            after = 0 if limit is None else max(0, found.next_sequence - 1 - limit)
            entries = tuple(iterate_entries(connection, found.id, after_sequence=after))
        else:
            entries = tuple(active_path(connection, found.id, last=limit))
        return Log(found, entries, _labels(connection, {entry.session_id for entry in entries}))


def read_tree(controller: Controller, standpoint: Standpoint, session: str | None) -> SessionTree:
    """Return the tree of a session. Raises as ``find_session``."""
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        nodes = list_nodes(connection, found.id)
        path, children = active_ids(nodes, found.active_entry_id), children_of(nodes)
        names = _labels(connection, [found.id])
        # Payloads are looked at one by one: only their first words are kept.
        words = {
            entry.id: (summary_of(entry), unreadable(entry) is None)
            for entry in iterate_entries(connection, found.id, after_sequence=0)
        }
        tree = tuple(
            TreeNode(
                node=node,
                labels=tuple(names.get(node.id, ())),
                summary=words[node.id][0],
                children=len(children.get(node.id, ())),
                is_active=node.id in path,
                is_head=node.id == found.active_entry_id,
                is_readable=words[node.id][1],
            )
            for node in nodes
            if node.sequence > 0
        )
        return SessionTree(found, fork_origin(connection, found.id), tree)


def read_branches(
    controller: Controller, standpoint: Standpoint, session: str | None, *, include_all: bool = False
) -> Branches:
    """Return the branches of a session (see ``outline.branch_tips``). Raises as ``find_session``."""
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        tips = branch_tips(list_nodes(connection, found.id), found.active_entry_id, include_all=include_all)
        names = _labels(connection, [found.id])
        branches = tuple(
            BranchDetails(
                tip=tip,
                summary=summary_of(require_entry(connection, tip.spoken_entry_id)),
                labels=tuple(names.get(tip.leaf_entry_id, ())),
                leaf_created_at=require_entry(connection, tip.leaf_entry_id).created_at,
            )
            for tip in tips
        )
        return Branches(found, branches)


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
        labels=tuple(_labels(connection, [entry.session_id]).get(entry.id, ())),
        children=tuple(node.id for node in list_children(connection, entry.session_id, entry.id)),
        is_active=_is_active(connection, entry),
    )


def _is_active(connection: Connection, entry: Entry) -> bool:
    try:
        return lies_on_active_path(connection, entry.session_id, entry.id)
    except (SessionQuarantined, PathBroken):
        # A single entry of a damaged session can be looked at all the same.
        return False


def _labels(connection: Connection, session_ids: Iterable[str]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for session_id in session_ids:
        for label in list_labels(connection, session_id):
            names.setdefault(label.entry_id, []).append(label.name)
    return names
