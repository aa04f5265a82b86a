"""What somebody who looks for a chat asks for: when, with which harness, and which words, the rarest of them. Pure.

Nothing is syntax. What cannot be read as a time or a harness is a word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import Final

from bridge.recall.related import related
from bridge.recall.terms import MAX_QUERY_CHARACTERS, MAX_QUERY_TERMS, Phrase, fold, phrase_of
from bridge.recall.timephrases import Window, find_window

#: Words that are looked up, the rarest ones; quoted phrases come on top.
MAX_WORDS: Final = 6
MAX_QUOTED: Final = 4
#: Pieces of a question that are looked at.
MAX_PIECES: Final = 64
#: Pieces left out that are named.
MAX_NAMED: Final = 100
#: Characters under which such a piece is named.
MAX_NAME: Final = 80
#: Letters from which on an unknown word may be the beginning of one, or have a typing error in it.
MIN_GUESSED_LETTERS: Final = 4
#: Letters from which on the word that is being typed may be the beginning of one.
MIN_TYPED_LETTERS: Final = 2
#: Words that one prefix stands for at most, the most frequent ones, and the words among which these are looked for.
MAX_EXPANSIONS: Final = 12
MAX_SCANNED: Final = 400
#: Words that one typing error may stand for.
MAX_CORRECTIONS: Final = 6
#: How much a related word says, in parts of what it would say by itself.
RELATED_SHARE: Final = 0.7
#: A word is rare if it stands in at most this part of all documents, or in this number of them.
RARE_SHARE: Final = 0.001
RARE_DOCUMENTS: Final = 20

_STOPWORDS = (
    "a about an and any are as at be been but by can chat chats conversation conversations could did do "
    "does doing find for from had has have how i if in into is it its like look looking me my of on or "
    "our said say session sessions show so some talked talk talking that the their them then there these "
    "they thing things this to us was we were what when where which who why will with would you your "
    "discussed discussion discuss something again remember one too because all every each other more most "
    "than very just get getting got gets keep keeps kept keeping make makes making made put take took go "
    "goes going went come comes came need needs want wanted he she him her his out up down off over under "
    "after before until while also only even still already yet not no nor someone somebody everyone "
    "everybody nobody people itself "
)
#: Words that say nothing about what was spoken of. A question of these alone is looked up as it is.
STOPWORDS: Final = frozenset(_STOPWORDS.split())
_QUOTED = re.compile('"([^"\n]{1,400})"|\u201c([^\u201d\n]{1,400})\u201d')
_CALLS_FOR_HARNESS: Final = re.compile(
    r"(?<!\w)(?:(?:in|with|using|via|by|from|on)\s+(?:the\s+)?|harness:\s*)", re.IGNORECASE
)
#: The same, for names that are words of their own: one multiplies by pi, and runs something on it.
_CALLS_FOR_PLAIN: Final = r"(?<!\w)(?:(?:with|using|via)\s+|harness:\s*)"
_GOES_ON_TO: Final = re.compile(r"\s+to\b", re.IGNORECASE)
_PLAIN_NAMES: Final = frozenset({"pi", "cursor", "goose", "amp", "command", "shell"})
#: What a harness is called besides its name.
_OTHER_NAMES: Final = {"claude-code": ("claude",), "codex": ("codex cli",), "gemini": ("gemini cli",)}
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
#: Characters that Unicode gives to one alphabet.
_BLOCK: Final = 128

#: Gives the number of documents in which terms stand; what stands in none is left out.
Frequencies = Callable[[Iterable[str]], Mapping[str, int]]
#: Gives terms that begin so, with their number of documents.
Beginnings = Callable[[str, int], Sequence[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or several in a row, that is looked up.

    Parameters
    ----------
    text
        As it was typed.
    alternatives
        What is looked up; one of them is enough. The first is the word itself, unless it is unknown.
    documents
        In how many documents it stands at most.
    is_known
        Whether it stands in the index as it was typed, or in another form of it.
    is_quoted
        Whether it was in quotes.
    weight
        How much it says: more the rarer it is.
    """

    text: str
    alternatives: tuple[Phrase, ...]
    documents: int
    is_known: bool
    is_quoted: bool
    weight: float


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for.

    Parameters
    ----------
    unseen
        Words that stand nowhere, and resemble nothing that does.
    ignored
        Words left out because others are rarer, or because there were too many; at most ``MAX_NAMED`` of them.
    related
        What else the words may have meant, for when too few chats hold them all.
    """

    words: tuple[Word, ...]
    window: Window | None
    harness: str | None
    unseen: tuple[str, ...]
    ignored: tuple[str, ...]
    total: int
    related: tuple[Word, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to look for, not even a time or a harness."""
        return not (self.words or self.unseen or self.window or self.harness)

    @property
    def has_rare_word(self) -> bool:
        return any(is_rare(word.documents, self.total) for word in self.words if word.is_known)


def is_rare(documents: int, total: int) -> bool:
    """Return whether a word stands in so few documents that one hit is no chance."""
    return documents <= max(RARE_DOCUMENTS, RARE_SHARE * total)


