"""Audit chains: one event per state change, each pinning the one before.

What this can show: that a row was altered, that an event is missing at the beginning or in the middle, and,
by comparing a session's chain with its entries and its head, that events were cut off at the end. What it
cannot show: that somebody with write access replaced entries, head and chain alike by a consistent earlier
or other state. Only an anchor outside the database can.
"""

from __future__ import annotations

from collections.abc import Mapping
<<<<<<< HEAD
from dataclasses import dataclass
from typing import Any
=======
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Protocol
>>>>>>> work/gimport

import orjson

from bridge.foundation.canonical import canonical_bytes, canonical_record
from bridge.foundation.hashing import ZERO_HASH, event_hash
from bridge.integrity import store
from bridge.integrity.events import ENTRY_APPENDED, EVENTS, SESSION_IMPORTED
from bridge.integrity.recorded import ChainReader
from bridge.integrity.report import Report
from bridge.integrity.store import StoredEvent
from bridge.storage.transaction import Connection, Transaction

<<<<<<< HEAD
=======
#: Findings listed by a verification; the rest is counted.
MAX_FINDINGS: Final = 100

#: Event types of a session's chain that record a new entry, and keep its hash.
ENTRY_APPENDED: Final = "entry.appended"
SESSION_CREATED: Final = "session.created"
#: Event type that records a session taken in from elsewhere: all of its entries through a sequence, by their root.
SESSION_IMPORTED: Final = "session.imported"
#: Event type that records entries taken in from another program's transcript: a run of sequences, by a digest over the
#: hashes of all of them.
ENTRIES_IMPORTED: Final = "entries.imported"
#: Event types that move a head without a new entry.
HEAD_MOVED: Final = "head.moved"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it was recorded."""

    code: str
    subject: str
    message: str


@dataclass(slots=True)
class Report:
    """What a verification found.

    ``checked`` counts the rows recomputed; ``findings`` holds at most :data:`MAX_FINDINGS` of ``problems``.
    """

    checked: int = 0
    problems: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        return self.problems == 0

    def add(self, code: str, subject: str, message: str) -> None:
        self.problems += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(code, subject, message))

    def include(self, other: Report) -> None:
        """Add what another verification found."""
        self.checked += other.checked
        self.problems += other.problems
        self.findings.extend(other.findings[: MAX_FINDINGS - len(self.findings)])

>>>>>>> work/gimport

def append_event(tx: Transaction, chain_id: str, event_type: str, body: Mapping[str, Any], created_at: str) -> str:
    """Append one event to a chain, in the transaction of the change that it records, and return its hash.

    The hashed text holds the chain, ordinal, type and time along with the body, so that none of the columns
    can be altered on its own.

    Parameters
    ----------
    body
        A JSON object of the event's own facts: ids and hashes rather than texts.

    Raises
    ------
    NotCanonical
        If the body has no canonical form.
    ValueError
        If :data:`bridge.integrity.events.EVENTS` has no such type.
    """
    if event_type not in EVENTS:
        raise ValueError(f"{event_type} is no type of bridge.integrity.events")
    last = store.last_event(tx, chain_id)
    ordinal, previous = (0, ZERO_HASH) if last is None else (last[0] + 1, bytes.fromhex(last[1]))
    # An entry's event is a flat record, for which the cheaper way is enough.
    encode = canonical_record if event_type == ENTRY_APPENDED else canonical_bytes
    text = encode(
        {"chain_id": chain_id, "ordinal": ordinal, "event_type": event_type, "created_at": created_at, "body": body}
    )
    hashed = event_hash(previous, text).hex()
    store.insert_event(tx, StoredEvent(chain_id, ordinal, event_type, created_at, hashed, text.decode()))
    return hashed


def verify_chain(connection: Connection, chain_id: str) -> Report:
    """Recompute a chain from its stored texts. A chain without events is valid and has ``checked`` 0."""
    report = Report()
<<<<<<< HEAD
    for _event, _body in ChainReader(connection, chain_id, report):
        pass
=======
    previous, expected = ZERO_HASH, 0
    for event in store.iterate_events(connection, chain_id):
        report.checked += 1
        _verify_event(report, event, previous, expected)
        # Go on from what is stored, so that one altered event is one finding and not one for each that follows.
        previous, expected = _raw(event.event_hash), event.ordinal + 1
    return report


def verify_entries(connection: Connection, session_id: str, *, gaps_through: int = -1) -> Report:
    """Recompute payload hash, entry hash, parents and sequence of all entries of a session.

    Parameters
    ----------
    gaps_through
        Sequences up to this one may be missing: only a part of the session was taken in.
    """
    report = Report()
    hashes: dict[str, str] = {}
    expected = 0
    for entry in store.iterate_entries(connection, session_id):
        report.checked += 1
        if entry.sequence != expected and entry.sequence > gaps_through:
            report.add("entry_missing", entry.id, f"Sequence {expected} is not there.")
        _verify_entry(report, entry, hashes)
        hashes[entry.id] = entry.entry_hash
        expected = entry.sequence + 1
    return report


def verify_session(connection: Connection, session_id: str) -> Report:
    """Verify a session's entries and its chain, and that the two and the head agree."""
    report = verify_forest(connection, session_id)
    report.include(verify_recorded(connection, session_id))
    return report


