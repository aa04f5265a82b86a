"""Looking chats up over the index: which entries and which digests hold the words, and in which order their chats come.

Nothing here ranks in the database: it gives the newest documents that hold a word, within the window and the scope
asked for, and everything else is worked out of that in the same way on every database.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Final

from bridge.recall import store
from bridge.recall.asking import Question, Word, ask
from bridge.recall.index import SLOTS, scope_of, scope_of_session
from bridge.recall.ranking import Evidence, Ranked, is_confident, is_thin, rank
from bridge.storage import fulltext
from bridge.storage.transaction import Connection

#: Newest matches that are looked at, of all words together and for as many words as are looked up one by one; of
#: each of these at least as many as the second number says.
WINDOW: Final = 1_000
MIN_WINDOW: Final = 200
#: About how many matches of the rarest word are looked through for entries that hold all words, the newest ones; where
#: they are not spread evenly, more. Beyond them, words that are as common as that say little together; looking through
#: all costs 50 ms and more in a million.
JOINT_WINDOW: Final = 20_000
#: Newest entries that are looked at where only a time is asked for.
TIME_WINDOW: Final = 2_000

#: From this part of all documents on, a scope is seen in each match instead of looked up beside the words.
BROAD_SHARE: Final = 0.25

_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where to look.

    Parameters
    ----------
    workspace_id
        Only chats of this workspace; None: of all and of none.
    session_chat
        Only this one, by its number in the index.
    kinds
        Kinds of sessions.
    """

    workspace_id: str | None = None
    session_chat: int | None = None
    kinds: tuple[str, ...] = ("chat",)

    def scopes(self, harness: str | None) -> list[str]:
        """Return the scopes in the index that make it up."""
        if self.session_chat is not None:
            return [scope_of_session(self.session_chat)]
        return [scope_of(kind, workspace_id=self.workspace_id, harness=harness) for kind in self.kinds]


@dataclass(frozen=True, slots=True)
class Found:
    """Chats in order, and whether the first is meant; ``is_relaxed`` where they hold only some of the words."""

    question: Question
    ranked: tuple[Ranked, ...]
    is_relaxed: bool
    is_confident: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """How many documents the index of entries holds, and how many terms they have in all."""

    documents: int
    terms: int

    @property
    def average_length(self) -> float:
        """Terms of a document, 0 if there is none."""
        return self.terms / max(self.documents, 1)


def totals_of(connection: Connection) -> Totals:
    """Return how much the index holds."""
    state = store.state(connection)
    return Totals(state.get("documents", 0), state.get("terms", 0))


def understand(
    connection: Connection,
    text: str,
    *,
    now: datetime,
    zone: tzinfo | None,
    harnesses: Callable[[], Iterable[str]],
    totals: Totals,
    is_typing: bool = False,
) -> Question:
    """Return what a text asks for, given what the index knows."""
    return ask(
        text,
        now=now,
        zone=zone,
        harnesses=harnesses,
        frequencies=lambda terms: store.frequencies(connection, terms),
        beginnings=lambda prefix, limit: store.beginning_with(connection, prefix, limit),
        total=totals.documents,
        is_typing=is_typing,
    )


def find(connection: Connection, question: Question, bounds: Bounds, *, now: datetime, totals: Totals) -> Found:
    """Return the chats that a question asks for, the best first."""
    if not (question.words or question.related) and (question.unseen or not (question.window or question.harness)):
        return Found(question, (), is_relaxed=False, is_confident=False)
    evidence = _evidence(connection, question.words, question, bounds, totals)
    if question.related and is_thin(question, evidence):
        # Too few chats hold all words: what they may have meant counts as well, less than what was said.
        evidence = _evidence(connection, (*question.words, *question.related), question, bounds, totals)
    today = now.timestamp()

    def age_days(document: int | None) -> float:
        moment = 0 if document is None else document // SLOTS
        return max(0.0, today - moment / 1000) / 86_400

    ranked, is_relaxed = rank(question, evidence, average_length=totals.average_length, age_days=age_days)
    return Found(question, tuple(ranked), is_relaxed or bool(question.unseen), is_confident(question, ranked))


