"""Recorded text for people's eyes: what would steer a terminal, reorder a line or stay unseen is shown by name."""

from __future__ import annotations

import re
from typing import Final

#: Colours and weights of a terminal: left out, since nothing is said by them.
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")
#: Controls but for tab and line feed; bidirectional and other invisible format characters, tags included. Joiners stay:
#: scripts and emoji need them.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Return a text with code points (``⟨U+001B⟩``) in place of what cannot be seen; line ends become line feeds."""
    return _UNSEEN.sub(_shown, _COLOURS.sub("", text.replace("\r\n", "\n")))


def one_line(text: str, limit: int) -> str:
    """Return the beginning of a text on one line, as :func:`visible` shows it, at most ``limit`` characters."""
    line = " ".join(visible(text[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _shown(match: re.Match[str]) -> str:
    return f"⟨U+{ord(match.group()):04X}⟩"
