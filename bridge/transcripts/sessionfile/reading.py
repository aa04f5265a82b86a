"""A session file's bytes as header and entries: all of it is sound, or none of it is believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.transcripts.sessionfile.errors import (
    SessionDuplicateId,
    SessionEmpty,
    SessionEntryMissing,
    SessionFileTooLarge,
    SessionInvalidJson,
    SessionInvalidUtf8,
    SessionLineTooLarge,
    SessionParentMissing,
    SessionToolMismatch,
    SessionTooManyEntries,
)
from bridge.transcripts.sessionfile.limits import MAX_ENTRIES, MAX_FILE_BYTES, MAX_LINE_BYTES
from bridge.transcripts.sessionfile.prefixes import completion_of
from bridge.transcripts.sessionfile.records import Place, SessionEntry, SessionHeader, entry_from, header_from

_LF: Final = b"\n"
_CR: Final = b"\r"


@dataclass(frozen=True, slots=True)
class TornTail:
    """A last line that was cut short; it is no entry.

    Parameters
    ----------
    line
        Its number, from 1.
    offset
        Of its first byte, from 0.
    data
        Its bytes.
    """

    line: int
    offset: int
    data: bytes = field(repr=False)


class Ledger:
    """Header and entries that are consistent; what does not fit is refused and changes nothing."""

    def __init__(self, header: SessionHeader) -> None:
        self.header = header
        self.entries: list[SessionEntry] = []
        self._by_id: dict[str, SessionEntry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, identity: object) -> bool:
        return identity in self._by_id

    def get(self, identity: str) -> SessionEntry:
        """Return an entry.

        Raises
        ------
        SessionEntryMissing
            If there is none of that id.
        """
        found = self._by_id.get(identity)
        if found is None:
            raise SessionEntryMissing(
                f"The session {self.header.id[:80]!r} has no entry {identity[:80]!r}. Nothing was changed.",
                details={"id": identity[:256]},
            )
        return found

    def add(self, entry: SessionEntry, place: Place) -> None:
        """Add an entry. Raises as :meth:`check`."""
        self.check(entry, place)
        self.entries.append(entry)
        self._by_id[entry.id] = entry

    def check(self, entry: SessionEntry, place: Place) -> None:
        """Check that an entry may come next.

        Raises
        ------
        SessionTooManyEntries, SessionDuplicateId, SessionParentMissing, SessionToolMismatch
            If it may not.
        """
        named = {"id": entry.id}
        if len(self.entries) >= MAX_ENTRIES:
            place.raise_(
                SessionTooManyEntries,
                "too_many_entries",
                f"the entry {entry.id[:80]!r} is one more than the {MAX_ENTRIES} that a file may have",
                limit=MAX_ENTRIES,
                **named,
            )
        if entry.id in self._by_id:
            place.raise_(SessionDuplicateId, "duplicate_id", f"there is an entry {entry.id[:80]!r} already", **named)
        if entry.parent_id is not None and entry.parent_id not in self._by_id:
            place.raise_(
                SessionParentMissing,
                "parent_missing",
                f"the parent {entry.parent_id[:80]!r} of {entry.id[:80]!r} is no earlier entry",
                parent_id=entry.parent_id,
                **named,
            )
        if entry.role == "tool" and not self._is_called(entry):
            place.raise_(
                SessionToolMismatch,
                "call_missing",
                f"the tool result {entry.id[:80]!r} answers no call on its own branch",
                tool_call_id=entry.message["toolCallId"],
                **named,
            )

    def lineage(self, identity: str | None) -> Iterator[SessionEntry]:
        """Yield an entry and its ancestors, up to the root. Raises SessionEntryMissing."""
        while identity is not None:
            entry = self.get(identity)
            yield entry
            identity = entry.parent_id

    def _is_called(self, result: SessionEntry) -> bool:
        """Return whether the nearest call of that id among an entry's ancestors is one of the same tool."""
        wanted = result.message["toolCallId"]
        for ancestor in self.lineage(result.parent_id):
            if "toolCalls" in ancestor.message and wanted in (calls := ancestor.calls()):
                return bool(calls[wanted] == result.message["toolName"])
        return False


@dataclass(slots=True)
class Contents:
    """What the bytes of a file hold.

    Parameters
    ----------
    data
        The bytes that were read.
    torn
        The last line, if it was cut short.
    """

    data: bytes = field(repr=False)
    ledger: Ledger
    torn: TornTail | None = None

    def lines(self) -> list[bytes]:
        """Return the lines that count, header first, without their ends."""
        return [self.ledger.header.line, *(entry.line for entry in self.ledger.entries)]

    def goes_on_from(self, earlier: Contents) -> bool:
        """Return whether this is an earlier generation with entries added, or with none."""
        known = earlier.lines()
        return self.lines()[: len(known)] == known


