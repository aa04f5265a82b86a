"""A session as a document for people: which entries are shown in which order, and what each of them says.

The path that the conversation is on comes first and as a whole; each other branch follows as a section of its own, with
links there and back. Payloads are loaded a page at a time; of the rest of a session only its shape is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from bridge.control.exchange.entrywords import EntryWords, Surroundings, time_words
from bridge.control.reading.views import summary_of
from bridge.conversations.exchange.store import entries_at
from bridge.conversations.facets import TurnIndex
from bridge.conversations.forest import require_session
from bridge.conversations.models import Entry, Node, Session
from bridge.conversations.paths import PAGE, Segment, fork_origin, iterate_segment, path_segments
from bridge.conversations.store import list_labels, list_nodes
from bridge.foundation.ids import entry_id, short_session, split_entry_id
from bridge.semantics.kinds import CONVERSATIONAL_KINDS, HIDDEN
from bridge.storage.transaction import Connection
from bridge.transcripts.document import Head, Link, Renderer, Section

#: Characters of a branch's first words in the list of branches.
MAX_BRANCH_WORDS: Final = 80
_MAIN: Final = "main"


@dataclass(slots=True)
class _Stretch:
    """Entries that follow each other: the active path's own part, or a branch from where it leaves what was shown.

    ``after`` is the entry it goes on from, None for the session's beginning.
    """

    sequences: list[int]
    after: str | None = None
    words: str = ""

    def anchor(self, number: int) -> str:
        return _MAIN if number == 0 else f"branch-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRequest:
    """What is to be shown: all branches or the active path, with hidden entries or without."""

    session: Session
    moment: str
    is_forest: bool
    has_hidden: bool


@dataclass(slots=True)
class Document:
    """A session as a document; :meth:`pieces` makes it. ``entries`` counts what was shown so far."""

    connection: Connection
    request: DocumentRequest
    renderer: Renderer
    entries: int = 0
    _labels: dict[str, list[str]] = field(default_factory=dict)
    _ways: dict[str, list[Link]] = field(default_factory=dict)
    _turns: TurnIndex = field(default_factory=TurnIndex)
    _turn_numbers: dict[str, int] = field(default_factory=dict)

    def pieces(self) -> Iterator[str]:
        """Yield the document."""
        session = self.request.session
        *shared, own = path_segments(self.connection, session.active_entry_id)
        stretches = self._stretches(own)
        for label in (label for part in (*shared, own) for label in list_labels(self.connection, part.session_id)):
            self._labels.setdefault(label.entry_id, []).append(label.name)
        yield self.renderer.head(self._head(shared, stretches))
        words = EntryWords(self.connection)
        for segment in shared:
            origin = require_session(self.connection, segment.session_id)
            yield self.renderer.section(Section(anchor=f"session-{origin.id}", title=f"From {_title(origin)}"))
            yield from self._entries(iterate_segment(self.connection, segment), words)
        for number, stretch in enumerate(stretches):
            yield from self._stretch(number, stretch, words, is_only=not shared and len(stretches) == 1)
        yield self.renderer.foot()

    def _stretches(self, own: Segment) -> list[_Stretch]:
        """Return the stretches of the session's own entries: the active path first, then the other branches."""
        if not self.request.is_forest:
            return [_Stretch(list(own.sequences))]
        nodes = list_nodes(self.connection, self.request.session.id)
        found = split_into_stretches(nodes, set(own.sequences), has_hidden=self.request.has_hidden)
        branches = dict(enumerate(found[1:], 1))
        spoken = {node.sequence for node in nodes if node.kind in CONVERSATIONAL_KINDS}
        for number, entry in self._telling_entries(branches, spoken):
            branches[number].words = summary_of(entry)[:MAX_BRANCH_WORDS] or entry.kind
        for number, stretch in branches.items():
            if stretch.after is not None:
                words = f"branch {number}: {stretch.words}"
                self._ways.setdefault(stretch.after, []).append(Link(stretch.anchor(number), words))
        return found

    def _telling_entries(self, branches: dict[int, _Stretch], spoken: set[int]) -> Iterator[tuple[int, Entry]]:
        """Yield of each branch the entry that says what it is about: the first that was spoken, else its first."""
        firsts = {
            next((sequence for sequence in stretch.sequences if sequence in spoken), stretch.sequences[0]): number
            for number, stretch in branches.items()
        }
        wanted = sorted(firsts)
        for start in range(0, len(wanted), PAGE):
            for entry in entries_at(self.connection, self.request.session.id, wanted[start : start + PAGE]):
                yield firsts[entry.sequence], entry

    def _head(self, shared: list[Segment], stretches: list[_Stretch]) -> Head:
        session = self.request.session
        origin = fork_origin(self.connection, session.id)
        facts = [
            ("session", session.id),
            ("harness", session.harness),
            ("status", session.status),
            ("begun", time_words(session.created_at)),
            ("last changed", time_words(session.updated_at)),
            ("forked from", None if origin is None else origin.entry_id),
            (session.parent_relation or "", session.parent_session_id),
            ("shown", "all branches" if self.request.is_forest else "the active path"),
            ("hidden entries", "shown" if self.request.has_hidden else "left out"),
            ("exported", time_words(self.request.moment)),
        ]
        sections = [Link(f"session-{part.session_id}", f"from {short_session(part.session_id)}") for part in shared]
        for number, stretch in enumerate(stretches):
            words = f"branch {number}: {stretch.words}" if number else "the active path"
            sections.append(Link(stretch.anchor(number), words))
        return Head(title=_title(session), facts=[(name, value) for name, value in facts if value], sections=sections)

    def _stretch(self, number: int, stretch: _Stretch, words: EntryWords, *, is_only: bool) -> Iterator[str]:
        if not is_only:
            title = "The active path" if number == 0 else f"Branch {number}"
            origin = None
            if number:
                place = self.request.session.id if stretch.after is None else stretch.after
                origin = Link(stretch.after or _MAIN, "the beginning" if stretch.after is None else place)
            yield self.renderer.section(Section(anchor=stretch.anchor(number), title=title, origin=origin))
        segment = _pages(self.connection, self.request.session.id, stretch.sequences)
        yield from self._entries(segment, words)

    def _entries(self, entries: Iterable[Entry], words: EntryWords) -> Iterator[str]:
        for entry in entries:
            turn = self._turns.turn_of(entry)
            if entry.is_root or (entry.context_visibility == HIDDEN and not self.request.has_hidden):
                continue
            self.entries += 1
            around = Surroundings(self._number(turn), self._labels.get(entry.id, ()), self._ways.get(entry.id, ()))
            block = words.block(entry, around)
            if block is not None:
                yield self.renderer.block(block)
        for block in words.unanswered():
            yield self.renderer.block(block)

    def _number(self, turn: str | None) -> int | None:
        """Return the number of a turn that is seen for the first time, None if it goes on or there is none."""
        if turn is None or turn in self._turn_numbers:
            return None
        self._turn_numbers[turn] = number = len(self._turn_numbers) + 1
        return number


