"""From text to terms: what is put into the index and what is looked up there are made in the same way. Pure.

Any text is text: nothing in a query is an operator. What stands between blanks is looked up as a phrase of its
terms, so ``POL-358`` and ``don't`` find what is written so, and ``foo.bar`` finds the whole and not its parts
scattered.

A term is a run of letters and digits, without case and without the diacritics of Latin script. Scripts that are
written without blanks give one term per character. A word with plus or number signs behind it (``C++``, ``C#``)
gives a second term with them. A name in camel case gives its parts, and then the whole.
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
TERMS_VERSION: Final = 2
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

_MARKS = re.compile("[\u0300-\u036f]")
# Thai, Lao, Myanmar, Khmer; Japanese syllables; Han with its extensions; Hangul.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_ASCII_TERM = re.compile("[a-z0-9]+")
_TERM = re.compile(rf"(?P<single>(?![\W_])[{_UNSPACED}])|(?P<word>(?:(?![{_UNSPACED}])[^\W_])+)(?P<signs>[+#]*)")
# A word that goes from a small letter on to a capital, or from capitals on to another word; and the parts of it.
# A capital is looked for first: there are few.
_HAS_CAMEL = re.compile("[A-Z](?:(?<=[a-z].)|(?<=[A-Z].)(?=[a-z]{2}))")
_CAMEL = re.compile(r"(?<![^\W_])[A-Za-z0-9]*?(?:[a-z][A-Z]|[A-Z]{2}[a-z]{2})[A-Za-z0-9]*(?![^\W_])")
_CAMEL_PART = re.compile("[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
#: Signs inside a term are kept as their full-width forms: folding leaves none of those in any text.
_SIGNS = {ord("+"): "\uff0b", ord("#"): "\uff03"}

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
    if _HAS_CAMEL.search(bare):
        bare = _CAMEL.sub(_parts_and_whole, bare)
    folded = bare.casefold()
    if folded.isascii() and "+" not in folded and "#" not in folded:
        # Three quarters of all texts, at a third of the cost.
        found = _ASCII_TERM.findall(folded)
        if max(map(len, found), default=0) <= MAX_TERM_CHARACTERS:
            return found
        return [_bounded(term) for term in found]
    return list(_terms(folded))


def phrase_of(piece: str) -> Phrase:
    """Return the terms that stand in a row wherever a piece of a query is written; empty if it has none.

    A name in camel case alone is looked up as a whole, so that it is found in whatever case it was written.
    """
    plain = tuple(_terms(fold(piece)))
    return plain if len(plain) <= 1 else tuple(terms(piece))


def parse_query(text: str) -> Query:
    """Return what a text asks for; no text is an error. One without letters and digits asks for nothing."""
    phrases: dict[Phrase, None] = {}
    left, ignored = MAX_QUERY_TERMS, 0
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
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))


def _parts_and_whole(match: re.Match[str]) -> str:
    # The whole comes last: what follows it still follows it, and what is before still comes before the first part.
    word = match.group()
    return " ".join([*_CAMEL_PART.findall(word), word])


def _terms(folded: str) -> Iterator[str]:
    for match in _TERM.finditer(folded):
        term = match["single"] or match["word"]
        yield _bounded(term)
        if match["signs"]:
            yield _bounded(term + match["signs"].translate(_SIGNS))


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