def verify_forest(connection: Connection, session_id: str) -> Report:
    """Recompute a session's entries; of one that was taken in partly, what is not here may be missing."""
    imported = last_import(connection, session_id)
    # Of a session that is here in part, what others hold of it keeps its numbers.
    is_partial = imported is not None and (imported.has_gaps or imported.next_sequence > imported.sequence + 1)
    gaps_through = imported.next_sequence - 1 if imported is not None and is_partial else -1
    return verify_entries(connection, session_id, gaps_through=gaps_through)


def verify_recorded(connection: Connection, session_id: str) -> Report:
    """Verify a session's chain, and that entries and head are what it recorded.

    Each entry must have been recorded by an event under its hash, or lie within what was taken in from elsewhere,
    which is pinned by its root; and the last event that moved the head must name the active entry: so a chain that was
    cut at its end, or emptied, does not pass.
    """
    imported = last_import(connection, session_id)
    through = -1 if imported is None else imported.sequence
    report = verify_chain(connection, session_id)
    recorded: dict[str, str] = {}
    runs = _Runs()
    head: str | None = None
    for event in store.iterate_events(connection, session_id):
        body = body_of(event.body)
        if event.event_type in (ENTRY_APPENDED, SESSION_CREATED):
            recorded[str(body.get("entry_id"))] = str(body.get("entry_hash"))
        elif event.event_type == ENTRIES_IMPORTED:
            runs.add(body)
        head = str(body["head"]) if "head" in body else head
    for identity, sequence, stored_hash in store.iterate_hashes(connection, session_id):
        known = recorded.pop(identity, None)
        if known is None and (runs.cover(sequence, stored_hash) or sequence <= through):
            continue
        if known is None:
            report.add("event_missing", identity, "No audit event records this entry.")
        elif known != stored_hash:
            report.add("entry_altered", identity, "The entry's hash is not the one that was recorded.")
    runs.report_on(report, session_id)
    for entry_id in recorded:
        report.add("entry_missing", entry_id, "An audit event records this entry, but it is not there.")
    stored = store.session_head(connection, session_id)
    if stored is not None and stored[0] != head:
        report.add("head_altered", session_id, f"The head is {stored[0]}; the last recorded one is {head}.")
>>>>>>> work/gimport
    return report


class _Hash(Protocol):
    """A running hash, as far as it is used."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Runs:
    """Runs of entries that one event each records: which they are, and the digest over their hashes."""

    def __init__(self) -> None:
        # First and last sequence, how many, the digest; and what is there so far.
        self._runs: list[tuple[int, int, int, str, _Hash]] = []
        self._counts: list[int] = []
        self._at = 0

    def add(self, body: Mapping[str, Any]) -> None:
        first, last, added = body.get("first_sequence"), body.get("last_sequence"), body.get("added")
        if isinstance(first, int) and isinstance(last, int) and isinstance(added, int):
            # An altered event, which the chain reports, covers nothing. In the order of the chain they ascend.
            self._runs.append((first, last, added, str(body.get("digest")), sha256()))
            self._counts.append(0)

    def cover(self, sequence: int, stored_hash: str) -> bool:
        """Return whether an entry lies within a run; asked in ascending order."""
        while self._at < len(self._runs) and self._runs[self._at][1] < sequence:
            self._at += 1
        if self._at == len(self._runs) or sequence < self._runs[self._at][0]:
            return False
        self._runs[self._at][4].update(_raw(stored_hash))
        self._counts[self._at] += 1
        return True

    def report_on(self, report: Report, session_id: str) -> None:
        for (first, last, added, digest, found), count in zip(self._runs, self._counts, strict=True):
            if count != added or found.hexdigest() != digest:
                message = f"The entries {first} to {last} are not those that were taken in together."
                report.add("entry_missing" if count < added else "entry_altered", session_id, message)


@dataclass(frozen=True, slots=True)
class Import:
    """What a session's last import recorded: the root of its entries through a sequence.

    ``has_gaps`` says that some are missing before; ``next_sequence`` is the next one that was free then.
    """

    session_root: str
    sequence: int
    next_sequence: int
    has_gaps: bool


def last_import(connection: Connection, session_id: str) -> Import | None:
    """Return what the last import into a session recorded, None if it was never imported."""
    text = store.last_event_of_type(connection, session_id, SESSION_IMPORTED)
    if text is None:
        return None
    body = body_of(text)
    sequence, following = body.get("sequence"), body.get("next_sequence")
    if not isinstance(sequence, int) or not isinstance(following, int):
        return None  # an altered event, which the chain reports; nothing is covered by it
    return Import(str(body.get("session_root")), sequence, following, body.get("has_gaps") is True)


def body_of(text: str) -> dict[str, Any]:
    """Return the facts in an event's text; none if it is damaged."""
    try:
        body = orjson.loads(text)["body"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return {}
    return body if isinstance(body, dict) else {}
