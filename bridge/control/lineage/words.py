"""What a session said last, as the spark that another one begins with."""

from __future__ import annotations

from typing import Final

from bridge.control.lineage.notes import last_note
from bridge.conversations.listing.store import newest_entries
from bridge.conversations.models import Session
from bridge.lineage.sparks import spark_of
from bridge.semantics.interpretation import interpret
from bridge.storage.transaction import Connection

#: Entries of a session, the last ones, in which its last word and unread results are looked for.
LOOKED_THROUGH: Final = 200
#: Kinds whose text is a last word, where a session has left no note.
_WORDS: Final = {"checkpoint": "summary", "assistant.message": "text", "user.message": "text"}


def last_word(connection: Connection, session: Session) -> str | None:
    """Return what a session said last, as a spark: its last note, else the last thing that was said."""
    note = last_note(connection, session.id)
    if note is not None:
        return spark_of(note.text)
    for entry in newest_entries(connection, session.id, before_sequence=None, after_sequence=0, limit=LOOKED_THROUGH):
        if entry.kind in _WORDS and entry.payload_text is not None:
            meaning = interpret(entry.semantic_schema_version, entry.kind, entry.payload_text, entry_id=entry.id)
            word = meaning.payload.get(_WORDS[entry.kind])
            if isinstance(word, str) and not meaning.opaque and word.strip():
                return spark_of(word)
    return None
