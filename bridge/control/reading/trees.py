"""The tree of a session and its branches, as every door shows them. Each looks at one snapshot and blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.reading.outline import BranchTip, active_ids, branch_tips, children_of, side_ways, telling_ids
from bridge.control.reading.sessions import labels_of, require_belonging
from bridge.control.reading.views import node_view, summary_of, unreadable
from bridge.control.standpoint import Standpoint, find_entry, find_session
from bridge.conversations.forest import require_session
from bridge.conversations.listing.store import count_children, entries_by_id, oldest_nodes
from bridge.conversations.models import Cursor, Node, Session
from bridge.conversations.paths import ForkOrigin, fork_origin, node_pages
from bridge.conversations.store import list_cursors, list_nodes, list_sessions
from bridge.foundation.ids import split_entry_id
from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage.transaction import Connection

#: Payloads held at a time where only their first words are kept.
_BATCH: Final = 500
#: Sessions among whose origins the forks of one are looked for, those touched last.
MAX_FORKS: Final = 200


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An entry in the tree of its session.

    Parameters
    ----------
    cursors
        Owners of the cursors that stand at it.
    forks
        Sessions that were forked from it.
    summary
        What it says in short; empty if it says nothing, cannot be read, or is not shown.
    is_active
        Whether the entry lies on the active path.
    is_readable
        Whether this Bridge can give it a meaning.
    is_shown
        Whether it is one of those that were asked for; the others are there for the shape.
    """

    node: Node
    labels: tuple[str, ...]
    cursors: tuple[str, ...]
    forks: tuple[str, ...]
    summary: str
    children: int
    is_active: bool
    is_head: bool
    is_readable: bool
    is_shown: bool = True

    def to_json(self) -> dict[str, Any]:
        shown = node_view(
            self.node, labels=self.labels, active=self.is_active, is_head=self.is_head, children=self.children
        )
        return {
            **shown,
            "cursors": list(self.cursors),
            "forks": list(self.forks),
            "readable": self.is_readable,
            "text": self.summary,
        }


@dataclass(frozen=True, slots=True)
class SessionTree:
    """Entries of a session without its synthetic root, in the order of sequence.

    Parameters
    ----------
    has_more
        Whether a limit left some out: earlier ones of a whole tree, later ones of a page.
    """

    session: Session
    origin: ForkOrigin | None
    nodes: tuple[TreeNode, ...]
    has_more: bool = False

    def to_json(self) -> list[dict[str, Any]]:
        return [node.to_json() for node in self.nodes if node.is_shown]


@dataclass(frozen=True, slots=True)
class BranchDetails:
    """A branch with the words it began with, the names and time of its end, and the cursors that stand on it."""

    tip: BranchTip
    summary: str
    labels: tuple[str, ...]
    cursors: tuple[Cursor, ...]
    leaf_created_at: str

    def to_json(self) -> dict[str, Any]:
        return {
            "leaf_entry_id": self.tip.leaf_entry_id,
            "first_entry_id": self.tip.first_entry_id,
            "branch_point_entry_id": self.tip.branch_point_entry_id,
            "entries": self.tip.entries,
            "active": self.tip.is_active,
            "labels": list(self.labels),
            "cursors": [{"owner": cursor.owner, "leaf_entry_id": cursor.leaf_entry_id} for cursor in self.cursors],
            "text": self.summary,
            "created_at": self.leaf_created_at,
        }


@dataclass(frozen=True, slots=True)
class Branches:
    """Branches of a session; ``has_more`` says whether a limit left out earlier ones."""

    session: Session
    branches: tuple[BranchDetails, ...]
    has_more: bool = False

    def to_json(self) -> list[dict[str, Any]]:
        session_id = self.session.id
        return [{"session_id": session_id, **branch.to_json()} for branch in self.branches]


def read_tree(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    everything: bool = True,
    limit: int | None = None,
) -> SessionTree:
    """Return the tree of a session, all of its shape. Raises as ``find_session``.

    Parameters
    ----------
    everything
        Whether every entry is shown, not only those that tell of the conversation (``outline.telling_ids``).
    limit
        How many are shown, the last recorded ones; the head, and what has a label or a cursor, are always shown.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        nodes = list_nodes(connection, found.id)
        path, children = active_ids(nodes, found.active_entry_id), children_of(nodes)
        names, owners = labels_of(connection, [found.id]), _owners(connection, found.id)
        forks = _forks(connection, found.id)
        marked = {found.active_entry_id, *names, *owners, *forks}
        sides = frozenset() if everything else side_ways(nodes, children, path)
        everyone = telling_ids(nodes, children, marked, sides, everything=everything, limit=None)
        shown = everyone
        if limit is not None and limit < len(everyone):
            shown = telling_ids(nodes, children, marked, sides, everything=everything, limit=limit)
        words = _words(connection, found.id, [node.id for node in nodes if node.id in shown])
        around = _Surroundings(found, names, owners, forks, words, path)
        tree = tuple(around.place(node, len(children.get(node.id, ()))) for node in nodes if node.sequence > 0)
        return SessionTree(found, fork_origin(connection, found.id), tree, has_more=len(shown) < len(everyone))


def read_tree_page(
    controller: Controller, standpoint: Standpoint, session: str | None, *, after: str | None = None, limit: int
) -> SessionTree:
    """Return entries of a session with their places, in the order of sequence, without reading all of it.

    Parameters
    ----------
    after
        Reference to an own entry of the session: only what was recorded later. The key of the next page: the last
        entry of this one.

    Raises
    ------
    SessionNotFound, EntryNotFound, AmbiguousReference, InvalidReference
        As ``find_session`` and ``find_entry``.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        after_id = None if after is None else find_entry(connection, standpoint, after, session_id=found.id)
        require_belonging(connection, found, after_id, own=True)
        start = 0 if after_id is None else split_entry_id(after_id)[1]
        nodes = oldest_nodes(connection, found.id, after_sequence=start, limit=limit + 1)
        page = nodes[:limit]
        ids = [node.id for node in page]
        names, owners = labels_of(connection, [found.id]), _owners(connection, found.id)
        forks = _forks(connection, found.id)
        counts, words = count_children(connection, found.id, ids), _words(connection, found.id, ids)
        path = _active_from(connection, found, page[0].sequence) if page else frozenset()
        around = _Surroundings(found, names, owners, forks, words, path)
        tree = tuple(around.place(node, counts.get(node.id, 0)) for node in page)
        return SessionTree(found, fork_origin(connection, found.id), tree, has_more=len(nodes) > limit)