def generation(lines: list[bytes]) -> bytes:
    """Return lines as the bytes of a file: each ends with a line feed."""
    return b"".join(line + _LF for line in lines)


def read(data: bytes, path: str) -> Contents:
    """Return what the bytes of a session file hold.

    Lines end with the byte 0x0A and with nothing else; a carriage return before it is not part of the line. The last
    line may lack its end. If it is the beginning of an object that was cut short, it is set aside.

    Parameters
    ----------
    path
        For messages.

    Raises
    ------
    SessionFileError
        One of its classes, for the first thing that is wrong.
    """
    if len(data) > MAX_FILE_BYTES:
        raise too_large(path, len(data))
    _require_utf8(data, path)
    *ended, last = data.split(_LF)
    offset, contents = 0, None
    for number, line in enumerate(ended, 1):
        contents = _take(contents, line.removesuffix(_CR), Place(path, number, offset), data)
        offset += len(line) + 1
    if last:
        place = Place(path, len(ended) + 1, offset)
        if len(last) <= MAX_LINE_BYTES and completion_of(last.decode()) is not None:
            if contents is None:
                raise _empty(path, "torn_header", "its header was cut short")
            contents.torn = TornTail(place.number, offset, last)
        else:
            contents = _take(contents, last.removesuffix(_CR), place, data)
    if contents is None:
        raise _empty(path, "empty", "it has no bytes")
    return contents


def too_large(path: str, size: int, **details: Any) -> SessionFileTooLarge:
    """Return the error about a file that is, or would be, too large."""
    return SessionFileTooLarge(
        f"{path!r} has or would have {size} bytes; a session file holds {MAX_FILE_BYTES}. Nothing was changed.",
        details={"path": path, "bytes": size, "limit": MAX_FILE_BYTES, **details},
    )


def require_line(line: bytes, place: Place, identity: str | None) -> None:
    """Check the length of a line.

    Raises
    ------
    SessionLineTooLarge
        If it has more than :data:`MAX_LINE_BYTES`.
    """
    if len(line) > MAX_LINE_BYTES:
        whose = "a line" if identity is None else f"the entry {identity[:80]!r}"
        place.raise_(
            SessionLineTooLarge,
            "line_too_large",
            f"{whose} has {len(line)} bytes, and a line holds {MAX_LINE_BYTES}",
            id=identity,
            bytes=len(line),
            limit=MAX_LINE_BYTES,
        )


def _take(contents: Contents | None, line: bytes, place: Place, data: bytes) -> Contents:
    if len(line) > MAX_LINE_BYTES:
        require_line(line, place, _id_of(line))
    if contents is None:
        if not data.strip(b"\r\n"):
            raise _empty(place.path, "blank", "it has nothing but blank lines")
        return Contents(data, Ledger(header_from(_parse(line, place), line, place)))
    contents.ledger.add(entry_from(_parse(line, place), line, place), place)
    return contents


def _parse(line: bytes, place: Place) -> dict[str, Any]:
    if not line.strip(b" \t\r"):
        place.raise_(SessionInvalidJson, "blank_line", "the line is blank")
    try:
        value = parse_json(line)
    except NotCanonical as error:
        place.raise_(SessionInvalidJson, "not_json", f"the line is not one JSON object ({error.message.rstrip('.')})")
    if not isinstance(value, dict):
        place.raise_(SessionInvalidJson, "not_an_object", "the line is JSON, but not an object")
    return value


def _id_of(line: bytes) -> str | None:
    """Return the id in a line that is too long to be read otherwise, if it has one."""
    try:
        value = parse_json(line)
    except NotCanonical:
        return None
    identity = value.get("id") if isinstance(value, dict) else None
    return identity[:256] if isinstance(identity, str) else None


def _require_utf8(data: bytes, path: str) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        number = data.count(_LF, 0, error.start) + 1
        offset = data.rfind(_LF, 0, error.start) + 1
        raise SessionInvalidUtf8(
            f"{path!r}, line {number}: byte {error.start} is not UTF-8. Nothing was changed.",
            details={"path": path, "line": number, "offset": offset, "byte": error.start, "reason": "not_utf8"},
        ) from error


def _empty(path: str, reason: str, what: str) -> SessionEmpty:
    return SessionEmpty(
        f"{path!r} holds no session: {what}. Nothing was changed.",
        details={"path": path, "line": 1, "offset": 0, "reason": reason},
    )
