"""Checking the search index against the entries: what it should hold is worked out anew and looked up in it.

An index can be whole in itself and lack the words of an entry, or hold them in another chat's name. So of a sample of
entries, or of all, the terms are made once more; each must have its documents, each document must stand in the index
under just these terms and this scope, and each term must be counted. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from bridge.foundation.ids import entry_id
from bridge.recall import store
from bridge.recall.digests import Digest
from bridge.recall.index import parts_of, scope_of_session, scope_words
from bridge.recall.store import Mark, Placed
from bridge.recall.terms import INDEX_VERSION, terms
from bridge.recall.texts import is_searchable, searchable_text
from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage import fulltext
from bridge.storage.errors import StoredTextDamaged
from bridge.storage.fulltext import DIGEST_INDEX, ENTRY_INDEX
from bridge.storage.transaction import Connection

#: Entries that a sample is made of, and in how many sessions. What is not more is looked at whole.
SAMPLED_ENTRIES: Final = 250
SAMPLED_SESSIONS: Final = 25
#: Entries of one session that are looked at in one snapshot.
PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class IndexFault:
    """Something that the index does not hold as it should: whose words, and what is wrong."""

    subject: str
    message: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Entries of one session that are looked at, by their sequences; the last one is part of it."""

    session_id: str
    first: int
    last: int

    def pages(self) -> Iterator[tuple[int, int]]:
        """Yield first sequence and number of what is looked at in one snapshot."""
        for first in range(self.first, self.last + 1, PAGE):
            yield first, min(PAGE, self.last + 1 - first)


def stretches(connection: Connection, chance: Random | None) -> list[Stretch]:
    """Return all that is indexed, or a sample of it if there is much and somebody to draw it."""
    marks = store.marks_through(connection)
    if chance is None or sum(through + 1 for _, through in marks) <= SAMPLED_ENTRIES:
        return [Stretch(session, 0, through) for session, through in marks]
    drawn = chance.sample(marks, min(SAMPLED_SESSIONS, len(marks)))
    length = SAMPLED_ENTRIES // len(drawn)
    firsts = [(session, chance.randint(0, max(0, through + 1 - length)), through) for session, through in drawn]
    return [Stretch(session, first, min(through, first + length - 1)) for session, first, through in firsts]


def check_entries(connection: Connection, session_id: str, first: int, limit: int) -> tuple[int, list[IndexFault]]:
    """Return how many of a session's entries were looked at, and what the index does not hold of them as it should.

    What is not indexed yet is nothing wrong, nor is what was indexed in an earlier way: both are on their way.
    """
    mark = store.mark_of(connection, session_id)
    if mark is None or mark.terms_version != INDEX_VERSION:
        return 0, []
    later = store.entries_after(connection, session_id, first - 1, limit)
    rows = [row for row in later if row.sequence <= mark.indexed_through]
    if not rows:
        return 0, []
    held = store.places_between(connection, mark.chat, rows[0].sequence, rows[-1].sequence)
    faults = [fault for row in rows for fault in _check_entry(connection, mark, row, held)]
    scopes = {one.scope for one in held.values()} - {store.number_of_scope(connection, mark.scope)}
    faults += (
        [IndexFault(session_id, "Places of it are written down for another scope than its own.")] if scopes else []
    )
    strangers = sorted({sequence for sequence, _ in held} - {row.sequence for row in rows})
    unknown = "It is in the index, and no such entry is recorded."
    return len(rows), [*faults, *(IndexFault(entry_id(session_id, sequence), unknown) for sequence in strangers)]


def check_session(connection: Connection, session_id: str) -> list[IndexFault]:
    """Return what the index does not hold of a session as a whole as it should."""
    mark = store.mark_of(connection, session_id)
    candidate = store.candidate(connection, session_id)
    if mark is None or mark.terms_version != INDEX_VERSION:
        return []
    if candidate is None:
        return [IndexFault(session_id, "It is in the index, and no such session is recorded.")]
    if mark.changed_at == candidate.changed_at and mark.scope != scope_words(candidate):
        return [IndexFault(session_id, "It stands in the index in another place than its own.")]
    digest = Digest.from_text(mark.digest)
    if not fulltext.holds(connection, DIGEST_INDEX, mark.chat, _scope(mark), digest.terms):
        return [IndexFault(session_id, "Label, first message and summary are not in the index as they should be.")]
    return _uncounted(connection, session_id, terms(digest.label))


def check_totals(connection: Connection) -> list[IndexFault]:
    """Return which totals of the index are not those of its list of places."""
    state, (documents, length) = store.state(connection), store.sum_lengths(connection)
    if (state.get("documents", 0), state.get("terms", 0)) == (documents, length):
        return []
    return [IndexFault("recall_state", "The index counts other documents or terms than it has.")]


def _check_entry(
    connection: Connection, mark: Mark, row: store.Row, held: Mapping[tuple[int, int], Placed]
) -> Iterator[IndexFault]:
    expected = _expected(connection, row)
    if expected is None:
        return
    present = {part: found for (sequence, part), found in held.items() if sequence == row.sequence}
    lengths = {part: len(piece) for part, piece in enumerate(expected)}
    if {part: found.length for part, found in present.items()} != lengths:
        yield IndexFault(row.id, "The index has another list of places for it than its words make.")
        return
    for part, found in sorted(present.items()):
        if not fulltext.holds(connection, ENTRY_INDEX, found.number, _scope(mark), expected[part]):
            yield IndexFault(row.id, "It does not stand in the index under its own words.")
            return
    yield from _uncounted(connection, row.id, [term for piece in expected for term in piece])


def _expected(connection: Connection, row: store.Row) -> list[Sequence[str]] | None:
    """Return the documents that an entry makes; None if its text is damaged, which others report."""
    if row.semantic_schema_version not in READABLE_VERSIONS or not is_searchable(row.kind, row.context_visibility):
        return []
    try:
        stored = store.text_of(connection, row)
    except StoredTextDamaged:
        return None
    found = terms(searchable_text(row.semantic_schema_version, row.kind, stored, row.context_visibility))
    return list(parts_of(found)) if found else []


def _uncounted(connection: Connection, subject: str, found: Sequence[str]) -> list[IndexFault]:
    missing = set(found) - store.frequencies(connection, set(found)).keys()
    return [IndexFault(subject, "Words of it are not among those that the index counts.")] if missing else []


def _scope(mark: Mark) -> str:
    return f"{scope_of_session(mark.chat)} {mark.scope}"
