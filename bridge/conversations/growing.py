"""Many entries of one session at once, in the order in which another program recorded them.

The rules are those of ``forest.append``, but the parent of each entry is known with its hash, and the head is set once
at the end, where the caller says: what is taken in is no next word of whoever talks here, so cursors stay as well.
"""

from __future__ import annotations

from hashlib import sha256

from bridge.conversations import store
from bridge.conversations.errors import SessionNotFound
from bridge.conversations.models import ENTRY_FIELDS, ENTRY_HASH_AT, ID_AT, PreparedEntry
from bridge.conversations.soundness import refuse_quarantined, require_sound
from bridge.foundation.hashing import taken_in_line
from bridge.foundation.ids import entry_id
from bridge.storage.transaction import Transaction

#: Where in a row the values stand that enter the digest beside the hash.
_DIGESTED_AT = tuple(
    ENTRY_FIELDS.index(name) for name in ("id", "observed_at", "unknown_path", "unknown_detail", "external_source")
)

#: An entry's id and hash.
Placed = tuple[str, str]


class Grower:
    """Adds entries to a session in one open transaction.

    Raises
    ------
    SessionNotFound, SessionQuarantined
        If there is no such session, or it was found damaged.
    """

    def __init__(self, tx: Transaction, session_id: str) -> None:
        head = store.head_to_change(tx, session_id)
        if head is None:
            require_sound(tx.connection, session_id)
            raise SessionNotFound(
                f"There is no session {session_id[:80]}. Nothing was written.", details={"session_id": session_id[:200]}
            )
        self.head_id, self._sequence, self._head_hash, self._has_cursors, quarantine = head
        if quarantine is not None:
            refuse_quarantined(session_id, quarantine)
        self.session_id = session_id
        self._tx = tx
        self._digest = sha256()
        #: Sequence of the first entry that is added, and how many were.
        self.first_sequence = self._sequence
        self.added = 0

    @property
    def last_sequence(self) -> int:
        return self._sequence - 1

    @property
    def digest(self) -> str:
        """SHA-256 over the entries that were added, in their order (see ``hashing.taken_in_line``)."""
        return self._digest.hexdigest()

    def root(self) -> Placed:
        """Return the session's synthetic root."""
        root = entry_id(self.session_id, 0)
        hashed = store.entry_hash_of(self._tx.connection, self.session_id, root)
        if hashed is None:
            raise SessionNotFound(f"Session {self.session_id} has no root. Nothing was written.")
        return root, hashed

    def add(self, prepared: PreparedEntry, parent: Placed) -> Placed:
        """Add an entry below one of the same session; return its id and hash."""
        row = prepared.seal_row(self.session_id, self._sequence, parent)
        store.insert_entry(self._tx, row, prepared.payload_outline)
        self._sequence += 1
        self.added += 1
        self._digest.update(taken_in_line(row[ENTRY_HASH_AT], [row[at] for at in _DIGESTED_AT]))
        return row[ID_AT], row[ENTRY_HASH_AT]

    def finish(self, head: Placed | None, moment: str) -> str:
        """Store where the session stands; None leaves the head where it is. Return the head's id.

        Parameters
        ----------
        moment
            When the session was last used, as text.
        """
        self.head_id, self._head_hash = head if head is not None else (self.head_id, self._head_hash)
        now = store.Head(self.head_id, self._sequence, self._head_hash, self._has_cursors)
        store.set_head(self._tx, self.session_id, now, moment)
        return self.head_id
