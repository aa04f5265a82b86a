"""Use case: finding a chat. The one place that searches across chats; it gives chats, never what was said in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bridge.control.controller import Controller
from bridge.control.search.indexing import SEARCH_PATIENCE_SECONDS, catch_up
from bridge.control.standpoint import Standpoint, current_session, places_at
from bridge.conversations.errors import PathBroken, SessionQuarantined
from bridge.conversations.models import Session
from bridge.conversations.paths import lies_on_active_path
from bridge.conversations.store import get_session
from bridge.foundation.clock import format_timestamp
from bridge.foundation.ids import entry_id
from bridge.recall import index, store
from bridge.recall.digests import Digest
from bridge.recall.errors import UnknownTimeZone
from bridge.recall.finding import Bounds, Found, find, totals_of, understand
from bridge.recall.ranking import Ranked, prefer_active
from bridge.storage.transaction import Connection

#: Chats on one page, unless another number is asked for, and at most.
DEFAULT_LIMIT: Final = 4
MAX_LIMIT: Final = 50
#: Characters of a chat's title.
MAX_TITLE_CHARACTERS: Final = 80
#: Chats that are named as unreadable, at most.
MAX_UNREADABLE: Final = 20
#: First chats of which it is seen whether their best match lies on the active branch.
MAX_LOOKED_INTO: Final = 8


@dataclass(frozen=True, slots=True)
class FoundChat:
    """A chat that was found.

    Parameters
    ----------
    title
        Its label, or without one the beginning of its first message.
    matches
        Its entries that hold any of the words, as far as they were counted.
    has_all
        Whether every word occurs in it.
    is_active
        Whether its best match lies on the active branch; None: it matches as a whole, or that was not looked into.
    """

    session: Session
    title: str
    score: float
    matches: int
    has_all: bool
    best_entry_id: str | None
    is_active: bool | None

    def to_json(self) -> dict[str, Any]:
        session = self.session
        return {
            "session_id": session.id,
            "title": self.title,
            "label": session.label,
            "kind": session.kind,
            "status": session.status,
            "harness": session.harness,
            "workspace_id": session.workspace_id,
            "created_at": session.created_at,
            "updated_at": session.updated_at,
            "matches": self.matches,
            "has_all": self.has_all,
            "entry_id": self.best_entry_id,
            "active": self.is_active,
            "score": round(self.score, 6),
        }


@dataclass(frozen=True, slots=True)
class FoundChats:
    """The answer to a question.

    Parameters
    ----------
    is_confident
        Whether the first chat is the one that is meant.
    is_relaxed
        Whether the chats hold only some of the words.
    is_complete
        Whether everything recorded was looked through.
    missing_entries
        Entries that are not indexed yet.
    unreadable
        Chats that could not be looked through, and why.
    nowhere
        Whether the place where it was asked has no workspace, so that there was nothing to search.
    """

    found: Found
    chats: tuple[FoundChat, ...]
    has_more: bool
    is_complete: bool
    missing_entries: int
    unreadable: tuple[tuple[str, str], ...]
    is_nowhere: bool

    def to_json(self) -> dict[str, Any]:
        question = self.found.question
        window = question.window
        return {
            "chats": [chat.to_json() for chat in self.chats],
            "hasMore": self.has_more,
            "confident": self.found.is_confident,
            "relaxed": self.found.is_relaxed,
            "complete": self.is_complete,
            "missing_entries": self.missing_entries,
            "unreadable": [{"session_id": session_id, "reason": reason} for session_id, reason in self.unreadable],
            "nowhere": self.is_nowhere,
            "question": {
                "words": [
                    {
                        "text": word.text,
                        "looked_up": [" ".join(phrase) for phrase in word.alternatives],
                        "documents": word.documents,
                        "known": word.is_known,
                    }
                    for word in question.words
                ],
                "unseen": list(question.unseen),
                "ignored": list(question.ignored),
                "after": None if window is None or window.start is None else format_timestamp(window.start),
                "before": None if window is None or window.end is None else format_timestamp(window.end),
                "time": None if window is None else window.phrase,
                "harness": question.harness,
                "empty": question.is_empty,
            },
        }


def zone_named(name: str) -> ZoneInfo:
    """Return a time zone by its name in the IANA database.

    Raises
    ------
    UnknownTimeZone
        If this machine knows none of that name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownTimeZone(
            f"There is no time zone {name[:100]!r} here. Nothing was searched.", details={"time_zone": name[:100]}
        ) from error


def find_chats(
    controller: Controller,
    standpoint: Standpoint,
    text: str,
    *,
    all_workspaces: bool = False,
    include_workers: bool = False,
    limit: int = DEFAULT_LIMIT,
    offset: int = 0,
    zone: tzinfo | None = None,
    is_typing: bool = False,
) -> FoundChats:
    """Return the chats that a text asks for, the best first; no text is an error.

    Everything recorded is indexed first, for a while; what is missing after that is said.

    Parameters
    ----------
    all_workspaces
        Whether to look beyond the workspace of the standpoint. Without one there, only the chat that the standpoint
        names is looked through: chats without a workspace share nothing.
    zone
        The asker's time zone; None: the machine's.
    is_typing
        Whether the last word may be unfinished.
    """
    limit, offset = max(1, min(limit, MAX_LIMIT)), max(0, offset)
    kinds = ("chat", "worker") if include_workers else ("chat",)
    answer = partial(
        _answer,
        standpoint=standpoint,
        text=text,
        now=controller.clock.now(),
        zone=zone,
        kinds=kinds,
        all_workspaces=all_workspaces,
        page=(offset, limit),
        is_typing=is_typing,
    )
    with controller.store.read() as connection:
        if index.is_current(connection):
            return answer(connection, is_complete=True)
    is_complete = catch_up(controller, patience_seconds=SEARCH_PATIENCE_SECONDS)
    with controller.store.read() as connection:
        return answer(connection, is_complete=is_complete)


