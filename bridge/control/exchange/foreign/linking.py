"""Links between what was taken in: entries to entries, sessions to the sessions that they were started from.

What is named may come later, or never. Entries do not change when it comes: a row beside them says where it is.
"""

from __future__ import annotations

from bridge.control.exchange.foreign import store as rows
from bridge.control.exchange.foreign.natives import Native
from bridge.control.exchange.foreign.preparing import safe_key
from bridge.control.recording import RecordingTransaction
from bridge.conversations.growing import Placed
from bridge.conversations.store import get_session, session_exists, update_session
from bridge.lineage.descent import MAX_DEPTH
from bridge.storage.transaction import Connection, Transaction
from bridge.transcripts.foreign.neutral import SessionFacts

#: Relation of a session to the one that started it, where the transcript does not say.
_DEFAULT_RELATION = "delegated"


def parent_here(connection: Connection, format_name: str, facts: SessionFacts) -> tuple[str | None, str | None]:
    """Return the session here that another one names as its parent, and the relation; nothing if it is not here."""
    if facts.parent is None or facts.parent == facts.session:
        return None, None
    row = rows.native(connection, format_name, safe_key(facts.parent))
    session_id = None if row is None else row.session_id or row.copy_session_id
    if session_id is None or not session_exists(connection, session_id):
        return None, None
    return session_id, facts.relation or _DEFAULT_RELATION


def link_parent(recording: RecordingTransaction, format_name: str, native: Native) -> None:
    """Name the parent of a session that has none yet, if it is here."""
    if native.session_id is None or native.facts.parent is None:
        return
    session = get_session(recording.tx.connection, native.session_id)
    if session is None or session.parent_session_id is not None:
        return
    parent, relation = parent_here(recording.tx.connection, format_name, native.facts)
    if parent is not None and relation is not None:
        _set_parent(recording, native.session_id, parent, relation)


def link_children(recording: RecordingTransaction, format_name: str, native: Native) -> None:
    """Name a session as the parent of those that were taken in before it."""
    parent = native.session_id or native.copy_of
    if parent is None:
        return
    for child in rows.children_waiting_for(recording.tx.connection, format_name, safe_key(native.id)):
        if child.session_id is not None and child.session_id != parent:
            _set_parent(recording, child.session_id, parent, child.parent_relation or _DEFAULT_RELATION)


def _set_parent(recording: RecordingTransaction, session_id: str, parent: str, relation: str) -> None:
    if _is_above(recording.tx.connection, session_id, parent):
        return  # the transcripts name each other: a circle is no descent
    changes = {"parent_session_id": parent, "parent_relation": relation}
    update_session(recording.tx, session_id, recording.moment, **changes)
    recording.event(session_id, "session.updated", changes)


def _is_above(connection: Connection, session_id: str, other: str) -> bool:
    """Return whether a session is another one, or lies above it."""
    at: str | None = other
    for _ in range(MAX_DEPTH):
        if at is None:
            return False
        if at == session_id:
            return True
        found = get_session(connection, at)
        at = None if found is None else found.parent_session_id
    return True


def resolve_links(tx: Transaction, format_name: str, new: dict[str, tuple[str, Placed]]) -> None:
    """Note where entries are that others named before they were here."""
    for link in rows.open_links_to(tx.connection, format_name, new):
        session_id, placed = new[link.target_key]
        rows.resolve_link(tx, link, session_id, placed[0])
