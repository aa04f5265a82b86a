"""How many tokens a text takes, estimated: a rule simple enough to be the same everywhere and for ever.

Measured with the vocabularies of two vendors (docs/performance.md), a token stood for 2.9 to 4.7 bytes of prose, code,
JSON, diffs, listings and Chinese or Japanese text, and for 1.7 of bare digests. :data:`BYTES_PER_TOKEN` lies below all
but the digests, so that a context within a budget by this rule is one for an agent as well, and wastes a fifth or so.
"""

from __future__ import annotations

from typing import Final

#: Bytes of UTF-8 that one token is taken for.
BYTES_PER_TOKEN: Final = 3


def tokens_of_bytes(size: int) -> int:
    """Return the tokens that so many bytes of UTF-8 are taken for, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


def estimate_tokens(text: str) -> int:
    """Return the tokens that a text is taken for."""
    return tokens_of_bytes(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))
