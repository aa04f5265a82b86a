"""The events of the older linear history, and how they become entries. Used by revision 6 and pinned like it.

An event has five columns, none of them constrained: whatever SQLite could store in one may stand there. An entry
takes the JSON text as its payload, byte for byte, canonical or not, broken or not; the ordinal becomes the external
id. Where a column holds what an entry cannot (NULL, a blob, a time in other words), the entry gets the nearest
thing and ``legacy_events`` keeps the original column. So nothing is lost, and nothing has to be guessed later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from bridge.foundation.clock import format_timestamp
from bridge.foundation.hashing import ZERO_HASH, entry_hash, event_hash
from bridge.foundation.ids import SAFE_ID, entry_id
from bridge.foundation.outlines import outline_of_text
from bridge.storage.prepared import DriverConnection

#: ``external_source`` of entries that were events.
SOURCE: Final = "agent_events"
#: Kind of an event whose type is no usable text.
UNNAMED_KIND: Final = "provider.unknown"
#: Longest type that becomes a kind, in characters.
MAX_KIND_CHARACTERS: Final = 200
#: Time of an event in a session in which no event has a readable one.
NO_TIME: Final = "1970-01-01T00:00:00.000000Z"
#: Longest JSON text, in bytes, that stays in its entry's row; longer ones become blobs.
LONG_TEXT_BYTES: Final = 16 * 1024
#: Rows that are written at a time.
BATCH_ROWS: Final = 500
#: Long texts that are held until they are written.
BATCH_LONG_TEXTS: Final = 16

_SEMANTIC_VERSION = 1
_COLUMNS = ("session", "ordinal", "type", "json", "created_at")
_STAMP = {"unknown": "unstamped"}
#: Kinds that may be restored into a context; what the table of kinds said when this step was written.
_ELIGIBLE = frozenset(
    {"user.message", "assistant.message", "reasoning.completed", "tool.started", "tool.completed"}
    | {"approval.requested", "approval.resolved", "delegation.requested", "delegation.approved", "delegation.rejected"}
    | {"worker.result", "checkpoint", "compaction", "branch.summary", "model.changed", "effort.changed"}
    | {"artifact.created", "handoff.brief", "note", "error"}
)

#: How far a step is: rows done and rows in all.
Report = Callable[[int, int], None]


class Value(NamedTuple):
    """One column's value: its storage class and its bytes, which is all that tells two values apart."""

    kind: str
    raw: bytes | None

    @property
    def text(self) -> str | None:
        """The value if it is text and UTF-8; else None."""
        return _decode(self.raw) if self.kind == "text" else None

    def to_json(self) -> list[str | None]:
        """Return a form that :meth:`from_json` reads back: the storage class, and text, hex or null."""
        readable = None if self.kind == "blob" else _decode(self.raw)
        if readable is not None:
            return [self.kind, readable]
        return [f"{self.kind}:hex", None if self.raw is None else self.raw.hex()]

    @classmethod
    def from_json(cls, stored: list[Any]) -> Value:
        kind, content = stored
        plain, _, encoding = kind.partition(":")
        if content is None:
            return cls(plain, None)
        return cls(plain, bytes.fromhex(content) if encoding else content.encode())


class Event(NamedTuple):
    """One row of ``agent_events``."""

    session: Value
    ordinal: Value
    type: Value
    json: Value
    created_at: Value


class _Digest:
    """The digest of a store's events: each session's in its order; which session comes first does not matter."""

    def __init__(self) -> None:
        self._sessions: dict[Value, Any] = {}

    def add(self, event: Event) -> None:
        session = self._sessions.get(event.session)
        if session is None:
            session = self._sessions[event.session] = sha256()
        for value in event:
            raw = b"" if value.raw is None else value.raw
            session.update(f"{value.kind}:{len(raw)}:".encode())
            session.update(raw)

    def hexdigest(self) -> str:
        return sha256(b"".join(sorted(session.digest() for session in self._sessions.values()))).hexdigest()