def split_into_stretches(nodes: list[Node], active: set[int], *, has_hidden: bool) -> list[_Stretch]:
    """Split the entries of a session, in the order of sequence, into stretches: the active path and each branch.

    Every entry is in one of them; a branch of which nothing would be shown is left out. Pure.
    """
    session_id = nodes[0].session_id
    stretch_of: dict[int, _Stretch] = {}
    main = _Stretch([node.sequence for node in nodes if node.sequence in active])
    stretches = [main]
    shown: dict[int, int | None] = {}
    for node in nodes:
        parent = None if node.parent_entry_id is None else split_entry_id(node.parent_entry_id)[1]
        is_shown = node.sequence > 0 and (has_hidden or node.context_visibility != HIDDEN)
        # The nearest entry upwards, or itself, that is shown: where a link can lead.
        shown[node.sequence] = node.sequence if is_shown else None if parent is None else shown.get(parent)
        if node.sequence in active:
            stretch_of[node.sequence] = main
            continue
        before = None if parent is None else stretch_of.get(parent)
        if before is None or before is main or before.sequences[-1] != parent:
            place = None if parent is None else shown.get(parent)
            before = _Stretch([], None if place is None else entry_id(session_id, place))
            stretches.append(before)
        before.sequences.append(node.sequence)
        stretch_of[node.sequence] = before
    return [
        stretch
        for number, stretch in enumerate(stretches)
        if number == 0 or any(shown.get(sequence) == sequence for sequence in stretch.sequences)
    ]


def _pages(connection: Connection, session_id: str, sequences: list[int]) -> Iterator[Entry]:
    for start in range(0, len(sequences), PAGE):
        yield from entries_at(connection, session_id, sequences[start : start + PAGE])


def _title(session: Session) -> str:
    return " ".join(filter(None, ("Session", short_session(session.id), session.label or "")))
