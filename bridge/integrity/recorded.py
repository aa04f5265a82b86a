"""What a session's chain says of the session, gathered in one pass, and compared with the rows that there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import orjson

from bridge.foundation.hashing import ZERO_HASH, taken_in_line
from bridge.integrity import store
from bridge.integrity.events import (
    CURSOR_CLOSED,
    CURSOR_MOVED,
    CURSOR_OPENED,
    DELEGATION,
    ENTRIES_IMPORTED,
    ENTRY_APPENDED,
    ENTRY_ERASED,
    HEAD_MOVED,
    LABEL_REMOVED,
    LABEL_SET,
    ROOT_SEALED,
    SESSION_CREATED,
    SESSION_IMPORTED,
    SESSION_QUARANTINED,
    SESSION_RELEASED,
    SESSION_UPDATED,
)
from bridge.integrity.removal.store import tombstone_rows
from bridge.integrity.report import Report
from bridge.integrity.store import StoredEntry, StoredEvent
from bridge.storage.transaction import Connection

#: Columns of a session's row that its creation records by themselves; the others are in the fact ``row``.
CREATED_COLUMNS: Final = ("kind", "parent_session_id", "parent_relation")
#: Columns of a session's row that the fact ``row`` holds.
ROW_COLUMNS: Final = ("workspace_id", "agent_id", "harness", "label", "status")
#: Columns of an entry that no entry hash covers; its event holds those that have a value.
BESIDE_COLUMNS: Final = ("observed_at", "unknown_path", "unknown_detail", "external_source")
#: Columns of a delegation that its events record when they change.
DELEGATION_FACTS: Final = (
    "status",
    "request_entry_id",
    "worker_session_id",
    "workspace_id",
    "base_commit",
    "result_entry_id",
    "result_commit",
)


class ChainReader:
    """Goes through a chain once, recomputes it, and hands on each event with its facts."""

    def __init__(self, connection: Connection, chain_id: str, report: Report) -> None:
        self._connection = connection
        self._chain_id = chain_id
        self._report = report

    def __iter__(self) -> Iterator[tuple[StoredEvent, dict[str, Any]]]:
        report, chain_id = self._report, self._chain_id
        previous, expected = ZERO_HASH, 0
        for event in store.iterate_events(self._connection, chain_id):
            report.checked += 1
            ordinal: Any = event.ordinal  # a damaged row may hold anything
            if ordinal != expected:
                report.add("event_missing", f"{chain_id}#{ordinal}", f"Event {expected} is not there.")
            body = self._checked(event, previous)
            # Go on from what is stored, so that one altered event is one finding and not one for each that follows.
            previous = raw_hash(event.event_hash)
            expected = ordinal + 1 if isinstance(ordinal, int) else expected + 1
            yield event, body

    def _checked(self, event: StoredEvent, previous: bytes) -> dict[str, Any]:
        subject = f"{event.chain_id}#{event.ordinal}"
        try:
            encoded = event.body.encode()
            if sha256(previous + encoded).hexdigest() != event.event_hash:
                message = "Its hash does not follow from its text and the event before."
                self._report.add("event_altered", subject, message)
            written = orjson.loads(encoded)
        except (AttributeError, TypeError, ValueError):
            self._report.add("event_altered", subject, "Its text is not JSON.")
            return {}
        if (
            not isinstance(written, dict)
            or written.get("ordinal") != event.ordinal
            or written.get("event_type") != event.event_type
            or written.get("created_at") != event.created_at
            or written.get("chain_id") != event.chain_id
        ):
            self._report.add("event_altered", subject, "Its columns are not those that were hashed.")
            return {}
        body = written.get("body")
        return body if isinstance(body, dict) else {}


@dataclass(slots=True)
class Recorded:
    """What the events of a session's chain come to.

    Parameters
    ----------
    head, head_changed_at
        The last head that was recorded, and when something last touched it; None if that is not recorded.
    row
        The columns of the session's row that were recorded.
    labels, cursors
        What they stand for and since when, by name and by owner.
    is_labels_known
        Whether all labels are: not if some were taken in without a record.
    sealed, imported
        The facts of the last such events.
    delegations
        What was recorded last of each task that was given out from here, by its id.
    """

    head: str | None = None
    head_changed_at: str | None = None
    row: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, tuple[str, str]] = field(default_factory=dict)
    cursors: dict[str, tuple[str, str]] = field(default_factory=dict)
    is_labels_known: bool = True
    forked_from: Any = None
    moved_from: str | None = None
    moved_at: str | None = None
    sealed: dict[str, Any] = field(default_factory=dict)
    imported: dict[str, Any] = field(default_factory=dict)
    is_quarantined: bool = False
    delegations: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: What stands in the place of erased payloads: entry, its hash, that of the payload, and when.
    tombstones: set[tuple[str, str, str, str]] = field(default_factory=set)

    def take(self, event: StoredEvent, body: dict[str, Any]) -> None:
        """Take in an event other than that of an entry."""
        if "head" in body:
            self.head = str(body["head"])
        taker = _TAKERS.get(event.event_type)
        if taker is not None:
            taker(self, body, event.created_at)
        elif event.event_type.startswith(DELEGATION):
            facts: dict[str, Any] = {name: body[name] for name in DELEGATION_FACTS if name in body}
            self.delegations.setdefault(str(body.get("delegation_id")), {}).update(facts)

    def append(self, body: dict[str, Any], moment: str) -> None:
        """Take in the event of an appended entry: the head, and the cursors that stood at its parent, go on."""
        self.head = str(body.get("head"))
        # What was moved here from an older history is recorded as of the move; the head kept its own time.
        self.head_changed_at = None if moment == self.moved_at else moment
        if self.cursors:
            parent, entry = body.get("parent_entry_id"), str(body.get("entry_id"))
            for owner, (leaf, since) in self.cursors.items():
                if leaf == parent:
                    self.cursors[owner] = entry, since

    def on_moved(self, _body: dict[str, Any], moment: str) -> None:
        self.head_changed_at = moment

    def on_updated(self, body: dict[str, Any], moment: str) -> None:
        self.row.update(body)
        self.row["updated_at"] = moment
        if self.head_changed_at is not None:
            self.head_changed_at = max(self.head_changed_at, moment)

    def on_label_set(self, body: dict[str, Any], moment: str) -> None:
        self.labels[str(body.get("name"))] = str(body.get("entry_id")), moment

    def on_label_removed(self, body: dict[str, Any], _moment: str) -> None:
        self.labels.pop(str(body.get("name")), None)

    def on_cursor_opened(self, body: dict[str, Any], moment: str) -> None:
        self.cursors[str(body.get("owner"))] = str(body.get("leaf_entry_id")), moment

    def on_cursor_moved(self, body: dict[str, Any], _moment: str) -> None:
        owner = str(body.get("owner"))
        self.cursors[owner] = str(body.get("leaf_entry_id")), self.cursors.get(owner, ("", ""))[1]

    def on_cursor_closed(self, body: dict[str, Any], _moment: str) -> None:
        self.cursors.pop(str(body.get("owner")), None)

    def on_sealed(self, body: dict[str, Any], _moment: str) -> None:
        self.sealed = body

    def on_erased(self, body: dict[str, Any], moment: str) -> None:
        names = ("entry_id", "tombstone_hash", "payload_hash")
        entry, tombstone, payload = (str(body.get(name)) for name in names)
        self.tombstones.add((entry, tombstone, payload, moment))

    def on_quarantined(self, _body: dict[str, Any], _moment: str) -> None:
        self.is_quarantined = True

    def on_released(self, _body: dict[str, Any], _moment: str) -> None:
        self.is_quarantined = False

    def on_created(self, body: dict[str, Any], moment: str) -> None:
        self.row.update({name: body[name] for name in CREATED_COLUMNS if name in body})
        self.forked_from = body.get("forked_from")
        moved_from = body.get("moved_from")
        if moved_from is not None:
            self.moved_from, self.moved_at = str(moved_from), moment
        row = body.get("row")
        if isinstance(row, dict):
            self.row.update({"created_at": moment, "updated_at": moment, **row})
        if self.moved_from is None:
            self.head_changed_at = str(self.row.get("created_at", moment))

    def on_run(self, body: dict[str, Any], _moment: str) -> None:
        self.head_changed_at = str(body.get("updated_at"))

    def on_taken_in(self, body: dict[str, Any], moment: str) -> None:
        self.imported = body
        self.row.update({name: body[name] for name in CREATED_COLUMNS if name in body})
        self.forked_from = body.get("forked_from", self.forked_from)
        row = body.get("row")
        # Only one that was not here brings its row, and the time of its head with it.
        is_new = "kind" in body
        if isinstance(row, dict):
            self.row.update(row)
        if not is_new:
            self.head_changed_at = moment
        else:
            self.head_changed_at = row.get("updated_at") if isinstance(row, dict) else None
        withheld = body.get("withheld")
        for entry, hashes in withheld.items() if isinstance(withheld, dict) else ():
            if isinstance(hashes, list) and len(hashes) == 2:
                self.tombstones.add((str(entry), str(hashes[0]), str(hashes[1]), moment))
        labels = body.get("labels")
        if isinstance(labels, dict):
            self.labels.update({str(name): (str(entry), moment) for name, entry in labels.items()})
        else:
            self.is_labels_known = False


_TAKERS: Final[dict[str, Callable[[Recorded, dict[str, Any], str], None]]] = {
    HEAD_MOVED: Recorded.on_moved,
    SESSION_CREATED: Recorded.on_created,
    SESSION_IMPORTED: Recorded.on_taken_in,
    ENTRIES_IMPORTED: Recorded.on_run,
    SESSION_UPDATED: Recorded.on_updated,
    LABEL_SET: Recorded.on_label_set,
    LABEL_REMOVED: Recorded.on_label_removed,
    CURSOR_OPENED: Recorded.on_cursor_opened,
    CURSOR_MOVED: Recorded.on_cursor_moved,
    CURSOR_CLOSED: Recorded.on_cursor_closed,
    ENTRY_ERASED: Recorded.on_erased,
    ROOT_SEALED: Recorded.on_sealed,
    SESSION_QUARANTINED: Recorded.on_quarantined,
    SESSION_RELEASED: Recorded.on_released,
}


def read_recorded(
    connection: Connection, session_id: str, report: Report, entries: Iterator[StoredEntry], through: int
) -> Recorded:
    """Recompute a session's chain; compare the entries with it on the way; return what it says of the rest.

    Both are in the order in which the entries were recorded, so each is read once.

    Parameters
    ----------
    entries
        The session's entries by sequence; all of them are taken.
    through
        The last sequence that an import recorded by its root: entries up to there need no event of their own.
    """
    recorded = Recorded()
    walk = _Walk(report, entries, through)
    for event, body in ChainReader(connection, session_id, report):
        kind = event.event_type
        if kind == ENTRY_APPENDED:
            recorded.append(body, event.created_at)
        else:
            recorded.take(event, body)
        if kind in (ENTRY_APPENDED, SESSION_CREATED):
            walk.meet(body, recorded.moved_from)
        elif kind == ENTRIES_IMPORTED and "added" in body:
            walk.meet_run(session_id, body)
    walk.end()
    return recorded


class _Walk:
    """Goes along the entries as the events of a chain come, and compares each with its event.

    Parameters
    ----------
    through
        As for :func:`read_recorded`.
    """

    def __init__(self, report: Report, entries: Iterator[StoredEntry], through: int) -> None:
        self._report = report
        self._entries = entries
        self._through = through
        self._entry: StoredEntry | None = next(entries, None)

    def meet(self, body: dict[str, Any], moved_from: str | None) -> None:
        """Compare the next entry with the event of one."""
        wanted = str(body.get("entry_id"))
        while self._entry is not None and self._entry.id != wanted and _comes_before(self._entry, wanted):
            self._pass_unrecorded()
        if self._entry is None or self._entry.id != wanted:
            self._report.add("entry_missing", wanted, "An audit event records this entry, but it is not there.")
            return
        _compare(self._report, self._entry, body, moved_from)
        self._entry = next(self._entries, None)

    def meet_run(self, session_id: str, body: dict[str, Any]) -> None:
        """Compare the next entries with the event of all of them together."""
        first, last, added = (body.get(name) for name in ("first_sequence", "last_sequence", "added"))
        if not isinstance(first, int) or not isinstance(last, int) or not isinstance(added, int):
            return  # nothing but the head was recorded
        while self._entry is not None and self._entry.sequence < first:
            self._pass_unrecorded()
        digest, count = sha256(), 0
        while self._entry is not None and self._entry.sequence <= last:
            digest.update(_taken_in(self._entry))
            count += 1
            self._entry = next(self._entries, None)
        if count != added or digest.hexdigest() != body.get("digest"):
            code = "entry_missing" if count < added else "entry_altered"
            message = f"The entries {first} to {last} are not those that were taken in together."
            self._report.add(code, session_id, message)

    def end(self) -> None:
        """Take note that no event follows."""
        while self._entry is not None:
            self._pass_unrecorded()

    def _pass_unrecorded(self) -> None:
        if self._entry is not None and self._entry.sequence > self._through:
            self._report.add("event_missing", self._entry.id, "No audit event records this entry.")
        self._entry = next(self._entries, None)


def _taken_in(entry: StoredEntry) -> bytes:
    values = [entry.id, *(getattr(entry, name) for name in BESIDE_COLUMNS)]
    try:
        return taken_in_line(entry.entry_hash, values)
    except (TypeError, ValueError):
        return b""  # a damaged row may hold anything; then the digest is another


def _comes_before(entry: StoredEntry, identity: str) -> bool:
    """Return whether an entry was recorded before the one of an id of the same session."""
    tail = identity.rpartition("-")[2]
    return tail.isascii() and tail.isdigit() and entry.sequence < int(tail)


def _compare(report: Report, entry: StoredEntry, body: dict[str, Any], moved_from: str | None) -> None:
    if body.get("entry_hash") != entry.entry_hash:
        report.add("entry_altered", entry.id, "The entry's hash is not the one that was recorded.")
    source = body.get("external_source", None if entry.external_id is None else moved_from)
    if (
        entry.observed_at != body.get("observed_at")
        or entry.external_source != source
        or entry.unknown_path != body.get("unknown_path")
        or entry.unknown_detail != body.get("unknown_detail")
    ):
        report.add("entry_altered", entry.id, "What was recorded beside what is hashed is not what its row has.")


def beside_line(entry: StoredEntry) -> bytes:
    """Return what of an entry no hash covers, as it enters the digest that an import records."""
    values = [entry.id, *(getattr(entry, name) for name in BESIDE_COLUMNS)]
    try:
        return orjson.dumps(values) + b"\n"
    except TypeError:
        # Somebody put bytes into the row that are no text, as no import does: it needs a line that is another one.
        return json.dumps(values).encode() + b"\n"


def compare_rows(report: Report, connection: Connection, session_id: str, recorded: Recorded) -> None:
    """Compare the session's row, head, labels, cursors and quarantine with what was recorded."""
    row = store.session_row(connection, session_id)
    if row is None:
        report.add("session_missing", session_id, "Its entries are there, the session is not.")
    else:
        for name, value in recorded.row.items():
            if name in row and row[name] != value:
                report.add("session_altered", session_id, f"Its {name} is not the one that was recorded.")
    head = store.session_head(connection, session_id)
    if head is not None and head.active_entry_id != recorded.head:
        message = f"The head is {head.active_entry_id}; the last recorded one is {recorded.head}."
        report.add("head_altered", session_id, message)
    if head is not None and recorded.head_changed_at is not None and head.updated_at != recorded.head_changed_at:
        report.add("head_altered", session_id, "When it changed last is not what was recorded.")
    _compare_places(report, session_id, recorded, connection)
    for tombstone in sorted(recorded.tombstones ^ set(tombstone_rows(connection, session_id))):
        report.add("tombstone_altered", tombstone[0], "Its tombstone is not what the chain records.")
    if store.is_quarantined(connection, session_id) != recorded.is_quarantined:
        what = "was set aside" if recorded.is_quarantined else "was never set aside"
        report.add("quarantine_altered", session_id, f"The session {what}, and its row says otherwise.")


def _compare_places(report: Report, session_id: str, recorded: Recorded, connection: Connection) -> None:
    labels = store.label_rows(connection, session_id)
    for name in sorted(labels.keys() | recorded.labels.keys()):
        is_known = name in recorded.labels or recorded.is_labels_known
        if is_known and labels.get(name) != recorded.labels.get(name):
            message = "The label does not stand for what was recorded, or not since then."
            report.add("label_altered", f"{session_id} {name}", message)
    cursors = store.cursor_rows(connection, session_id)
    for owner in sorted(cursors.keys() | recorded.cursors.keys()):
        if cursors.get(owner) != recorded.cursors.get(owner):
            message = "The cursor is not where what was recorded leads it, or not since then."
            report.add("cursor_altered", f"{session_id} {owner}", message)


def raw_hash(hexadecimal: Any) -> bytes:
    """Return a hash as bytes; zeros for what is none."""
    try:
        return bytes.fromhex(hexadecimal)
    except (TypeError, ValueError):
        return ZERO_HASH
