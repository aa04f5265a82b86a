"""A session as one file of JSON lines: a header, one line per entry and per repository state, a footer. Values in,
bytes out; ``portable_reading`` goes the other way. docs/portable-format.md describes the format.

Each line is canonical JSON and ends with a line feed, and the characters that some programs take for ends of lines
are escaped in it: so that a line stands alone whoever cuts the file, and the same entry gives the same bytes from
every store. The digest in the footer covers the entry lines alone: it does not change with the hour.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

import orjson

from bridge.foundation.canonical import canonical_bytes, canonical_text, parse_json
from bridge.foundation.errors import NotCanonical

#: Version of the format; another one is refused by name.
FORMAT_VERSION: Final = 1
#: What the header's ``type`` is.
HEADER_TYPE: Final = "bridge.session"
ENTRY_TYPE: Final = "entry"
STATE_TYPE: Final = "state"
MANIFEST_TYPE: Final = "manifest"
PAGE_TYPE: Final = "page"
FOOTER_TYPE: Final = "footer"
#: Longest line, in bytes: a payload may have 4 MiB, and every character of a text may be escaped.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
#: Largest page of a manifest that is written, in bytes; a manifest with a larger one is left out.
MAX_PAGE_BYTES: Final = 32 * 1024 * 1024

#: Which entries a file holds: all of the session's branches, or the active path alone.
Scope = Literal["forest", "active"]

#: Ends of lines to some readers (NEL, line separator, paragraph separator), and how they stand in a line; by their
#: first byte, which is found many times faster than all of them.
_SEPARATORS: Final = (
    (b"\xc2", ((b"\xc2\x85", b"\\u0085"),)),
    (b"\xe2", ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))),
)
_SORTED: Final = orjson.OPT_SORT_KEYS


class PortableEntry(NamedTuple):
    """An entry as it was stored, in the order of the design's table; ``payload_text`` is what was hashed."""

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
    payload_text: str
    #: Whether the payload was erased: the text is what stands in its place, and does not have its hash.
    is_withheld: bool = False

    def stamp(self) -> dict[str, str | None]:
        """Return the stamp by value, as it enters the hash."""
        return {"unknown": self.unknown_reason} if self.state_digest is None else {"state_digest": self.state_digest}


