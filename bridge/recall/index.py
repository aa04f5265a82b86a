"""Keeping the search index: derived data, caught up when it is about to be read, and never on the way of a write.

What is to be indexed is read and made into terms in a snapshot, beside whoever writes (:func:`prepare`); the write
transaction only puts it in (:func:`put`), unless somebody else was quicker. The mark of a session says how far it is
indexed without a gap, and a position says up to which event every session is. They move in the same transaction as
what they speak of, so a crash leaves both behind or neither. Everything can be dropped; it comes back the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from bridge.foundation.ids import split_entry_id
from bridge.recall import store
from bridge.recall.digests import Digest
from bridge.recall.store import Candidate, Mark
from bridge.recall.terms import INDEX_VERSION, terms
from bridge.recall.texts import is_searchable, searchable_text
from bridge.semantics.interpretation import require_readable
from bridge.semantics.kinds import READABLE_VERSIONS
from bridge.storage import fulltext
from bridge.storage.errors import StoredTextDamaged
from bridge.storage.fulltext import DIGEST_INDEX, ENTRY_INDEX, MAX_DOCUMENT_TERMS, MAX_TERM_PLACES
from bridge.storage.transaction import Connection, Transaction

#: Entries indexed in one transaction: other writers wait no longer than putting them in takes.
MAX_BATCH: Final = 1_000
#: Sessions looked at for one, where all must be looked at.
MAX_SESSIONS: Final = 200
#: Events looked through at a time for what is new.
MAX_EVENTS: Final = 5_000
#: Terms that the parts of a very long entry share, so that a phrase across a cut is found.
PART_OVERLAP: Final = 64
#: Numbers of documents in one millisecond.
SLOTS: Final = 64


class Document(NamedTuple):
    """An entry, or a part of one, to put in under the first free number from ``number`` on."""

    number: int
    sequence: int
    part: int
    terms: Sequence[str]


@dataclass(frozen=True, slots=True)
class SessionPart:
    """The next entries of one session to put in.

    Parameters
    ----------
    expected
        The mark when this was made; where it is another one by now, somebody else was quicker. None: there is none.
    mark
        The mark afterwards; its number is given when it is put in.
    forget
        Whether what is indexed of the session must go first, since it stands in the wrong scope.
    """

    expected: Mark | None
    mark: Mark
    documents: tuple[Document, ...]
    forget: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Some work.

    Parameters
    ----------
    position
        The position afterwards, if all sessions are indexed up to it then; None: as it is.
    entries
        Entries read for it.
    is_last
        Whether nothing is left after it.
    through
        The session up to which all are done, in the order of their ids, where all are looked at; None: they were not.
    """

    parts: tuple[SessionPart, ...]
    position: int | None
    entries: int
    is_last: bool
    outdated: bool = False
    through: str | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is missing from the index."""

    sessions: int
    entries: int

    @property
    def is_empty(self) -> bool:
        return not self.sessions


def number_of(created_at: str) -> int:
    """Return the first number for a document of a time; the order of numbers is that of times."""
    moment = datetime.fromisoformat(created_at)
    return (int(moment.timestamp() * 1000) if moment.tzinfo else 0) * SLOTS


def scope_of_session(chat: int) -> str:
    """Return the scope of one session by its number."""
    return f"s{chat}"


def scope_of(kind: str, *, workspace_id: str | None = None, harness: str | None = None) -> str:
    """Return the scope of all sessions of a kind, in a workspace and of a harness if these are named."""
    named = "\0".join((kind, workspace_id or "", harness or ""))
    return "k" + blake2b(named.encode(), digest_size=10).hexdigest()


def require_readable_session(connection: Connection, session_id: str) -> None:
    """Refuse a session that holds an entry this Bridge does not read: what was not found might be in there.

    Raises
    ------
    UnsupportedSemanticVersion
        If there is such an entry; ``details`` names the first.
    """
    found = store.unreadable_entry(connection, session_id)
    if found is not None:
        require_readable(found[1], entry_id=found[0])


def require_whole_texts(connection: Connection, session_ids: Iterable[str]) -> None:
    """Refuse sessions of which a text could not be indexed because it is damaged.

    Raises
    ------
    StoredTextDamaged
        If there is such a text, and it still is not there.
    """
    for session_id in session_ids:
        mark = store.mark_of(connection, session_id)
        if mark is not None and mark.unreadable_entry_id is not None:
            row = store.entry_at(connection, session_id, split_entry_id(mark.unreadable_entry_id)[1])
            if row is not None:
                store.text_of(connection, row)


def is_current(connection: Connection) -> bool:
    """Return whether the index has everything that is in the store: one look at two numbers."""
    return store.state(connection).get("position") == store.last_position(connection)


def backlog(connection: Connection) -> Backlog:
    """Return what is missing from the index; looks at every session."""
    return Backlog(*store.count_behind(connection, INDEX_VERSION))


def prepare(
    connection: Connection,
    session_ids: Iterable[str] | None = None,
    *,
    limit: int | None = None,
    after: str | None = None,
) -> Batch | None:
    """Return the next work, made ready in a snapshot; None if there is none.

    Parameters
    ----------
    session_ids
        Only what is missing of these sessions; None: of all.
    limit
        Entries at most; None: :data:`MAX_BATCH`.
    after
        Where all sessions must be looked at, only those after this one; None found then says nothing of the others.
    """
    limit = MAX_BATCH if limit is None else limit
    version = store.state(connection).get("version")
    if version is not None and version != INDEX_VERSION:
        return Batch((), None, 0, is_last=False, outdated=True)
    if session_ids is not None:
        found = (store.candidate(connection, session_id) for session_id in session_ids)
        batch = _batch(connection, [one for one in found if one is not None], limit, None)
        return batch if batch.parts else None
    position, last = store.state(connection).get("position"), store.last_position(connection)
    if position == last:
        return None
    if position is None or position > last:
        behind = store.candidates_behind(connection, INDEX_VERSION, MAX_SESSIONS, after or "")
        if after is not None and not behind:
            return None
        is_all = after is None and len(behind) < MAX_SESSIONS
        batch = _batch(connection, behind, limit, last if is_all else None)
        return replace(batch, through=_last_done(batch, behind))
    touched, through = store.touched_after(connection, position, MAX_EVENTS)
    found = (store.candidate(connection, session_id) for session_id in touched)
    return _batch(connection, [one for one in found if one is not None], limit, through, is_last=through == last)


def put(tx: Transaction, batch: Batch) -> None:
    """Put in what was prepared, but for sessions that somebody else indexed meanwhile."""
    if batch.outdated:
        drop(tx)
        return
    documents: list[tuple[int, str, Sequence[str]]] = []
    digests: list[tuple[int, str, Sequence[str]]] = []
    rows: list[tuple[int, int, int, int]] = []
    # Of a digest only the label has words that no entry has.
    labels: Counter[str] = Counter()
    present = {part.mark.session_id: store.mark_of(tx.connection, part.mark.session_id) for part in batch.parts}
    parts = [part for part in batch.parts if present[part.mark.session_id] == part.expected]
    sizes: Counter[str] = Counter()
    for part in parts:
        sizes[part.mark.scope] += len(part.documents)
    numbers = store.count_scopes(tx, sizes)
    next_chat = store.last_chat(tx.connection) + 1
    for part in parts:
        before = part.expected
        if part.forget and before is not None:
            forget_session(tx, before.session_id)
            before = None
        chat = next_chat if before is None else before.chat
        next_chat += before is None
        scope = f"{scope_of_session(chat)} {part.mark.scope}"
        for document in part.documents:
            documents.append((document.number, scope, document.terms))
            rows.append((chat, numbers[part.mark.scope], document.sequence, document.part))
        if before is None or before.digest != part.mark.digest:
            if before is not None:
                old = Digest.from_text(before.digest)
                fulltext.remove(tx, DIGEST_INDEX, chat, scope, old.terms)
                labels.subtract(set(terms(old.label)))
            digest = Digest.from_text(part.mark.digest)
            digests.append((chat, scope, digest.terms))
            labels.update(set(terms(digest.label)))
        store.put_mark(tx, replace(part.mark, chat=chat))
    _put_documents(tx, documents, rows)
    fulltext.add(tx, DIGEST_INDEX, digests)
    store.count_terms(tx, {term: count for term, count in labels.items() if count}, documents=0, terms=0)
    if batch.position is not None and len(parts) == len(batch.parts):
        store.put_position(tx, batch.position)
    if store.state(tx.connection).get("version") is None:
        store.count_state(tx, {"version": INDEX_VERSION})


def drop(tx: Transaction) -> None:
    """Throw the whole index away; the next search makes of it what it needs."""
    fulltext.clear(tx)
    store.clear(tx)


def forget_session(tx: Transaction, session_id: str) -> None:
    """Take a session out of the index; before its entries are removed, since what goes is made of them once more."""
    mark = store.mark_of(tx.connection, session_id)
    if mark is None:
        return
    if mark.terms_version != INDEX_VERSION:
        drop(tx)
        return
    scope = f"{scope_of_session(mark.chat)} {mark.scope}"
    documents = store.documents_of(tx.connection, mark.chat)
    _forget_documents(tx, mark, scope, documents)
    store.count_scopes(tx, {mark.scope: -len(documents)})
    digest = Digest.from_text(mark.digest)
    fulltext.remove(tx, DIGEST_INDEX, mark.chat, scope, digest.terms)
    store.count_terms(tx, dict.fromkeys(terms(digest.label), -1), documents=0, terms=0)
    store.forget_mark(tx, mark)
    store.put_position(tx, None)


def forget_gaps(tx: Transaction, session_id: str) -> None:
    """Take a session out of the index into which entries came below its mark."""
    forget_session(tx, session_id)


def is_sound(tx: Transaction) -> bool:
    """Return whether the index holds as many documents as have a place in it, after its own check of its structure.

    Raises
    ------
    DatabaseFailed
        If its structure is damaged; :func:`drop` mends that.
    """
    fulltext.check_structure(tx)
    documents, digests = store.count_places(tx.connection)
    held = fulltext.count(tx.connection, ENTRY_INDEX), fulltext.count(tx.connection, DIGEST_INDEX)
    counted = store.state(tx.connection).get("documents", 0), store.scopes_within(tx.connection, [""])[1]
    return (documents, digests) == held and counted == (documents, documents)


def parts_of(found: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the terms of an entry in parts that an index can hold; nearly always one. Parts overlap."""
    if len(found) <= MAX_TERM_PLACES:
        yield found
        return
    start, counts = 0, Counter[str]()
    for place, term in enumerate(found):
        if place - start >= MAX_DOCUMENT_TERMS or counts[term] >= MAX_TERM_PLACES:
            yield found[start:place]
            start = max(place - PART_OVERLAP, start + 1)
            counts = Counter(found[start:place])
        counts[term] += 1
    yield found[start:]