def iterate_events(driver: DriverConnection) -> Iterator[Event]:
    """Yield all events, session by session, by ordinal; those with one ordinal in the order they arrived, those
    without one last.
    """
    columns = ", ".join(f"typeof({name}), CAST({name} AS BLOB)" for name in _COLUMNS)
    # From version 4 on ``id`` is another name of the row number.
    query = f"SELECT {columns} FROM agent_events ORDER BY session, ordinal IS NULL, ordinal, rowid"  # noqa: S608 - constants
    for row in driver.execute(query):
        yield Event(*(Value(row[at], row[at + 1]) for at in range(0, 10, 2)))


def events_digest(driver: DriverConnection) -> str:
    """Return the digest of everything in ``agent_events``; the same in versions 1 to 5."""
    digest = _Digest()
    for event in iterate_events(driver):
        digest.add(event)
    return digest.hexdigest()


def moved_events_digest(driver: DriverConnection) -> str:
    """Return the digest of the events as the entries hold them."""
    digest = _Digest()
    query = (
        "SELECT e.session_id, e.external_id, e.kind, coalesce(e.payload, b.body), e.created_at, l.original"
        " FROM session_entries e LEFT JOIN blobs b ON b.digest = e.blob_digest"
        " LEFT JOIN legacy_events l ON l.session_id = e.session_id AND l.entry_id = e.id"
        " WHERE e.external_source = ? ORDER BY e.session_id, e.sequence"
    )
    for session_id, external_id, kind, payload, created_at, original in driver.execute(query, (SOURCE,)):
        kept = {} if original is None else orjson.loads(original)
        held = _as_event(session_id, external_id, kind, payload, created_at)
        digest.add(held._replace(**{name: Value.from_json(stored) for name, stored in kept.items()}))
    return digest.hexdigest()


def _as_event(session_id: str, external_id: str, kind: str, payload: str, created_at: str) -> Event:
    """Return the event that an entry holds, as far as an entry can."""
    ordinal = external_id.partition(".")[0]
    return Event(
        Value("text", session_id.encode()),
        Value("integer", ordinal.encode()),
        Value("text", kind.encode()),
        Value("text", payload.encode()),
        Value("text", created_at.encode()),
    )


class _SessionFacts(NamedTuple):
    """What ``agent_sessions`` knows about a session, which may be nothing."""

    label: str | None = None
    harness: str | None = None
    created_at: str | None = None
    status: str | None = None


