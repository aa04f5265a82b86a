"""The continuity spark: the last words of a session, short enough to begin the next one with. Pure."""

from __future__ import annotations

import re
from typing import Final

from bridge.foundation.redaction import redact_text

#: Longest spark, in characters and in tokens.
MAX_CHARACTERS: Final = 256
MAX_TOKENS: Final = 50
#: Bytes of UTF-8 that one token is taken for: as everywhere in Bridge, on the safe side of what vendors count.
BYTES_PER_TOKEN: Final = 3
_ELLIPSIS: Final = "…"
_SPACE: Final = re.compile(r"\s+")


def spark_of(text: str) -> str:
    """Return a text as a spark: secrets masked, on one line, cut at a word so that it fits.

    A first word that does not fit by itself is cut inside.
    """
    # Masked before it is cut: half a secret would not be recognised as one.
    line = _SPACE.sub(" ", redact_text(text)[0]).strip()
    if _fits(line):
        return line
    kept = line[:MAX_CHARACTERS]
    while kept and not _fits(kept + _ELLIPSIS):
        shorter = kept[:-1].rpartition(" ")[0]
        kept = shorter or kept[:-1]
    # What is left may end inside a word, if the limit of characters fell there.
    if not line[len(kept) :].startswith(" ") and " " in kept:
        kept = kept.rpartition(" ")[0]
    return kept.rstrip() + _ELLIPSIS


def _fits(text: str) -> bool:
    return len(text) <= MAX_CHARACTERS and -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN) <= MAX_TOKENS
