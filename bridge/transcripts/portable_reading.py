"""Reading a portable session file: nothing of it is believed before it was recomputed.

:func:`check` reads a file once, in memory that grows by 40 bytes per entry, and returns what it holds; or raises with
line, byte offset and reason of the first thing that is wrong. :func:`records` yields what a file holds, unchecked: for
a second pass over what was checked.
"""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from json import JSONDecoder
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol

import orjson

from bridge.foundation.canonical import canonical_text, has_fraction, parse_json
from bridge.foundation.errors import InvalidId, NotCanonical
from bridge.foundation.hashing import digest_hex, entry_hash
from bridge.foundation.ids import entry_id, require_safe_id, split_entry_id
from bridge.semantics.kinds import is_transient
from bridge.semantics.schemas import FieldError, field_errors, validator
from bridge.transcripts.errors import TranscriptInvalid, TranscriptPartial, UnsupportedTranscriptVersion
from bridge.transcripts.portable import (
    ENTRY_TYPE,
    FOOTER_TYPE,
    FORMAT_VERSION,
    HEADER_TYPE,
    MANIFEST_TYPE,
    MAX_LINE_BYTES,
    PAGE_TYPE,
    PLAIN_FIELDS,
    STATE_TYPE,
    Header,
    PortableEntry,
    SessionHeader,
    Tally,
    entry_line,
    escaped,
    line_of,
)

#: Where the schemas of the lines lie below ``schema/``.
SCHEMAS: Final = f"portable/v{FORMAT_VERSION}"
#: Kind of an entry at sequence 0, and of no other.
ROOT_KIND: Final = "session.root"
#: Bytes of a hash.
_HASH_BYTES: Final = 32
_SORTED: Final = orjson.OPT_SORT_KEYS


class Lines(Protocol):
    """A file opened in binary mode, as far as it is used."""

    def readline(self, limit: int, /) -> bytes: ...


@dataclass(slots=True)
class EntryIndex:
    """Which entries of a session a file holds, under which hash: 40 bytes each, ascending."""

    sequences: array[int] = field(default_factory=lambda: array("q"))
    hashes: bytearray = field(default_factory=bytearray)

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def last(self) -> int:
        """The highest sequence, -1 if there is none."""
        return self.sequences[-1] if self.sequences else -1

    @property
    def has_gaps(self) -> bool:
        return self.last + 1 != len(self.sequences)

    def add(self, sequence: int, entry_hash: str) -> None:
        self.sequences.append(sequence)
        self.hashes += bytes.fromhex(entry_hash)

    def find(self, sequence: int) -> str | None:
        """Return the hash of an entry, None if it is not there."""
        place = sequence if not self.has_gaps else bisect_left(self.sequences, sequence)
        if not 0 <= place < len(self.sequences) or self.sequences[place] != sequence:
            return None
        return self.hashes[place * _HASH_BYTES : (place + 1) * _HASH_BYTES].hex()

    def items(self) -> Iterator[tuple[int, str]]:
        """Yield sequences and hashes, ascending."""
        for place, sequence in enumerate(self.sequences):
            yield sequence, self.hashes[place * _HASH_BYTES : (place + 1) * _HASH_BYTES].hex()


@dataclass(frozen=True, slots=True)
class State:
    """A repository state: its canonical text, which has the digest."""

    state_digest: str
    text: str


