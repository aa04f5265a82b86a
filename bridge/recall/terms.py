"""From text to terms: what is put into the index and what is looked up there are made in the same way. Pure.

Any text is text: nothing in a query is an operator. What stands between blanks is looked up as a phrase of its
terms, so ``POL-358`` and ``don't`` find what is written so, and ``foo.bar`` finds the whole and not its parts
scattered.

A term is a run of letters and digits, without case, accents, points of vowels, and characters that nobody sees.
Scripts that are written without blanks give one term per character. A word with plus or number signs behind it
(``C++``, ``C#``) gives a second term with them. A name in camel case stands whole where it is written, so that case
makes no difference; its parts follow behind the text, each name once and with a gap before it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from bridge.semantics.kinds import READABLE_VERSIONS

#: Raised whenever the terms of some text change. What was indexed in another way is indexed anew.
TERMS_VERSION: Final = 3
#: What an index is marked with: the way of making terms, and the contracts that its texts were read under.
INDEX_VERSION: Final = TERMS_VERSION * 1000 + max(READABLE_VERSIONS)
#: Longest term kept as it is, in characters; of a longer one its digest is kept.
MAX_TERM_CHARACTERS: Final = 64
#: Terms of a query that are looked up; further ones are counted and ignored.
MAX_QUERY_TERMS: Final = 64
#: Characters of a query that are looked at.
MAX_QUERY_CHARACTERS: Final = 100_000
#: Characters of an excerpt around the first match.
MAX_EXCERPT_CHARACTERS: Final = 200
#: Characters of a text in which the place of a match is looked for; beyond it the excerpt is the beginning.
MAX_SCANNED_CHARACTERS: Final = 200_000

# What is taken out of words: accents; points of Hebrew and Arabic, and what only draws a word out; what is not seen:
# soft hyphens, marks of direction, joiners of words, choices between shapes.
_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    "\u00ad\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe00-\ufe0f\ufeff]"
)
# Latin letters that Unicode does not take apart: "Lodz" finds "Łódź", and "DIYARBAKIR" what has a dotless i.
_LETTERS = {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ħ": "h", "Ħ": "H"}
_LETTERS |= {"ŧ": "t", "Ŧ": "T", "ı": "i", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "TH"}
_LETTERS |= {"ß": "ss", "ẞ": "SS"}
_HAS_LETTERS = re.compile(f"[{''.join(_LETTERS)}]")
_UNFOLDED = str.maketrans(_LETTERS)
# Thai, Lao, Myanmar, Khmer; Japanese syllables; Han with its extensions; Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowels and tones that are written as marks of a letter: of these scripts, and of those of India, which have blanks.
_UNSPACED_MARKS = (
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060"
    "\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3\u17dd\u3099\u309a"
)
_INDIC = "\u0900-\u0963\u0966-\u096f\u0971-\u0df3"
_ASCII_TERM = re.compile("[a-z0-9]+")
_TERM = re.compile(rf"((?:[^\W_{_UNSPACED}]+|[{_INDIC}])+)([+#]*)|([{_UNSPACED_MARKS}]|(?![\W_])[{_UNSPACED}])")
# A word that goes from a small letter on to a capital, from capitals or a digit on to another word; its parts.
# A capital is looked for first: there are few.
_HAS_CAMEL = re.compile("[A-Z](?:(?<=[a-z].)|(?<=[A-Z].)(?=[a-z]{2})|(?<=[0-9].)(?=[a-z]))")
_CAMEL = re.compile(r"(?<![^\W_])[A-Za-z0-9]*?(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2}|[0-9][A-Z][a-z])[A-Za-z0-9]*(?![^\W_])")
_CAMEL_PART = re.compile("[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
#: Signs inside a term are kept as their full-width forms: folding leaves none of those in any text.
_SIGNS = {ord("+"): "\uff0b", ord("#"): "\uff03"}
#: Stands where no phrase may reach across. No text has it, for the same reason.
GAP: Final = "\uff0b"

#: Terms that stand in a row.
Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """What a text asks for.

    Parameters
    ----------
    phrases
        Terms that stand in a row, one phrase for each piece between blanks, none twice.
    ignored
        Pieces left out, or cut short, because there were too many terms.
    """

    phrases: tuple[Phrase, ...]
    ignored: int = 0


def fold(text: str) -> str:
    """Return text without differences of case, width, ligature and Latin diacritics."""
    return _bare(text).casefold()


def terms(text: str) -> list[str]:
    """Return the terms of a text in their order. They hold letters and digits, and signs beyond ASCII."""
    bare = _bare(text)
    found = _plain_terms(bare.casefold())
    if _HAS_CAMEL.search(bare):
        for name in dict.fromkeys(_CAMEL.findall(bare)):
            found.append(GAP)
            found.extend(_bounded(part.lower()) for part in _CAMEL_PART.findall(name))
    return found


def phrase_of(piece: str) -> Phrase:
    """Return the terms that stand in a row wherever a piece of a query is written; empty if it has none."""
    return tuple(_plain_terms(fold(piece)))


def parse_query(text: str) -> Query:
    """Return what a text asks for; no text is an error. One without letters and digits asks for nothing."""
    phrases: dict[Phrase, None] = {}
    left, ignored = MAX_QUERY_TERMS, len(text[MAX_QUERY_CHARACTERS:].split())
    for piece in text[:MAX_QUERY_CHARACTERS].split():
        phrase = phrase_of(piece)
        if not phrase or phrase in phrases:
            continue
        if len(phrase) > left:
            ignored += 1
        if left:
            phrases[phrase[:left]] = None
            left -= len(phrase[:left])
    return Query(tuple(phrases), ignored)


def excerpt(text: str, query: Query) -> str:
    """Return the part of a text around the first piece that holds a phrase asked for, on one line."""
    start = 0
    for piece in re.finditer(r"\S+", text[:MAX_SCANNED_CHARACTERS]):
        if _holds(tuple(terms(piece.group())), query.phrases):
            start = max(0, piece.start() - MAX_EXCERPT_CHARACTERS // 4)
            break
    if start:
        # Begin with a whole word, if one begins soon.
        blank = text.find(" ", start, start + MAX_EXCERPT_CHARACTERS // 8)
        start = start if blank < 0 else blank + 1
    window = " ".join(text[start : start + 2 * MAX_EXCERPT_CHARACTERS].split())
    shown = window[:MAX_EXCERPT_CHARACTERS]
    is_cut = len(window) > len(shown) or start + 2 * MAX_EXCERPT_CHARACTERS < len(text)
    return ("…" if start else "") + shown + ("…" if is_cut else "")


def _bare(text: str) -> str:
    if text.isascii():
        return text
    bare = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))
    return bare.translate(_UNFOLDED) if _HAS_LETTERS.search(bare) else bare


def _plain_terms(folded: str) -> list[str]:
    if folded.isascii() and "+" not in folded and "#" not in folded:
        # Three quarters of all texts, at a third of the cost.
        found = _ASCII_TERM.findall(folded)
        if max(map(len, found), default=0) <= MAX_TERM_CHARACTERS:
            return found
        return [_bounded(term) for term in found]
    return list(_terms(folded))


def _terms(folded: str) -> Iterator[str]:
    for word, signs, single in _TERM.findall(folded):
        yield _bounded(word or single)
        if signs:
            yield _bounded(word + signs.translate(_SIGNS))


def _bounded(term: str) -> str:
    if len(term) <= MAX_TERM_CHARACTERS:
        return term
    return "x" + sha256(term.encode("utf-8", "surrogatepass")).hexdigest()


def _holds(found: tuple[str, ...], phrases: tuple[tuple[str, ...], ...]) -> bool:
    return any(
        found[place : place + len(phrase)] == phrase
        for phrase in phrases
        for place in range(len(found) - len(phrase) + 1)
    )
