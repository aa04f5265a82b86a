"""Reading along the parents: active paths over forks, ancestors by page, branches.

Order comes from parent links alone; ids, times and row numbers play no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

from bridge.conversations import store
from bridge.conversations.errors import EntryNotFound, PathBroken, SessionNotFound
from bridge.conversations.models import FORKED_FROM, Entry, Node
from bridge.conversations.soundness import require_sound
from bridge.foundation.ids import split_entry_id
from bridge.semantics.kinds import CONVERSATIONAL_KINDS
from bridge.storage.transaction import Connection

#: "Everything": more entries than a path can have.
NO_LIMIT: Final = 2**62
#: Forks of forks that a path may cross; a deeper one is damage rather than work.
MAX_FORK_DEPTH: Final = 1000
#: By how much each page of a path is larger than the one before, and the size at which that ends, in entries.
PAGE_GROWTH: Final = 4
LARGEST_PAGE: Final = 4096

T = TypeVar("T", Entry, Node)


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The entry that a forked session continues."""

    session_id: str
    entry_id: str
    entry_hash: str


@dataclass(frozen=True, slots=True)
class Branch:
    """One way on from a branch point.

    Parameters
    ----------
    first_entry_id
        The child of the branch point that begins it.
    leaf_entry_id
        The leaf recorded last below it.
    leaves, entries
        How many leaves and how many entries lie below, the first included.
    is_active
        Whether the session's head lies on it.
    """

    first_entry_id: str
    leaf_entry_id: str
    leaves: int
    entries: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """An entry from which the conversation went on in more than one way."""

    entry_id: str
    branches: tuple[Branch, ...]


def active_path(
    connection: Connection, session_id: str, *, last: int | None = None, include_roots: bool = False
) -> list[Entry]:
    """Return the entries from the root to the session's head, over the session it was forked from and so on.

    Parameters
    ----------
    last
        At most so many entries, the last ones.
    include_roots
        Whether the synthetic roots are part of it; they carry nothing that was said.

    Raises
    ------
    SessionNotFound
        If there is no such session.
    PathBroken
        If the path does not reach its root.
    """
    head = _head_of(connection, session_id)
    return path_to(connection, head[0], last=last, include_roots=include_roots)


def path_to(
    connection: Connection, entry_id: str, *, last: int | None = None, include_roots: bool = False
) -> list[Entry]:
    """Return the entries from the root to an entry, as :func:`active_path` does for the head.

    Raises
    ------
    EntryNotFound
        If there is no such entry.
    PathBroken
        If the path does not reach its root.
    """
    wanted = NO_LIMIT if last is None else last
    upwards = _climb(connection, entry_id, wanted, store.ancestry, include_roots=include_roots)
    upwards.reverse()
    return upwards


def ancestors(connection: Connection, entry_id: str, *, limit: int) -> list[Entry]:
    """Return an entry and its ancestors, nearest first, one page; synthetic roots are left out.

    The next page begins at the last entry's ``parent_entry_id`` (:func:`parent_of` crosses forks).
    """
    return _climb(connection, entry_id, limit, store.ancestry, include_roots=False)


def path_nodes(connection: Connection, entry_id: str) -> list[Node]:
    """Return the path to an entry, root first, roots included, without loading payloads."""
    upwards = _climb(connection, entry_id, NO_LIMIT, store.node_ancestry, include_roots=True)
    upwards.reverse()
    return upwards


def entry_pages(
    connection: Connection, entry_id: str, *, first: int, largest: int = LARGEST_PAGE
) -> Iterator[list[Entry]]:
    """Yield an entry and what lies before it, nearest first, in pages that grow from ``first`` to ``largest``.

    Who stops early has read no more than a few pages. Synthetic roots are left out.
    """
    return _pages(connection, entry_id, first, largest, store.ancestry)


def node_pages(
    connection: Connection, entry_id: str, *, first: int, largest: int = LARGEST_PAGE
) -> Iterator[list[Node]]:
    """Yield what :func:`entry_pages` does, without loading payloads."""
    return _pages(connection, entry_id, first, largest, store.node_ancestry)