@dataclass(frozen=True, slots=True)
class ManifestIndex:
    """Which pages make up a dirty manifest: the canonical text that lists them."""

    dirty_hash: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a manifest; its body has the digest."""

    page_digest: str
    body: bytes


Record = Header | PortableEntry | State | ManifestIndex | Page


@dataclass(slots=True)
class Survey:
    """What a file that was found to be whole holds.

    Parameters
    ----------
    indexes
        The entries of each session, by its id, in the order of the header.
    origins
        What each session was forked from, as its root says: an object with ``entry_id`` and ``entry_hash``.
    tally
        Counts, and the digest of the entry lines.
    file_digest
        SHA-256 (hex) of all lines.
    bytes
        Length of all lines.
    """

    header: Header
    indexes: dict[str, EntryIndex]
    origins: dict[str, dict[str, str]]
    tally: Tally
    file_digest: str
    bytes: int

    @property
    def digest(self) -> str:
        """The digest of the entry lines."""
        found: str = self.tally.digest.hexdigest()
        return found


class _Place(NamedTuple):
    """Where a line stands."""

    number: int
    offset: int

    def invalid(self, reason: str, message: str, **details: Any) -> TranscriptInvalid:
        return TranscriptInvalid(
            f"Line {self.number} of the session file, at byte {self.offset}: {message}. Nothing was taken in.",
            details={"line": self.number, "offset": self.offset, "reason": reason, **details},
        )


def check(source: Lines, *, progress: Callable[[int, int], None] | None = None) -> Survey:
    """Read a file and check all of it: form, order, ids, parents, hashes of payloads and entries, counts, digest.

    Parameters
    ----------
    source
        The file, opened in binary mode, at its beginning. It is split at line feeds and nowhere else; a carriage
        return before one, as mail and some checkouts add it, is not part of the line.
    progress
        Told now and then how many entries and bytes were read.

    Raises
    ------
    UnsupportedTranscriptVersion
        If the format has another version.
    TranscriptPartial
        If it was written without hidden entries.
    TranscriptInvalid
        If anything else is not as it was written.
    """
    checker: _Checker | None = None
    whole, size = sha256(), 0
    place = _Place(1, 0)
    for place, line in _numbered(source):
        whole.update(line)
        size += len(line)
        if checker is None:
            checker = _Checker(_header(_parse(line, place), line, place))
            continue
        checker.take(line, place)
        if progress is not None and place.number % _PROGRESS_LINES == 0:
            progress(checker.tally.entries, size)
    if checker is None or not checker.is_closed:
        raise _Place(place.number, place.offset).invalid("cut_short", "the file ends before its footer")
    return Survey(checker.header, checker.indexes, checker.origins, checker.tally, whole.hexdigest(), size)


def records(source: Lines, *, digest: Callable[[bytes], object] | None = None) -> Iterator[Record]:
    """Yield what a file holds that was checked before; the footer is left out.

    Parameters
    ----------
    digest
        Takes each line, so that the caller can tell whether it is still the file that was checked.
    """
    for place, line in _numbered(source):
        if digest is not None:
            digest(line)
        value = _parse(line, place)
        kind = value.get("type")
        if kind == ENTRY_TYPE:
            yield _entry_again(value, line, place)
        elif kind == HEADER_TYPE:
            yield _header(value, line, place)
        elif kind != FOOTER_TYPE:
            yield _other(value, line, place)


#: Lines between two reports of progress.
_PROGRESS_LINES: Final = 5000


class _Checker:
    """What is known after the lines read so far."""

    def __init__(self, header: Header) -> None:
        if not header.hidden:
            raise TranscriptPartial(
                "The file was written without hidden entries: what it holds cannot be checked. Nothing was taken in.",
                details={"session_id": header.session_id},
            )
        self.header = header
        self.indexes = {session.id: EntryIndex() for session in header.sessions}
        self.origins: dict[str, dict[str, str]] = {}
        self.tally = Tally()
        self.is_closed = False
        self._order = list(self.indexes)
        self._current = 0
        #: Id and hash of the last entry: nearly always the parent of the next.
        self._last: tuple[str | None, str] = (None, "")
        self._states: set[str] = set()
        self._manifests: set[str] = set()
        self._pages: set[str] = set()

    def take(self, line: bytes, place: _Place) -> None:
        """Check one line after the header."""
        if self.is_closed:
            raise place.invalid("after_footer", "something follows the footer")
        value = _parse(line, place)
        kind = value.get("type")
        if kind == ENTRY_TYPE:
            entry, payload = _entry(value, line, place)
            self._take_entry(entry, payload, place)
            self.tally.add_entry(entry.kind, line)
        elif kind == FOOTER_TYPE:
            self._take_footer(value, line, place)
        else:
            self._take_other(_other(value, line, place), place)

    def _take_entry(self, entry: PortableEntry, payload: bytes, place: _Place) -> None:
        index = self._index_of(entry, place)
        if entry.id != entry_id(entry.session_id, entry.sequence):
            raise place.invalid("bad_entry", f"the id {entry.id[:100]} is not that of sequence {entry.sequence}")
        if entry.sequence <= index.last:
            if index.find(entry.sequence) is not None:
                raise place.invalid("duplicate_entry", f"{entry.id} occurs twice", entry_id=entry.id)
            raise place.invalid("out_of_order", f"{entry.id} comes after a later entry", entry_id=entry.id)
        if is_transient(entry.kind):
            raise place.invalid("transient_kind", f"{entry.id} is of the kind {entry.kind[:80]}, which is never stored")
        parent_hash = self._parent_hash(entry, index, place)
        _check_hashes(entry, payload, parent_hash, place)
        if entry.parent_entry_id is None:
            self._check_root(entry, place)
        index.add(entry.sequence, entry.entry_hash)
        self._last = (entry.id, entry.entry_hash)

    def _index_of(self, entry: PortableEntry, place: _Place) -> EntryIndex:
        while entry.session_id != self._order[self._current]:
            if entry.session_id not in self.indexes:
                raise place.invalid(
                    "foreign_session", f"{entry.id[:100]} belongs to a session that the header does not name"
                )
            if self._order.index(entry.session_id) < self._current:
                raise place.invalid("out_of_order", f"{entry.id[:100]} comes after the entries of a later session")
            self._close_session(self._order[self._current], place)
            self._current += 1
        return self.indexes[entry.session_id]

    def _parent_hash(self, entry: PortableEntry, index: EntryIndex, place: _Place) -> str | None:
        parent = entry.parent_entry_id
        if parent is None:
            return None
        if parent == self._last[0]:
            return self._last[1]
        try:
            session_id, sequence = split_entry_id(parent)
        except InvalidId as error:
            raise place.invalid("bad_entry", f"{entry.id} has a parent whose id is none") from error
        if session_id != entry.session_id:
            raise place.invalid("foreign_parent", f"the parent of {entry.id} is of another session: {parent}")
        if sequence >= entry.sequence:
            raise place.invalid("cycle", f"the parent of {entry.id} is not an earlier entry: {parent}")
        found = index.find(sequence)
        if found is None:
            raise place.invalid("parent_missing", f"the parent of {entry.id} is not there: {parent}", entry_id=entry.id)
        return found

    def _check_root(self, root: PortableEntry, place: _Place) -> None:
        """Check that a fork's root names an entry that came before it, under its hash."""
        try:
            payload = parse_json(root.payload_text)
        except NotCanonical as error:
            raise place.invalid("bad_entry", f"the root {root.id} has a payload that cannot be read") from error
        origin = payload.get("forked_from") if isinstance(payload, dict) else None
        if origin is None:
            if self._current:
                raise place.invalid("origin_missing", f"{root.id} names no origin, but other sessions come before it")
            return
        try:
            session_id, sequence = split_entry_id(origin["entry_id"])
            known = self.indexes[session_id].find(sequence)
        except (InvalidId, KeyError, TypeError):
            known = None
        if known is None or known != origin.get("entry_hash"):
            raise place.invalid("origin_missing", f"what {root.id} was forked from does not come before it")
        self.origins[root.session_id] = {"entry_id": origin["entry_id"], "entry_hash": known}

    def _take_other(self, record: State | ManifestIndex | Page, place: _Place) -> None:
        if isinstance(record, State):
            if digest_hex(record.text.encode()) != record.state_digest:
                raise place.invalid("state_altered", "the repository state does not have its digest")
            self._once(self._states, record.state_digest, place)
            self.tally.states += 1
        elif isinstance(record, ManifestIndex):
            missing = [page for page in _pages_of(record) if page not in self._pages]
            if missing:
                raise place.invalid("page_missing", f"page {missing[0][:12]} of the manifest does not come before it")
            self._once(self._manifests, record.dirty_hash, place)
            self.tally.manifests += 1
        else:
            if digest_hex(record.body) != record.page_digest:
                raise place.invalid("page_altered", "the page of a manifest does not have its digest")
            self._once(self._pages, record.page_digest, place)
            self.tally.pages += 1

    def _once(self, known: set[str], digest: str, place: _Place) -> None:
        if digest in known:
            raise place.invalid("duplicate_digest", f"{digest[:12]} occurs twice")
        known.add(digest)

    def _take_footer(self, value: dict[str, Any], line: bytes, place: _Place) -> None:
        _require_shape(value, "footer", "bad_footer", place)
        _require_same(line_of(value), line, place)
        while self._current < len(self._order):
            self._close_session(self._order[self._current], place)
            self._current += 1
        expected = self.tally.footer()
        for name in ("entries", "states", "manifests", "pages"):
            if value[name] != expected[name]:
                message = f"{value[name]} {name} are announced, {expected[name]} are there"
                raise place.invalid(f"{name}_missing", message)
        if value["kinds"] != expected["kinds"]:
            raise place.invalid("kinds_differ", "its counts by kind are not those of the entries")
        if value["digest"] != expected["digest"]:
            raise place.invalid("digest_differs", "the entry lines are not those that were written")
        self.is_closed = True

    def _close_session(self, session_id: str, place: _Place) -> None:
        """Check what the header says of a session against its entries."""
        session = next(one for one in self.header.sessions if one.id == session_id)
        index = self.indexes[session_id]
        if not index or index.sequences[0] != 0:
            raise place.invalid("root_missing", f"the root of {session_id} is not there")
        if session.complete and (index.has_gaps or session.next_sequence != len(index)):
            expected = session.next_sequence
            raise place.invalid("entries_missing", f"{expected} entries of {session_id} belong here, not {len(index)}")
        if session.next_sequence <= index.last:
            raise place.invalid("bad_header", f"{session_id} has entries beyond its next sequence")
        named = {"active entry": session.active_entry_id, **{f"label {key}": at for key, at in session.labels.items()}}
        for name, target in named.items():
            try:
                owner, sequence = split_entry_id(target)
            except InvalidId:
                owner, sequence = "", -1
            if owner != session_id or index.find(sequence) is None:
                raise place.invalid("bad_header", f"the {name} of {session_id} is not among its entries")


