"""The order of chats, and when the first of them is surely meant."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from bridge.recall.asking import Question, Word
from bridge.recall.ranking import (
    ACTIVE_BONUS,
    CLEAR_LEAD,
    MAX_RANKED,
    MIN_CHATS,
    RANK_CONSTANT,
    Evidence,
    Ranked,
    concepts_of,
    is_confident,
    is_thin,
    prefer_active,
    rank,
    score_entry,
)

TOTAL = 100_000


def word(text: str, documents: int = 100, *, known: bool = True) -> Word:
    weight = math.log(1 + TOTAL / documents)
    return Word(text, ((text,),), documents, is_known=known, is_quoted=False, weight=weight)


def question(*words: Word, unseen: Sequence[str] = (), related: Sequence[Word] = ()) -> Question:
    return Question(tuple(words), None, None, tuple(unseen), (), TOTAL, tuple(related))


def evidence(chat: int, *entries: int, digest: int = 0, length: int = 20, first_document: int = 0) -> Evidence:
    """Return what speaks for a chat: of each matching entry the words that it holds, as bits."""
    start = first_document or chat * 1000
    found = Evidence(chat, digest=digest)
    for number, words in enumerate(entries):
        found.entries[start + number] = words
        found.documents[start + number] = number + 1, length
        found.words |= words
    found.words |= digest
    return found


def order(asked: Question, *chats: Evidence, ages: dict[int, float] | None = None) -> list[Ranked]:
    ranked, _ = rank(
        asked,
        {one.chat: one for one in chats},
        average_length=20,
        age_days=lambda document: (ages or {}).get((document or 0) // 1000, 10.0),
    )
    return ranked


def ids(ranked: Sequence[Ranked]) -> list[int]:
    return [one.chat for one in ranked]


def test_a_chat_with_every_word_comes_before_one_with_some() -> None:
    asked = question(word("deploy"), word("certificate"))
    found = order(asked, evidence(1, 0b01, 0b01, 0b01), evidence(2, 0b01, 0b10))
    assert ids(found) == [2, 1]
    assert [one.has_all for one in found] == [True, False]


def test_a_rare_word_says_more_than_a_common_one() -> None:
    asked = question(word("rare", 3), word("common", 40_000))
    assert ids(order(asked, evidence(1, 0b10), evidence(2, 0b01))) == [2, 1]


def test_words_in_one_entry_say_more_than_the_same_apart() -> None:
    asked = question(word("a"), word("b"))
    found = order(asked, evidence(1, 0b01, 0b10), evidence(2, 0b11, 0b00))
    assert found[0].chat == 2
    assert found[0].best_sequence == 1


def test_a_short_entry_says_more_than_a_long_one_of_the_same_words() -> None:
    assert score_entry(1.0, 5, 20) > score_entry(1.0, 20, 20) > score_entry(1.0, 500, 20) > 0
    assert score_entry(1.0, 20, 0) == score_entry(1.0, 20, 20)
    asked = question(word("a"))
    assert ids(order(asked, evidence(1, 0b1, length=400), evidence(2, 0b1, length=5))) == [2, 1]


def test_the_look_at_the_whole_chat_counts() -> None:
    asked = question(word("a"))
    assert ids(order(asked, evidence(1, 0b1), evidence(2, 0b1, digest=0b1))) == [2, 1]
    # One that only it speaks for has no entry to show.
    alone = order(asked, evidence(3, digest=0b1))
    assert (alone[0].best_sequence, alone[0].matches) == (None, 0)


def test_several_matches_count_a_little_and_no_more_than_four_of_them() -> None:
    asked = question(word("a"))
    one, two, four, nine = (order(asked, evidence(1, *[0b1] * count))[0].score for count in (1, 2, 4, 9))
    assert one < two < four == nine


def test_of_two_alike_the_newer_comes_first() -> None:
    asked = question(word("a"))
    assert ids(order(asked, evidence(1, 0b1), evidence(2, 0b1), ages={1: 300.0, 2: 1.0})) == [2, 1]
    # Recency does not outweigh words.
    both = question(word("a"), word("b"))
    assert ids(order(both, evidence(1, 0b11), evidence(2, 0b01), ages={1: 300.0, 2: 0.0})) == [1, 2]


def test_the_order_does_not_depend_on_the_order_of_the_evidence() -> None:
    asked = question(word("a"), word("b"))
    chats = [evidence(number, 0b01 if number % 3 else 0b11, 0b10 if number % 2 else 0) for number in range(1, 30)]
    assert order(asked, *chats) == order(asked, *reversed(chats))


def test_fewer_than_four_with_every_word_let_in_those_with_some() -> None:
    asked = question(word("a"), word("b"))
    few = {number: evidence(number, 0b11) for number in range(1, MIN_CHATS)}
    enough = {**few, MIN_CHATS: evidence(MIN_CHATS, 0b11)}
    some = {99: evidence(99, 0b01)}
    assert is_thin(asked, few)
    assert not is_thin(asked, enough)
    for chats, is_relaxed in (({**few, **some}, True), ({**enough, **some}, False)):
        found, relaxed = rank(asked, chats, average_length=20, age_days=lambda _: 1.0)
        assert relaxed is is_relaxed
        assert (99 in ids(found)) is is_relaxed


def test_an_unknown_word_is_never_enough() -> None:
    chats = {number: evidence(number, 0b1) for number in range(1, 20)}
    assert is_thin(question(word("a"), unseen=["b"]), chats)
    assert is_thin(question(word("a", known=False)), chats)
    assert not is_thin(question(word("a")), chats)


def test_only_a_time_takes_every_chat() -> None:
    found, is_relaxed = rank(
        question(), {1: evidence(1, 0), 2: evidence(2, 0)}, average_length=20, age_days=lambda _: 1.0
    )
    assert (ids(found), is_relaxed) == ([2, 1], False)


def test_a_related_word_says_less_than_the_word_itself() -> None:
    asked = question(
        word("slow"), related=[Word("slow", (("latency",),), 100, is_known=False, is_quoted=False, weight=3)]
    )
    assert ids(order(asked, evidence(1, 0b10), evidence(2, 0b01))) == [2, 1]
    (concept,) = concepts_of(asked)
    assert concept.worth(0b01) > concept.worth(0b10) > concept.worth(0) == 0


def test_no_more_are_put_in_order_than_anybody_reads() -> None:
    asked = question(word("a"), word("b"))
    chats = [evidence(number, 0b11 if number == 7 else 0b01) for number in range(1, MAX_RANKED + 50)]
    found = order(asked, *chats)
    assert len(found) == MAX_RANKED
    assert found[0].chat == 7


def test_the_active_branch_decides_between_neighbours_alone() -> None:
    step = ACTIVE_BONUS / (RANK_CONSTANT + 1)
    first, near, far = (
        Ranked(chat, score, 1, True, 1, chat) for chat, score in ((1, 1.0), (2, 1.0 - step / 2), (3, 0.5))
    )
    assert ids(prefer_active([first, near, far], {1: False, 2: True, 3: True})) == [2, 1, 3]
    assert ids(prefer_active([first, near, far], {1: True, 2: True, 3: True})) == [1, 2, 3]
    # Those that were not looked into stay where they are.
    assert ids(prefer_active([first, near, far], {1: False})) == [1, 2, 3]


@pytest.mark.parametrize(
    ("asked", "ranked", "expected"),
    [
        pytest.param(question(word("a")), [(3.0, 2, True), (2.0, 1, True)], True, id="leads"),
        pytest.param(question(word("a")), [(2.9, 2, True), (2.0, 1, True)], False, id="leads-too-little"),
        pytest.param(question(word("a")), [(3.0, 1, True), (2.0, 1, True)], False, id="one-match"),
        pytest.param(question(word("a")), [(3.0, 2, False), (1.0, 1, False)], False, id="not-all-words"),
        pytest.param(question(word("a", 5)), [(1.0, 1, True)], True, id="only-one-rare"),
        pytest.param(question(word("a", 50_000)), [(1.0, 9, True)], False, id="only-one-common"),
        pytest.param(question(word("a", 50_000), word("b", 5)), [(1.0, 1, True)], True, id="one-of-them-rare"),
        pytest.param(question(word("a"), unseen=["b"]), [(3.0, 2, True), (1.0, 1, True)], False, id="unseen"),
        pytest.param(question(word("a", known=False)), [(3.0, 2, True), (1.0, 1, True)], False, id="guessed"),
        pytest.param(question(), [(3.0, 2, True)], False, id="no-words"),
        pytest.param(question(word("a")), [], False, id="nothing"),
    ],
)
def test_when_the_first_is_surely_meant(asked: Question, ranked: list[tuple[float, int, bool]], expected: bool) -> None:
    chats = [Ranked(chat, score, matches, has_all, 1, 1) for chat, (score, matches, has_all) in enumerate(ranked)]
    assert is_confident(asked, chats) is expected
    assert CLEAR_LEAD == 1.5