@dataclass(slots=True)
class _Reading:
    """One session while it is read."""

    digest: Digest
    branches: bool
    unreadable: tuple[str, int] | None
    previous: str | None = None
    documents: list[Document] = field(default_factory=list)


def _batch(
    connection: Connection, candidates: Sequence[Candidate], limit: int, position: int | None, *, is_last: bool = True
) -> Batch:
    parts: list[SessionPart] = []
    entries = 0
    for candidate in candidates:
        if entries >= limit:
            return Batch(tuple(parts), None, entries, is_last=False)
        part, read, is_complete = _session_part(connection, candidate, limit - entries)
        entries += read
        if part is not None:
            parts.append(part)
        if not is_complete:
            return Batch(tuple(parts), None, entries, is_last=False)
    return Batch(tuple(parts), position, entries, is_last=is_last and position is not None)


def _last_done(batch: Batch, behind: Sequence[Candidate]) -> str | None:
    """Return the last session of a batch, in their order, that is indexed to its end with it and all before it."""
    done = {part.mark.session_id: part.mark.indexed_through for part in batch.parts}
    last = None
    for candidate in behind:
        if done.get(candidate.session_id, -2) < candidate.last_sequence:
            break
        last = candidate.session_id
    return last


def _session_part(connection: Connection, candidate: Candidate, limit: int) -> tuple[SessionPart | None, int, bool]:
    """Return what is missing of a session, how many entries were read for it, and whether that is all of it."""
    expected = store.mark_of(connection, candidate.session_id)
    scope = scope_words(candidate)
    forget = expected is not None and (expected.scope != scope or expected.terms_version != INDEX_VERSION)
    mark = None if forget else expected
    through = -1 if mark is None else mark.indexed_through
    rows = store.entries_after(connection, candidate.session_id, through, limit)
    if mark is not None and not rows and mark.changed_at == candidate.changed_at:
        return None, 0, True
    reading = _Reading(
        digest=replace(Digest.from_text("" if mark is None else mark.digest), label=candidate.label or ""),
        branches=mark is not None and bool(mark.branches),
        unreadable=None
        if mark is None or mark.unreadable_entry_id is None
        else (mark.unreadable_entry_id, mark.unreadable_version or 0),
        previous=None if through < 0 else "?",
    )
    for row in rows:
        _read(connection, row, reading)
    done = Mark(
        session_id=candidate.session_id,
        chat=0,
        indexed_through=rows[-1].sequence if rows else through,
        terms_version=INDEX_VERSION,
        scope=scope,
        digest=reading.digest.to_text(),
        changed_at=candidate.changed_at,
        branches=int(reading.branches),
        unreadable_entry_id=None if reading.unreadable is None else reading.unreadable[0],
        unreadable_version=None if reading.unreadable is None else reading.unreadable[1],
    )
    part = SessionPart(expected, done, tuple(reading.documents), forget)
    return part, len(rows), len(rows) < limit or rows[-1].sequence >= candidate.last_sequence


