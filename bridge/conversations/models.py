"""Sessions and entries as values, named as in the design; nothing here knows the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

from bridge.foundation.canonical import parse_json
from bridge.foundation.hashing import entry_hash
from bridge.foundation.ids import entry_id
from bridge.semantics.kinds import CURRENT_VERSION
from bridge.semantics.stamps import Stamp, UnknownReason
from bridge.storage.errors import StoredTextDamaged

#: Kind of the synthetic root, sequence 0.
ROOT_KIND: Final = "session.root"
#: Key of a fork's root payload that names where it came from.
FORKED_FROM: Final = "forked_from"
#: Status of a session that goes on.
OPEN_STATUS: Final = "open"
#: Longest free-text label of a session, in characters.
MAX_LABEL_CHARACTERS: Final = 200

SessionKind = Literal["chat", "worker", "hidden"]
ParentRelation = Literal["continued", "delegated", "forked"]
Visibility = Literal["eligible", "hidden"]


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with an agent. ``updated_at`` is its last append, head move or change."""

    id: str
    kind: str
    workspace_id: str | None
    agent_id: str | None
    harness: str | None
    label: str | None
    status: str
    parent_session_id: str | None
    parent_relation: str | None
    created_at: str
    updated_at: str
    active_entry_id: str
    next_sequence: int


@dataclass(frozen=True)
class Record:
    """What is recorded about an entry, but for its payload. The fields are the columns."""

    session_id: str
    id: str
    parent_entry_id: str | None
    sequence: int
    semantic_schema_version: int
    kind: str
    context_visibility: str
    state_digest: str | None
    unknown_reason: str | None
    unknown_path: str | None
    unknown_detail: str | None
    observed_at: str | None
    external_source: str | None
    external_id: str | None
    created_at: str
    payload_hash: str
    entry_hash: str

    @cached_property
    def stamp(self) -> Stamp:
        """The recorded stamp; a reason that this Bridge does not know reads as ``stamp_version``."""
        if self.state_digest is not None:
            return Stamp(state_digest=self.state_digest, observed_at=self.observed_at)
        try:
            reason, detail = UnknownReason(self.unknown_reason or ""), self.unknown_detail
        except ValueError:
            reason, detail = UnknownReason.STAMP_VERSION, self.unknown_reason
        return Stamp(
            unknown_reason=reason, unknown_path=self.unknown_path, unknown_detail=detail, observed_at=self.observed_at
        )

    @property
    def is_root(self) -> bool:
        return self.sequence == 0

    def fields_to_json(self, payload: Any) -> dict[str, Any]:
        """Return the entry under the field names of the published contract, with what stands for its payload."""
        return {
            "id": self.id,
            "session_id": self.session_id,
            "parent_entry_id": self.parent_entry_id,
            "sequence": self.sequence,
            "semantic_schema_version": self.semantic_schema_version,
            "kind": self.kind,
            "payload": payload,
            "context_visibility": self.context_visibility,
            "stamp": stamp_to_json(self.stamp),
            "external_id": self.external_id,
            "external_source": self.external_source,
            "created_at": self.created_at,
            "payload_hash": self.payload_hash,
            "entry_hash": self.entry_hash,
        }


