"""What somebody may have meant whose reference names nothing. Only asked once a reference has failed.

Nothing here changes what a reference means: a guess is offered, never taken.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from bridge.conversations import store
from bridge.conversations.listing.store import label_names
from bridge.foundation.ids import short_entry, short_session
from bridge.storage.transaction import Connection

#: Sessions and labels that are looked at for one that was meant, the newest ones.
MAX_LOOKED_AT: Final = 500
_CURRENT: Final = "@"
#: Other ways to join a session to a number: 9f3a/31, 9f3a:31, 9f3a#31, 9f3a-31, 9f3a 31, 9f3a@31.
_OTHER_JOINT = re.compile(r"([\w-]*?[0-9A-Za-z])[/:#\-\s@,]+#?([0-9]{1,18})")
_NUMBER_SIGN = re.compile(r"[#.]([0-9]{1,18})")
#: What git and shells know: HEAD, @~2, @^, @{1}, 31~2, -1.
_RELATIVE = re.compile(r"(?:HEAD|head|@|.*[0-9A-Za-z])?(?:[~^]+[0-9]*)+|@\{.*\}|-[0-9]+|@-[0-9]+")


def session_hint(connection: Connection, reference: str) -> str | None:
    """Return a hint for a reference that names no session; None if nothing near it is known."""
    text = reference.strip()
    if "." in text:
        session = text.partition(".")[0]
        if session and store.sessions_by_tail(connection, session, 2):
            return f"{text} is an entry; its session is {session}."
    found = _near_sessions(connection, text)
    if found:
        return f"Did you mean {_alternatives(found)}? All are listed by: bridge session list --all"
    return None


def entry_hint(connection: Connection, reference: str, session_id: str | None) -> str | None:
    """Return a hint for a reference that names no entry; None if nothing near it is known.

    Parameters
    ----------
    session_id
        The session it was looked for in, if that was clear.
    """
    text = reference.strip()
    if _RELATIVE.fullmatch(text) or text.upper() == "HEAD":
        return "There are no relative references: @ is the head, and bridge back --steps N goes up from it."
    sign = _NUMBER_SIGN.fullmatch(text)
    if sign is not None:
        return f"An entry's number is written {int(sign[1])}, or with its session 9f3a.{int(sign[1])}"
    joint = _OTHER_JOINT.fullmatch(text)
    if joint is not None:
        known = store.sessions_by_tail(connection, joint[1].lower(), 2) or store.sessions_by_tail(
            connection, joint[1], 2
        )
        if known:
            return f"Write it with a dot: {short_session(known[0])}.{int(joint[2])}"
    if "." not in text and store.sessions_by_tail(connection, text, 1):
        return f"{text} is a session; its head is {text}.{_CURRENT}, its first entry {text}.1"
    session, _, rest = text.rpartition(".")
    if session_id is not None and rest.isdigit():
        return _numbers(connection, session_id)
    if session_id is not None and rest == "":
        return f"Put a number, a label or {_CURRENT} behind the dot: {text}{_CURRENT} is the head of {session}."
    return _label_hint(connection, rest, session_id)


def _numbers(connection: Connection, session_id: str) -> str | None:
    head = store.get_head(connection, session_id)
    if head is None:
        return None
    last, short = head.next_sequence - 1, short_session(session_id)
    if last < 1:
        return f"Session {short} has no entries yet."
    return f"Session {short} has the entries 1 to {last}; the head is {short_entry(head.entry_id)}."


def _label_hint(connection: Connection, text: str, session_id: str | None) -> str | None:
    names = (
        [label.name for label in store.list_labels(connection, session_id)]
        if session_id is not None
        else label_names(connection, MAX_LOOKED_AT)
    )
    by_folded = {name.casefold(): name for name in names}
    near = get_close_matches(text.casefold(), by_folded, n=3, cutoff=0.6)
    return f"Did you mean {_alternatives([by_folded[name] for name in near])}?" if near else None


def _near_sessions(connection: Connection, text: str) -> list[str]:
    """Return tails and labels of sessions that a text may stand for: other case, a piece of the id, a slip."""
    folded = text.casefold().strip("/#:. ")
    if not folded:
        return []
    recent = store.list_sessions(connection, limit=MAX_LOOKED_AT)
    by_name = {short_session(session.id): session.id for session in reversed(recent)}
    by_label = {session.label.casefold(): session.label for session in reversed(recent) if session.label}
    pieces = [tail for tail, full in by_name.items() if len(folded) >= 2 and (folded in full.casefold())]
    labels = [label for key, label in by_label.items() if len(folded) >= 2 and folded in key]
    if pieces or labels:
        return [*pieces[-3:], *labels[-3:]][:3]
    near = get_close_matches(folded, [*by_name, *by_label], n=3, cutoff=0.7)
    return [by_label.get(name, name) for name in near]


def _alternatives(names: list[str]) -> str:
    quoted = [name if name.isalnum() else repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
