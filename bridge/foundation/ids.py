"""Session ids, entry ids (Bates numbers) and the short forms people type."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from bridge.foundation.errors import InvalidId

#: What a session id must fully match wherever it meets a path or a URL.
SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ENTRY_ID = re.compile(r"([A-Za-z0-9_-]{1,64})-([0-9]{6,18})")
#: Digits that a sequence is padded to; longer sequences simply grow.
SEQUENCE_DIGITS = 6
# Made once: an f-string whose width is a name takes twice as long, on each entry that is written.
_ENTRY_FORM = f"%s-%0{SEQUENCE_DIGITS}d"


def new_session_id(moment: datetime, suffix: str | None = None) -> str:
    """Return ``YYYYMMDD-HHMMSS-<4 hex>`` for a moment in UTC.

    The suffix is random unless given; callers retry on collision.
    """
    hexadecimal = secrets.token_hex(2) if suffix is None else suffix
    return f"{moment.astimezone(UTC):%Y%m%d-%H%M%S}-{hexadecimal}"


def require_safe_id(text: str, what: str = "session id") -> str:
    """Return ``text`` if it may stand in a path or URL.

    Raises
    ------
    InvalidId
        If it does not fully match ``[A-Za-z0-9_-]{1,64}``.
    """
    if not SAFE_ID.fullmatch(text):
        raise InvalidId(f"{text[:80]!r} is not a valid {what}.", details={"id": text[:200]})
    return text


def entry_id(session_id: str, sequence: int) -> str:
    """Return the Bates number of an entry: ``<session id>-<sequence, at least six digits>``."""
    return _ENTRY_FORM % (session_id, sequence)


def split_entry_id(text: str) -> tuple[str, int]:
    """Return ``(session_id, sequence)`` of a full entry id.

    Raises
    ------
    InvalidId
        If the text is not a full entry id, or its padding is not the one Bridge writes.
    """
    match = _ENTRY_ID.fullmatch(text)
    if match is None:
        raise InvalidId(f"{text[:80]!r} is not an entry id.", details={"id": text[:200]})
    session_id, digits = match.group(1), match.group(2)
    sequence = int(digits)
    if entry_id(session_id, sequence) != text:
        raise InvalidId(f"{text[:80]!r} is not an entry id.", details={"id": text[:200]})
    return session_id, sequence


def short_session(session_id: str) -> str:
    """Return the tail that people type for a session: its part after the last hyphen (``9f3a``)."""
    return session_id.rsplit("-", 1)[-1]


def short_entry(full_id: str) -> str:
    """Return the tail that people type for an entry (``9f3a.31``)."""
    session_id, sequence = split_entry_id(full_id)
    return f"{short_session(session_id)}.{sequence}"
