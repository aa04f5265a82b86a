"""Reading along the parents: active paths over forks, ancestors by page, branches.

Order comes from parent links alone; ids, times and row numbers play no part.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

from bridge.conversations import store
from bridge.conversations.errors import EntryNotFound, PathBroken, SessionNotFound
from bridge.conversations.exchange.store import entries_at, path_sequences
from bridge.conversations.models import FORKED_FROM, Entry, ListedEntry, Node, Record
from bridge.conversations.soundness import require_sound
from bridge.foundation.errors import InvalidId
from bridge.foundation.ids import entry_id as make_entry_id
from bridge.foundation.ids import split_entry_id
from bridge.semantics.kinds import CONVERSATIONAL_KINDS
from bridge.storage.transaction import Connection

#: "Everything": more entries than a path can have.
NO_LIMIT: Final = 2**62
#: Entries loaded at a time where a path is not loaded at once.
PAGE: Final = 500
#: Forks of forks that a path may cross; a deeper one is damage rather than work.
MAX_FORK_DEPTH: Final = 1000
#: Entries looked at first when one is looked for on a path.
FIRST_PAGE: Final = 64
#: By how much each page of a path is larger than the one before, and the size at which that ends, in entries.
PAGE_GROWTH: Final = 4
LARGEST_PAGE: Final = 4096

T = TypeVar("T", Entry, ListedEntry, Node)


@dataclass(frozen=True, slots=True)
class ForkOrigin:
    """The entry that a forked session continues."""

    session_id: str
    entry_id: str
    entry_hash: str


@dataclass(frozen=True, slots=True)
class Segment:
    """The part of a path that lies in one session: the sequences of its entries, the root's first."""

    session_id: str
    sequences: array[int]

    @property
    def leaf_entry_id(self) -> str:
        return make_entry_id(self.session_id, self.sequences[-1])


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


def listed_path(connection: Connection, session_id: str, *, last: int | None = None) -> list[ListedEntry]:
    """Return the active path as lists show it, without long texts and roots. Raises as :func:`active_path`."""
    wanted = NO_LIMIT if last is None else last
    head = _head_of(connection, session_id)
    upwards = _climb(connection, head.entry_id, wanted, store.listed_ancestry, include_roots=False)
    upwards.reverse()
    return upwards


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


def active_path_ids(connection: Connection, session_id: str) -> set[str]:
    """Return the ids of the entries on the active path, roots included. Raises as :func:`active_path`."""
    return {node.id for node in path_nodes(connection, _head_of(connection, session_id).entry_id)}


def path_segments(connection: Connection, entry_id: str) -> list[Segment]:
    """Return the path to an entry session by session, outermost first, in eight bytes per entry.

    Raises
    ------
    EntryNotFound
        If there is no such entry.
    PathBroken
        If the path does not reach its root.
    """
    segments: list[Segment] = []
    for _ in range(MAX_FORK_DEPTH):
        session_id, _sequence = split_entry_id(entry_id)
        require_sound(connection, session_id)
        sequences = path_sequences(connection, session_id, entry_id)
        if not sequences:
            raise _missing(entry_id, is_origin=bool(segments))
        if sequences[0] != 0:
            first = make_entry_id(session_id, sequences[0])
            raise PathBroken(f"The path ends at {first}: its parent cannot be reached.", details={"entry_id": first})
        segments.append(Segment(session_id, sequences))
        origin = fork_origin(connection, session_id)
        if origin is None:
            segments.reverse()
            return segments
        entry_id = origin.entry_id
    raise PathBroken(f"The path to {entry_id} crosses more than {MAX_FORK_DEPTH} forks.")


def iterate_segment(connection: Connection, segment: Segment, *, page: int = PAGE) -> Iterator[Entry]:
    """Yield the entries of a part of a path, a page at a time.

    Raises
    ------
    PathBroken
        If one is not there any more.
    """
    for start in range(0, len(segment.sequences), page):
        wanted = segment.sequences[start : start + page]
        entries = entries_at(connection, segment.session_id, wanted)
        if len(entries) != len(wanted):
            raise PathBroken(f"An entry of {segment.session_id} is not there any more.")
        yield from entries


def entry_pages(
    connection: Connection, entry_id: str, *, first: int, largest: int = LARGEST_PAGE
) -> Iterator[list[ListedEntry]]:
    """Yield an entry and what lies before it, nearest first, in pages that grow from ``first`` to ``largest``.

    Who stops early has read no more than a few pages. Synthetic roots and long texts are left out.
    """
    return _pages(connection, entry_id, first, largest, store.listed_ancestry)


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


def parent_of(connection: Connection, entry: Record | Node) -> str | None:
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
    root = store.get_listed_at(connection, session_id, 0)
    if root is None:
        raise PathBroken(f"Session {session_id} has no root entry.", details={"session_id": session_id})
    # Long is only the root of a session that was moved here under a very long name.
    payload = store.whole_entry(connection, root).payload if root.is_long else root.payload
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
    return _lies_above(connection, _head_of(connection, session_id)[0], entry_id)


def lies_on_shared_path(connection: Connection, session_id: str, entry_id: str) -> bool:
    """Return whether an entry belongs to a forked session because it lies on the path it was forked from."""
    origin = fork_origin(connection, session_id)
    return origin is not None and _lies_above(connection, origin.entry_id, entry_id)


def _lies_above(connection: Connection, leaf_entry_id: str, entry_id: str) -> bool:
    """Return whether an entry is on the path to another one, that one included; no more of it is read than needed."""
    try:
        wanted_session, wanted_sequence = split_entry_id(entry_id)
    except InvalidId:
        return False
    for page in node_pages(connection, leaf_entry_id, first=FIRST_PAGE):
        for node in page:
            if node.session_id == wanted_session and node.sequence <= wanted_sequence:
                return node.id == entry_id
    if wanted_sequence != 0:
        return False
    # A root: on the path if the path runs through its session.
    leaf_session, _ = split_entry_id(leaf_entry_id)
    sessions = {leaf_session, *(origin.session_id for origin in origins_of(connection, leaf_session))}
    return wanted_session in sessions and store.entry_hash_of(connection, wanted_session, entry_id) is not None


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


def _require_chain(segment: Sequence[Record | Node]) -> None:
    for lower, upper in pairwise(segment):
        if lower.parent_entry_id != upper.id:
            raise _broken(lower)


def _broken(entry: Record | Node) -> PathBroken:
    return PathBroken(
        f"The path ends at {entry.id}: its parent {entry.parent_entry_id} cannot be reached.",
        details={"entry_id": entry.id, "parent_entry_id": entry.parent_entry_id},
    )
