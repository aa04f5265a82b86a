"""Audit chains: one event per state change, each pinning the one before.

What this can show: that a row was altered, that an event is missing at the beginning or in the middle, and,
by comparing a session's chain with its entries and its head, that events were cut off at the end. What it
cannot show: that somebody with write access replaced entries, head and chain alike by a consistent earlier
or other state. Only an anchor outside the database can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from bridge.foundation.canonical import canonical_bytes, canonical_record
from bridge.foundation.hashing import ZERO_HASH, event_hash
from bridge.integrity import store
from bridge.integrity.events import ENTRY_APPENDED, EVENTS, SESSION_IMPORTED
from bridge.integrity.recorded import ChainReader
from bridge.integrity.report import Report
from bridge.integrity.store import StoredEvent
from bridge.storage.transaction import Connection, Transaction


def append_event(tx: Transaction, chain_id: str, event_type: str, body: Mapping[str, Any], created_at: str) -> str:
    """Append one event to a chain, in the transaction of the change that it records, and return its hash.

    The hashed text holds the chain, ordinal, type and time along with the body, so that none of the columns
    can be altered on its own.

    Parameters
    ----------
    body
        A JSON object of the event's own facts: ids and hashes rather than texts.

    Raises
    ------
    NotCanonical
        If the body has no canonical form.
    ValueError
        If :data:`bridge.integrity.events.EVENTS` has no such type.
    """
    if event_type not in EVENTS:
        raise ValueError(f"{event_type} is no type of bridge.integrity.events")
    last = store.last_event(tx, chain_id)
    ordinal, previous = (0, ZERO_HASH) if last is None else (last[0] + 1, bytes.fromhex(last[1]))
    # An entry's event is a flat record, for which the cheaper way is enough.
    encode = canonical_record if event_type == ENTRY_APPENDED else canonical_bytes
    text = encode(
        {"chain_id": chain_id, "ordinal": ordinal, "event_type": event_type, "created_at": created_at, "body": body}
    )
    hashed = event_hash(previous, text).hex()
    store.insert_event(tx, StoredEvent(chain_id, ordinal, event_type, created_at, hashed, text.decode()))
    return hashed


def verify_chain(connection: Connection, chain_id: str) -> Report:
    """Recompute a chain from its stored texts. A chain without events is valid and has ``checked`` 0."""
    report = Report()
    for _event, _body in ChainReader(connection, chain_id, report):
        pass
    return report


@dataclass(frozen=True, slots=True)
class Import:
    """What a session's last import recorded: the root of its entries through a sequence.

    ``has_gaps`` says that some are missing before; ``next_sequence`` is the next one that was free then.
    """

    session_root: str
    sequence: int
    next_sequence: int
    has_gaps: bool


def last_import(connection: Connection, session_id: str) -> Import | None:
    """Return what the last import into a session recorded, None if it was never imported."""
    text = store.last_event_of_type(connection, session_id, SESSION_IMPORTED)
    if text is None:
        return None
    body = body_of(text)
    sequence, following = body.get("sequence"), body.get("next_sequence")
    if not isinstance(sequence, int) or not isinstance(following, int):
        return None  # an altered event, which the chain reports; nothing is covered by it
    return Import(str(body.get("session_root")), sequence, following, body.get("has_gaps") is True)


def body_of(text: str) -> dict[str, Any]:
    """Return the facts in an event's text; none if it is damaged."""
    try:
        body = orjson.loads(text)["body"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return {}
    return body if isinstance(body, dict) else {}
