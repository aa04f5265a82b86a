"""Reading a conversation from its newest entry backwards, filtered, no further than the asker wants."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from bridge.conversations.errors import EntryNotOnPath
from bridge.conversations.facets import Annotation, Facet, TurnIndex, facet_of, kinds_of, problem_of
from bridge.conversations.listing.store import entries_by_id, newest_entries, newest_nodes
from bridge.conversations.models import ListedEntry, Node, Session
from bridge.conversations.paths import entry_pages, node_pages, parent_of
from bridge.conversations.placing import seed_parent
from bridge.conversations.references import require_listed
from bridge.foundation.ids import short_entry, split_entry_id
from bridge.storage.transaction import Connection

T = TypeVar("T", ListedEntry, Node)

#: First page of a search that may have to look far, in entries.
FIRST_PAGE: Final = 256
#: Largest page, in entries; what a page holds is in memory at once.
LARGEST_PAGE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which entries are wanted; all conditions hold.

    Parameters
    ----------
    facets
        Entries of these; empty means of any kind.
    problems_only
        Entries that tell of a problem.
    turn
        Entries of the turn that this entry, by its full id, began.
    """

    facets: tuple[Facet, ...] = ()
    problems_only: bool = False
    turn: str | None = None

    @property
    def is_everything(self) -> bool:
        return not (self.facets or self.problems_only or self.turn)

    @property
    def kinds(self) -> frozenset[str] | None:
        return frozenset().union(*map(kinds_of, self.facets)) if self.facets else None


class Annotated(NamedTuple):
    """An entry and what it is to an onlooker."""

    entry: ListedEntry
    annotation: Annotation


class Page(NamedTuple):
    """Entries, oldest first, and whether there are more beyond the limit."""

    rows: list[Annotated]
    has_more: bool


def path_rows(
    connection: Connection,
    session: Session,
    selection: Selection,
    *,
    before: str | None,
    after: str | None,
    limit: int | None,
) -> Iterator[Annotated]:
    """Yield the wanted entries of a path, newest first.

    Parameters
    ----------
    before
        Full id of an entry: the path that leads to it, itself left out. None means the active path.
    after
        Full id of an entry of the path; it and what lies before are left out.
    limit
        How many are going to be asked for; None means all.

    Raises
    ------
    EntryNotOnPath
        If ``after``, or the beginning of the wanted turn, does not lie on the path. Told when it is reached.
    """
    leaf = session.active_entry_id if before is None else parent_of(connection, require_listed(connection, before))
    if leaf is None:
        return iter(())
    first = _first_page(selection, limit)
    if selection.facets:
        nodes = _until(node_pages(connection, leaf, first=first), after, selection.turn)
        return _rows_of_nodes(connection, nodes, selection)
    entries = _until(entry_pages(connection, leaf, first=first), after, selection.turn)
    return _rows_of_entries(connection, entries, selection)


def session_rows(
    connection: Connection,
    session: Session,
    selection: Selection,
    *,
    before: str | None,
    after: str | None,
    limit: int | None,
) -> Iterator[Annotated]:
    """Yield the wanted ones among a session's own entries of all branches, in the order of sequence, newest first.

    Parameters
    ----------
    before, after
        Full ids of own entries: only what was recorded before, and after.
    limit
        How many are going to be asked for; None means all.
    """
    first = _first_page(selection, limit)
    last = None if before is None else split_entry_id(before)[1]
    least = 0 if after is None else split_entry_id(after)[1]
    if selection.turn is not None and split_entry_id(selection.turn)[0] == session.id:
        least = max(least, split_entry_id(selection.turn)[1] - 1)
    if selection.facets:

        def load_nodes(end: int | None, size: int) -> list[Node]:
            return newest_nodes(connection, session.id, before_sequence=end, after_sequence=least, limit=size)

        return _rows_of_nodes(connection, _by_sequence(load_nodes, last, first), selection)

    def load_entries(end: int | None, size: int) -> list[ListedEntry]:
        return newest_entries(connection, session.id, before_sequence=end, after_sequence=least, limit=size)

    return _rows_of_entries(connection, _by_sequence(load_entries, last, first), selection)