def ask(
    text: str,
    *,
    now: datetime,
    zone: tzinfo | None,
    harnesses: Callable[[], Iterable[str]],
    frequencies: Frequencies,
    beginnings: Beginnings,
    total: int,
    is_typing: bool = False,
) -> Question:
    """Return what a text asks for; no text is an error.

    Parameters
    ----------
    harnesses
        Gives the names that may be meant, as they are recorded; asked only where a word before it calls for one.
    total
        Documents in the index.
    is_typing
        Whether the last word may be unfinished.
    """
    text = text[:MAX_QUERY_CHARACTERS]
    quoted = [match[match.lastindex or 0] for match in _QUOTED.finditer(text)]
    rest = _QUOTED.sub(" \x00 ", text)
    window, rest = find_window(rest, now, zone)
    harness, rest = _find_harness(rest, harnesses)
    pieces, further = _pieces(rest)
    phrases = {phrase: piece for piece in quoted if (phrase := phrase_of(piece)[:MAX_QUERY_TERMS])}
    further = [*list(phrases.values())[MAX_QUOTED:], *further]
    phrases = dict(list(phrases.items())[:MAX_QUOTED])
    plain = {phrase: piece for piece, phrase in pieces if phrase not in phrases}
    typed = None
    if is_typing and plain and text[-1:].isalnum():
        typed = list(plain)[-1]
    known = frequencies({term for phrase in (*phrases, *plain) for form in _forms(phrase) for term in form})
    look = partial(_word, frequencies=frequencies, beginnings=beginnings, total=total)
    words, unseen = [], []
    for phrase, piece in (*phrases.items(), *plain.items()):
        is_quoted = phrase in phrases
        word = look(phrase, piece, known, is_quoted=is_quoted, is_typed=phrase == typed)
        if word is None:
            unseen.append(piece)
        else:
            words.append(word)
    kept = [word for word in words if word.is_quoted]
    kept += sorted((word for word in words if not word.is_quoted), key=lambda word: word.documents)[:MAX_WORDS]
    ignored = tuple([*(word.text for word in words if word not in kept), *further][:MAX_NAMED])
    meant = _related([*(word.text for word in kept if not word.is_quoted), *unseen][:MAX_WORDS], frequencies, total)
    return Question(tuple(kept), window, harness, tuple(unseen), ignored, total, meant)


def _find_harness(text: str, harnesses: Callable[[], Iterable[str]]) -> tuple[str | None, str]:
    """Return the harness that is meant, and the text without it: only where a word before it says so."""
    names: dict[str, str] = {}
    for name in harnesses() if _CALLS_FOR_HARNESS.search(text) else ():
        spoken = fold(name)
        names[spoken] = names[spoken.replace("-", " ")] = name
        for other in _OTHER_NAMES.get(name, ()):
            names.setdefault(other, name)
    if not names:
        return None, text
    plain = [name for name in names if name in _PLAIN_NAMES]
    others = [name for name in names if name not in _PLAIN_NAMES]
    places = [
        found
        for calls, known in ((_CALLS_FOR_HARNESS.pattern, others), (_CALLS_FOR_PLAIN, plain))
        if known and (found := _named(calls, known, text)) is not None
    ]
    if not places:
        return None, text
    found = min(places, key=lambda place: place.start())
    return names[fold(" ".join(found[1].split()))], f"{text[: found.start()]} {text[found.end() :]}"


def _named(calls: str, names: Sequence[str], text: str) -> re.Match[str] | None:
    choice = "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in sorted(names, key=len, reverse=True))
    # "in codex's parser" and "from codex to gemini" are about programs, not held with them.
    for found in re.finditer(rf"{calls}({choice})(?!\w|[.'\u2019-]\w)", text, re.IGNORECASE):
        if not (found[0].lower().startswith("from") and _GOES_ON_TO.match(text, found.end())):
            return found
    return None


def _pieces(text: str) -> tuple[list[tuple[str, Phrase]], list[str]]:
    """Return the words of a text with their terms, without those that say nothing unless there are no others.

    And those that are too many, or too long, to be looked at whole.
    """
    split = text.split()
    whole = [(piece, phrase) for piece in split[:MAX_PIECES] if (phrase := phrase_of(piece))]
    found = [(piece, phrase[:MAX_QUERY_TERMS]) for piece, phrase in whole]
    telling = [(piece, phrase) for piece, phrase in found if not (len(phrase) == 1 and phrase[0] in STOPWORDS)]
    further = [piece for piece, phrase in whole if len(phrase) > MAX_QUERY_TERMS]
    further += [piece for piece in split[MAX_PIECES:] if phrase_of(piece)]
    return telling or found, [piece if len(piece) <= MAX_NAME else piece[: MAX_NAME - 1] + "…" for piece in further]


