"""Whether sessions are whole: what a check of the forest finds, and how a damaged session is set aside.

Constraints and triggers keep all of this from happening through Bridge. A damaged file, or another program's hand, does
not ask them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from bridge.conversations.condition import store
from bridge.conversations.errors import SessionQuarantined
from bridge.foundation.hashing import digest_hex
from bridge.foundation.ids import short_session
from bridge.storage.longtexts import iterate_blobs
from bridge.storage.transaction import Connection

#: Flaws that are listed of one session; the rest is counted.
MAX_FLAWS: Final = 20


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing about a session that cannot be.

    ``code`` is ``session_missing``, ``root_missing``, ``orphan``, ``cross_session_parent``, ``parent_later``,
    ``cycle``, ``head_missing``, ``bad_head``, ``text_missing`` or ``text_altered``; ``subject`` the entry or session it
    is about.
    """

    code: str
    session_id: str
    subject: str
    message: str


def require_sound(connection: Connection, session_id: str) -> None:
    """Refuse a session that is set aside.

    Raises
    ------
    SessionQuarantined
        If it is; ``details["reason"]`` says what was found first.
    """
    refuse_quarantined(session_id, store.quarantine_of(connection, session_id))


def refuse_quarantined(session_id: str, reason: str | None) -> None:
    """Raise SessionQuarantined if there is a reason."""
    if reason is not None:
        raise SessionQuarantined(
            f"Session {short_session(session_id)} is damaged ({reason}) and set aside. Nothing was changed.",
            details={"session_id": session_id, "reason": reason},
        )


def check_sessions(connection: Connection) -> Iterator[Flaw]:
    """Yield what is wrong with the shape of any session, and with its long texts; other payloads are not looked at."""
    heads = {head.session_id: head for head in store.list_heads(connection)}
    known = set(store.session_ids(connection))
    with_entries = set()
    for session_id, shapes in groupby(store.iterate_shapes(connection), attrgetter("session_id")):
        with_entries.add(session_id)
        yield from _check_session(session_id, list(shapes), heads.get(session_id), has_row=session_id in known)
    for session_id in sorted(known - with_entries):
        yield Flaw("root_missing", session_id, session_id, "It has no entries at all.")
    for session_id in sorted(heads.keys() - with_entries - known):
        yield Flaw("session_missing", session_id, session_id, "There is a head of a session that is not.")
    yield from _check_long_texts(connection)


def _check_long_texts(connection: Connection) -> Iterator[Flaw]:
    for session_id, entry_id in store.entries_without_text(connection):
        yield Flaw("text_missing", session_id, entry_id, "Its text is long, and not where such texts are kept.")
    for blob in iterate_blobs(connection):
        encoded = blob.body.encode()
        if len(encoded) != blob.size or digest_hex(encoded) != blob.digest:
            for session_id, entry_id in store.entries_with_blob(connection, blob.digest):
                yield Flaw("text_altered", session_id, entry_id, "Its text, which is long, is not the one recorded.")


def _check_session(
    session_id: str, shapes: list[store.Shape], head: store.HeadRow | None, *, has_row: bool
) -> Iterator[Flaw]:
    if not has_row:
        yield Flaw("session_missing", session_id, session_id, "It has entries but no row of its own.")
    if shapes[0].sequence != 0:
        yield Flaw("root_missing", session_id, session_id, "It has no root.")
    by_id = {shape.id: shape for shape in shapes}
    for shape in shapes:
        flaw = _check_parent(shape, by_id)
        if flaw is not None:
            yield flaw
    if head is None:
        yield Flaw("head_missing", session_id, session_id, "It has no head.")
    elif head.active_entry_id not in by_id:
        yield Flaw("bad_head", session_id, head.active_entry_id, "The head names an entry that the session lacks.")
    elif head.next_sequence <= shapes[-1].sequence:
        message = f"The next sequence would be {head.next_sequence}, which was handed out before."
        yield Flaw("bad_head", session_id, session_id, message)


def _check_parent(shape: store.Shape, by_id: Mapping[str, store.Shape]) -> Flaw | None:
    parent_id = shape.parent_entry_id
    if parent_id is None:
        if shape.sequence == 0:
            return None
        return Flaw("orphan", shape.session_id, shape.id, "It has no parent and is not the root.")
    parent = by_id.get(parent_id)
    if parent is None:
        if not parent_id.startswith(f"{shape.session_id}-"):
            message = f"Its parent {parent_id} lies in another session."
            return Flaw("cross_session_parent", shape.session_id, shape.id, message)
        return Flaw("orphan", shape.session_id, shape.id, f"Its parent {parent_id} is not there.")
    if parent.sequence < shape.sequence:
        return None
    if _is_in_cycle(shape, by_id):
        return Flaw("cycle", shape.session_id, shape.id, "It is its own ancestor.")
    return Flaw("parent_later", shape.session_id, shape.id, f"Its parent {parent_id} is not earlier.")


def _is_in_cycle(shape: store.Shape, by_id: Mapping[str, store.Shape]) -> bool:
    """Return whether the way up from an entry leads to it again; every cycle has an entry whose parent is later."""
    seen = set()
    at: store.Shape | None = shape
    while at is not None and at.id not in seen:
        seen.add(at.id)
        at = by_id.get(at.parent_entry_id) if at.parent_entry_id is not None else None
    return at is not None and at.id == shape.id
