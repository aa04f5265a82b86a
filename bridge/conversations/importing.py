"""The rules by which a session that was recorded elsewhere is taken in: as it was, or not at all.

Ids, times and hashes stay. What is here already must be the same; what is missing is added; nothing is overwritten.
So a copy that is older adds nothing, one that has grown on one side goes on, and two that have grown apart are refused.
A session of which only a part is known (what a fork shares with its origin) has gaps among its sequences; a fuller
copy fills them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from bridge.conversations import store
from bridge.conversations.errors import SessionDiffers
from bridge.conversations.exchange import store as exchange
from bridge.conversations.forest import check_label
from bridge.conversations.models import ENTRY_FIELDS, EntryRow, NewSession
from bridge.conversations.soundness import require_sound
from bridge.foundation.ids import entry_id
from bridge.storage.transaction import Connection, Transaction

#: Rows that are written at once, and characters of their payloads.
BATCH: Final = 1000
BATCH_CHARACTERS: Final = 1024 * 1024
_SEQUENCE_AT: Final = ENTRY_FIELDS.index("sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingSession:
    """A session as another store knew it.

    Parameters
    ----------
    new
        Its own fields; the id is given.
    labels
        Names of its entries: name to entry id.
    """

    new: NewSession
    created_at: str
    updated_at: str
    active_entry_id: str
    next_sequence: int
    labels: Mapping[str, str]

    @property
    def id(self) -> str:
        if self.new.id is None:
            raise ValueError("a session that is taken in has an id")
        return self.new.id


@dataclass(slots=True)
class Comparison:
    """What a session here lacks of an incoming one.

    Parameters
    ----------
    exists
        Whether there is a session of that id.
    missing
        The sequences that are added, as ranges: first and one after the last.
    added
        How many entries that is.
    fills_gaps
        Whether an added entry comes before one that is here.
    """

    exists: bool
    missing: list[tuple[int, int]] = field(default_factory=list)
    added: int = 0
    fills_gaps: bool = False

    def adds(self, sequence: int) -> None:
        """Note an entry that is missing here; ascending."""
        if self.missing and self.missing[-1][1] == sequence:
            self.missing[-1] = (self.missing[-1][0], sequence + 1)
        else:
            self.missing.append((sequence, sequence + 1))
        self.added += 1


def compare(connection: Connection, session_id: str, incoming: Iterable[tuple[int, str]]) -> Comparison:
    """Compare a session here with the sequences and hashes of an incoming one, both ascending.

    Raises
    ------
    SessionDiffers
        If an entry that both have differs, or each has entries the other does not know of.
    SessionQuarantined
        If the one that is here was found damaged.
    """
    require_sound(connection, session_id)
    if not store.session_exists(connection, session_id):
        found = Comparison(exists=False)
        for wanted, _ in incoming:
            found.adds(wanted)
        return found
    with closing(exchange.iterate_hashes(connection, session_id)) as here:
        return _merge(session_id, here, incoming)


def _merge(session_id: str, here: Iterator[tuple[int, str]], incoming: Iterable[tuple[int, str]]) -> Comparison:
    found = Comparison(exists=True)
    sequence, hashed = next(here, _END)
    for wanted, expected in incoming:
        while sequence < wanted:
            found.fills_gaps = bool(found.missing)
            sequence, hashed = next(here, _END)
        if sequence != wanted:
            found.adds(wanted)
            continue
        if hashed != expected:
            raise _differs(session_id, wanted, hashed, expected)
        found.fills_gaps = bool(found.missing)
        sequence, hashed = next(here, _END)
    found.fills_gaps = bool(found.missing) if (sequence, hashed) != _END else found.fills_gaps
    return found


#: Comes after every entry.
_END: Final = (2**63 - 1, "")


def begin(tx: Transaction, session: IncomingSession) -> None:
    """Add the row of a session that is not here; its entries and :func:`finish` follow in the same transaction."""
    for name in session.labels:
        check_label(name)
    store.insert_session(tx, session.id, session.new, session.created_at, session.updated_at)


class Adder:
    """Adds those entries of a session that are missing here; :meth:`add` is given all of them, ascending."""

    def __init__(self, tx: Transaction, comparison: Comparison) -> None:
        self._tx = tx
        self._ranges = iter(comparison.missing)
        self._first, self._end = next(self._ranges, _NOTHING)
        self._waiting = self._characters = 0

    def add(self, row: EntryRow) -> bool:
        """Add an entry, if it is missing here; return whether it was."""
        sequence = row[_SEQUENCE_AT]
        while sequence >= self._end:
            self._first, self._end = next(self._ranges, _NOTHING)
        if sequence < self._first:
            return False
        store.insert_entry(self._tx, row)
        self._waiting += 1
        self._characters += len(row[-1])
        if self._waiting >= BATCH or self._characters >= BATCH_CHARACTERS:
            self._tx.flush()
            self._waiting = self._characters = 0
        return True


_NOTHING: Final = (2**63 - 1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Taken:
    """Where a session stands after it was taken in.

    Parameters
    ----------
    kept_labels
        Names that name another entry here, and go on doing so.
    set_labels
        Names that were taken in, and what they name.
    has_gaps
        Whether sequences are missing: only a part of the session is known.
    """

    head_entry_id: str
    next_sequence: int
    last_sequence: int
    has_gaps: bool
    kept_labels: tuple[str, ...]
    set_labels: dict[str, str]


def finish(tx: Transaction, session: IncomingSession, comparison: Comparison, moment: str, *, take_head: bool) -> Taken:
    """Set head, next sequence and labels of a session whose entries were added.

    Cursors stay: what is taken in is nobody's next word.

    Parameters
    ----------
    take_head
        Whether the head moves to the incoming one wherever it is. Otherwise it follows only along its own branch.
    """
    last = exchange.last_sequence(tx.connection, session.id)
    if not comparison.exists:
        head_id, following = session.active_entry_id, max(session.next_sequence, last + 1)
        store.insert_head(tx, session.id, head_id, following, session.updated_at)
    else:
        head = store.get_head(tx.connection, session.id)
        if head is None:
            raise ValueError(f"session {session.id} has no head")
        head_id, following = head.entry_id, max(head.next_sequence, session.next_sequence, last + 1)
        if take_head or _lies_before(tx.connection, session.id, head_id, session.active_entry_id):
            head_id = session.active_entry_id
        hashed = store.entry_hash_of(tx.connection, session.id, head_id) or head.entry_hash
        moved = head._replace(entry_id=head_id, next_sequence=following, entry_hash=hashed)
        store.set_head(tx, session.id, moved, moment)
    kept, added = [], {}
    for name, target in session.labels.items():
        known = store.label_target(tx.connection, session.id, check_label(name))
        if known is None:
            added[check_label(name)] = target
            store.put_label(tx, session.id, check_label(name), target, moment)
        elif known != target:
            kept.append(name)
    has_gaps = store.count_entries(tx.connection, session.id) != last + 1
    return Taken(head_id, following, last, has_gaps, tuple(kept), added)


def _lies_before(connection: Connection, session_id: str, entry: str, leaf: str) -> bool:
    """Return whether an entry lies on the way from the root to another one, or is it."""
    sequences = exchange.path_sequences(connection, session_id, leaf)
    return any(entry_id(session_id, sequence) == entry for sequence in reversed(sequences))


def _differs(session_id: str, sequence: int, here: str, there: str) -> SessionDiffers:
    identity = entry_id(session_id, sequence)
    what = "is another session" if sequence == 0 else f"has another entry {identity}"
    return SessionDiffers(
        f"The session {session_id} in the file {what}: here its hash is {here[:12]}, in the file {there[:12]}. "
        "Nothing was written.",
        details={"session_id": session_id, "entry_id": identity, "here": here, "there": there},
    )
