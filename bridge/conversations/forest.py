"""The rules by which the forest grows: roots, appends, heads, cursors, labels.

Every function takes the open transaction of its caller and does not commit. All of them rely on the write
lock that the transaction holds: what they read cannot change before they write.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Any, Final

from bridge.conversations import store
from bridge.conversations.errors import (
    CursorExists,
    CursorNotFound,
    EntryNotFound,
    EntryShared,
    ExternalIdConflict,
    HeadMoved,
    InvalidLabel,
    InvalidSession,
    NothingBefore,
    SessionExists,
    SessionNotFound,
)
from bridge.conversations.models import (
    ENTRY_HASH_AT,
    FORKED_FROM,
    ID_AT,
    MAX_LABEL_CHARACTERS,
    ROOT_KIND,
    Appended,
    Entry,
    HeadMove,
    ListedEntry,
    NewSession,
    PreparedEntry,
    Session,
)
from bridge.conversations.paths import fork_origin, lies_on_shared_path
from bridge.conversations.soundness import refuse_quarantined, require_sound
from bridge.foundation.clock import parse_timestamp
from bridge.foundation.ids import new_session_id, require_safe_id, short_entry, short_session, split_entry_id
from bridge.foundation.texts import require_storable
from bridge.storage.transaction import Connection, Transaction

#: Ids tried for a new session before giving up; one second offers 65,536.
MAX_ID_TRIES: Final = 64
#: Longest name of an entry, in characters.
MAX_LABEL_NAME_CHARACTERS: Final = 64
#: Longest name of a cursor's owner, in characters.
MAX_OWNER_CHARACTERS: Final = 200
_LABEL_NAME = re.compile(r"\w[\w-]*")


def free_session_id(tx: Transaction, moment: datetime) -> str:
    """Return a session id for a moment that no session has.

    Raises
    ------
    SessionExists
        If :data:`MAX_ID_TRIES` ids in a row were taken.
    """
    for _ in range(MAX_ID_TRIES):
        candidate = new_session_id(moment)
        if not store.session_exists(tx.connection, candidate):
            return candidate
    raise SessionExists(f"No free session id was found in {MAX_ID_TRIES} tries. Nothing was written.")


def create_session(tx: Transaction, new: NewSession, root: PreparedEntry) -> tuple[Session, Entry]:
    """Make a session with its synthetic root, which is its head, and return both.

    ``root`` carries the stamp, the time and, in a fork, the origin (see :func:`fork_payload`).

    Raises
    ------
    SessionExists
        If the given id is taken, or no free one was found.
    InvalidId, InvalidSession, InvalidText
        If the given id, kind, relation, label or another text cannot be.
    SessionNotFound
        If the parent session does not exist.
    """
    _check_new_session(tx, new)
    if root.kind != ROOT_KIND:
        raise ValueError(f"a root is of kind {ROOT_KIND}, not {root.kind}")
    if new.id is None:
        session_id = free_session_id(tx, parse_timestamp(root.created_at))
    else:
        session_id = require_safe_id(new.id)
        if store.session_exists(tx.connection, session_id):
            raise SessionExists(
                f"There is a session {session_id} already. Nothing was written.", details={"session_id": session_id}
            )
    store.insert_session(tx, session_id, new, root.created_at)
    row = root.seal_row(session_id, 0, None)
    store.insert_entry(tx, row)
    entry = Entry.from_row(row)
    store.insert_head(tx, session_id, entry.id, 1, root.created_at)
    return require_session(tx.connection, session_id), entry


def fork_payload(connection: Connection, entry_id: str) -> dict[str, Any]:
    """Return the root payload of a fork at an entry: which entry, under which hash.

    Raises
    ------
    EntryNotFound
        If there is no such entry.
    """
    session_id, _ = split_entry_id(entry_id)
    hashed = store.entry_hash_of(connection, session_id, entry_id)
    if hashed is None:
        raise EntryNotFound(f"There is no entry {entry_id}. Nothing was written.", details={"entry_id": entry_id})
    return {FORKED_FROM: {"entry_id": entry_id, "entry_hash": hashed}}


def append(tx: Transaction, session_id: str, prepared: PreparedEntry, moment: str) -> Appended:
    """Append an entry under the parent it names, its cursor's leaf, or the head; move what pointed at the parent.

    The head, and every cursor, whose leaf was that parent advance to the new entry; all others stay. So an
    append under an older entry makes or extends a branch, and never carries the head away.

    Parameters
    ----------
    moment
        When the append happens, as text (the entry's own ``created_at`` may be older).

    Raises
    ------
    SessionNotFound, EntryNotFound, CursorNotFound
        If the session, the parent or the cursor does not exist.
    EntryShared
        If the parent lies in the session that this one was forked from.
    HeadMoved
        If the draft expects another head.
    ExternalIdConflict
        If the external id is taken by other content.
    """
    head = store.head_to_change(tx, session_id)
    if head is None:
        require_sound(tx.connection, session_id)
        raise _no_session(session_id)
    head_id, sequence, head_hash, has_cursors, quarantine = head
    if quarantine is not None:
        refuse_quarantined(session_id, quarantine)
    if prepared.external_id is not None:
        known = _known_external(tx.connection, session_id, prepared)
        if known is not None:
            return Appended(known.row_with_text(prepared.payload_text), head_id, is_new=False)
    _require_head(session_id, head_id, prepared.expected_head)
    parent_id = prepared.parent_entry_id
    if prepared.cursor is not None:
        parent_id = require_cursor(tx.connection, session_id, prepared.cursor)
    if parent_id is None or parent_id == head_id:
        parent_id, parent_hash = head_id, head_hash
    else:
        parent_hash = _require_own_entry(tx.connection, session_id, parent_id)
    row = prepared.seal_row(session_id, sequence, (parent_id, parent_hash))
    entry_id, entry_hash = row[ID_AT], row[ENTRY_HASH_AT]
    store.insert_entry(tx, row, prepared.payload_outline)
    if has_cursors:
        store.advance_cursors(tx, session_id, parent_id, entry_id)
    if parent_id == head_id:
        head_id, head_hash = entry_id, entry_hash
    store.set_head(tx, session_id, store.Head(head_id, sequence + 1, head_hash, has_cursors), moment)
    return Appended(row, head_id, is_new=True)


def move_head(
    tx: Transaction, session_id: str, entry_id: str, moment: str, *, expected_head: str | None = None
) -> HeadMove:
    """Make an entry of the session its head. Cursors stay, and so does every file.

    Raises
    ------
    SessionNotFound, EntryNotFound
        If the session or the entry does not exist.
    EntryShared
        If the entry lies in the session that this one was forked from.
    HeadMoved
        If the head is not the expected one.
    """
    head = _require_session_head(tx.connection, session_id)
    _require_head(session_id, head.entry_id, expected_head)
    hashed = _require_own_entry(tx.connection, session_id, entry_id)
    if entry_id != head.entry_id:
        store.set_head(tx, session_id, head._replace(entry_id=entry_id, entry_hash=hashed), moment)
    return HeadMove(session_id, head.entry_id, entry_id)


def back(
    tx: Transaction, session_id: str, moment: str, *, steps: int = 1, expected_head: str | None = None
) -> HeadMove:
    """Move the head up by so many entries. The first one's parent is the synthetic root: the next append starts over.

    Raises
    ------
    SessionNotFound
        If the session does not exist.
    NothingBefore
        If fewer entries lie before the head.
    HeadMoved
        If the head is not the expected one.
    """
    if steps < 1:
        raise ValueError("going back takes at least one step")
    head_id = _require_session_head(tx.connection, session_id).entry_id
    _require_head(session_id, head_id, expected_head)
    above = store.node_ancestry(tx.connection, session_id, head_id, steps + 1)
    if len(above) > steps:
        return move_head(tx, session_id, above[-1].id, moment)
    session = short_session(session_id)
    origin = fork_origin(tx.connection, session_id)
    hint = None
    if origin is not None:
        hint = (
            f"What lies before belongs to {short_session(origin.session_id)}; go on from there with bridge fork ENTRY."
        )
    elif len(above) > 1:
        hint = f"Go to its beginning: bridge goto {session} 0"
    where = "is at its beginning"
    if len(above) > 1:
        where = f"can go back by {len(above) - 1} at most, to its beginning, not by {steps}"
    raise NothingBefore(
        f"Session {session} {where}. Nothing was changed.",
        hint=hint,
        details={"session_id": session_id, "steps": steps, "possible": max(len(above) - 1, 0)},
    )


def set_label(tx: Transaction, session_id: str, entry_id: str, name: str, moment: str) -> str | None:
    """Name an entry of a session; return the entry that had the name before, if any.

    Raises
    ------
    InvalidLabel
        If the name is empty, too long, all digits, or holds anything but letters, digits, ``-`` and ``_``.
    EntryNotFound, EntryShared
        If the entry is not the session's own.
    """
    name = check_label(name)
    _require_own_entry(tx.connection, session_id, entry_id)
    previous = store.label_target(tx.connection, session_id, name)
    if previous != entry_id:
        store.put_label(tx, session_id, name, entry_id, moment)
    return previous


def remove_label(tx: Transaction, session_id: str, name: str) -> str | None:
    """Remove a label; return the entry it named, None if there was none."""
    name = unicodedata.normalize("NFC", name)
    previous = store.label_target(tx.connection, session_id, name)
    if previous is not None:
        store.delete_label(tx, session_id, name)
    return previous


def check_label(name: str) -> str:
    """Return a label as it is stored (NFC). Raises InvalidLabel as :func:`set_label`."""
    normal = unicodedata.normalize("NFC", name)
    if len(normal) > MAX_LABEL_NAME_CHARACTERS or not _LABEL_NAME.fullmatch(normal) or normal.isdigit():
        raise InvalidLabel(f"{name[:80]!r} cannot be a label. Nothing was changed.", details={"label": name[:200]})
    return normal


def open_cursor(tx: Transaction, session_id: str, owner: str, entry_id: str | None, moment: str) -> str:
    """Open a cursor at an entry, or at the head, and return its leaf.

    Raises
    ------
    CursorExists
        If that owner has one in the session.
    InvalidText
        If the owner's name cannot be kept.
    SessionNotFound, EntryNotFound, EntryShared
        If the session does not exist or the entry is not its own.
    """
    if not 1 <= len(owner) <= MAX_OWNER_CHARACTERS:
        raise ValueError(f"a cursor's owner has 1 to {MAX_OWNER_CHARACTERS} characters")
    require_storable(owner=owner)
    head_id = _require_session_head(tx.connection, session_id).entry_id
    leaf = head_id if entry_id is None else entry_id
    _require_own_entry(tx.connection, session_id, leaf)
    if store.cursor_leaf(tx.connection, session_id, owner) is not None:
        raise CursorExists(
            f"{owner} holds a cursor in session {short_session(session_id)} already. Nothing was changed.",
            details={"session_id": session_id, "owner": owner},
        )
    store.insert_cursor(tx, session_id, owner, leaf, moment)
    return leaf


def move_cursor(tx: Transaction, session_id: str, owner: str, entry_id: str) -> str:
    """Set a cursor to an entry of its session and return where it was. Raises as :func:`open_cursor` does."""
    previous = require_cursor(tx.connection, session_id, owner)
    _require_own_entry(tx.connection, session_id, entry_id)
    store.move_cursor(tx, session_id, owner, entry_id)
    return previous


def close_cursor(tx: Transaction, session_id: str, owner: str) -> str:
    """Close a cursor and return its last leaf.

    Raises
    ------
    CursorNotFound
        If that owner has none in the session.
    """
    leaf = require_cursor(tx.connection, session_id, owner)
    store.delete_cursor(tx, session_id, owner)
    return leaf


def require_cursor(connection: Connection, session_id: str, owner: str) -> str:
    """Return the leaf of a cursor. Raises CursorNotFound if it is not open."""
    leaf = store.cursor_leaf(connection, session_id, owner)
    if leaf is None:
        raise CursorNotFound(
            f"{owner} holds no cursor in session {short_session(session_id)}. Nothing was written.",
            details={"session_id": session_id, "owner": owner},
        )
    return leaf


def require_session(connection: Connection, session_id: str) -> Session:
    """Return a session by its full id. Raises SessionNotFound, and SessionQuarantined if it is damaged."""
    require_sound(connection, session_id)
    session = store.get_session(connection, session_id)
    if session is None:
        raise _no_session(session_id)
    return session


def _check_new_session(tx: Transaction, new: NewSession) -> None:
    if (new.parent_session_id is None) != (new.parent_relation is None):
        raise InvalidSession("A parent session and the relation to it belong together. Nothing was written.")
    require_storable(
        label=new.label,
        harness=new.harness,
        status=new.status,
        agent_id=new.agent_id,
        workspace_id=new.workspace_id,
    )
    if new.label is not None and not 1 <= len(new.label) <= MAX_LABEL_CHARACTERS:
        raise InvalidSession(
            f"A session's label has 1 to {MAX_LABEL_CHARACTERS} characters. Nothing was written.",
            details={"characters": len(new.label)},
        )
    if new.parent_session_id is not None and not store.session_exists(tx.connection, new.parent_session_id):
        raise _no_session(new.parent_session_id)


def _no_session(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {session_id[:80]}. Nothing was written.", details={"session_id": session_id[:200]}
    )


def _require_session_head(connection: Connection, session_id: str) -> store.Head:
    require_sound(connection, session_id)
    head = store.get_head(connection, session_id)
    if head is None:
        raise _no_session(session_id)
    return head


def _require_head(session_id: str, head_id: str, expected: str | None) -> None:
    if expected is None or expected == head_id:
        return
    session = short_session(session_id)
    raise HeadMoved(
        f"The conversation moved on: you expected {expected[:80]}, it is at {head_id}. Nothing was written.",
        hint=f"Look with bridge log {session}, then repeat with --expect-head {head_id}",
        details={"session_id": session_id, "expected": expected[:200], "actual": head_id},
    )


def _require_own_entry(connection: Connection, session_id: str, entry_id: str) -> str:
    """Return the hash of an entry of the session itself."""
    require_sound(connection, session_id)
    hashed = store.entry_hash_of(connection, session_id, entry_id)
    if hashed is not None:
        return hashed
    details = {"session_id": session_id, "entry_id": entry_id[:200]}
    if store.session_exists(connection, session_id) and lies_on_shared_path(connection, session_id, entry_id):
        raise EntryShared(
            f"{short_entry(entry_id)} belongs to the session that {short_session(session_id)} was forked from, which a "
            "head never goes back into. Nothing was changed.",
            hint=f"Go on from there in a session of its own: bridge fork {short_entry(entry_id)}",
            details=details,
        )
    raise EntryNotFound(
        f"Session {short_session(session_id)} has no entry {entry_id[:80]}. Nothing was written.", details=details
    )


def _known_external(connection: Connection, session_id: str, prepared: PreparedEntry) -> ListedEntry | None:
    source, external_id = prepared.external_source, prepared.external_id
    if source is None or external_id is None:
        return None
    known = store.find_external(connection, session_id, source, external_id)
    if known is None:
        return None
    if known.kind == prepared.kind and known.payload_hash == prepared.payload_hash:
        return known
    raise ExternalIdConflict(
        f"{external_id[:80]!r} is recorded as {short_entry(known.id)} already, with other content. "
        "Nothing was written.",
        details={"entry_id": known.id, "external_id": external_id[:200], "external_source": source[:200]},
    )
