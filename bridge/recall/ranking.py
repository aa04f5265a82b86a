"""Putting chats in order, and saying whether the first one is meant. Pure: the same answers on every database.

Three lists are fused by reciprocal rank: chats by their best entry, by what a look at the whole chat says, and by how
many of the words occur anywhere in the chat. Small bonuses follow: several matches, all words, recency, active branch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from typing import Final, NamedTuple

from bridge.recall.asking import RELATED_SHARE, Question

#: The constant of reciprocal rank fusion: how little the first ranks differ.
RANK_CONSTANT: Final = 60
#: Weights of the three lists.
ENTRY_WEIGHT: Final = 1.0
DIGEST_WEIGHT: Final = 1.0
COVER_WEIGHT: Final = 1.0
#: Bonuses, in parts of what the first place of a list of weight one is worth.
SEVERAL_BONUS: Final = 0.25
ALL_WORDS_BONUS: Final = 2.0
RECENCY_BONUS: Final = 0.1
ACTIVE_BONUS: Final = 0.1
#: Days after which recency counts for a third.
RECENCY_DAYS: Final = 30.0
#: Fewer chats than this with all words: those with some of them count as well.
MIN_CHATS: Final = 4
#: How much long entries count less (the b of BM25), and its saturation.
LENGTH_WEIGHT: Final = 0.4
SATURATION: Final = 1.2
#: By how much the first must lead to be taken for what is meant.
CLEAR_LEAD: Final = 1.5
#: Matches of one word in a chat that are counted.
MAX_COUNTED: Final = 8

#: Chats that are put in order at most, the most promising ones; nobody reads further.
MAX_RANKED: Final = 200

#: Of a chat in a list: less what it says, less its newest document, the chat, the number of its score.
_Place = tuple[float, int, int, int]
_FIRST_PLACE: Final = 1 / (RANK_CONSTANT + 1)


@dataclass(slots=True)
class Evidence:
    """What speaks for a chat.

    Parameters
    ----------
    entries
        For each of its matching documents, which words it holds, as bits.
    documents
        For each of them the entry's sequence, and how long the document is.
    digest
        Which words a look at it holds.
    words
        Which words occur anywhere in it.
    """

    chat: int
    entries: dict[int, int] = field(default_factory=dict)
    documents: dict[int, tuple[int, int]] = field(default_factory=dict)
    digest: int = 0
    words: int = 0


class Ranked(NamedTuple):
    """A chat in its place.

    Parameters
    ----------
    matches
        Entries that hold any of the words, as far as they were counted.
    has_all
        Whether every word occurs in it.
    best_sequence
        The sequence of the entry that speaks for it most; None if only its digest does.
    """

    chat: int
    score: float
    matches: int
    has_all: bool
    best_sequence: int | None
    newest_document: int | None


def is_thin(question: Question, evidence: Mapping[int, Evidence]) -> bool:
    """Return whether too few chats hold all words; never enough do where a word is unknown or only guessed at."""
    everything = (1 << len(question.words)) - 1
    if not everything or question.unseen or not all(word.is_known for word in question.words):
        return True
    return sum(1 for one in evidence.values() if one.words & everything == everything) < MIN_CHATS


def rank(
    question: Question,
    evidence: Mapping[int, Evidence],
    *,
    average_length: float,
    age_days: Callable[[int | None], float],
) -> tuple[list[Ranked], bool]:
    """Return chats in order, and whether these hold only a part of the words.

    Parameters
    ----------
    age_days
        Gives the age of a document.
    """
    everything = (1 << len(question.words)) - 1
    complete = {chat: one for chat, one in evidence.items() if everything and one.words & everything == everything}
    if not question.words and not question.related:
        complete = dict(evidence)  # only a time was asked for, or a harness
    is_relaxed = is_thin(question, evidence) and len(complete) < len(evidence)
    considered = evidence if is_relaxed else complete
    concepts = concepts_of(question)
    worth = Worth(concepts)
    if len(considered) > MAX_RANKED:
        considered = {one.chat: one for one in nlargest(MAX_RANKED, considered.values(), key=partial(_promise, worth))}
    looks = [_look(one, worth, average_length) for one in considered.values()]
    scores = _fused(looks, worth, concepts)
    total = sum(concept.weight for concept in concepts) or 1.0
    ranked = []
    for look, score in zip(looks, scores, strict=True):
        one = look.evidence
        several = len(one.documents)
        bonus = SEVERAL_BONUS * min(several - 1, 3) / 3 if several > 1 else 0.0
        bonus += ALL_WORDS_BONUS * worth[one.words] / total
        bonus += RECENCY_BONUS * math.exp(-age_days(look.newest) / RECENCY_DAYS)
        has_all = bool(everything) and one.words & everything == everything
        whole = score + bonus * _FIRST_PLACE
        ranked.append(Ranked(one.chat, whole, several, has_all, look.best_sequence, look.newest))
    ranked.sort(key=lambda one: (-one.score, -(one.newest_document or 0), one.chat))
    return ranked, is_relaxed


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing asked for: a word, and what else it may have meant; each as a bit, 0 if there is none.

    ``weight`` is what it says where it is found as it was asked for, ``related_weight`` where it is not.
    """

    bit: int
    related_bit: int
    weight: float
    related_weight: float

    def worth(self, words: int) -> float:
        """Return what it says of something that holds some words."""
        return self.weight if words & self.bit else self.related_weight if words & self.related_bit else 0.0


