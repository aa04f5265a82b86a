"""The check that every new entry passes, whoever writes it."""

from __future__ import annotations

from typing import Any

from bridge.semantics.errors import InvalidPayload, TransientKind, UnknownKind
from bridge.semantics.kinds import CURRENT_VERSION, KINDS, is_transient
from bridge.semantics.schemas import FieldError, field_errors, is_valid, validator

#: Longest part of a kind's name repeated in a message.
_SHOWN_CHARACTERS = 80


def validate(kind: str, payload: Any, *, canonical: bytes | None = None) -> None:
    """Check a new entry's payload against the current contract of its kind.

    Parameters
    ----------
    canonical
        The payload's canonical JSON, where the caller has made it already.

    Raises
    ------
    TransientKind
        If the kind is a streaming frame (``….delta``, ``….progress``).
    UnknownKind
        If the current contract has no such kind.
    InvalidPayload
        If the payload does not fit; ``details`` holds ``kind`` and ``fields``, a list of path and message.
    NotCanonical
        If the payload is not plain JSON.
    """
    if is_transient(kind):
        raise TransientKind(
            f"{kind[:_SHOWN_CHARACTERS]!r} is a streaming frame and is never stored. Nothing was written.",
            details={"kind": kind[:_SHOWN_CHARACTERS]},
        )
    if kind not in KINDS:
        raise UnknownKind(
            f"{kind[:_SHOWN_CHARACTERS]!r} is not a kind of semantic schema {CURRENT_VERSION}. Nothing was written.",
            details={"kind": kind[:_SHOWN_CHARACTERS], "known": sorted(KINDS)},
        )
    fields = payload_errors(CURRENT_VERSION, kind, payload, canonical=canonical)
    if fields:
        raise InvalidPayload(
            f"The payload of {kind} does not fit its schema: {_sentence(fields)}. Nothing was written.",
            details={"kind": kind, "fields": fields},
        )


def validate_plain(kind: str, payload: Any) -> None:
    """Check a payload of plain JSON values, such as a parser returns, as :func:`validate` does; it is not copied."""
    if kind in KINDS and is_valid(validator(f"semantic/v{CURRENT_VERSION}/{kind}"), payload):
        return
    validate(kind, payload)


def payload_errors(version: int, kind: str, payload: Any, *, canonical: bytes | None = None) -> list[FieldError]:
    """Return what is wrong with a payload under a typed contract; empty if nothing is.

    Raises
    ------
    SchemaMissing
        If that version has no such kind.
    NotCanonical
        If the payload is not plain JSON.
    """
    return field_errors(validator(f"semantic/v{version}/{kind}"), payload, canonical=canonical)


def _sentence(fields: list[FieldError]) -> str:
    first = fields[0]
    named = first["path"].lstrip("/") or "it"
    more = len(fields) - 1
    return f"{named} {first['message']}" + (f", and {more} more" if more else "")