def _read(connection: Connection, row: store.Row, reading: _Reading) -> None:
    # Of the first entry of a batch it is only known that something came before it.
    if reading.previous is not None and reading.previous not in ("?", row.parent_entry_id):
        reading.branches = True
    if reading.previous == "?" and row.parent_entry_id is not None:
        number = int(row.parent_entry_id.rpartition("-")[2])
        reading.branches = reading.branches or number != row.sequence - 1
    reading.previous = row.id
    if row.semantic_schema_version not in READABLE_VERSIONS:
        reading.unreadable = reading.unreadable or (row.id, row.semantic_schema_version)
    elif is_searchable(row.kind, row.context_visibility):
        try:
            stored = store.text_of(connection, row)
        except StoredTextDamaged:
            # One damaged text must not keep all other sessions from being found.
            reading.unreadable = reading.unreadable or (row.id, row.semantic_schema_version)
            return
        words = searchable_text(row.semantic_schema_version, row.kind, stored, row.context_visibility)
        found = terms(words)
        if found:
            reading.digest = reading.digest.with_entry(row.kind, words)
            number = number_of(row.created_at)
            reading.documents.extend(
                Document(number, row.sequence, part, piece) for part, piece in enumerate(parts_of(found))
            )


def scope_words(candidate: Candidate) -> str:
    """Return the words of all scopes that a session stands in, but for its own."""
    kind, workspace, harness = candidate.kind, candidate.workspace_id, candidate.harness
    words = {
        scope_of(kind),
        scope_of(kind, workspace_id=workspace),
        scope_of(kind, harness=harness),
        scope_of(kind, workspace_id=workspace, harness=harness),
    }
    return " ".join(sorted(words))


