"""Recomputing the entries of a session in one pass, and its root from what the pass keeps: 48 bytes an entry."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

import orjson

from bridge.foundation.canonical import canonical_text, parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.hashing import ZERO_HASH
from bridge.foundation.ids import entry_id as entry_id_of
from bridge.foundation.outlines import is_outline
from bridge.foundation.texts import is_storable
from bridge.integrity import store
from bridge.integrity.errors import TreeUnsound
from bridge.integrity.removal.store import tombstones_of
from bridge.integrity.report import Report
from bridge.integrity.store import StoredEntry
from bridge.integrity.tree import children_root
from bridge.storage.longtexts import body_of
from bridge.storage.transaction import Connection

#: The parent of a root, and of an entry whose parent is not there, among the kept places.
_ROOT: Final = -1
_NOWHERE: Final = -2


class EntryScan:
    """Goes through a session's entries once, in the order of their sequence.

    Parameters
    ----------
    is_checked
        Whether payloads and hashes are recomputed. Otherwise the entries are only handed on, without payloads.
    gaps_through
        Sequences up to this one may be missing: only a part of the session was taken in.
    """

    def __init__(
        self, connection: Connection, session_id: str, report: Report, *, is_checked: bool, gaps_through: int = -1
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._report = report
        self._is_checked = is_checked
        self._gaps_through = gaps_through
        # What stands in the place of erased payloads; whether the chain says so too is compared by whoever reads it.
        self._tombstones = tombstones_of(connection, session_id) if is_checked else {}
        self._hashes = bytearray()
        self._parents = array("q")
        self._sequences = array("q")
        self._roots: dict[int, str] = {}
        # Why there is no tree, if that is found on the way: entry and reason.
        self._unsound: tuple[str, str] | None = None
        #: The highest sequence; -1 without entries.
        self.last_sequence = -1

    def __iter__(self) -> Iterator[StoredEntry]:
        report, is_checked, prefix = self._report, self._is_checked, f"{self._session_id}-"
        hashes, parents, sequences = self._hashes, self._parents, self._sequences
        expected, previous_id, previous_hash = 0, None, ""
        for entry in store.iterate_entries(self._connection, self._session_id, with_payload=is_checked):
            identity, parent_id, stored = entry.id, entry.parent_entry_id, entry.entry_hash
            sequence: Any = entry.sequence  # a damaged row may hold anything
            place = len(sequences)
            if not isinstance(sequence, int) or identity != f"{prefix}{sequence:06d}":
                report.add("entry_altered", str(identity), f"Its sequence is {sequence}, not the one of its id.")
                self._refuse(str(identity), "has a sequence that is not the one of its id")
                if not isinstance(sequence, int):
                    continue
            if is_checked:
                report.checked += 1
                if sequence != expected and sequence > self._gaps_through:
                    report.add("entry_missing", identity, f"Sequence {expected} is not there.")
            if parent_id is None:
                above, parent_hash = _ROOT, None
            elif parent_id == previous_id:
                above, parent_hash = place - 1, previous_hash
            else:
                above = self._place_of(parent_id)
                parent_hash = None if above < 0 else hashes[above * 32 : above * 32 + 32].hex()
            if is_checked:
                self._check(entry, above, parent_hash)
            hashes += _raw(stored)
            parents.append(above)
            sequences.append(sequence)
            previous_id, previous_hash = identity, stored
            expected = self.last_sequence = sequence
            expected += 1
            yield entry

    def root(self, through: int | None = None) -> str:
        """Return the root of the entries that were gone through, in hexadecimal, up to a sequence.

        Raises
        ------
        TreeUnsound
            If they do not form one tree.
        """
        end = len(self._sequences) if through is None else bisect_left(self._sequences, through + 1)
        known = self._roots.get(end)
        if known is None:
            known = self._roots[end] = self._root_before(end).hex()
        return known

    def membership(self, sequence: int, through: int) -> list[list[bytes]]:
        """Return what shows that an entry is in the root of the entries up to a sequence.

        First the subtree hashes of the entry's children, then for each entry above it, up to the root, those of its
        other children.

        Raises
        ------
        TreeUnsound
            If the entries do not form one tree, or none has that sequence.
        """
        place = bisect_left(self._sequences, sequence)
        if place == len(self._sequences) or self._sequences[place] != sequence:
            raise _unsound(entry_id_of(self._session_id, sequence), "is not there")
        path = [place]
        while self._parents[path[-1]] >= 0:
            path.append(self._parents[path[-1]])
        kept: dict[int, tuple[bytes, list[bytes]]] = dict.fromkeys(path, (b"", []))
        self._root_before(bisect_left(self._sequences, through + 1), kept)
        shown = [kept[place][1]]
        for above, below in zip(path[1:], path, strict=False):
            own = kept[below][0]
            shown.append([hashed for hashed in kept[above][1] if hashed != own])
        return shown

    def _root_before(self, end: int, kept: dict[int, tuple[bytes, list[bytes]]] | None = None) -> bytes:
        """Return the root; ``kept`` names places, and gets the subtree hash and those of the children of each."""
        if self._unsound is not None:
            raise _unsound(*self._unsound)
        hashes, parents = self._hashes, self._parents
        # The children's hashes by their parent's place: of an only child the hash itself.
        waiting: dict[int, bytes | list[bytes]] = {}
        for place in range(end - 1, -1, -1):
            raw = bytes(hashes[place * 32 : place * 32 + 32])
            if raw == ZERO_HASH:
                raise _unsound(self._id_at(place), "has no hash of 32 bytes")
            own = sha256(b"\x00" + raw).digest()
            children = waiting.pop(place, None)
            if children is not None:
                below = children if isinstance(children, bytes) else children_root(children)
                own = sha256(b"\x03" + own + below).digest()
            if kept is not None and place in kept:
                found = [] if children is None else [children] if isinstance(children, bytes) else children
                kept[place] = own, found
            above = parents[place]
            if above == _ROOT:
                if place:
                    raise _unsound(self._id_at(place), "is a second root")
                return own
            if above == _NOWHERE:
                raise _unsound(self._id_at(place), "has a parent that is no earlier entry of its session")
            beside = waiting.get(above)
            if beside is None:
                waiting[above] = own
            elif isinstance(beside, bytes):
                waiting[above] = [beside, own]
            else:
                beside.append(own)
        raise TreeUnsound("The session has no root entry.", details={"entry_id": self._session_id})

    def _place_of(self, identity: str) -> int:
        tail = str(identity).rpartition("-")[2]
        sequence = int(tail) if tail.isascii() and tail.isdigit() and len(tail) < 19 else -1
        place = bisect_left(self._sequences, sequence)
        is_there = place < len(self._sequences) and self._sequences[place] == sequence
        return place if is_there and identity == entry_id_of(self._session_id, sequence) else _NOWHERE

    def _id_at(self, place: int) -> str:
        return entry_id_of(self._session_id, self._sequences[place])

    def _refuse(self, identity: str, reason: str) -> None:
        if self._unsound is None:
            self._unsound = identity, reason

    def _check(self, entry: StoredEntry, above: int, parent_hash: str | None) -> None:
        try:
            self._check_payload(entry)
            if (entry.state_digest is None) == (entry.unknown_reason is None):
                self._report.add("entry_altered", entry.id, "Its stamp is known and unknown at once, or neither.")
            if above == _NOWHERE:
                message = f"Its parent {entry.parent_entry_id} is not an earlier entry."
                self._report.add("parent_missing", entry.id, message)
            elif _entry_hash(entry, parent_hash) != entry.entry_hash:
                message = "The entry's hash does not follow from its fields and its parent."
                self._report.add("entry_altered", entry.id, message)
        except (AttributeError, TypeError, ValueError) as error:
            self._report.add("entry_unreadable", entry.id, f"A column holds what no such column holds: {error}.")

    def _check_payload(self, entry: StoredEntry) -> None:
        payload = entry.payload
        if payload is None:
            self._check_long(entry)
            return
        digest, stands = sha256(payload.encode()).hexdigest(), self._tombstones.get(entry.id, ())
        if digest in stands:
            self._report.withheld += 1
        elif digest != entry.payload_hash:
            self._report.add("payload_altered", entry.id, "The payload is not the one that was hashed.")
            return
        elif stands:
            self._report.add("payload_altered", entry.id, "The payload was erased, and is there again.")
        if entry.blob_digest is not None or entry.payload_bytes is not None or entry.payload_outline is not None:
            self._report.add("payload_altered", entry.id, "Its row has the payload, and says that it is elsewhere.")

    def _check_long(self, entry: StoredEntry) -> None:
        # What is no text cannot be asked for: the driver would give up the whole query.
        payload = body_of(self._connection, entry.payload_hash) if is_storable(entry.payload_hash) else None
        if payload is None:
            message = "The payload is long, and not where such texts are kept."
            self._report.add("payload_missing", entry.id, message)
            return
        encoded = payload.encode()
        if sha256(encoded).hexdigest() != entry.payload_hash:
            self._report.add("payload_altered", entry.id, "The payload is not the one that was hashed.")
        elif entry.blob_digest != entry.payload_hash:
            self._report.add("payload_altered", entry.id, "Its row names another long text than the one hashed.")
        elif entry.payload_bytes != len(encoded) or not _is_exact_outline(str(entry.payload_outline), payload):
            self._report.add("payload_altered", entry.id, "What lists show of the payload is not in it.")


def _entry_hash(entry: StoredEntry, parent_hash: str | None) -> str:
    """Return the hash that follows from an entry's fields. The names are in order, so none has to be sorted."""
    state = entry.state_digest
    text = orjson.dumps(
        {
            "context_visibility": entry.context_visibility,
            "created_at": entry.created_at,
            "external_id": entry.external_id,
            "id": entry.id,
            "kind": entry.kind,
            "parent_entry_hash": parent_hash,
            "payload_hash": entry.payload_hash,
            "semantic_schema_version": entry.semantic_schema_version,
            "stamp": {"unknown": entry.unknown_reason} if state is None else {"state_digest": state},
        }
    )
    return sha256(text).hexdigest()


def _is_exact_outline(outline: str, payload: str) -> bool:
    """Return whether an outline says nothing that is not in the payload, and is written as Bridge writes it."""
    if not is_outline(outline, payload):
        return False
    try:
        return canonical_text(parse_json(outline)) == outline
    except NotCanonical:
        return True  # of a text that is no JSON it is the beginning, which was compared


def _raw(hexadecimal: Any) -> bytes:
    """Return a hash as bytes; zeros for what is none."""
    try:
        raw = bytes.fromhex(hexadecimal)
    except (TypeError, ValueError):
        return ZERO_HASH
    return raw if len(raw) == 32 and raw.hex() == hexadecimal else ZERO_HASH


def _unsound(identity: str, reason: str) -> TreeUnsound:
    return TreeUnsound(f"{identity} {reason}.", details={"entry_id": identity})