def read_branches(
    controller: Controller,
    standpoint: Standpoint,
    session: str | None,
    *,
    include_all: bool = False,
    limit: int | None = None,
    before: str | None = None,
) -> Branches:
    """Return the branches of a session (see ``outline.branch_tips``). Raises as ``find_session``.

    Parameters
    ----------
    limit
        At most so many, those whose last entry was recorded last.
    before
        Reference to an entry: only branches whose last entry was recorded before it. The key of the next page: the
        last entry of the first branch of this one.
    """
    with controller.store.read() as connection:
        found = require_session(connection, find_session(connection, standpoint, session))
        before_id = None if before is None else find_entry(connection, standpoint, before, session_id=found.id)
        require_belonging(connection, found, before_id, own=True)
        cursors: dict[str, list[Cursor]] = {}
        for cursor in list_cursors(connection, found.id):
            cursors.setdefault(cursor.leaf_entry_id, []).append(cursor)
        tips = branch_tips(
            list_nodes(connection, found.id), found.active_entry_id, include_all=include_all, cursor_leaves=cursors
        )
        if before_id is not None:
            end = split_entry_id(before_id)[1]
            tips = [tip for tip in tips if split_entry_id(tip.leaf_entry_id)[1] < end]
        chosen = tips if limit is None else tips[-limit:]
        names = labels_of(connection, [found.id])
        ends = entries_by_id(connection, found.id, [tip.leaf_entry_id for tip in chosen])
        words = _words(connection, found.id, [tip.spoken_entry_id for tip in chosen])
        branches = tuple(
            BranchDetails(
                tip=tip,
                summary=words[tip.spoken_entry_id][0],
                labels=tuple(names.get(tip.leaf_entry_id, ())),
                cursors=tuple(cursor for leaf in tip.cursor_leaves for cursor in cursors[leaf]),
                leaf_created_at=ends[tip.leaf_entry_id].created_at,
            )
            for tip in chosen
        )
        return Branches(found, branches, has_more=len(chosen) < len(tips))


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What the nodes of one session are looked up in."""

    session: Session
    labels: Mapping[str, Sequence[str]]
    owners: Mapping[str, Sequence[str]]
    forks: Mapping[str, Sequence[str]]
    words: Mapping[str, tuple[str, bool]]
    path: Collection[str]

    def place(self, node: Node, children: int) -> TreeNode:
        summary, is_readable = self.words.get(node.id) or ("", node.semantic_schema_version in READABLE_VERSIONS)
        return TreeNode(
            node=node,
            labels=tuple(self.labels.get(node.id, ())),
            cursors=tuple(self.owners.get(node.id, ())),
            forks=tuple(self.forks.get(node.id, ())),
            summary=summary,
            children=children,
            is_active=node.id in self.path,
            is_head=node.id == self.session.active_entry_id,
            is_readable=is_readable,
            is_shown=node.id in self.words,
        )


def _words(connection: Connection, session_id: str, ids: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Return what entries say in short, and whether they can be read. Few payloads are held at a time."""
    words: dict[str, tuple[str, bool]] = {}
    for start in range(0, len(ids), _BATCH):
        for entry in entries_by_id(connection, session_id, ids[start : start + _BATCH]).values():
            words[entry.id] = (summary_of(entry), unreadable(entry) is None)
    return words


def _owners(connection: Connection, session_id: str) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for cursor in list_cursors(connection, session_id):
        owners.setdefault(cursor.leaf_entry_id, []).append(cursor.owner)
    return owners


def _forks(connection: Connection, session_id: str) -> dict[str, list[str]]:
    """Return the sessions forked from a session's entries by these, oldest first; of very many the latest."""
    forks: dict[str, list[str]] = {}
    children = list_sessions(connection, parent_session_id=session_id, limit=MAX_FORKS)
    for child in sorted(children, key=lambda child: (child.created_at, child.id)):
        origin = fork_origin(connection, child.id) if child.parent_relation == "forked" else None
        if origin is not None:
            forks.setdefault(origin.entry_id, []).append(child.id)
    return forks


def _active_from(connection: Connection, session: Session, sequence: int) -> frozenset[str]:
    """Return the ids of the active path's entries from a sequence on."""
    found: set[str] = set()
    for page in node_pages(connection, session.active_entry_id, first=_BATCH):
        own = [node.id for node in page if node.session_id == session.id and node.sequence >= sequence]
        found.update(own)
        if len(own) < len(page):
            break
    return frozenset(found)
