"""A session as one file of JSON lines: a header, one line per entry, a footer. Values in, bytes out, and back.

The header says what the session is, the footer how many entries there are and the digest of their lines as they
stand in the file. Whoever reads recomputes all of it, with the payload and entry hashes, before anything is
believed. A payload stands in its line as the JSON that was stored; one that is no canonical JSON as text.

The format carries what the conversation recorded. Repository states are named by their digests, not included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Final

import orjson

from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import digest_hex, entry_hash
from bridge.transcripts.errors import TranscriptInvalid

#: Version of the format; another one is refused by name.
FORMAT_VERSION: Final = 1
#: What the header's ``type`` is.
HEADER_TYPE: Final = "bridge.session"
ENTRY_TYPE: Final = "entry"
FOOTER_TYPE: Final = "footer"
#: Longest line that is read, in bytes: a payload may have 4 MiB, and every character of a text may be escaped.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Header:
    """What a file is about.

    Parameters
    ----------
    session
        The session's own fields, under their published names; ``id`` and ``active_entry_id`` are always there.
    labels
        Names of entries: name to entry id.
    """

    session: Mapping[str, Any]
    labels: Mapping[str, str]
    exported_at: str


@dataclass(frozen=True, slots=True)
class PortableEntry:
    """An entry as it was stored. Names and meanings are those of the design; ``payload_text`` is what was hashed."""

    id: str
    session_id: str
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
    external_id: str | None
    external_source: str | None
    created_at: str
    payload_hash: str
    entry_hash: str
    payload_text: str

    def stamp(self) -> dict[str, str | None]:
        """Return the stamp by value, as it enters the hash."""
        return {"unknown": self.unknown_reason} if self.state_digest is None else {"state_digest": self.state_digest}


#: Fields that stand in an entry's line as they are.
_PLAIN_FIELDS: Final = tuple(field.name for field in fields(PortableEntry) if field.name != "payload_text")
_OPTIONAL: Final = frozenset(
    {
        "parent_entry_id",
        "state_digest",
        "unknown_reason",
        "unknown_path",
        "unknown_detail",
        "observed_at",
        "external_id",
        "external_source",
    }
)
_NUMBERS: Final = frozenset({"sequence", "semantic_schema_version"})


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file that was read and found to be whole."""

    header: Header
    entries: tuple[PortableEntry, ...]


def write_lines(header: Header, entries: Iterable[PortableEntry]) -> Iterator[bytes]:
    """Yield the lines of a file, line feeds included, one entry at a time.

    Parameters
    ----------
    entries
        Parents before their children; a fork's with those that it shares with its origin, roots included.
    """
    yield _line(
        {
            "type": HEADER_TYPE,
            "format_version": FORMAT_VERSION,
            "session": dict(header.session),
            "labels": dict(header.labels),
            "exported_at": header.exported_at,
        }
    )
    digest, count = sha256(), 0
    for entry in entries:
        line = _entry_line(entry)
        digest.update(line)
        count += 1
        yield line
    yield _line({"type": FOOTER_TYPE, "entries": count, "digest": digest.hexdigest()})


def read_lines(lines: Iterable[bytes]) -> Transcript:
    """Read a file back and check it: form, order, digest, hashes of payloads and entries.

    Parameters
    ----------
    lines
        The lines with their line feeds, as a file opened in binary mode yields them.

    Raises
    ------
    TranscriptInvalid
        If anything is not as it was written; ``details`` holds ``line`` (from 1) and ``reason``.
    """
    header: Header | None = None
    entries: list[PortableEntry] = []
    hashes: dict[str, str] = {}
    digest, is_closed, number = sha256(), False, 0
    for number, line in enumerate(lines, 1):
        if is_closed:
            raise _invalid(number, "after_footer", "something follows the footer")
        value = _parse(line, number)
        kind = value.get("type")
        if header is None:
            header = _header(value, number)
        elif kind == ENTRY_TYPE:
            digest.update(line)
            entry = _entry(value, number)
            _check_hashes(entry, hashes, number)
            entries.append(entry)
        elif kind == FOOTER_TYPE:
            _check_footer(value, len(entries), digest.hexdigest(), number)
            is_closed = True
        else:
            raise _invalid(number, "unknown_type", f"a line of type {kind!r:.40}")
    if header is None or not is_closed:
        raise _invalid(number + 1, "cut_short", "the file ends before its footer")
    return Transcript(header, tuple(entries))


def _line(value: Mapping[str, Any]) -> bytes:
    # Keys stay in the order given: it is meant to be read by people as well.
    return orjson.dumps(value) + b"\n"


def _entry_line(entry: PortableEntry) -> bytes:
    value: dict[str, Any] = {"type": ENTRY_TYPE}
    value.update((name, getattr(entry, name)) for name in _PLAIN_FIELDS)
    if _is_canonical(entry.payload_text):
        value["payload"] = orjson.Fragment(entry.payload_text)
    else:
        value["payload_text"] = entry.payload_text
    return _line(value)


def _is_canonical(text: str) -> bool:
    # Read at the depth at which it will stand in its line.
    wrapped = f'{{"payload":{text}}}'
    try:
        return canonical_text(parse_json(wrapped)) == wrapped
    except NotCanonical:
        return False