def concepts_of(question: Question) -> list[Concept]:
    """Return what is asked for; the bits are in the order of the question's words, then of its related ones."""
    related = {word.text: (place, word) for place, word in enumerate(question.related, len(question.words))}
    found = []
    for place, word in enumerate(question.words):
        other = related.pop(word.text, None)
        bit = 0 if other is None else 1 << other[0]
        found.append(Concept(1 << place, bit, word.weight, 0.0 if other is None else min(other[1].weight, word.weight)))
    # Of a word that stands nowhere only these are left.
    found += [Concept(0, 1 << place, word.weight / RELATED_SHARE, word.weight) for place, word in related.values()]
    return found


class Worth(dict[int, float]):
    """What something says that holds some words, worked out once for each combination of them."""

    def __init__(self, concepts: Sequence[Concept]) -> None:
        super().__init__()
        self.concepts = concepts

    def __missing__(self, words: int) -> float:
        self[words] = found = sum(concept.worth(words) for concept in self.concepts)
        return found


def prefer_active(ranked: Sequence[Ranked], active: Mapping[int, bool]) -> list[Ranked]:
    """Return chats in order, once it is known which of the first have their best entry on the active branch."""
    known = [
        one._replace(score=one.score + ACTIVE_BONUS * _FIRST_PLACE) if active.get(one.chat) else one
        for one in ranked[: len(active)]
    ]
    known.sort(key=lambda one: (-one.score, -(one.newest_document or 0), one.chat))
    return [*known, *ranked[len(active) :]]


def is_confident(question: Question, ranked: Sequence[Ranked]) -> bool:
    """Return whether the first chat is the one that is meant, so that nobody need be asked.

    Every word must be known and occur in it. It must lead clearly and match twice, or be the only one, and then one
    of the words must be rare: a single chat that happens to have a common word is no answer.
    """
    if not ranked or not question.words or question.unseen or not all(word.is_known for word in question.words):
        return False
    first = ranked[0]
    if not first.has_all:
        return False
    if len(ranked) == 1:
        return question.has_rare_word
    return first.matches >= 2 and first.score >= CLEAR_LEAD * ranked[1].score


def score_entry(said: float, length: int, average_length: float) -> float:
    """Return how much an entry says: what its words do, less the longer it is."""
    relative = length / average_length if average_length else 1.0
    return said * (SATURATION + 1) / (1 + SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * relative))


def _promise(worth: Worth, one: Evidence) -> tuple[float, float, int, int]:
    """Return what a chat is worth a closer look for."""
    return worth[one.words], worth[one.digest], len(one.documents), max(one.documents, default=0)


class _Look(NamedTuple):
    """What is worked out of what speaks for a chat: its newest document, and how good its best entry is."""

    evidence: Evidence
    newest: int | None
    best: float
    best_sequence: int | None


def _look(one: Evidence, worth: Worth, average_length: float) -> _Look:
    best, found = 0.0, None
    for document, words in one.entries.items():
        score = score_entry(worth[words], one.documents[document][1], average_length)
        if score > best or (score == best and found is not None and document > found):
            best, found = score, document
    newest = max(one.documents) if one.documents else None
    return _Look(one, newest, best, None if found is None else one.documents[found][0])


def _fused(looks: Sequence[_Look], worth: Worth, concepts: Sequence[Concept]) -> list[float]:
    """Return for each chat what its places in the three lists are worth together."""
    # What a list is ordered by comes first, then the newer document, then the chat; then where its score belongs.
    entries: list[_Place] = []
    digests: list[_Place] = []
    covers: list[_Place] = []
    known: dict[tuple[int, ...], float] = {}
    for number, look in enumerate(looks):
        one = look.evidence
        after = (-(look.newest or 0), one.chat, number)
        if look.best:
            entries.append((-look.best, *after))
        if one.digest:
            digests.append((-worth[one.digest], *after))
        # Few combinations of words make up many chats.
        held = (one.digest, *sorted(one.entries.values()))
        cover = known.get(held)
        if cover is None:
            cover = known[held] = _cover(held, concepts)
        covers.append((-cover, *after))
    scores = [0.0] * len(looks)
    for weight, found in ((ENTRY_WEIGHT, entries), (DIGEST_WEIGHT, digests), (COVER_WEIGHT, covers)):
        found.sort()
        place, previous = 0, None
        for count, (negative, _, _, number) in enumerate(found, 1):
            # Those that say as much share a place.
            if negative != previous:
                place, previous = count, negative
            scores[number] += weight / (RANK_CONSTANT + place)
    return scores


def _cover(held: Sequence[int], concepts: Sequence[Concept]) -> float:
    """Return how much a whole chat says, by what digest and entries hold: a concept once, a little more if often."""
    total = 0.0
    for concept in concepts:
        bits = concept.bit | concept.related_bit
        values = [concept.worth(words) for words in held if words & bits]
        if values:
            count = min(len(values), MAX_COUNTED)
            total += max(values) * count / (count + SATURATION)
    return total
