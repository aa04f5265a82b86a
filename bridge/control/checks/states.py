"""Verifying repository states, their manifests, and long texts: all that is named by the hash of its content."""

from __future__ import annotations

from hashlib import sha256

from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.integrity.report import Finding, Report, Verdict
from bridge.integrity.store import state_digests
from bridge.semantics.stamps import UnknownReason
from bridge.storage.longtexts import iterate_blobs, text_sizes
from bridge.storage.transaction import Connection
from bridge.workspaces.errors import StateDamaged
from bridge.workspaces.store import (
    iterate_pages,
    load_manifest,
    load_state,
    manifest_hashes,
    page_index_of,
    page_index_text,
    state_hashes,
    state_text,
)


def verify_named_states(
    report: Report, connection: Connection, session_id: str, known: dict[str, Finding | None]
) -> None:
    """Check the repository states that entries name; ``known`` keeps what was found about each."""
    for digest, entry_id in state_digests(connection, session_id):
        if digest not in known:
            known[digest] = _state_fault(connection, digest)
        report.checked += 1
        fault = known[digest]
        if fault is not None:
            report.add(fault.code, fault.subject, f"{fault.message} {entry_id} names it.")


def verify_stored_states(connection: Connection, *, known: dict[str, Finding | None]) -> Verdict:
    """Check every state, manifest and page, also those that no entry names; ``known`` were checked before."""
    report = Report()
    for digest, dirty_hash in state_hashes(connection):
        report.checked += 1
        fault = known[digest] if digest in known else _state_fault(connection, digest)
        if fault is None and not _names(connection, digest, dirty_hash):
            fault = Finding("state_altered", digest, "Its row names another manifest than the state does.")
        if fault is not None:
            report.add(fault.code, fault.subject, fault.message)
    for dirty_hash in manifest_hashes(connection):
        report.checked += 1
        fault = _manifest_fault(connection, dirty_hash)
        if fault is not None:
            report.add(fault.code, fault.subject, fault.message)
    for digest, body in iterate_pages(connection):
        report.checked += 1
        if not isinstance(body, bytes) or sha256(body).hexdigest() != digest:
            report.add("state_altered", digest, "The page of a manifest does not have its digest.")
    return Verdict("states", None, report)


def verify_texts(connection: Connection) -> Verdict:
    """Check the long texts: each is what its digest says, as long as its row and its entries say, and some entry's."""
    report = Report()
    named = text_sizes(connection)
    for blob in iterate_blobs(connection):
        report.checked += 1
        sizes = named.get(blob.digest)
        if sizes is None:
            report.add("text_unused", blob.digest, "No entry has this long text.")
        try:
            encoded = blob.body.encode()
        except (AttributeError, UnicodeEncodeError):
            encoded = b""
        if sha256(encoded).hexdigest() != blob.digest:
            report.add("text_altered", blob.digest, "The long text does not have its digest.")
        elif {blob.size, *(sizes or ())} != {len(encoded)}:
            report.add("text_altered", blob.digest, "Its rows say that the long text has another size.")
    return Verdict("texts", None, report)


def _state_fault(connection: Connection, digest: str) -> Finding | None:
    try:
        state = load_state(connection, digest)
        if state is UnknownReason.BASE_UNAVAILABLE:
            return Finding("state_missing", digest, "The repository state is not there.")
        if isinstance(state, UnknownReason):
            return None
    except StateDamaged as error:
        return Finding("state_altered", digest, error.message)
    except (AttributeError, KeyError, NotCanonical, TypeError, ValueError) as error:
        return Finding("state_altered", digest, f"The stored state is none: {error}.")
    return _manifest_fault(connection, state.dirty_hash)


def _manifest_fault(connection: Connection, dirty_hash: str) -> Finding | None:
    try:
        manifest, index = load_manifest(connection, dirty_hash), page_index_text(connection, dirty_hash)
        if manifest is not None and index is not None and index != page_index_of(manifest):
            return Finding("state_altered", dirty_hash, "The list of the manifest's pages names other directories.")
    except StateDamaged as error:
        return Finding("state_altered", dirty_hash, error.message)
    except (AttributeError, KeyError, NotCanonical, TypeError, ValueError) as error:
        return Finding("state_altered", dirty_hash, f"The list of the manifest's pages is none: {error}.")
    return None


def _names(connection: Connection, digest: str, dirty_hash: str) -> bool:
    stored = state_text(connection, digest)
    return stored is not None and parse_json(stored[1]).get("dirty_hash") == dirty_hash
