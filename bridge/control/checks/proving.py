"""Proof bundles: one entry with all that shows, to somebody without the store, that it was recorded so.

The bundle is one JSON object, described in ``docs/verifier/README.md`` and ``schema/proof/v1/bundle.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.control.checks.anchoring import bring_log_up, known_anchors
from bridge.control.checks.verification import read_root
from bridge.control.controller import Controller
from bridge.control.standpoint import Standpoint, find_entry
from bridge.conversations.models import ROOT_KIND, Entry
from bridge.conversations.references import require_entry
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import split_entry_id
from bridge.integrity.chain import body_of
from bridge.integrity.entries import EntryScan
from bridge.integrity.errors import LogUnsound, TreeUnsound
from bridge.integrity.events import ENTRY_APPENDED, ROOT_SEALED, SESSION_CREATED, SESSION_IMPORTED
from bridge.integrity.log.checking import Anchor
from bridge.integrity.log.leaves import LogRoot, consistency_proof, current_root, inclusion_proof
from bridge.integrity.log.store import leaf_of
from bridge.integrity.removal.store import tombstones_of
from bridge.integrity.report import Report
from bridge.integrity.store import StoredEntry, StoredEvent, iterate_events
from bridge.storage.transaction import Connection
from bridge.workspaces.store import state_text

BUNDLE_TYPE: Final = "bridge.proof"
BUNDLE_VERSION: Final = 1
_RESULT: Final = "worker.result"
_ENDED: Final = "delegation.ended"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A proof bundle and the log that it leads to."""

    entry_id: str
    log: LogRoot
    value: Mapping[str, Any]

    def encoded(self) -> bytes:
        """Return the bundle as it is written to a file."""
        return canonical_bytes(dict(self.value)) + b"\n"


def prove_entry(controller: Controller, standpoint: Standpoint, reference: str) -> Bundle:
    """Return the proof bundle of an entry. The root of its session is sealed, and the log anchored, as by a root.

    Raises
    ------
    EntryNotFound, SessionNotFound, AmbiguousReference, InvalidReference
        If the entry cannot be found.
    SessionQuarantined
        If its session was found damaged.
    TreeUnsound, LogUnsound
        If there is no tree, or no log, of which the entry could be shown to be a part.
    StoredTextDamaged
        If its text is lost.
    """
    with controller.store.read() as connection:
        entry_id = find_entry(connection, standpoint, reference)
    session_id, sequence = split_entry_id(entry_id)
    sealed = read_root(controller, standpoint, session_id)
    bring_log_up(controller)
    anchors = known_anchors(controller)
    with controller.store.read() as connection:
        entry = require_entry(connection, entry_id)
        # Of what was erased the hash remains; what stands in its place proves nothing.
        stands = tombstones_of(connection, session_id).get(entry_id, ())
        is_withheld = digest_hex(entry.payload_text.encode()) in stands
        own = _Session(connection, session_id)
        events = _events(connection, entry, sealed.session_root)
        log = current_root(connection)
        value = {
            "type": BUNDLE_TYPE,
            "format_version": BUNDLE_VERSION,
            "made_at": controller.now(),
            "entry": {**_fields(entry), "payload_text": None if is_withheld else entry.payload_text},
            "ancestry": list(_ancestry(connection, own, entry)),
            "state": None if entry.state_digest is None else _state(connection, entry.state_digest),
            "result": None if is_withheld else _result(entry),
            "tree": {
                "session_root": sealed.session_root,
                "sequence": sealed.sequence,
                "children": [
                    [hashed.hex() for hashed in beside] for beside in own.scan.membership(sequence, sealed.sequence)
                ],
            },
            "events": [_event(connection, event, previous, log.size) for event, previous in events],
            "log": {"size": log.size, "root": log.root},
            "anchors": [_anchor(connection, anchor, log) for anchor in anchors if anchor.log.size <= log.size],
        }
    return Bundle(entry_id, log, value)