def _word(
    phrase: Phrase,
    piece: str,
    known: Mapping[str, int],
    *,
    frequencies: Frequencies,
    beginnings: Beginnings,
    total: int,
    is_quoted: bool,
    is_typed: bool,
) -> Word | None:
    counts = {form: min(known.get(term, 0) for term in form) for form in ([phrase] if is_quoted else _forms(phrase))}
    found = {form: count for form, count in counts.items() if count}
    is_known = bool(found)
    if len(phrase) == 1 and not is_quoted:
        term = phrase[0]
        if is_typed and len(term) >= MIN_TYPED_LETTERS:
            found |= _expanded(term, beginnings)
        if not found and len(term) >= MIN_GUESSED_LETTERS:
            found = _expanded(term, beginnings) or _corrected(term, frequencies)
    if not found:
        return None
    documents = min(sum(found.values()), max(total, 1))
    weight = math.log(1 + max(total, 1) / documents)
    return Word(piece, tuple(found), documents, is_known, is_quoted, weight)


def _related(pieces: Sequence[str], frequencies: Frequencies, total: int) -> tuple[Word, ...]:
    """Return for each piece the related words that stand in the index, as one word that says less than its own."""
    wanted: dict[str, list[Phrase]] = {}
    for piece in pieces:
        others = related(tuple(form[0] for form in _forms(phrase_of(piece)) if len(form) == 1))
        phrases = [phrase for other in others if (phrase := phrase_of(other))]
        if phrases:
            wanted[piece] = phrases
    known = frequencies({term for phrases in wanted.values() for phrase in phrases for term in phrase})
    found = []
    for piece, phrases in wanted.items():
        counts = {phrase: count for phrase in phrases if (count := min(known.get(term, 0) for term in phrase))}
        if counts:
            documents = min(sum(counts.values()), max(total, 1))
            weight = RELATED_SHARE * math.log(1 + max(total, 1) / documents)
            word = Word(piece, tuple(counts), documents, is_known=False, is_quoted=False, weight=weight)
            found.append(word)
    return tuple(found)


def _expanded(term: str, beginnings: Beginnings) -> dict[Phrase, int]:
    """Return the words that a beginning may stand for, the most frequent ones."""
    found = sorted(beginnings(term, MAX_SCANNED), key=lambda one: (-one[1], one[0]))
    return {(word,): count for word, count in found[:MAX_EXPANSIONS]}


def _corrected(term: str, frequencies: Frequencies) -> dict[Phrase, int]:
    """Return the words that differ by one typing error, the most frequent ones."""
    found = sorted(frequencies(set(edits(term))).items(), key=lambda one: (-one[1], one[0]))
    return {(word,): count for word, count in found[:MAX_CORRECTIONS]}


def edits(term: str) -> Iterator[str]:
    """Yield what a term may have been meant to be: a letter too many, too few, another, or two the wrong way round."""
    if len(term) > 2 * 16:
        return
    letters = _LETTERS + "".join(_alphabets(set(term) - set(_LETTERS)))
    for place in range(len(term) + 1):
        before, after = term[:place], term[place:]
        if after:
            yield before + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        for letter in letters:
            if after:
                yield before + letter + after[1:]
            yield before + letter + after


def _alphabets(letters: set[str]) -> list[str]:
    """Return the letters of the scripts that some letters belong to, as they stand in terms."""
    blocks = {ord(letter) // _BLOCK for letter in letters}
    near = (chr(code) for block in sorted(blocks) for code in range(block * _BLOCK, (block + 1) * _BLOCK))
    return [letter for letter in near if letter in letters or (letter.isalpha() and fold(letter) == letter)]


def _forms(phrase: Phrase) -> list[Phrase]:
    """Return a word and the other forms that an English one has; of several in a row only these themselves."""
    if len(phrase) != 1 or len(phrase[0]) < MIN_GUESSED_LETTERS or not phrase[0].isascii() or not phrase[0].isalpha():
        return [phrase]
    word = phrase[0]
    stems = {word}
    for ending, others in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stems.update(word[: -len(ending)] + other for other in others)
    stems |= {stem[:-1] for stem in stems if len(stem) > 4 and stem[-1] == stem[-2] and stem[-1] not in "aeiouls"}
    forms = dict.fromkeys([word])
    for stem in sorted(stems):
        forms.update(dict.fromkeys([stem, stem + "s", stem + "ed", stem + "ing"]))
        if stem.endswith("e"):
            forms.update(dict.fromkeys([stem + "d", stem[:-1] + "ing", stem[:-1] + "ion", stem[:-1] + "ions"]))
        elif stem.endswith("y"):
            forms.update(dict.fromkeys([stem[:-1] + "ies", stem[:-1] + "ied"]))
        else:
            forms.update(dict.fromkeys([stem + "es", stem + "ment", stem + "ments", stem + "ion", stem + "ions"]))
    return [(form,) for form in forms]


#: Endings of English words, and what stands there in the form without them.
_ENDINGS: Final = (
    ("ies", ("y",)),
    ("ied", ("y",)),
    ("es", ("", "e")),
    ("s", ("",)),
    ("ed", ("", "e")),
    ("ing", ("", "e")),
    ("ion", ("", "e")),
    ("ions", ("", "e")),
    ("ment", ("",)),
    ("ments", ("",)),
)
