"""The lines of a session file as values: header and entries, and what they have to be like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NoReturn

from bridge.foundation.canonical import canonical_bytes, parse_json
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.errors import NotCanonical
from bridge.semantics.schemas import FieldError, field_errors, validator
from bridge.transcripts.sessionfile.errors import (
    SessionFileError,
    SessionInvalidEntry,
    SessionInvalidHeader,
    SessionInvalidMessage,
    SessionUnsupportedVersion,
)
from bridge.transcripts.sessionfile.frozen import freeze, thaw
from bridge.transcripts.sessionfile.limits import FORMAT_VERSION

#: Where the contracts lie below ``schema/``.
SCHEMAS: Final = f"session-file/v{FORMAT_VERSION}"
HEADER_TYPE: Final = "session"
ENTRY_TYPE: Final = "entry"
#: Ends of lines to some readers (NEL, line separator, paragraph separator), and how they stand in lines of ours.
_SEPARATORS: Final = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """The first line.

    Parameters
    ----------
    line
        Its bytes as they stand in the file, without the line end.
    """

    id: str
    timestamp: str
    version: int = FORMAT_VERSION
    line: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """An entry; it never changes.

    Parameters
    ----------
    parent_id
        Id of the entry it follows; None for a root.
    message
        Frozen; :meth:`to_json` gives a copy that may be changed.
    line
        Its bytes as they stand in the file, without the line end.
    """

    id: str
    parent_id: str | None
    timestamp: str
    message: Mapping[str, Any]
    version: int = FORMAT_VERSION
    line: bytes = field(default=b"", repr=False, compare=False)

    @property
    def role(self) -> str:
        role: str = self.message["role"]
        return role

    def to_json(self) -> dict[str, Any]:
        """Return the entry as its line has it, in a copy."""
        return {
            "type": ENTRY_TYPE,
            "version": self.version,
            "id": self.id,
            "parentId": self.parent_id,
            "timestamp": self.timestamp,
            "message": thaw(self.message),
        }

    def calls(self) -> Mapping[str, str]:
        """Return the tools that an assistant's message calls: call id to name."""
        return MappingProxyType({call["id"]: call["name"] for call in self.message.get("toolCalls", ())})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands; ``number`` counts from 1, ``offset`` is that of its first byte."""

    path: str
    number: int
    offset: int

    def raise_(self, error: type[SessionFileError], reason: str, what: str, **details: Any) -> NoReturn:
        """Raise an error about this line."""
        raise error(
            f"{self.path!r}, line {self.number}, at byte {self.offset}: {what}. Nothing was changed.",
            details={"path": self.path, "line": self.number, "offset": self.offset, "reason": reason, **details},
        )


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line of ours, without its line feed: canonical JSON that no reader cuts.

    Raises
    ------
    NotCanonical
        If it is not plain JSON.
    """
    line = canonical_bytes(record)
    if not line.isascii():
        for separator, escape in _SEPARATORS:
            line = line.replace(separator, escape)
    return line