def _answer(
    connection: Connection,
    *,
    standpoint: Standpoint,
    text: str,
    now: datetime,
    zone: tzinfo | None,
    kinds: tuple[str, ...],
    all_workspaces: bool,
    page: tuple[int, int],
    is_typing: bool,
    is_complete: bool,
) -> FoundChats:
    """Return the answer out of what is indexed; ``page`` is the first chat that is wanted, and how many."""
    bounds = _bounds(connection, standpoint, kinds, all_workspaces=all_workspaces)
    totals = totals_of(connection)
    harnesses = partial(store.harness_names, connection)
    question = understand(connection, text, now=now, zone=zone, harnesses=harnesses, totals=totals, is_typing=is_typing)
    if bounds is None:
        found = Found(question, (), is_relaxed=False, is_confident=False)
    else:
        found = find(connection, question, bounds, now=now, totals=totals)
    shown, has_more, unreadable = _chats(connection, found.ranked, *page)
    unreadable += _unreadable(connection, bounds, [session_id for session_id, _ in unreadable])
    missing = 0 if is_complete else index.backlog(connection).entries
    return FoundChats(found, shown, has_more, is_complete, missing, tuple(unreadable[:MAX_UNREADABLE]), bounds is None)


def _bounds(
    connection: Connection, standpoint: Standpoint, kinds: tuple[str, ...], *, all_workspaces: bool
) -> Bounds | None:
    if all_workspaces:
        return Bounds(kinds=kinds)
    current = None if standpoint.session is None else current_session(connection, standpoint)
    if current is not None:
        session = get_session(connection, current)
        if session is not None and session.workspace_id is not None:
            return Bounds(session.workspace_id, kinds=kinds)
        mark = store.mark_of(connection, current)
        return None if mark is None else Bounds(session_chat=mark.chat)
    places = places_at(connection, standpoint.directory)
    if not places or places[0] is None:
        return None
    return Bounds(places[0], kinds=kinds)


def _chats(
    connection: Connection, ranked: Sequence[Ranked], offset: int, limit: int
) -> tuple[tuple[FoundChat, ...], bool, list[tuple[str, str]]]:
    """Return a page of readable chats, whether there are more, and those on the way that cannot be read."""
    shown: list[FoundChat] = []
    unreadable: list[tuple[str, str]] = []
    passed, size = 0, max(MAX_LOOKED_INTO, limit + 1)
    for start in range(0, len(ranked), size):
        page = ranked[start : start + size]
        known = store.indexed_chats(connection, [one.chat for one in page])
        places = {one.chat: _best_entry(connection, one, known[one.chat]) for one in page if one.chat in known}
        if start == 0:
            first = {one.chat: places.get(one.chat, (None, None))[1] is True for one in page[:MAX_LOOKED_INTO]}
            page = prefer_active(page, first)
        for one in page:
            chat = known.get(one.chat)
            if chat is None:
                continue
            if chat.is_quarantined:
                unreadable.append((chat.session_id, "session_quarantined"))
            elif chat.unreadable_entry_id is not None:
                unreadable.append((chat.session_id, store.unreadable_reason(chat.unreadable_version)))
            elif passed < offset:
                passed += 1
            elif len(shown) == limit:
                return tuple(shown), True, unreadable
            else:
                shown.append(_chat(one, chat, *places[one.chat]))
    return tuple(shown), False, unreadable


def _chat(one: Ranked, chat: store.IndexedChat, best: str | None, is_active: bool | None) -> FoundChat:  # noqa: FBT001 - the two come together
    session, digest = Session(*chat.session), Digest.from_text(chat.digest)
    title = session.label or digest.first or digest.summary
    title = title if len(title) <= MAX_TITLE_CHARACTERS else title[: MAX_TITLE_CHARACTERS - 1] + "…"
    return FoundChat(session, title, one.score, one.matches, one.has_all, best, is_active)


def _best_entry(connection: Connection, one: Ranked, chat: store.IndexedChat) -> tuple[str | None, bool | None]:
    """Return the entry that speaks for a chat, and whether it lies on the active branch."""
    if one.best_sequence is None:
        return None, None
    session = Session(*chat.session)
    best = entry_id(session.id, one.best_sequence)
    if not chat.branches and session.active_entry_id == entry_id(session.id, chat.indexed_through):
        return best, True
    try:
        return best, lies_on_active_path(connection, session.id, best)
    except (PathBroken, SessionQuarantined):
        return best, None


def _unreadable(connection: Connection, bounds: Bounds | None, named: Sequence[str]) -> list[tuple[str, str]]:
    """Return the chats within the bounds that cannot be read, but for those named already."""
    if bounds is None or bounds.session_chat is not None:
        return []
    found = store.unreadable_chats(connection, bounds.kinds, bounds.workspace_id, MAX_UNREADABLE)
    return [(session_id, reason) for session_id, reason in found if session_id not in named]
