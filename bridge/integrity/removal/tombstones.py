"""What stands in the place of what was taken away, and what a verification says about it.

An erased payload leaves its hash: the entry is hashed as before, and so is everything above it. The text in its place
is pinned by an event of the session's chain. A removed session leaves its chain, whose last event pins the root that it
had, and a row that keeps its id from being used again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from bridge.foundation.canonical import canonical_text, parse_json
from bridge.integrity.chain import append_event, body_of
from bridge.integrity.events import ENTRY_ERASED, SESSION_REMOVED
from bridge.integrity.removal import store
from bridge.integrity.removal.store import RemovedSession
from bridge.integrity.store import last_event, last_event_of, last_event_of_type
from bridge.storage.transaction import Connection, Transaction

#: What stands where something was erased.
MARK: Final = "[withheld]"
#: The payload of an entry that was erased as a whole: it keeps no kind's contract, so no reader gives it a meaning.
WHOLE: Final = canonical_text({"withheld": True})


def masked_text(payload_text: str, pattern: re.Pattern[str]) -> tuple[str, int]:
    """Return a payload with every match in its strings and names masked, and how many there were.

    Raises
    ------
    NotCanonical
        If the payload is no JSON, or two names become the same.
    """
    value, count = _masked(parse_json(payload_text), pattern)
    return (canonical_text(value), count) if count else (payload_text, 0)


def withhold(
    tx: Transaction,
    session_id: str,
    entry_id: str,
    *,
    payload_hash: str,
    tombstone_hash: str,
    in_part: bool,
    moment: str,
) -> None:
    """Record that a payload is erased, before it is: the entry's trigger asks for this."""
    store.add_withheld(
        tx, session_id, entry_id, tombstone_hash=tombstone_hash, payload_hash=payload_hash, moment=moment
    )
    body = {
        "entry_id": entry_id,
        "payload_hash": payload_hash,
        "tombstone_hash": tombstone_hash,
        "in_part": in_part,
    }
    append_event(tx, session_id, ENTRY_ERASED, body, moment)


def entomb(
    tx: Transaction, session_id: str, *, session_root: str | None, next_sequence: int, entries: int, moment: str
) -> RemovedSession:
    """Record that a session is removed, before it is: the triggers of its rows ask for this."""
    body = {"session_root": session_root, "next_sequence": next_sequence, "entries": entries}
    append_event(tx, session_id, SESSION_REMOVED, body, moment)
    last = last_event(tx, session_id)
    if last is None:
        raise AssertionError("an event was appended")
    removed = RemovedSession(session_id, session_root, next_sequence, last[0] + 1, last[1], moment)
    store.add_removed(tx, removed)
    store.forget_handed_roots(tx, session_id)
    return removed


def removal_fault(connection: Connection, session_id: str, events: int) -> str | None:
    """Return what is wrong with the tombstone of a session that is not there; None if it was removed in order.

    Parameters
    ----------
    events
        How many events its chain has.
    """
    removed = store.removed_session(connection, session_id)
    text = last_event_of_type(connection, session_id, SESSION_REMOVED)
    if removed is None:
        return "Its audit chain is there, the session is not." if text is None else "Its tombstone is not there."
    if text is None:
        return "It has a tombstone, but its chain does not record the removal."
    body: Mapping[str, Any] = body_of(text)
    last = last_event_of(connection, session_id)
    pinned = (session_id, body.get("session_root"), body.get("next_sequence"), events, *last)
    if pinned != tuple(removed):
        return "Its tombstone is not the one that its chain records."
    return None


def removed_without_chain(connection: Connection, chains: Collection[str]) -> list[str]:
    """Return the removed sessions whose chain is not there."""
    return [session_id for session_id in store.removed_ids(connection) if session_id not in chains]


def _masked(value: Any, pattern: re.Pattern[str]) -> tuple[Any, int]:
    if isinstance(value, str):
        return pattern.subn(MARK, value)
    if isinstance(value, list):
        done = [_masked(one, pattern) for one in value]
        return [one for one, _ in done], sum(count for _, count in done)
    if isinstance(value, dict):
        pairs = [(pattern.subn(MARK, name), _masked(one, pattern)) for name, one in value.items()]
        return {name[0]: one[0] for name, one in pairs}, sum(name[1] + one[1] for name, one in pairs)
    return value, 0