def _numbered(source: Lines) -> Iterator[tuple[_Place, bytes]]:
    """Yield the lines, each with where it stands; its line feed is there, and no carriage return before it."""
    number = offset = 0
    while True:
        line = source.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        number += 1
        place = _Place(number, offset)
        offset += len(line)
        if len(line) > MAX_LINE_BYTES:
            raise place.invalid("line_too_long", f"it has more than {MAX_LINE_BYTES} bytes")
        if not line.endswith(b"\n"):
            raise place.invalid("cut_short", "the last line does not end")
        yield place, line[:-2] + b"\n" if line.endswith(b"\r\n") else line


def _parse(line: bytes, place: _Place) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _parse_slowly(line, place)
    if not isinstance(value, dict):
        raise place.invalid("not_an_object", "the line is not an object")
    return value


def _parse_slowly(line: bytes, place: _Place) -> Any:
    """Read what the fast parser refuses, or say what is wrong with it."""
    try:
        return parse_json(line)
    except NotCanonical as error:
        if _begins_with_object(line):
            raise place.invalid("several_records", "more than one record stands in it") from error
        raise place.invalid("not_json", error.message.rstrip(".")) from error


def _begins_with_object(line: bytes) -> bool:
    try:
        text = line.decode()
        _, end = JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return bool(text[end:].strip())