def snapshot(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a message that has been checked; what the caller does with the original no longer matters.

    Raises
    ------
    SessionInvalidMessage
        If it breaks the contract, or is not plain JSON.
    """
    try:
        copy = parse_json(canonical_bytes(thaw(message)))
        fields = _wrong(copy, "message")
    except NotCanonical as error:
        raise SessionInvalidMessage(
            f"The message is not plain JSON: {error.message} Nothing was written.", details={"reason": "not_json"}
        ) from error
    if not isinstance(copy, dict) or fields:
        raise SessionInvalidMessage(
            f"The message breaks its contract{_named(fields)}. Nothing was written.",
            details={"reason": "bad_message", "fields": fields},
        )
    return copy


def new_entry(identity: object, parent_id: str | None, timestamp: str, message: dict[str, Any]) -> SessionEntry:
    """Return an entry with its line.

    Parameters
    ----------
    message
        A snapshot, or a value that was parsed.

    Raises
    ------
    SessionInvalidEntry
        If the id or the time is not of the form that the contract asks for.
    """
    record = {
        "type": ENTRY_TYPE,
        "version": FORMAT_VERSION,
        "id": identity,
        "parentId": parent_id,
        "timestamp": timestamp,
        "message": message,
    }
    try:
        fields = _wrong(record, "entry")
        line = line_of(record)
    except NotCanonical as error:
        raise SessionInvalidEntry(
            f"The entry is not plain JSON: {error.message} Nothing was written.", details={"reason": "not_json"}
        ) from error
    if fields or not _is_time(timestamp) or not isinstance(identity, str):
        raise SessionInvalidEntry(
            f"The id or the time of a new entry cannot be used{_named(fields)}. Nothing was written.",
            details={"reason": "bad_entry", "fields": fields},
        )
    return SessionEntry(identity, parent_id, timestamp, freeze(message), line=line)


def new_header(session_id: object, timestamp: str) -> SessionHeader:
    """Return a header with its line.

    Raises
    ------
    SessionInvalidHeader
        If the id or the time is not of the form that the contract asks for.
    """
    record = {"type": HEADER_TYPE, "version": FORMAT_VERSION, "id": session_id, "timestamp": timestamp}
    try:
        fields = _wrong(record, "header")
        line = line_of(record)
    except NotCanonical as error:
        raise SessionInvalidHeader(
            f"The session id is no text: {error.message} Nothing was written.", details={"reason": "not_json"}
        ) from error
    if fields or not _is_time(timestamp) or not isinstance(session_id, str):
        raise SessionInvalidHeader(
            f"The id or the time of a new session cannot be used{_named(fields)}. Nothing was written.",
            details={"reason": "bad_header", "fields": fields},
        )
    return SessionHeader(session_id, timestamp, line=line)


def header_from(value: dict[str, Any], line: bytes, place: Place) -> SessionHeader:
    """Return the header that a parsed line is.

    Raises
    ------
    SessionInvalidHeader, SessionUnsupportedVersion
        If it is none, or of another version.
    """
    if value.get("type") != HEADER_TYPE:
        place.raise_(SessionInvalidHeader, "no_header", 'the first line is no header: its type is not "session"')
    _require_version(value, place)
    fields = _wrong(value, "header")
    if fields or not _is_time(value["timestamp"]):
        place.raise_(
            SessionInvalidHeader, "bad_header", f"the header breaks its contract{_named(fields)}", fields=fields
        )
    return SessionHeader(value["id"], value["timestamp"], line=line)


def entry_from(value: dict[str, Any], line: bytes, place: Place) -> SessionEntry:
    """Return the entry that a parsed line is.

    Raises
    ------
    SessionInvalidEntry, SessionInvalidMessage, SessionUnsupportedVersion
        If it is none, its message breaks the contract, or it is of another version.
    """
    known = {"id": value["id"][:256]} if isinstance(value.get("id"), str) else {}
    if value.get("type") != ENTRY_TYPE:
        place.raise_(SessionInvalidEntry, "unknown_type", 'the line is no entry: its type is not "entry"', **known)
    _require_version(value, place)
    fields = _wrong(value, "entry")
    if fields or not _is_time(value["timestamp"]):
        place.raise_(
            SessionInvalidEntry, "bad_entry", f"the entry breaks its contract{_named(fields)}", fields=fields, **known
        )
    fields = _wrong(value["message"], "message")
    if fields:
        place.raise_(
            SessionInvalidMessage,
            "bad_message",
            f"the message breaks its contract{_named(fields)}",
            fields=fields,
            **known,
        )
    return SessionEntry(value["id"], value["parentId"], value["timestamp"], freeze(value["message"]), line=line)


def _require_version(value: dict[str, Any], place: Place) -> None:
    found = value.get("version")
    # True is 1 to Python.
    if type(found) is int and found == FORMAT_VERSION:
        return
    if type(found) is int:
        place.raise_(
            SessionUnsupportedVersion,
            "unsupported_version",
            f"its version is {found}, and this Bridge reads version {FORMAT_VERSION}",
            found=found,
            supported=[FORMAT_VERSION],
        )
    error = SessionInvalidHeader if place.number == 1 else SessionInvalidEntry
    place.raise_(error, "bad_version", "its version is missing or not a whole number", supported=[FORMAT_VERSION])


def _wrong(value: Any, contract: str) -> list[FieldError]:
    return field_errors(validator(f"{SCHEMAS}/{contract}"), value)


def _named(fields: list[FieldError]) -> str:
    return f": {fields[0]['path'] or 'it'} {fields[0]['message']}" if fields else ""


def _is_time(text: str) -> bool:
    """Return whether a text that has the form of a time is one: there is no 30th of February."""
    try:
        parse_timestamp(text)
    except (ValueError, OverflowError):
        return False
    return True