def _pages(
    connection: Connection,
    entry_id: str,
    size: int,
    largest: int,
    load: Callable[[Connection, str, str, int], list[T]],
) -> Iterator[list[T]]:
    at: str | None = entry_id
    while at is not None:
        page = _climb(connection, at, size, load, include_roots=False)
        if not page:
            return
        yield page
        at = parent_of(connection, page[-1])
        size = min(size * PAGE_GROWTH, max(size, largest))


def parent_of(connection: Connection, entry: Entry | Node) -> str | None:
    """Return the id of the entry before one on its path: its parent, or across a fork what it was forked from.

    None for the first entry of a session that is no fork.
    """
    if entry.parent_entry_id is None:
        origin = fork_origin(connection, entry.session_id)
        return None if origin is None else origin.entry_id
    if split_entry_id(entry.parent_entry_id)[1] != 0:
        return entry.parent_entry_id
    origin = fork_origin(connection, entry.session_id)
    return None if origin is None else origin.entry_id


def fork_origin(connection: Connection, session_id: str) -> ForkOrigin | None:
    """Return what a session was forked from, None if it is no fork.

    Raises
    ------
    PathBroken
        If the session has no root, or its root names an origin that cannot be read.
    """
    root = store.get_entry_at(connection, session_id, 0)
    if root is None:
        raise PathBroken(f"Session {session_id} has no root entry.", details={"session_id": session_id})
    payload = root.payload
    origin = payload.get(FORKED_FROM) if isinstance(payload, dict) else None
    if origin is None:
        return None
    try:
        origin_id, origin_hash = origin["entry_id"], origin["entry_hash"]
        origin_session, _ = split_entry_id(origin_id)
    except (KeyError, TypeError) as error:
        raise PathBroken(
            f"The root of session {session_id} names an origin that cannot be read.",
            details={"session_id": session_id},
        ) from error
    return ForkOrigin(origin_session, origin_id, origin_hash)


def origins_of(connection: Connection, session_id: str) -> Iterator[ForkOrigin]:
    """Yield what a session was forked from, then what that one was, and so on. Raises as :func:`fork_origin`."""
    for _ in range(MAX_FORK_DEPTH):
        origin = fork_origin(connection, session_id)
        if origin is None:
            return
        yield origin
        session_id = origin.session_id


def lies_on_active_path(connection: Connection, session_id: str, entry_id: str) -> bool:
    """Return whether an entry lies between the session's root, or that of its origin, and its head."""
    head = _head_of(connection, session_id)
    return any(node.id == entry_id for node in path_nodes(connection, head[0]))


def lies_on_shared_path(connection: Connection, session_id: str, entry_id: str) -> bool:
    """Return whether an entry belongs to a forked session because it lies on the path it was forked from."""
    origin = fork_origin(connection, session_id)
    return origin is not None and any(node.id == entry_id for node in path_nodes(connection, origin.entry_id))


def belongs_to_session(connection: Connection, session_id: str, entry_id: str) -> bool:
    """Return whether an entry is the session's own or lies on the path it was forked from."""
    own = store.entry_hash_of(connection, session_id, entry_id)
    return own is not None or lies_on_shared_path(connection, session_id, entry_id)


def leaves(connection: Connection, session_id: str) -> list[Node]:
    """Return the entries of a session without children, in the order of their sequence."""
    nodes = store.list_nodes(connection, session_id)
    parents = {node.parent_entry_id for node in nodes}
    return [node for node in nodes if node.id not in parents]


def branches(connection: Connection, session_id: str, *, include_all: bool = False) -> list[BranchPoint]:
    """Return the branch points of a session in the order of their sequence.

    A branch point has two or more children that lead to conversational entries; with ``include_all`` every
    entry with two or more children is one, and every child begins a branch.

    Raises
    ------
    SessionNotFound
        If there is no such session.
    """
    head = _head_of(connection, session_id)
    return branch_points(store.list_nodes(connection, session_id), head[0], include_all=include_all)