def _put_documents(
    tx: Transaction, documents: Sequence[tuple[int, str, Sequence[str]]], rows: Sequence[tuple[int, int, int, int]]
) -> None:
    """Put documents in, the lowest number first: out of order FTS5 writes each by itself."""
    if not documents:
        return
    order = sorted(range(len(documents)), key=lambda place: documents[place][0])
    taken = store.taken_among(tx.connection, [documents[place][0] for place in order])
    counts: Counter[str] = Counter()
    added: list[tuple[int, str, Sequence[str]]] = []
    places: list[tuple[int, int, int, int, int, int]] = []
    total, previous = 0, -1
    for place in order:
        number, scope, found = documents[place]
        if number <= previous or number in taken:
            number = _free(tx.connection, max(number, previous + 1))
        previous = number
        counts.update(set(found))
        total += len(found)
        added.append((number, scope, found))
        places.append((number, *rows[place], len(found)))
    fulltext.add(tx, ENTRY_INDEX, added)
    store.add_documents(tx, places)
    store.count_terms(tx, counts, documents=len(added), terms=total)


def _free(connection: Connection, number: int) -> int:
    """Return the first number from one on that is not taken."""
    while True:
        taken = store.taken_between(connection, number, number + SLOTS)
        for free in range(number, number + SLOTS):
            if free not in taken:
                return free
        number += SLOTS


def _forget_documents(tx: Transaction, mark: Mark, scope: str, documents: Sequence[tuple[int, int, int]]) -> None:
    counts: Counter[str] = Counter()
    total, at = 0, -1
    parts: list[Sequence[str]] = []
    for number, sequence, part in documents:
        if at != sequence:
            at, parts = sequence, list(parts_of(_terms_at(tx.connection, mark.session_id, sequence)))
        counts.subtract(set(parts[part]))
        total += len(parts[part])
        fulltext.remove(tx, ENTRY_INDEX, number, scope, parts[part])
    store.count_terms(tx, counts, documents=-len(documents), terms=-total)


def _terms_at(connection: Connection, session_id: str, sequence: int) -> list[str]:
    row = store.entry_at(connection, session_id, sequence)
    if row is None:
        return []
    text = store.text_of(connection, row)
    return terms(searchable_text(row.semantic_schema_version, row.kind, text, row.context_visibility))