@dataclass(frozen=True)
class Entry(Record):
    """One recorded entry, exactly as stored. Its meaning is asked of ``bridge.semantics.interpretation``.

    Ten thousand rows of a path become entries at no more than the cost of a dictionary each; what is derived from them
    is computed when asked for.
    """

    payload_text: str

    @classmethod
    def from_row(cls, row: Iterable[Any]) -> Entry:
        """Build an entry from values in the order of the fields, without the cost of a constructor.

        Raises
        ------
        StoredTextDamaged
            If there is no payload: it was long, kept apart, and is not there.
        """
        entry = object.__new__(cls)
        values = entry.__dict__
        # Written out: half the cost of a loop, ten thousand times in a long path.
        (
            values["session_id"],
            values["id"],
            values["parent_entry_id"],
            values["sequence"],
            values["semantic_schema_version"],
            values["kind"],
            values["context_visibility"],
            values["state_digest"],
            values["unknown_reason"],
            values["unknown_path"],
            values["unknown_detail"],
            values["observed_at"],
            values["external_source"],
            values["external_id"],
            values["created_at"],
            values["payload_hash"],
            values["entry_hash"],
            values["payload_text"],
        ) = row
        if values["payload_text"] is None:
            raise text_missing(entry)
        return entry

    @cached_property
    def payload(self) -> Any:
        """The stored payload, parsed; floats keep their digits.

        Raises
        ------
        NotCanonical
            If the stored text is not JSON, which only happens to damaged rows.
        """
        return parse_json(self.payload_text)

    def to_row(self) -> EntryRow:
        """Return the fields' values in their order."""
        return tuple(self.__dict__[name] for name in ENTRY_FIELDS)

    def compute_hash(self, parent_entry_hash: str | None) -> str:
        """Return the hash that the entry must have under a parent's hash."""
        stamp = {"unknown": self.unknown_reason} if self.state_digest is None else {"state_digest": self.state_digest}
        return entry_hash(
            parent_entry_hash=parent_entry_hash,
            entry_id=self.id,
            kind=self.kind,
            semantic_schema_version=self.semantic_schema_version,
            payload_hash=self.payload_hash,
            context_visibility=self.context_visibility,
            stamp=stamp,
            external_id=self.external_id,
            created_at=self.created_at,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the entry under the field names of the published contract."""
        return self.fields_to_json(self.payload)


#: An entry as a row: its fields' values in their order.
EntryRow = tuple[Any, ...]


@dataclass(frozen=True)
class ListedEntry(Record):
    """An entry as a list reads it: with its payload, unless that is long.

    Of a long one there is only the outline, ``payload_outline``, and the size of its text, ``payload_bytes``; the text
    is kept apart, and lists do not read it.
    """

    payload_bytes: int | None
    payload_outline: str | None
    payload_text: str | None

    @classmethod
    def from_row(cls, row: Iterable[Any]) -> ListedEntry:
        """Build an entry from values in the order of the fields, without the cost of a constructor."""
        entry = object.__new__(cls)
        entry.__dict__.update(zip(LISTED_FIELDS, row, strict=True))
        return entry

    def row_with_text(self, text: str) -> EntryRow:
        """Return the row of the whole entry, given its text."""
        return (*(self.__dict__[name] for name in ENTRY_FIELDS[:-1]), text)

    def with_text(self, text: str) -> Entry:
        """Return the whole entry, given its text."""
        return Entry.from_row(self.row_with_text(text))

    @property
    def is_long(self) -> bool:
        return self.payload_text is None

    @property
    def shown_text(self) -> str:
        """The payload's text, or the outline of a long one: what a list can tell from."""
        return self.payload_text if self.payload_text is not None else self.payload_outline or ""

    @cached_property
    def payload(self) -> Any:
        """The stored payload, parsed; None if it is long. Raises as :attr:`Entry.payload`."""
        return None if self.payload_text is None else parse_json(self.payload_text)

    def to_json(self) -> dict[str, Any]:
        """Return the entry under the field names of the published contract; a long payload is null."""
        return self.fields_to_json(self.payload)


def text_missing(entry: Record) -> StoredTextDamaged:
    """Return the error for an entry whose long text is not where it was kept."""
    return StoredTextDamaged(
        f"The text of {entry.id} is not in the store any more.",
        details={"entry_id": entry.id, "digest": entry.payload_hash, "reason": "missing"},
    )


#: Names of an entry's fields, in the order in which rows are read and written.
ENTRY_FIELDS: Final = tuple(field.name for field in fields(Entry))
#: Where in a row some of them stand.
ID_AT: Final = ENTRY_FIELDS.index("id")
PARENT_AT: Final = ENTRY_FIELDS.index("parent_entry_id")
ENTRY_HASH_AT: Final = ENTRY_FIELDS.index("entry_hash")
#: The same of an entry as lists read it.
LISTED_FIELDS: Final = tuple(field.name for field in fields(ListedEntry))


@dataclass(frozen=True, slots=True)
class Node:
    """An entry without its payload: all that the shape of a conversation needs."""

    id: str
    session_id: str
    parent_entry_id: str | None
    sequence: int
    semantic_schema_version: int
    kind: str
    context_visibility: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """A writer's place in a session."""

    owner: str
    session_id: str
    leaf_entry_id: str


@dataclass(frozen=True, slots=True)
class Label:
    """A name for an entry of a session."""

    name: str
    session_id: str
    entry_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """What a caller decides about a session that is to be made.

    Parameters
    ----------
    id
        Only for sessions that have an id already; others get one, tried again on collision.
    label
        At most :data:`MAX_LABEL_CHARACTERS` characters, free text.
    """

    kind: SessionKind = "chat"
    workspace_id: str | None = None
    agent_id: str | None = None
    harness: str | None = None
    label: str | None = None
    status: str = OPEN_STATUS
    parent_session_id: str | None = None
    parent_relation: ParentRelation | None = None
    id: str | None = None


# Not frozen, though nobody changes one: ten fields that are set past the guard take three microseconds, of some fifty
# that an append among many takes as a whole.
@dataclass(slots=True, kw_only=True)
class EntryDraft:
    """What a writer wants recorded.

    Parameters
    ----------
    payload, payload_text
        One of the two: a JSON object, or its text (read strictly; floats keep their digits).
    parent_entry_id, cursor
        At most one of the two: the entry to append under, or the owner of a cursor whose leaf that is.
        None means the head.
    context_visibility
        None means the kind's default.
    external_id, external_source
        The id in the source it comes from; unique per session and source. Appending it again with the same
        content gives the entry that is there.
    expected_head
        The entry that must be the session's head, or nothing is written.
    created_at
        The time the source recorded, as text; None means now.
    """

    kind: str
    payload: Mapping[str, Any] | None = None
    payload_text: str | bytes | None = None
    parent_entry_id: str | None = None
    cursor: str | None = None
    context_visibility: Visibility | None = None
    external_id: str | None = None
    external_source: str = ""
    expected_head: str | None = None
    created_at: str | None = None

    def __post_init__(self) -> None:
        if (self.payload is None) == (self.payload_text is None):
            raise ValueError("a draft has either a payload or a payload text")
        if self.parent_entry_id is not None and self.cursor is not None:
            raise ValueError("a draft names a parent or a cursor, not both")


class PreparedEntry(NamedTuple):
    """A draft after redaction, validation and encoding: what is left needs the open transaction.

    ``payload_outline`` is that of a long payload; without one it is made when the entry is written.
    """

    kind: str
    payload_text: str
    payload_hash: str
    context_visibility: str
    stamp: Stamp
    created_at: str
    external_id: str | None = None
    external_source: str | None = None
    parent_entry_id: str | None = None
    cursor: str | None = None
    expected_head: str | None = None
    semantic_schema_version: int = CURRENT_VERSION
    payload_outline: str | None = None

    def seal(self, session_id: str, sequence: int, parent: tuple[str, str] | None) -> Entry:
        """Return the entry at its place, as :meth:`seal_row` does its row."""
        return Entry.from_row(self.seal_row(session_id, sequence, parent))

    def seal_row(self, session_id: str, sequence: int, parent: tuple[str, str] | None) -> EntryRow:
        """Return the entry's row at its place; ``parent`` is the parent's id and hash, None for a root."""
        parent_entry_id, parent_hash = parent if parent is not None else (None, None)
        identity = entry_id(session_id, sequence)
        # Unpacked at once: each field by its name costs a look-up, and most are needed twice.
        kind, text, payload_hash, visibility, stamp, created_at, external_id, source, _, _, _, version, _ = self
        where = stamp.hash_value()
        sealed = entry_hash(
            parent_entry_hash=parent_hash,
            entry_id=identity,
            kind=kind,
            semantic_schema_version=version,
            payload_hash=payload_hash,
            context_visibility=visibility,
            stamp=where,
            external_id=external_id,
            created_at=created_at,
        )
        return (
            session_id,
            identity,
            parent_entry_id,
            sequence,
            version,
            kind,
            visibility,
            stamp.state_digest,
            where.get("unknown"),
            stamp.unknown_path,
            stamp.unknown_detail,
            stamp.observed_at,
            source,
            external_id,
            created_at,
            payload_hash,
            sealed,
            text,
        )


class Appended:
    """What an append did.

    ``is_new`` is false when an entry with that external id and content was there; then nothing changed.
    ``head_entry_id`` is the session's head afterwards, ``is_head`` whether that is this entry. ``row`` is the entry's.
    """

    __slots__ = ("_entry", "head_entry_id", "is_new", "row")

    def __init__(self, row: EntryRow, head_entry_id: str, *, is_new: bool) -> None:
        self.row = row
        self._entry: Entry | None = None
        self.head_entry_id = head_entry_id
        self.is_new = is_new

    @property
    def entry(self) -> Entry:
        """The entry; made of its row when first asked for, which the writer's thread is spared."""
        if self._entry is None:
            self._entry = Entry.from_row(self.row)
        return self._entry

    @property
    def is_head(self) -> bool:
        return bool(self.row[ID_AT] == self.head_entry_id)


@dataclass(frozen=True, slots=True)
class HeadMove:
    """Where a head was and where it is."""

    session_id: str
    from_entry_id: str
    to_entry_id: str

    def to_json(self) -> dict[str, Any]:
        """Return the move as every door shows it."""
        return {
            "session_id": self.session_id,
            "active_entry_id": self.to_entry_id,
            "previous_entry_id": self.from_entry_id,
            "moved": self.from_entry_id != self.to_entry_id,
        }


def stamp_to_json(stamp: Stamp) -> dict[str, Any]:
    """Return a stamp as an object: ``state_digest``, or ``unknown`` with what is known about why."""
    if stamp.state_digest is not None:
        return {"state_digest": stamp.state_digest, "observed_at": stamp.observed_at}
    return {
        "unknown": str(stamp.unknown_reason),
        "path": stamp.unknown_path,
        "detail": stamp.unknown_detail,
        "observed_at": stamp.observed_at,
    }