def branch_points(nodes: Sequence[Node], head_entry_id: str, *, include_all: bool = False) -> list[BranchPoint]:
    """Return the branch points among the nodes of one session, given in the order of sequence. Pure."""
    children: dict[str, list[Node]] = {}
    below: dict[str, _Below] = {}
    active = {head_entry_id}
    points = []
    # Parents come before their children, so one scan from the end sees each subtree complete.
    for node in reversed(nodes):
        own = children.pop(node.id, [])
        below[node.id] = _sum_up(node, [below[child.id] for child in own])
        ways = [child for child in reversed(own) if include_all or below[child.id].is_conversational]
        if len(ways) > 1:
            points.append(BranchPoint(node.id, tuple(_branch(child, below[child.id], active) for child in ways)))
        for child in own:
            del below[child.id]
        if node.parent_entry_id is not None:
            children.setdefault(node.parent_entry_id, []).append(node)
            if node.id in active:
                active.add(node.parent_entry_id)
    points.reverse()
    return points


@dataclass(frozen=True, slots=True)
class _Below:
    """What lies below an entry, itself included."""

    leaf: Node
    leaves: int
    entries: int
    is_conversational: bool


def _sum_up(node: Node, children: list[_Below]) -> _Below:
    is_conversational = node.kind in CONVERSATIONAL_KINDS or any(child.is_conversational for child in children)
    if not children:
        return _Below(node, 1, 1, is_conversational)
    return _Below(
        max((child.leaf for child in children), key=lambda leaf: leaf.sequence),
        sum(child.leaves for child in children),
        1 + sum(child.entries for child in children),
        is_conversational,
    )


def _branch(first: Node, below: _Below, active: set[str]) -> Branch:
    return Branch(first.id, below.leaf.id, below.leaves, below.entries, first.id in active)


def _climb(
    connection: Connection,
    entry_id: str,
    limit: int,
    load: Callable[[Connection, str, str, int], list[T]],
    *,
    include_roots: bool,
) -> list[T]:
    """Return an entry and what lies before it, nearest first, one session after the other."""
    collected: list[T] = []
    session_id, _ = split_entry_id(entry_id)
    for depth in range(MAX_FORK_DEPTH):
        require_sound(connection, session_id)
        # One more than asked for: the root may come along only to be left out.
        segment = load(connection, session_id, entry_id, limit - len(collected) + 1)
        if not segment:
            raise _missing(entry_id, is_origin=depth > 0)
        _require_chain(segment)
        has_root = segment[-1].parent_entry_id is None
        collected.extend(segment if include_roots or not has_root else segment[:-1])
        if len(collected) >= limit:
            return collected[:limit]
        if not has_root:
            raise _broken(segment[-1])
        origin = fork_origin(connection, session_id)
        if origin is None:
            return collected
        session_id, entry_id = origin.session_id, origin.entry_id
    raise PathBroken(f"The path of {session_id} crosses more than {MAX_FORK_DEPTH} forks.")


def _head_of(connection: Connection, session_id: str) -> store.Head:
    require_sound(connection, session_id)
    head = store.get_head(connection, session_id)
    if head is None:
        raise SessionNotFound(f"There is no session {session_id}.", details={"session_id": session_id})
    return head


def _missing(entry_id: str, *, is_origin: bool) -> EntryNotFound | PathBroken:
    details = {"entry_id": entry_id}
    if is_origin:
        return PathBroken(f"The path continues at {entry_id}, which is not there any more.", details=details)
    return EntryNotFound(f"There is no entry {entry_id}.", details=details)


def _require_chain(segment: Sequence[Entry | Node]) -> None:
    for lower, upper in pairwise(segment):
        if lower.parent_entry_id != upper.id:
            raise _broken(lower)


def _broken(entry: Entry | Node) -> PathBroken:
    return PathBroken(
        f"The path ends at {entry.id}: its parent {entry.parent_entry_id} cannot be reached.",
        details={"entry_id": entry.id, "parent_entry_id": entry.parent_entry_id},
    )
