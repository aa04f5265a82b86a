"""Texts that come from outside and are kept as they are: what neither database would keep is refused where it enters.

PostgreSQL has no NUL in a text, SQLite has; and neither driver can send a lone surrogate, which is what Python makes of
bytes on the command line that are not UTF-8. Payloads have their own rule: they are canonical JSON.
"""

from __future__ import annotations

from bridge.foundation.errors import InvalidText

#: Longest part of a text repeated in a message, in characters.
_SHOWN = 80


def is_storable(text: str) -> bool:
    """Return whether every database keeps a text as it is."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_storable(**texts: str | None) -> None:
    """Refuse texts that not every database keeps as they are; each is named by what it is.

    Raises
    ------
    InvalidText
        If one has a NUL or a lone surrogate; ``details["field"]`` names it.
    """
    for name, text in texts.items():
        if text is not None and not is_storable(text):
            raise InvalidText(
                f"{name} cannot be kept: {text[:_SHOWN]!r} has a NUL character or is not valid Unicode. "
                "Nothing was written.",
                details={"field": name},
            )