def _parse(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise _invalid(number, "line_too_long", f"a line has more than {MAX_LINE_BYTES} bytes")
    if not line.endswith(b"\n"):
        raise _invalid(number, "cut_short", "its last line does not end")
    try:
        value = parse_json(line)
    except NotCanonical as error:
        raise _invalid(number, "not_json", error.message) from error
    if not isinstance(value, dict):
        raise _invalid(number, "not_an_object", "the line is not an object")
    return value


def _header(value: dict[str, Any], number: int) -> Header:
    if value.get("type") != HEADER_TYPE:
        raise _invalid(number, "no_header", f"the first line is not a header of type {HEADER_TYPE}")
    version = value.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise TranscriptInvalid(
            f"The file has format version {version!r:.40}; this Bridge reads {FORMAT_VERSION}. Nothing was taken in.",
            details={"line": number, "reason": "unsupported_version", "found": version, "supported": [FORMAT_VERSION]},
        )
    session, labels, exported_at = value.get("session"), value.get("labels"), value.get("exported_at")
    has_ids = isinstance(session, dict) and all(
        isinstance(session.get(name), str) for name in ("id", "active_entry_id")
    )
    has_labels = isinstance(labels, dict) and all(isinstance(target, str) for target in labels.values())
    if not has_ids or not has_labels or not isinstance(exported_at, str):
        raise _invalid(number, "bad_header", "the header lacks a field")
    return Header(session=session or {}, labels=labels or {}, exported_at=exported_at)


def _entry(value: dict[str, Any], number: int) -> PortableEntry:
    known = {*_PLAIN_FIELDS, "type", "payload", "payload_text"}
    if set(value) - known or not set(_PLAIN_FIELDS) <= set(value) or ("payload" in value) == ("payload_text" in value):
        raise _invalid(number, "bad_entry", "its fields are not those of an entry")
    for name in _PLAIN_FIELDS:
        wanted = int if name in _NUMBERS else str
        if type(value[name]) is not wanted and not (value[name] is None and name in _OPTIONAL):
            raise _invalid(number, "bad_entry", f"its {name} is of another type")
    if (value["state_digest"] is None) == (value["unknown_reason"] is None):
        raise _invalid(number, "bad_entry", "its stamp is neither a state nor unknown")
    text = canonical_text(value["payload"]) if "payload" in value else value["payload_text"]
    if not isinstance(text, str):
        raise _invalid(number, "bad_entry", "its payload_text is no text")
    return PortableEntry(**{name: value[name] for name in _PLAIN_FIELDS}, payload_text=text)


def _check_hashes(entry: PortableEntry, hashes: dict[str, str], number: int) -> None:
    """Check an entry against its own hashes, under the hash of its parent as it was recomputed; keep its own."""
    if entry.id in hashes:
        raise _invalid(number, "duplicate_entry", f"{entry.id} occurs twice")
    parent = None if entry.parent_entry_id is None else hashes.get(entry.parent_entry_id)
    if entry.parent_entry_id is not None and parent is None:
        raise _invalid(number, "parent_missing", f"the parent {entry.parent_entry_id:.80} does not come before it")
    computed = entry_hash(
        parent_entry_hash=parent,
        entry_id=entry.id,
        kind=entry.kind,
        semantic_schema_version=entry.semantic_schema_version,
        payload_hash=digest_hex(entry.payload_text.encode()),
        context_visibility=entry.context_visibility,
        stamp=entry.stamp(),
        external_id=entry.external_id,
        created_at=entry.created_at,
    )
    if entry.payload_hash != digest_hex(entry.payload_text.encode()):
        raise _invalid(number, "payload_altered", f"the payload of {entry.id} is not the one that was hashed")
    if computed != entry.entry_hash:
        raise _invalid(
            number, "entry_altered", f"the hash of {entry.id} does not follow from its fields and its parent"
        )
    if entry.parent_entry_id is None:
        _check_origin(entry, hashes, number)
    hashes[entry.id] = computed


def _check_origin(root: PortableEntry, hashes: dict[str, str], number: int) -> None:
    """Check that a fork's root names an entry that came before it, under its hash."""
    try:
        payload = parse_json(root.payload_text)
    except NotCanonical as error:
        raise _invalid(number, "bad_entry", f"the root {root.id} has a payload that cannot be read") from error
    origin = payload.get("forked_from") if isinstance(payload, dict) else None
    if origin is None:
        return
    if not isinstance(origin, dict) or hashes.get(str(origin.get("entry_id"))) != origin.get("entry_hash"):
        raise _invalid(number, "origin_missing", f"what {root.id} was forked from does not come before it")


def _check_footer(value: dict[str, Any], count: int, digest: str, number: int) -> None:
    if value.get("entries") != count:
        raise _invalid(
            number, "entries_missing", f"{value.get('entries')!r:.40} entries are announced, {count} are there"
        )
    if value.get("digest") != digest:
        raise _invalid(number, "digest_differs", "the entry lines are not those that were written")


def _invalid(number: int, reason: str, message: str) -> TranscriptInvalid:
    return TranscriptInvalid(
        f"Line {number} of the session file: {message}. Nothing was taken in.",
        details={"line": number, "reason": reason},
    )
