"""Resolving evidence references: the exact stored bytes of a result, or a typed refusal (design §6).

Every check is made at the moment of resolution, against the path that is active then: a conversation that went
elsewhere no longer stands on what it left behind.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.adapters.base import Evidence
from bridge.control.errors import (
    ReferenceForeignSession,
    ReferenceInvalidResult,
    ReferenceNotAResult,
    ReferenceNotFound,
    ReferenceNotOnActiveBranch,
    TooMuchEvidence,
)
from bridge.conversations.errors import EntryNotFound, InvalidReference, SessionNotFound
from bridge.conversations.models import Entry
from bridge.conversations.paths import belongs_to_session, lies_on_active_path
from bridge.conversations.references import resolve_entry
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import short_entry, short_session
from bridge.semantics.interpretation import interpret
from bridge.semantics.results import ResultStatus
from bridge.storage.transaction import Connection

RESULT_KIND = "worker.result"
#: How many results one delegation may cite.
MAX_REFERENCES = 16
#: How many bytes of payload they may have together.
MAX_EVIDENCE_BYTES = 8 * 1024 * 1024


def resolve_evidence(connection: Connection, session_id: str | None, reference: str) -> Evidence:
    """Return a result's exact stored payload for use in a session.

    Parameters
    ----------
    session_id
        The session that cites: a parent's, whose active branch decides. None for one that is yet to be made,
        to which nothing belongs.
    reference
        Of a ``worker.result``: its full entry id, or what people type instead (``9f3a.31``, a label).

    Raises
    ------
    AmbiguousReference
        If a short reference fits several entries.
    ReferenceNotFound, ReferenceForeignSession, ReferenceNotAResult, ReferenceNotOnActiveBranch
        In this order of checking.
    UnsupportedSemanticVersion
        If the entry was written under a contract that this Bridge cannot read.
    ReferenceInvalidResult
        If the result broke its contract, so that it proves nothing.
    """
    entry = _find(connection, session_id, reference)
    if session_id is None or not belongs_to_session(connection, session_id, entry.id):
        asker = "the one that is to be made" if session_id is None else short_session(session_id)
        raise ReferenceForeignSession(
            f"{short_entry(entry.id)} belongs to another session than {asker}, so it may not be cited. "
            "Nothing was started.",
            details={"reference": entry.id, "session_id": session_id},
        )
    meaning = interpret(entry.semantic_schema_version, entry.kind, entry.payload_text, entry_id=entry.id)
    if entry.kind != RESULT_KIND or meaning.opaque:
        raise ReferenceNotAResult(
            f"{short_entry(entry.id)} is a {entry.kind}, not a worker's result. Nothing was started.",
            details={"reference": entry.id, "kind": entry.kind},
        )
    if not lies_on_active_path(connection, session_id, entry.id):
        raise ReferenceNotOnActiveBranch(
            f"{short_entry(entry.id)} lies on a branch that {short_session(session_id)} has left, "
            "so it may not be cited. Nothing was started.",
            details={"reference": entry.id, "session_id": session_id},
        )
    if meaning.payload.get("status") == ResultStatus.INVALID:
        raise ReferenceInvalidResult(
            f"{short_entry(entry.id)} broke its contract, so it cannot serve as evidence. Nothing was started.",
            details={"reference": entry.id, "fields": meaning.payload.get("field_errors", [])},
        )
    payload = entry.payload_text.encode()
    digest = digest_hex(payload)
    if digest != entry.payload_hash:
        raise ReferenceInvalidResult(
            f"Something of {short_entry(entry.id)} was erased, so it cannot serve as evidence. Nothing was started.",
            details={"reference": entry.id, "fields": []},
        )
    return Evidence(reference=entry.id, payload=payload, digest=digest)


def resolve_all(connection: Connection, session_id: str | None, references: Sequence[str]) -> tuple[Evidence, ...]:
    """Resolve references in their order, each once, however it is written.

    Raises
    ------
    TooMuchEvidence
        If there are more than :data:`MAX_REFERENCES`, or they hold more than :data:`MAX_EVIDENCE_BYTES`.
    """
    unique = list(dict.fromkeys(references))
    require_count(len(unique))
    found: dict[str, Evidence] = {}
    size = 0
    for reference in unique:
        evidence = resolve_evidence(connection, session_id, reference)
        size += 0 if evidence.reference in found else len(evidence.payload)
        found.setdefault(evidence.reference, evidence)
        if size > MAX_EVIDENCE_BYTES:
            raise TooMuchEvidence(
                f"The cited results hold more than the {MAX_EVIDENCE_BYTES} bytes that one task may cite. "
                "Nothing was started.",
                details={"bytes": size, "limit": MAX_EVIDENCE_BYTES},
            )
    return tuple(found.values())


def require_count(references: int) -> None:
    """Refuse more references than one delegation may cite.

    Raises
    ------
    TooMuchEvidence
        If there are more than :data:`MAX_REFERENCES`.
    """
    if references > MAX_REFERENCES:
        raise TooMuchEvidence(
            f"{references} results are cited; one task may cite {MAX_REFERENCES}. Nothing was started.",
            details={"references": references, "limit": MAX_REFERENCES},
        )


def _find(connection: Connection, session_id: str | None, reference: str) -> Entry:
    try:
        return resolve_entry(connection, reference, context_session_id=session_id)
    except (EntryNotFound, SessionNotFound, InvalidReference) as error:
        raise ReferenceNotFound(
            f"There is no entry {reference[:80]!r}. Nothing was started.", details={"reference": reference[:200]}
        ) from error