def _first_page(selection: Selection, limit: int | None) -> int:
    if limit is None:
        return LARGEST_PAGE if selection.turn is None else FIRST_PAGE
    return limit + 1 if selection.is_everything else max(limit + 1, FIRST_PAGE)


def newest(rows: Iterator[Annotated], limit: int | None) -> Page:
    """Return the first so many of what comes newest first."""
    found = list(rows if limit is None else islice(rows, limit + 1))
    has_more = limit is not None and len(found) > limit
    page = found[:limit]
    page.reverse()
    return Page(page, has_more)


def oldest(rows: Iterable[Annotated], limit: int | None) -> Page:
    """Return the last so many of what comes newest first: those that follow right behind its end."""
    kept: deque[Annotated] = deque(rows, maxlen=None if limit is None else limit + 1)
    has_more = limit is not None and len(kept) > limit
    if has_more:
        kept.popleft()
    return Page(list(reversed(kept)), has_more)


def _until(pages: Iterator[list[T]], after: str | None, turn: str | None) -> Iterator[list[T]]:
    """Yield pages, newest first, up to an entry that is left out, or one that began a turn and is not."""
    ends = [(split_entry_id(end), end, keep) for end, keep in ((after, 0), (turn, 1)) if end is not None]
    for page in pages:
        for number, node in enumerate(page):
            for (session_id, sequence), end, keep in ends:
                if node.id == end:
                    yield page[: number + keep]
                    return
                if node.session_id == session_id and node.sequence < sequence:
                    raise _off_path(end)
        yield page
    if ends:
        raise _off_path(ends[0][1])


def _by_sequence(load: Callable[[int | None, int], list[T]], before: int | None, size: int) -> Iterator[list[T]]:
    while True:
        page = load(before, size)
        if page:
            yield page
        if len(page) < size:
            return
        before, size = page[-1].sequence, max(size, LARGEST_PAGE)


def _rows_of_entries(
    connection: Connection, pages: Iterable[list[ListedEntry]], selection: Selection
) -> Iterator[Annotated]:
    for page in pages:
        problems = [problem_of(entry) for entry in page]
        if selection.problems_only and not any(problems):
            continue
        for entry, turn, problem in zip(page, _turns_of(connection, page), problems, strict=True):
            is_wanted = problem is not None or not selection.problems_only
            if is_wanted and selection.turn in {None, turn}:
                yield Annotated(entry, Annotation(turn, facet_of(entry.kind), problem))


def _rows_of_nodes(connection: Connection, pages: Iterable[list[Node]], selection: Selection) -> Iterator[Annotated]:
    """Do as ``_rows_of_entries``, and touch the payloads only of entries of the wanted kinds."""
    kinds = selection.kinds or frozenset()
    for page in pages:
        wanted = [node for node in page if node.kind in kinds]
        if not wanted:
            continue
        turns = dict(zip((node.id for node in page), _turns_of(connection, page), strict=True))
        if selection.turn is not None:
            wanted = [node for node in wanted if turns[node.id] == selection.turn]
        entries: dict[str, ListedEntry] = {}
        for session_id in {node.session_id for node in wanted}:
            ids = [node.id for node in wanted if node.session_id == session_id]
            entries |= entries_by_id(connection, session_id, ids)
        for node in wanted:
            entry = entries[node.id]
            problem = problem_of(entry)
            if problem is not None or not selection.problems_only:
                yield Annotated(entry, Annotation(turns[node.id], facet_of(entry.kind), problem))


def _turns_of(connection: Connection, page: Sequence[ListedEntry | Node]) -> list[str | None]:
    """Return the turn of each entry of a page that comes newest first."""
    index = TurnIndex()
    turns = []
    for node in reversed(page):
        seed_parent(connection, index, node)
        turns.append(index.turn_of(node))
    turns.reverse()
    return turns


def _off_path(entry_id: str) -> EntryNotOnPath:
    return EntryNotOnPath(
        f"{short_entry(entry_id)} does not lie on the path that is read: the conversation went another way.",
        details={"entry_id": entry_id},
    )