class Move:
    """Moves the events of a store into its forest, inside the open transaction.

    Parameters
    ----------
    driver
        The driver's connection; both the old and the new tables are there.
    moment
        When it happens: the time of the audit events.
    report
        Told how many events are moved, and how many there are.
    """

    def __init__(self, driver: DriverConnection, *, moment: str, report: Report) -> None:
        self._driver = driver
        self._moment = moment
        self._report = report
        self._entries: list[tuple[Any, ...]] = []
        self._blobs: dict[str, tuple[str, int, str]] = {}
        self._audits: list[tuple[Any, ...]] = []
        self._originals: list[tuple[str, str, str]] = []
        self._taken: set[str] = set()
        self._digest = _Digest()
        (counted,) = driver.execute("SELECT count(*) FROM agent_events").fetchall()
        self._total, self._done = int(counted[0]), 0

    def run(self) -> None:
        """Move everything.

        Raises
        ------
        ValueError
            If the digest of the entries is not that of the events.
        """
        known = self._known_sessions()
        self._report(0, self._total)
        for session, events in _by_session(iterate_events(self._driver)):
            self._move_session(session, known.pop(session, _SessionFacts()), events)
        for session, facts in known.items():
            self._move_session(session, facts, ())
        self._flush()
        expected, found = self._digest.hexdigest(), moved_events_digest(self._driver)
        if expected != found:
            raise ValueError(f"the entries' digest {found} is not the events' {expected}")

    def _known_sessions(self) -> dict[Value, _SessionFacts]:
        query = (
            "SELECT typeof(session), CAST(session AS BLOB), CAST(label AS BLOB), CAST(harness AS BLOB),"
            " CAST(created_at AS BLOB), CAST(status AS BLOB) FROM agent_sessions ORDER BY session"
        )
        return {
            Value(row[0], row[1]): _SessionFacts(*(_decode(raw) for raw in row[2:]))
            for row in self._driver.execute(query).fetchall()
        }

    def _move_session(self, session: Value, facts: _SessionFacts, events: Iterable[Event]) -> None:
        session_id = self._session_id_of(session)
        writer = _SessionWriter(self, session, session_id, normalized_time(facts.created_at))
        for event in events:
            writer.add(event)
            self._digest.add(event)
            self._done += 1
            if len(self._entries) >= BATCH_ROWS or len(self._blobs) >= BATCH_LONG_TEXTS:
                self._flush()
        last = writer.finish()
        label = (session.text or None) if facts.label is None and session_id != session.text else facts.label
        self._driver.execute(
            "INSERT INTO sessions (id, kind, harness, label, status, created_at, updated_at)"
            " VALUES (?, 'chat', ?, ?, ?, ?, ?)",
            (session_id, facts.harness, label, facts.status or "open", writer.first_time, writer.first_time),
        )
        self._flush()
        self._driver.execute("INSERT INTO session_heads VALUES (?, ?, ?, ?)", (session_id, *last))

    def _session_id_of(self, session: Value) -> str:
        """Return the session's name if it can be an id, else an id made of the name's digest."""
        named = session.text
        if named is not None and SAFE_ID.fullmatch(named):
            wanted = named
        else:
            wanted = f"legacy-{sha256(repr(session).encode()).hexdigest()[:16]}"
        while wanted in self._taken:
            wanted = f"legacy-{sha256(wanted.encode()).hexdigest()[:16]}"
        self._taken.add(wanted)
        return wanted

    def write(self, entry: tuple[Any, ...], audit: tuple[Any, ...], original: tuple[str, str, str] | None) -> None:
        """Queue the rows of one entry; its text goes elsewhere if it is long."""
        *fields, payload_hash, entry_hash, payload = entry
        kept: tuple[Any, ...] = None, None, None, payload
        size = len(payload.encode())
        if size > LONG_TEXT_BYTES:
            self._blobs[payload_hash] = payload_hash, size, payload
            kept = payload_hash, size, outline_of_text(payload), None
        self._entries.append((*fields, payload_hash, entry_hash, *kept))
        self._audits.append(audit)
        if original is not None:
            self._originals.append(original)

    @property
    def moment(self) -> str:
        return self._moment

    def _flush(self) -> None:
        # The same text may have come before, in this lot or an earlier one.
        self._driver.executemany(_INSERT_BLOB, [(*blob, blob[0]) for blob in self._blobs.values()])
        self._blobs.clear()
        for statement, rows in (
            (_INSERT_ENTRY, self._entries),
            (_INSERT_AUDIT, self._audits),
            ("INSERT INTO legacy_events VALUES (?, ?, ?)", self._originals),
        ):
            self._driver.executemany(statement, rows)
            rows.clear()
        self._report(self._done, self._total)


_INSERT_BLOB = "INSERT INTO blobs SELECT ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE digest = ?)"
_INSERT_ENTRY = (
    "INSERT INTO session_entries (session_id, id, parent_entry_id, sequence, semantic_schema_version, kind,"
    " context_visibility, unknown_reason, external_source, external_id, created_at, payload_hash, entry_hash,"
    " blob_digest, payload_bytes, payload_outline, payload)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, 'unstamped', ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_AUDIT = (
    "INSERT INTO audit_events (chain_id, ordinal, event_type, created_at, event_hash, body) VALUES (?, ?, ?, ?, ?, ?)"
)