class _Session:
    """The entries of one session, without their payloads."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self.scan = EntryScan(connection, session_id, Report(), is_checked=False)
        self._entries = {entry.id: entry for entry in self.scan}

    def above(self, entry_id: str) -> list[StoredEntry]:
        """Return an entry and all above it, the root first.

        Raises
        ------
        TreeUnsound
            If one of them is not there.
        """
        found: list[StoredEntry] = []
        identity: str | None = entry_id
        while identity is not None:
            entry = self._entries.get(identity)
            if entry is None or len(found) > len(self._entries):
                raise TreeUnsound(f"{identity} is named as a parent, but is not there.", details={"entry_id": identity})
            found.append(entry)
            identity = entry.parent_entry_id
        return found[::-1]


def _ancestry(connection: Connection, own: _Session, entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield all that the entry descends from, also in sessions that its own was forked from, the first first."""
    parts = [own.above(entry.id)]
    while True:
        root = require_entry(connection, parts[-1][0].id)
        origin = root.payload.get("forked_from") if isinstance(root.payload, dict) else None
        if not isinstance(origin, dict):
            break
        identity = str(origin["entry_id"])
        parts.append(_Session(connection, split_entry_id(identity)[0]).above(identity))
    for part in reversed(parts):
        for above in part:
            if above.id != entry.id:
                shown = _fields(above)
                if above.kind == ROOT_KIND:
                    # It says where a fork goes on from.
                    shown["payload_text"] = require_entry(connection, above.id).payload_text
                yield shown


def _fields(entry: Entry | StoredEntry) -> dict[str, Any]:
    """Return what of an entry enters its hash, and the hash."""
    unknown = entry.unknown_reason
    return {
        "id": entry.id,
        "parent_entry_id": entry.parent_entry_id,
        "kind": entry.kind,
        "semantic_schema_version": entry.semantic_schema_version,
        "context_visibility": entry.context_visibility,
        "state_digest": entry.state_digest,
        "unknown_reason": None if unknown is None else str(unknown),
        "external_id": entry.external_id,
        "created_at": entry.created_at,
        "payload_hash": entry.payload_hash,
        "entry_hash": entry.entry_hash,
    }


def _state(connection: Connection, state_digest: str) -> dict[str, Any] | None:
    """Return the state that an entry names, with the digests of its manifest; None if it is not here."""
    stored = state_text(connection, state_digest)
    if stored is None:
        return None
    return {"state_digest": state_digest, "state_text": stored[1], "dirty_hash": stored[0]}


def _result(entry: Entry) -> dict[str, Any] | None:
    if entry.kind != _RESULT or not isinstance(entry.payload, dict):
        return None
    names = ("delegation_id", "status", "base_commit", "result_commit")
    return {name: entry.payload.get(name) for name in names}


def _events(connection: Connection, entry: Entry, session_root: str) -> list[tuple[StoredEvent, str]]:
    """Return the events that speak of the entry, each with the hash of the one before.

    That it was added (or taken in from elsewhere), that the root which covers it was given out, and of a result that it
    is the one of its task.

    Raises
    ------
    LogUnsound
        If no event speaks of it.
    """
    added: tuple[StoredEvent, str] | None = None
    imported: tuple[StoredEvent, str] | None = None
    others: dict[str, tuple[StoredEvent, str]] = {}
    previous = "0" * 64
    for event in iterate_events(connection, entry.session_id):
        kind, found = event.event_type, (event, previous)
        previous = event.event_hash
        if kind in (ENTRY_APPENDED, SESSION_CREATED):
            if added is None and entry.id in event.body and body_of(event.body).get("entry_id") == entry.id:
                added = found
        elif kind == SESSION_IMPORTED:
            imported = found
        elif _is_sealed(event, session_root) or _is_end(event, entry.id):
            others[kind] = found
    first = added or imported
    if first is None or ROOT_SEALED not in others:
        raise LogUnsound(f"No audit event speaks of {entry.id}.", details={"entry_id": entry.id})
    return [first, *others.values()]


def _is_sealed(event: StoredEvent, session_root: str) -> bool:
    return event.event_type == ROOT_SEALED and body_of(event.body).get("session_root") == session_root


def _is_end(event: StoredEvent, entry_id: str) -> bool:
    return event.event_type == _ENDED and body_of(event.body).get("result_entry_id") == entry_id


def _event(connection: Connection, event: StoredEvent, previous: str, size: int) -> dict[str, Any]:
    leaf = leaf_of(connection, event.chain_id, event.ordinal)
    if leaf is None or leaf >= size:
        subject = f"{event.chain_id}#{event.ordinal}"
        raise LogUnsound(f"Event {subject} has no leaf.", details={"chain_id": event.chain_id})
    return {
        "text": event.body,
        "previous_event_hash": previous,
        "event_hash": event.event_hash,
        "leaf": leaf,
        "inclusion": [hashed.hex() for hashed in inclusion_proof(connection, leaf, size)],
    }


def _anchor(connection: Connection, anchor: Anchor, log: LogRoot) -> dict[str, Any]:
    proof = consistency_proof(connection, anchor.log.size, log.size)
    return {**anchor.to_json(), "consistency": [hashed.hex() for hashed in proof]}