def time_of(document: int) -> datetime:
    """Return when an entry was recorded, by the number of its document, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=document // SLOTS)


def _evidence(
    connection: Connection, words: Sequence[Word], question: Question, bounds: Bounds, totals: Totals
) -> dict[int, Evidence]:
    scopes, span = bounds.scopes(question.harness), _span(question)
    if span is not None and span[0] > span[1]:
        return {}
    among, inside = store.scopes_within(connection, scopes) if bounds.session_chat is None else ([], 0)
    is_broad = bool(words) and inside >= max(BROAD_SHARE * totals.documents, 1)
    newest = partial(
        fulltext.newest_entries,
        connection,
        [] if is_broad else scopes,
        among=among if is_broad and inside < totals.documents else [],
        span=span or fulltext.EVERYTHING,
    )

    def frequency(*shares: float) -> fulltext.Frequency:
        return fulltext.Frequency(int(inside * math.prod(shares)), totals.documents)

    found: dict[int, Evidence] = {}
    if not words:
        _note_entries(found, newest((), limit=TIME_WINDOW, frequency=frequency()), 0)
        return found
    each = max(MIN_WINDOW, WINDOW // len(words))
    shares = [word.documents / max(totals.documents, 1) for word in words]
    matches = [
        newest((word.alternatives,), limit=each, frequency=frequency(share))
        for word, share in zip(words, shares, strict=True)
    ]
    for place, rows in enumerate(matches):
        _note_entries(found, rows, 1 << place)
    own = question.words
    if len(own) > 1:
        # Beyond the newest matches of each word there may be older entries that hold all of them.
        joint = _joint_span(connection, span or fulltext.EVERYTHING, own, matches)
        every = [word.alternatives for word in own]
        rows = newest(every, limit=each, span=joint, frequency=frequency(*shares[: len(own)]))
        _note_entries(found, rows, (1 << len(own)) - 1)
    _note_digests(connection, found, scopes, words, span)
    return found


def _joint_span(
    connection: Connection,
    span: tuple[int, int],
    words: Sequence[Word],
    matches: Sequence[Sequence[tuple[int, ...]]],
) -> tuple[int, int]:
    """Return between which numbers entries that hold all words are looked for: see :data:`JOINT_WINDOW`."""
    rarest = min(range(len(words)), key=lambda place: words[place].documents)
    rows, documents = matches[rarest], words[rarest].documents
    if documents <= JOINT_WINDOW or not rows:
        return span
    newest, oldest = rows[0][0], rows[-1][0]
    first, last = store.document_bounds(connection)
    # As dense as among the newest, or as in the whole: a burst of late says little of what came before it.
    reach = max((newest - oldest + 1) * JOINT_WINDOW // len(rows), (last - first + 1) * JOINT_WINDOW // documents)
    return max(span[0], newest - reach), span[1]


def _note_digests(
    connection: Connection,
    found: dict[int, Evidence],
    scopes: Sequence[str],
    words: Sequence[Word],
    span: tuple[int, int] | None,
) -> None:
    looks = [set(fulltext.newest_digests(connection, scopes, (word.alternatives,), limit=MIN_WINDOW)) for word in words]
    if span is not None:
        # A chat is of a time if anything was said in it then, whatever of it says what the chat is about.
        others = set().union(*looks) - found.keys()
        there = found.keys() | store.chats_within(connection, sorted(others), span)
        looks = [chats & there for chats in looks]
    for place, chats in enumerate(looks):
        for chat in chats:
            one = found.get(chat)
            if one is None:
                one = found[chat] = Evidence(chat)
            one.digest |= 1 << place
            one.words |= 1 << place


def _note_entries(found: dict[int, Evidence], rows: Iterable[tuple[int, ...]], words: int) -> None:
    for document, chat, sequence, length in rows:
        one = found.get(chat)
        if one is None:
            one = found[chat] = Evidence(chat)
        one.words |= words
        if document in one.documents:
            one.entries[document] |= words
        else:
            one.entries[document] = words
            one.documents[document] = (sequence, length)


def _span(question: Question) -> tuple[int, int] | None:
    window = question.window
    if window is None:
        return None
    low = -(2**62) if window.start is None else int((window.start - _EPOCH) / timedelta(milliseconds=1)) * SLOTS
    high = 2**62 if window.end is None else int((window.end - _EPOCH) / timedelta(milliseconds=1)) * SLOTS - 1
    return low, high