_plain_of: Final = itemgetter(*PLAIN_FIELDS)


def _entry(value: dict[str, Any], line: bytes, place: _Place) -> tuple[PortableEntry, bytes]:
    """Return the entry of a line that is written as it has to be, and the bytes of its payload."""
    # Without its payload, which may be large and is free.
    _require_shape({**value, "payload": None} if "payload" in value else value, "entry", "bad_entry", place)
    plain, withheld = _plain_of(value), "withheld" in value
    _require_no_fractions(float in map(type, plain), place)
    if "payload" not in value:
        entry = PortableEntry._make((*plain, value["payload_text"], withheld))
        _require_same(entry_line(entry, None), line, place)
        return entry, entry.payload_text.encode()
    if escaped(_dumped(value)) + b"\n" == line:
        payload = _dumped(value["payload"])
        return PortableEntry._make((*plain, payload.decode(), withheld)), payload
    # A float in digits of its own, an integer of 64 bits unsigned: read once more with more care.
    exact = canonical_text(_exact(line, place)["payload"])
    entry = PortableEntry._make((*plain, exact, withheld))
    _require_same(entry_line(entry, exact.encode()), line, place)
    return entry, exact.encode()


def _entry_again(value: dict[str, Any], line: bytes, place: _Place) -> PortableEntry:
    """Return an entry whose line was checked before: its payload's digest says whether it was read exactly."""
    if "payload" not in value:
        return _entry(value, line, place)[0]
    payload = _dumped(value["payload"])
    if digest_hex(payload) != value["payload_hash"]:
        return _entry(value, line, place)[0]
    return PortableEntry._make((*_plain_of(value), payload.decode(), False))


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=_SORTED)
    except orjson.JSONEncodeError:
        return b""  # nests deeper than it writes: the careful way decides


def _exact(line: bytes, place: _Place) -> dict[str, Any]:
    try:
        value: dict[str, Any] = parse_json(line)
    except NotCanonical as error:
        raise place.invalid("not_json", error.message.rstrip(".")) from error
    return value


