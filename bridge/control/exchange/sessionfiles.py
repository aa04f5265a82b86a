"""Use cases: a session as a session file, and a session file taken in (docs/session-files.md).

Hashes and stamps do not travel this way; the portable format does that. What is written is checked as strictly as what
is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from io import SEEK_SET
from typing import Any, BinaryIO, Final

from bridge.control.controller import Controller
from bridge.control.exchange.imported import Imported, ImportedSession
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import ExternalIdConflict, SessionRemoved
from bridge.conversations.models import ID_AT, Entry, EntryDraft, NewSession, PreparedEntry
from bridge.conversations.store import find_external, get_head, session_exists
from bridge.foundation.canonical import parse_json
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.errors import NotCanonical
from bridge.foundation.ids import entry_id, short_entry
from bridge.integrity.store import first_event_type
from bridge.semantics.interpretation import interpret
from bridge.semantics.kinds import CURRENT_VERSION
from bridge.storage.transaction import Connection
from bridge.transcripts.sessionfile.errors import SessionInvalidJson
from bridge.transcripts.sessionfile.exchange import POSITION_KIND, message_of, opaque_message, parts_of
from bridge.transcripts.sessionfile.limits import FORMAT_VERSION, MAX_FILE_BYTES, MAX_LINE_BYTES
from bridge.transcripts.sessionfile.reading import Contents, Ledger, generation, read, require_line, too_large
from bridge.transcripts.sessionfile.records import HEADER_TYPE, Place, new_entry, new_header, snapshot

#: Harness of sessions that came from session files.
HARNESS: Final = "session-file"
#: Hexadecimal digits of a digest that end the id of such a session.
_ID_DIGITS: Final = 12


def session_file_of(session_id: str, created_at: str, head_entry_id: str, entries: Sequence[Entry]) -> bytes:
    """Return a session as the bytes of a session file, its active branch last.

    Parameters
    ----------
    entries
        In an order in which parents come before their children; roots are left out.

    Raises
    ------
    SessionLineTooLarge, SessionFileTooLarge, SessionTooManyEntries
        If it is more than a session file holds; the details name the entry.
    UnsupportedSemanticVersion
        If an entry is of a version that this Bridge does not read.
    """
    shown = [entry for entry in entries if not entry.is_root]
    ledger = Ledger(new_header(session_id, created_at))
    size = len(ledger.header.line) + 1
    parents = _parents(entries)
    records: Iterator[tuple[str, str | None, str, dict[str, Any] | Entry]] = (
        (entry.id, parents[entry.id], entry.created_at, entry) for entry in _active_last(shown, head_entry_id, parents)
    )
    for identity, parent_id, timestamp, source in [*records, *_position(shown, head_entry_id, parents, created_at)]:
        message = _message(source, ledger, parent_id) if isinstance(source, Entry) else source
        place = Place(session_id, len(ledger) + 2, size)
        record = new_entry(identity, parent_id, timestamp, snapshot(message))
        require_line(record.line, place, identity)
        ledger.add(record, place)
        size += len(record.line) + 1
        if size > MAX_FILE_BYTES:
            raise too_large(session_id, size, id=identity)
    return generation(Contents(b"", ledger).lines())


def _parents(entries: Sequence[Entry]) -> dict[str, str | None]:
    """Return the parent of each entry that is shown; a root of a fork stands for the entry that it goes on from."""
    shown = {entry.id for entry in entries if not entry.is_root}
    origins = {entry.id: parse_json(entry.payload_text).get("forked_from") for entry in entries if entry.is_root}
    found: dict[str, str | None] = {}
    for entry in entries:
        parent = entry.parent_entry_id
        origin = origins.get(parent) if parent is not None else None
        found[entry.id] = parent if parent in shown else origin["entry_id"] if isinstance(origin, dict) else None
    return found


def _active_last(entries: Sequence[Entry], head: str, parents: Mapping[str, str | None]) -> list[Entry]:
    """Return entries so that those which belong to the active branch alone come last."""
    children = Counter(parents[entry.id] for entry in entries)
    tail: set[str | None] = set()
    at: str | None = head
    while at is not None and at in parents and children[at] == (1 if tail else 0):
        tail.add(at)
        at = parents[at]
    return [entry for entry in entries if entry.id not in tail] + [entry for entry in entries if entry.id in tail]


def _position(
    entries: Sequence[Entry], head: str, parents: Mapping[str, str | None], moment: str
) -> Iterator[tuple[str, str | None, str, dict[str, Any]]]:
    """Yield what says where the head stands, if the last entry does not say it."""
    known = {entry.id for entry in entries}
    place = head if head in known else parents.get(head)
    if entries and place in {None, *(parents[entry.id] for entry in entries)}:
        yield f"{head}-position", place, moment, {"role": "event", "kind": POSITION_KIND}


def _message(entry: Entry, ledger: Ledger, parent_id: str | None) -> dict[str, Any]:
    read_as = interpret(entry.semantic_schema_version, entry.kind, entry.payload_text, entry_id=entry.id)
    payload = read_as.payload
    if read_as.opaque:
        return opaque_message(read_as.kind, payload)
    if entry.semantic_schema_version == CURRENT_VERSION:
        payload = parse_json(entry.payload_text)  # with the digits of its floats
    calls: dict[str, str] = {}
    if entry.kind == "tool.completed":
        wanted = payload["tool_call_id"]
        for above in ledger.lineage(parent_id):
            if wanted in (calls := dict(above.calls())):
                break
    return message_of(entry.kind, payload, entry.context_visibility, calls)


def is_session_file(source: BinaryIO) -> bool:
    """Return whether a file begins as a session file of this version does; it is left at its beginning."""
    line = source.readline(MAX_LINE_BYTES)
    source.seek(0, SEEK_SET)
    try:
        value = parse_json(line)
    except NotCanonical:
        return False
    return isinstance(value, dict) and value.get("type") == HEADER_TYPE and value.get("version") == FORMAT_VERSION


def import_session_file(controller: Controller, source: BinaryIO, *, dry_run: bool = False) -> Imported:
    """Take in a session file: all that is not here yet, or nothing.

    Raises
    ------
    SessionFileError
        One of its classes: what is wrong with the file. A last line that was cut short is wrong, too.
    ExternalIdConflict
        If an entry is here already with other content.
    SessionRemoved
        If the session was removed from this store.
    InvalidPayload, InvalidText
        If a message holds what no entry may hold.
    """
    data = source.read(MAX_FILE_BYTES + 1)
    contents = read(data, str(getattr(source, "name", "the session file")))
    if contents.torn is not None:
        raise SessionInvalidJson(
            f"The last line of the session file was cut short, at byte {contents.torn.offset}. Nothing was written.",
            hint="Load it as a session file and append to it, or remove the line.",
            details={"line": contents.torn.line, "offset": contents.torn.offset, "reason": "cut_short"},
        )
    incoming = _Incoming(controller, contents)
    digest = sha256(data).hexdigest()
    with controller.store.read() as connection:
        found = incoming.compare(connection)
    if not dry_run and (found.added or found.status == "created"):
        found = controller.recorder.transact(incoming.write)
    return Imported(found.session_id, digest, dry_run, (found,))


class _Incoming:
    """What a session file becomes here; ids follow from the file alone."""

    def __init__(self, controller: Controller, contents: Contents) -> None:
        header = contents.ledger.header
        moment = parse_timestamp(header.timestamp)
        named = sha256(f"{header.id}\x00{header.timestamp}".encode()).hexdigest()[:_ID_DIGITS]
        self.session_id = f"{moment:%Y%m%d-%H%M%S}-{named}"
        self.label = header.id if header.id.isprintable() else None
        source = f"{HARNESS}:{header.id}"
        # Of each entry of the file: its id, its parent's, and what it becomes.
        self._entries: list[tuple[str, str | None, list[PreparedEntry]]] = []
        for entry in contents.ledger.entries:
            drafts = [
                EntryDraft(
                    kind=part.kind,
                    payload=part.payload,
                    context_visibility=part.visibility,  # type: ignore[arg-type]  # parts have no other words
                    external_id=entry.id,
                    external_source=source if number == 0 else f"{source}#{number}",
                    created_at=entry.timestamp,
                )
                for number, part in enumerate(parts_of(entry.to_json()["message"]))
            ]
            self._entries.append((entry.id, entry.parent_id, [controller.recorder.prepare(draft) for draft in drafts]))

    def compare(self, connection: Connection) -> ImportedSession:
        """Return what would be added.

        Raises
        ------
        SessionRemoved
            If the session was removed from this store.
        ExternalIdConflict
            If an entry is here with other content, or below another one.
        """
        exists = session_exists(connection, self.session_id)
        if not exists and first_event_type(connection, self.session_id) is not None:
            raise SessionRemoved(
                f"Session {self.session_id} was removed from this store. Nothing was written.",
                details={"session_id": self.session_id},
            )
        root = entry_id(self.session_id, 0)
        # Where each entry of the file is here; None for one that is not.
        places: dict[str | None, str | None] = {None: root}
        total = added = 0
        for identity, parent_id, parts in self._entries:
            last = places[parent_id]
            for part in parts:
                last = _place_here(connection, self.session_id, part, last)
                total, added = total + 1, added + (last is None)
            places[identity] = last
        status = "created" if not exists else "continued" if added else "unchanged"
        return ImportedSession(self.session_id, status, added, total, complete=True)

    def write(self, recording: RecordingTransaction) -> ImportedSession:
        """Write what is not here."""
        found = self.compare(recording.tx.connection)
        if found.status == "created":
            recording.create_session(NewSession(id=self.session_id, harness=HARNESS, label=self.label))
        root = entry_id(self.session_id, 0)
        places: dict[str | None, str] = {None: root}
        last = root
        for identity, parent_id, parts in self._entries:
            last = places[parent_id]
            for part in parts:
                appended = recording.append(self.session_id, part._replace(parent_entry_id=last))
                last = appended.row[ID_AT]
            places[identity] = last
        if found.status == "created":
            recording.move_head(self.session_id, last)
        head = get_head(recording.tx.connection, self.session_id)
        return replace(found, active_entry_id=None if head is None else head.entry_id)


def _place_here(connection: Connection, session_id: str, part: PreparedEntry, parent_id: str | None) -> str | None:
    """Return the entry here that a part of a message is, None if it is not here."""
    source, external_id = part.external_source or "", part.external_id or ""
    known = find_external(connection, session_id, source, external_id)
    if known is None:
        return None
    same = (part.kind, part.payload_hash, parent_id)
    if (known.kind, known.payload_hash, known.parent_entry_id) != same:
        raise ExternalIdConflict(
            f"{external_id[:80]!r} is recorded as {short_entry(known.id)} already, with other content or elsewhere. "
            "Nothing was written.",
            details={"entry_id": known.id, "external_id": external_id[:200], "external_source": source[:200]},
        )
    return known.id