#: Fields that stand in an entry's line as they are.
PLAIN_FIELDS: Final = tuple(name for name in PortableEntry._fields if name not in ("payload_text", "is_withheld"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHeader:
    """What a file says about one of its sessions: the session's own fields under their published names.

    Parameters
    ----------
    complete
        Whether all entries that the session had are in the file; not so for what a fork shares with its origin.
    next_sequence
        The next one that the session would have handed out.
    labels
        Names of entries that are in the file: name to entry id.
    """

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
    complete: bool
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name != "labels"},
            "labels": dict(self.labels),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file is about.

    Parameters
    ----------
    session_id
        The session that was exported.
    sessions
        The sessions whose entries follow, in that order: those it was forked from, outermost first, then itself.
    hidden
        Whether hidden entries are in the file. Without them hashes cannot be recomputed, and nothing be imported.
    """

    session_id: str
    scope: Scope
    hidden: bool
    sessions: tuple[SessionHeader, ...]
    exported_at: str


@dataclass(slots=True)
class Tally:
    """What a file holds so far, and the digest of its entry lines."""

    entries: int = 0
    states: int = 0
    manifests: int = 0
    pages: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    digest: Any = field(default_factory=sha256)

    def add_entry(self, kind: str, line: bytes) -> None:
        self.digest.update(line)
        self.entries += 1
        self.kinds[kind] += 1

    def footer(self) -> dict[str, Any]:
        """Return the footer that closes the file."""
        return {
            "type": FOOTER_TYPE,
            "entries": self.entries,
            "states": self.states,
            "manifests": self.manifests,
            "pages": self.pages,
            "kinds": dict(self.kinds),
            "digest": self.digest.hexdigest(),
        }


class PortableWriter:
    """Makes the lines of one file, in the order in which they are asked for; keeps what the footer tells.

    The header comes first and the footer last. Entries come session by session in the order of the header, parents
    before their children; the pages of a manifest before it, and it before the state that names it.
    """

    def __init__(self) -> None:
        self.tally = Tally()

    def header(self, header: Header) -> bytes:
        return line_of(
            {
                "type": HEADER_TYPE,
                "format_version": FORMAT_VERSION,
                "session_id": header.session_id,
                "scope": header.scope,
                "hidden": header.hidden,
                "sessions": [session.to_json() for session in header.sessions],
                "exported_at": header.exported_at,
            }
        )

    def entry(self, entry: PortableEntry) -> bytes:
        payload = _canonical_payload(entry.payload_text)
        line = entry_line(entry, payload)
        self.tally.add_entry(entry.kind, line)
        return line

    def state(self, state_digest: str, text: str) -> bytes:
        """Return the line of a repository state, given as the canonical text that has that digest."""
        self.tally.states += 1
        return line_of({"type": STATE_TYPE, "state_digest": state_digest, "state": parse_json(text)})

    def manifest(self, dirty_hash: str, page_index: str) -> bytes:
        """Return the line of a dirty manifest, given as the canonical text of its page index."""
        self.tally.manifests += 1
        return line_of({"type": MANIFEST_TYPE, "dirty_hash": dirty_hash, "pages": parse_json(page_index)})

    def page(self, page_digest: str, body: bytes) -> bytes:
        self.tally.pages += 1
        return line_of({"type": PAGE_TYPE, "page_digest": page_digest, "body": b64encode(body).decode()})

    def footer(self) -> bytes:
        return line_of(self.tally.footer())


def line_of(value: Mapping[str, Any]) -> bytes:
    """Return a line: canonical JSON, its separators escaped, with the line feed."""
    return escaped(canonical_bytes(dict(value))) + b"\n"


def entry_line(entry: PortableEntry, payload: bytes | None) -> bytes:
    """Return an entry's line.

    Parameters
    ----------
    payload
        The payload's canonical bytes; None for one that has no canonical form, which then stands as a text.
    """
    # In the order of sorted keys; written out because it is done once or twice for every entry of a file.
    value: dict[str, Any] = {
        "context_visibility": entry.context_visibility,
        "created_at": entry.created_at,
        "entry_hash": entry.entry_hash,
        "external_id": entry.external_id,
        "external_source": entry.external_source,
        "id": entry.id,
        "kind": entry.kind,
        "observed_at": entry.observed_at,
        "parent_entry_id": entry.parent_entry_id,
    }
    if payload is not None:
        value["payload"] = orjson.Fragment(payload)
    value["payload_hash"] = entry.payload_hash
    if payload is None:
        value["payload_text"] = entry.payload_text
    value["semantic_schema_version"] = entry.semantic_schema_version
    value["sequence"] = entry.sequence
    value["session_id"] = entry.session_id
    value["state_digest"] = entry.state_digest
    value["type"] = ENTRY_TYPE
    value["unknown_detail"] = entry.unknown_detail
    value["unknown_path"] = entry.unknown_path
    value["unknown_reason"] = entry.unknown_reason
    if entry.is_withheld:
        value["withheld"] = True
    return escaped(orjson.dumps(value)) + b"\n"


def escaped(line: bytes) -> bytes:
    """Return JSON with the separators that stand raw in it escaped; outside of strings there are none."""
    if not line.isascii():
        for first, separators in _SEPARATORS:
            if first in line:
                for raw, escape in separators:
                    line = line.replace(raw, escape)
    return line


def _canonical_payload(text: str) -> bytes | None:
    """Return a payload's bytes if they are what canonical JSON makes of its value, else None."""
    encoded = text.encode()
    # What a reader does first with a line. Where that is exact, nothing slower is needed.
    if encoded.count(b"[") + encoded.count(b"{") < _SAFE_DEPTH and _rewritten(encoded) == encoded:
        return encoded
    # At the depth at which it will stand in its line.
    wrapped = f'{{"payload":{text}}}'
    try:
        return encoded if canonical_text(parse_json(wrapped)) == wrapped else None
    except NotCanonical:
        return None


def _rewritten(encoded: bytes) -> bytes | None:
    try:
        return orjson.dumps(orjson.loads(encoded), option=_SORTED)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


#: Brackets below which no nesting can be too deep.
_SAFE_DEPTH: Final = 190
