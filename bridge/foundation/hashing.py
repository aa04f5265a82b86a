"""The hash primitives of design §7. SHA-256 throughout; chains combine raw bytes, JSON carries lower-case hex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

from bridge.foundation.canonical import canonical_record

#: What the first event of a chain points back to: 32 zero bytes.
ZERO_HASH = bytes(32)


def digest_hex(data: bytes) -> str:
    """Return the SHA-256 of some bytes as 64 lower-case hex digits."""
    return sha256(data).hexdigest()


def leaf_hash(data: bytes) -> bytes:
    """Return ``sha256(0x00 ‖ data)``, 32 raw bytes."""
    return sha256(b"\x00" + data).digest()


def hash_combine(left: bytes, right: bytes) -> bytes:
    """Return ``sha256(0x03 ‖ left ‖ right)`` of two raw 32-byte hashes."""
    return sha256(b"\x03" + left + right).digest()


def event_hash(previous: bytes, canonical_body: bytes) -> bytes:
    """Return ``sha256(previous ‖ canonical_body)``, the next link of an audit chain."""
    return sha256(previous + canonical_body).digest()


def taken_in_line(entry_hash: str, values: Sequence[str | None]) -> bytes:
    """Return what of an entry enters the digest that records many at once.

    Parameters
    ----------
    entry_hash
        Hexadecimal.
    values
        Its id, and what no entry hash covers: ``observed_at``, ``unknown_path``, ``unknown_detail`` and
        ``external_source``.
    """
    return bytes.fromhex(entry_hash) + orjson.dumps(values) + b"\n"


def entry_hash(
    *,
    parent_entry_hash: str | None,
    entry_id: str,
    kind: str,
    semantic_schema_version: int,
    payload_hash: str,
    context_visibility: str,
    stamp: Mapping[str, Any],
    external_id: str | None,
    created_at: str,
) -> str:
    """Return the hash that pins an entry and, through its parent's hash, its whole ancestry.

    ``stamp`` is by value: ``{"state_digest": …}`` or ``{"unknown": reason}``. ``payload_hash`` is the
    SHA-256 of the stored payload text.
    """
    record = {
        "parent_entry_hash": parent_entry_hash,
        "id": entry_id,
        "kind": kind,
        "semantic_schema_version": semantic_schema_version,
        "payload_hash": payload_hash,
        "context_visibility": context_visibility,
        "stamp": stamp,
        "external_id": external_id,
        "created_at": created_at,
    }
    return sha256(canonical_record(record)).hexdigest()