class _SessionWriter:
    """Makes the entries of one session and the chain that records them."""

    def __init__(self, move: Move, session: Value, session_id: str, recorded_at: str | None) -> None:
        self._move = move
        self._name = session
        self._id = session_id
        self._recorded_at = recorded_at
        self._waiting: list[Event] = []
        self._ordinals: dict[str, int] = {}
        self._sequence = 0
        self._parent: tuple[str, str] | None = None
        self._previous_event = ZERO_HASH
        self._time: str | None = None
        self.first_time = recorded_at or NO_TIME

    def add(self, event: Event) -> None:
        moment = normalized_time(event.created_at.text)
        if self._time is None:
            # Events before the first readable time get that time: nothing says that they are younger.
            self._waiting.append(event)
            if moment is not None:
                self._begin(moment)
            return
        self._time = moment or self._time
        self._append(event, self._time)

    def finish(self) -> tuple[str, int, str]:
        """Return the head: the last entry, the next sequence, and its time."""
        if self._time is None:
            self._begin(self._recorded_at or NO_TIME)
        if self._parent is None or self._time is None:
            raise RuntimeError("a session without a root")
        return self._parent[0], self._sequence, self._time

    def _begin(self, moment: str) -> None:
        self._time = moment
        self.first_time = min(self._recorded_at or moment, moment)
        payload = {"provider_meta": {"moved_from": SOURCE, "session": self._name.to_json()}}
        self._write("session.root", _dump(payload), self.first_time, None, None)
        for event in self._waiting:
            self._append(event, moment)
        self._waiting.clear()

    def _append(self, event: Event, moment: str) -> None:
        kind = event.type.text
        if not kind or len(kind) > MAX_KIND_CHARACTERS or not kind.isprintable():
            kind = UNNAMED_KIND
        payload = _decode(event.json.raw)
        ordinal = str(event.ordinal.raw.decode()) if event.ordinal.kind == "integer" and event.ordinal.raw else "-"
        count = self._ordinals[ordinal] = self._ordinals.get(ordinal, 0) + 1
        external_id = ordinal if count == 1 else f"{ordinal}.{count}"
        text = "null" if payload is None else payload
        held = _as_event(self._id, external_id, kind, text, moment)
        lost = {name: was.to_json() for name, was, now in zip(_COLUMNS, event, held, strict=True) if was != now}
        self._write(kind, text, moment, external_id, _dump(lost) if lost else None)

    def _write(self, kind: str, payload: str, moment: str, external_id: str | None, original: str | None) -> None:
        identity = entry_id(self._id, self._sequence)
        parent_id, parent_hash = self._parent if self._parent is not None else (None, None)
        payload_hash = sha256(payload.encode()).hexdigest()
        visibility = "eligible" if kind in _ELIGIBLE else "hidden"
        # The root is Bridge's own and no event: it is written under the contract of its time.
        version = 2 if parent_id is None else _SEMANTIC_VERSION
        hashed = entry_hash(
            parent_entry_hash=parent_hash,
            entry_id=identity,
            kind=kind,
            semantic_schema_version=version,
            payload_hash=payload_hash,
            context_visibility=visibility,
            stamp=_STAMP,
            external_id=external_id,
            created_at=moment,
        )
        source = None if external_id is None else SOURCE
        place = (self._id, identity, parent_id, self._sequence)
        entry = (*place, version, kind, visibility, source, external_id, moment, payload_hash, hashed, payload)
        body: dict[str, Any] = {"entry_id": identity, "entry_hash": hashed, "head": identity}
        if parent_id is None:
            body |= {"kind": "chat", "parent_session_id": None, "parent_relation": None, "moved_from": SOURCE}
        else:
            body |= {"parent_entry_id": parent_id}
        kept = None if original is None else (self._id, identity, original)
        self._move.write(entry, self._audit(body), kept)
        self._parent = identity, hashed
        self._sequence += 1

    def _audit(self, body: dict[str, Any]) -> tuple[Any, ...]:
        event_type = "session.created" if self._sequence == 0 else "entry.appended"
        moment = self._move.moment
        record = {
            "chain_id": self._id,
            "ordinal": self._sequence,
            "event_type": event_type,
            "created_at": moment,
            "body": body,
        }
        text = _dump(record)
        self._previous_event = event_hash(self._previous_event, text.encode())
        return self._id, self._sequence, event_type, moment, self._previous_event.hex(), text


def _by_session(events: Iterator[Event]) -> Iterator[tuple[Value, Iterator[Event]]]:
    """Group events that come ordered by session."""
    following = next(events, None)

    def run(session: Value) -> Iterator[Event]:
        nonlocal following
        while following is not None and following.session == session:
            event, following = following, next(events, None)
            yield event

    while following is not None:
        session = following.session
        group = run(session)
        yield session, group
        for _ in group:
            raise RuntimeError("a session was not read to its end")


_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)


def normalized_time(text: str | None) -> str | None:
    """Return a time as entries hold it, None if it is none; without an offset it is UTC, as SQLite writes it."""
    if text is None or not _DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return format_timestamp(moment)
    except (ValueError, OverflowError):
        return None


def _decode(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _dump(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
