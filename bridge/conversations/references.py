"""What people type instead of full ids: tails, sequences, labels, ``@``.

A session: its id, a tail of it after a hyphen (``9f3a``), its label, or ``@`` for the one of the context, else
for the chat touched last. An entry: its id; ``9f3a.31``, ``9f3a.start`` (a label), ``9f3a.@`` (the head); in the
session of the context also bare ``31``, ``start`` and ``@``. A label that is unique in the store needs no session.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from bridge.conversations import store
from bridge.conversations.errors import AmbiguousReference, EntryNotFound, InvalidReference, SessionNotFound
from bridge.conversations.listing.store import labels_named
from bridge.conversations.models import Entry, ListedEntry, Node
from bridge.conversations.paths import origins_of, path_nodes
from bridge.conversations.soundness import require_sound
from bridge.conversations.suggestions import entry_hint, session_hint
from bridge.foundation.errors import InvalidId
from bridge.foundation.ids import split_entry_id
from bridge.foundation.texts import is_storable
from bridge.storage.transaction import Connection

#: Longest reference looked up, in characters.
MAX_REFERENCE_CHARACTERS: Final = 200
#: Matches that an ambiguity lists.
MAX_MATCHES: Final = 20
#: Stands for the current session, or its head.
CURRENT: Final = "@"
#: Kinds of sessions that ``@`` may mean without a context.
_CURRENT_KINDS: Final = ("chat",)
_SEQUENCE = re.compile(r"[0-9]{1,18}")


def resolve_session(
    connection: Connection,
    reference: str,
    *,
    context_session_id: str | None = None,
    workspace_ids: Sequence[str] | None = None,
) -> str:
    """Return the full id of the session that a reference names.

    Parameters
    ----------
    context_session_id
        What ``@`` means; without it, ``@`` is the chat touched last.
    workspace_ids
        Where ``@`` looks for that chat; None looks everywhere.

    Raises
    ------
    SessionNotFound
        If there is none.
    AmbiguousReference
        If there are several; ``details["matches"]`` lists them.
    InvalidReference
        If the text is empty or too long.
    """
    reference = _checked(reference)
    if reference == CURRENT:
        return _current_session(connection, context_session_id, workspace_ids)
    text = unicodedata.normalize("NFC", reference)
    matches = store.sessions_by_tail(connection, text, MAX_MATCHES + 1)
    if not matches:
        matches = store.sessions_by_label(connection, text, MAX_MATCHES + 1)
    if not matches:
        hint = session_hint(connection, text)
        raise SessionNotFound(f"There is no session {reference!r}.", hint=hint, details={"reference": reference})
    return _only(reference, matches, "sessions")


def resolve_entry_id(
    connection: Connection,
    reference: str,
    *,
    context_session_id: str | None = None,
    workspace_ids: Sequence[str] | None = None,
) -> str:
    """Return the full id of the entry that a reference names; the entry exists.

    Parameters
    ----------
    context_session_id
        The session in which bare sequences and labels are meant, and whose head ``@`` is.
    workspace_ids
        Where ``@`` looks for the current chat without a context.

    Raises
    ------
    EntryNotFound, SessionNotFound
        If there is none.
    AmbiguousReference
        If there are several; ``details["matches"]`` lists them.
    InvalidReference
        If the text has no form of a reference, or a bare sequence has no context.
    """
    reference = _checked(reference)
    if reference == CURRENT:
        return _head(connection, _current_session(connection, context_session_id, workspace_ids))
    full = _full_entry_id(connection, reference)
    if full is not None:
        return full
    if "." in reference:
        session, _, rest = reference.rpartition(".")
        session_id = resolve_session(
            connection, session, context_session_id=context_session_id, workspace_ids=workspace_ids
        )
        return _in_session(connection, session_id, rest, reference)
    if context_session_id is not None:
        return _in_session(connection, context_session_id, reference, reference)
    if _SEQUENCE.fullmatch(reference):
        raise InvalidReference(
            f"{reference} is the number of an entry, but of which session is not said.",
            hint=f"Write it with its session: 9f3a.{reference}",
            details={"reference": reference},
        )
    return _by_label_anywhere(connection, reference)


def resolve_entry(
    connection: Connection,
    reference: str,
    *,
    context_session_id: str | None = None,
    workspace_ids: Sequence[str] | None = None,
) -> Entry:
    """Return the entry that a reference names. Raises as :func:`resolve_entry_id`."""
    full = resolve_entry_id(connection, reference, context_session_id=context_session_id, workspace_ids=workspace_ids)
    return require_entry(connection, full)


def require_entry(connection: Connection, full_id: str) -> Entry:
    """Return an entry by its full id.

    Raises
    ------
    EntryNotFound
        If there is none.
    InvalidId
        If the text is not a full entry id.
    """
    session_id, _ = split_entry_id(full_id)
    entry = store.get_entry(connection, session_id, full_id)
    if entry is None:
        raise EntryNotFound(f"There is no entry {full_id}.", details={"entry_id": full_id})
    return entry


def require_listed(connection: Connection, full_id: str) -> ListedEntry:
    """Return what a list shows of an entry, by its full id. Raises as :func:`require_entry`."""
    session_id, _ = split_entry_id(full_id)
    entry = store.get_listed(connection, session_id, full_id)
    if entry is None:
        raise EntryNotFound(f"There is no entry {full_id}.", details={"entry_id": full_id})
    return entry


def _checked(reference: str) -> str:
    """Return a reference without the spaces around it. Raises InvalidReference if it is empty or too long."""
    text = reference.strip()
    if not text or len(reference) > MAX_REFERENCE_CHARACTERS:
        raise InvalidReference(
            f"A reference has 1 to {MAX_REFERENCE_CHARACTERS} characters.", details={"characters": len(reference)}
        )
    if not is_storable(text):
        raise InvalidReference(f"{reference[:80]!r} has a NUL character or is not valid Unicode: nothing is called so.")
    return text


def _current_session(
    connection: Connection, context_session_id: str | None, workspace_ids: Sequence[str] | None
) -> str:
    if context_session_id is not None:
        return context_session_id
    latest = store.list_sessions(connection, workspace_ids=workspace_ids, kinds=_CURRENT_KINDS, limit=1)
    if not latest:
        raise SessionNotFound("There is no session yet.", hint="Start one: bridge session new")
    return latest[0].id


def _head(connection: Connection, session_id: str) -> str:
    require_sound(connection, session_id)
    head = store.get_head(connection, session_id)
    if head is None:
        raise SessionNotFound(f"There is no session {session_id!r}.", details={"reference": session_id})
    return head[0]


def _full_entry_id(connection: Connection, reference: str) -> str | None:
    try:
        session_id, _ = split_entry_id(reference)
    except InvalidId:
        return None
    return reference if store.entry_hash_of(connection, session_id, reference) is not None else None


def _in_session(connection: Connection, session_id: str, text: str, reference: str) -> str:
    found: str | None
    if text == CURRENT:
        return _head(connection, session_id)
    if _SEQUENCE.fullmatch(text):
        found = store.entry_id_at(connection, session_id, int(text))
    else:
        found = _labelled(connection, session_id, unicodedata.normalize("NFC", text))
    if found is None:
        raise EntryNotFound(
            f"There is no entry {reference!r}.",
            hint=entry_hint(connection, reference, session_id),
            details={"reference": reference, "session_id": session_id},
        )
    return found


def _labelled(connection: Connection, session_id: str, name: str) -> str | None:
    """Return the entry with a label: the session's own, else of a fork one that it shares."""
    found = store.label_target(connection, session_id, name)
    if found is not None or not labels_named(connection, name, 1):
        return found
    path: list[Node] | None = None
    for origin in origins_of(connection, session_id):
        target = store.label_target(connection, origin.session_id, name)
        if target is not None:
            path = path_nodes(connection, origin.entry_id) if path is None else path
            if any(node.id == target for node in path):
                return target
    return None


def _by_label_anywhere(connection: Connection, reference: str) -> str:
    labels = labels_named(connection, unicodedata.normalize("NFC", reference), MAX_MATCHES + 1)
    if not labels:
        raise EntryNotFound(
            f"There is no entry {reference!r}.",
            hint=entry_hint(connection, reference, None),
            details={"reference": reference},
        )
    return _only(reference, [label.entry_id for label in labels], "entries")


def _only(reference: str, matches: Iterable[str], what: str) -> str:
    found = list(matches)
    if len(found) == 1:
        return found[0]
    listed = found[:MAX_MATCHES]
    more = " and more" if len(found) > MAX_MATCHES else ""
    raise AmbiguousReference(
        f"{reference!r} fits several {what}: {', '.join(listed)}{more}.",
        details={"reference": reference, "matches": listed, "more": len(found) > MAX_MATCHES},
    )
