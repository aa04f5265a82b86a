"""Which session of an agent program's own holds a branch, as the entries tell.

``session.status`` says which one an agent went on with, and each turn's entries say in which one it was worked on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bridge.conversations.contextmessages import message_of
from bridge.conversations.pathsource import StoredPath
from bridge.conversations.projection import COMPACTION
from bridge.conversations.shape import store as rows
from bridge.conversations.store import get_head
from bridge.foundation.canonical import parse_json
from bridge.foundation.errors import NotCanonical
from bridge.foundation.ids import split_entry_id
from bridge.storage.transaction import Connection

#: Entries in which a native session is looked for: on the path, and among what was recorded later.
MAX_LOOKED_AT: Final = 5_000
#: Kind of the entries that say how an agent was restored.
RESTORING_KIND: Final = "session.status"
#: Kinds that name the native session in which they were recorded.
_NAMING: Final = frozenset({RESTORING_KIND, "turn.started", "turn.completed"})


class NativeSession(NamedTuple):
    """A session of an agent program's own, used on a path.

    Parameters
    ----------
    ends_here
        Whether it holds what the path says, and nothing else.
    is_compacted_since
        Whether a compaction was recorded on the path since: then it holds what was to be left out.
    """

    id: str
    ends_here: bool
    is_compacted_since: bool


def native_session_on(connection: Connection, session_id: str, path: StoredPath, harness: str) -> NativeSession | None:
    """Return the agent program's session last used on a path; None if none is known.

    One that was used in the session this one was forked from is none of ours: it may go on there.
    """
    is_told_since = is_compacted_since = False
    found: tuple[str, int, bool, bool] | None = None
    for looked_at, (entry_id, _, row) in enumerate(path.upwards()):
        if looked_at >= MAX_LOOKED_AT or split_entry_id(entry_id)[0] != session_id:
            return None
        sequence = split_entry_id(entry_id)[1]
        if row[1] not in _NAMING:
            text = row[2]
            is_compacted_since = is_compacted_since or row[1] == COMPACTION
            is_told_since = is_told_since or (
                text is not None and message_of(entry_id, row[0], row[1], text) is not None
            )
            continue
        named = _named(connection, session_id, sequence, row[1])
        if named is None:
            continue
        found = found or (named.native_session_id, sequence, is_told_since, is_compacted_since)
        if named.harness is None:
            continue
        # The restoration that the turns since then belong to: another agent program's session is none of this one's.
        native, used_at, is_stale, is_compacted = found
        if named.harness != harness or named.native_session_id != native:
            return None
        ends_here = not is_stale and not _is_used_after(connection, session_id, used_at, native)
        return NativeSession(native, ends_here, is_compacted)
    return None


def _is_used_after(connection: Connection, session_id: str, sequence: int, native: str) -> bool:
    """Return whether a native session was used later, which on this path it was not; so too if that is much to read."""
    head = get_head(connection, session_id)
    last = sequence if head is None else head.next_sequence - 1
    if last - sequence > MAX_LOOKED_AT:
        return True
    later = (
        _named(connection, session_id, later_sequence, row[1])
        for later_sequence, row in rows.numbered(connection, session_id, sequence + 1, last)
        if row[1] in _NAMING
    )
    return any(named is not None and named.native_session_id == native for named in later)


class _Named(NamedTuple):
    """A native session that an entry names; the agent program only where a restoration says it."""

    native_session_id: str
    harness: str | None


def _named(connection: Connection, session_id: str, sequence: int, kind: str) -> _Named | None:
    try:
        payload = parse_json(rows.payload_at(connection, session_id, sequence) or "null")
    except NotCanonical:
        return None
    told = payload.get("restoration") if isinstance(payload, dict) and kind == RESTORING_KIND else payload
    if not isinstance(told, dict) or not isinstance(told.get("native_session_id"), str):
        return None
    return _Named(told["native_session_id"], told.get("harness") if kind == RESTORING_KIND else None)