def _other(value: dict[str, Any], line: bytes, place: _Place) -> State | ManifestIndex | Page:
    kind = value.get("type")
    if kind not in (STATE_TYPE, MANIFEST_TYPE, PAGE_TYPE):
        raise place.invalid("unknown_type", f"a line of type {str(kind)[:40]!r}")
    _require_shape(value, kind, f"bad_{kind}", place)
    _require_same(line_of(_exact(line, place)), line, place)
    if kind == STATE_TYPE:
        return State(value["state_digest"], canonical_text(value["state"]))
    if kind == MANIFEST_TYPE:
        return ManifestIndex(value["dirty_hash"], canonical_text(value["pages"]))
    try:
        body = b64decode(value["body"], validate=True)
    except Base64Error as error:
        raise place.invalid("bad_page", "its body is no base64") from error
    if b64encode(body).decode() != value["body"]:
        raise place.invalid("bad_page", "its body has bits that belong to nothing")
    return Page(value["page_digest"], body)


def _pages_of(manifest: ManifestIndex) -> list[str]:
    return [page["page"] for page in orjson.loads(manifest.text)]


def _header(value: dict[str, Any], line: bytes, place: _Place) -> Header:
    if value.get("type") != HEADER_TYPE:
        raise place.invalid("no_header", f"the first line is not a header of type {HEADER_TYPE}")
    version = value.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise UnsupportedTranscriptVersion(
            f"The file has format version {version!r:.40}; this Bridge reads {FORMAT_VERSION}. Nothing was taken in.",
            details={
                "line": place.number,
                "offset": place.offset,
                "reason": "unsupported_version",
                "found": version if isinstance(version, (int, str, float)) else repr(version)[:40],
                "supported": [FORMAT_VERSION],
            },
        )
    _require_shape(value, "header", "bad_header", place)
    _require_same(line_of(value), line, place)
    sessions = tuple(SessionHeader(**session) for session in value["sessions"])
    ids = [session.id for session in sessions]
    for session in ids:
        try:
            require_safe_id(session)
        except InvalidId as error:
            raise place.invalid("bad_header", f"{session[:80]!r} is no session id") from error
    if len(set(ids)) != len(ids) or ids[-1] != value["session_id"]:
        raise place.invalid("bad_header", "its sessions are not distinct, or the last is not the one exported")
    return Header(
        session_id=value["session_id"],
        scope=value["scope"],
        hidden=value["hidden"],
        sessions=sessions,
        exported_at=value["exported_at"],
    )


def _require_shape(value: Mapping[str, Any], schema: str, reason: str, place: _Place) -> None:
    found = validator(f"{SCHEMAS}/{schema}")
    if found.is_valid(value):
        _require_no_fractions(schema != "entry" and has_fraction(value), place)
        return
    fields: list[FieldError] = field_errors(found, value)
    first = f"{fields[0]['path'] or 'the line'} {fields[0]['message']}" if fields else "it is not of the published form"
    raise place.invalid(reason, first.rstrip("."), fields=fields)


def _require_no_fractions(has_some: bool, place: _Place) -> None:  # noqa: FBT001 - one fact
    if has_some:  # to a schema 1.0 is an integer
        raise place.invalid("not_canonical", "an integer in it is written as a fraction")


def _require_same(canonical: bytes, line: bytes, place: _Place) -> None:
    if canonical != line:
        raise place.invalid("not_canonical", "it is not written as canonical JSON, so somebody else wrote it")


def _check_hashes(entry: PortableEntry, payload: bytes, parent_hash: str | None, place: _Place) -> None:
    """Check an entry against its own hashes, under the hash of its parent as it was recomputed."""
    if (entry.sequence == 0) != (entry.parent_entry_id is None) or (entry.sequence == 0) != (entry.kind == ROOT_KIND):
        raise place.invalid("bad_entry", f"{entry.id} is a root in one respect and none in another")
    if (entry.state_digest is None) == (entry.unknown_reason is None):
        raise place.invalid("bad_entry", "its stamp is neither a state nor unknown")
    if (entry.external_id is None) != (entry.external_source is None):
        raise place.invalid("bad_entry", "its external id comes without its source, or the other way round")
    if (digest_hex(payload) == entry.payload_hash) == entry.is_withheld:
        raise place.invalid("payload_altered", f"the payload of {entry.id} is not the one that was hashed")
    computed = entry_hash(
        parent_entry_hash=parent_hash,
        entry_id=entry.id,
        kind=entry.kind,
        semantic_schema_version=entry.semantic_schema_version,
        payload_hash=entry.payload_hash,
        context_visibility=entry.context_visibility,
        stamp=entry.stamp(),
        external_id=entry.external_id,
        created_at=entry.created_at,
    )
    if computed != entry.entry_hash:
        raise place.invalid(
            "entry_altered",
            f"the hash of {entry.id} does not follow from its fields and its parent",
            entry_id=entry.id,
            found=entry.entry_hash,
            computed=computed,
        )
