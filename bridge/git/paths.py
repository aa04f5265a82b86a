r"""File names are bytes; this module turns them into text for people and JSON, and back.

A shown name never spans lines, never moves the cursor and never ends the quotation it stands in. Inside double
quotes ``\\``, ``\"``, ``\n``, ``\r``, ``\t`` mean what they mean in C; ``\xNN`` is one byte that is not part of
printable UTF-8 text; ``\uNNNN`` and ``\UNNNNNNNN`` are characters that are valid but invisible or reorder text.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path

_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONG = {"\\": b"\\", '"': b'"', "n": b"\n", "r": b"\r", "t": b"\t"}
_ESCAPE = re.compile(r"\\(?:([\\\"nrt])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
#: Controls, invisible formatting (bidirectional overrides), separators, surrogates, unassigned, private use.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def display_path(path: bytes) -> str:
    """Return a file name in double quotes, escaped; :func:`parse_path` gives the bytes back."""
    return f'"{_escaped(path)}"'


def plain_path(path: bytes) -> str:
    """Return a file name as it is if that is harmless text, else as :func:`display_path` does.

    Names that begin with a double quote are always quoted, so :func:`parse_path` is never in doubt.
    """
    escaped = _escaped(path)
    try:
        return escaped if escaped == path.decode() and not escaped.startswith('"') else f'"{escaped}"'
    except UnicodeDecodeError:
        return f'"{escaped}"'


def parse_path(text: str) -> bytes:
    """Return the bytes of a name written by :func:`display_path` or :func:`plain_path`.

    Raises
    ------
    ValueError
        If the text opens a quotation and is not one that these functions write.
    """
    if not text.startswith('"'):
        return text.encode()
    if len(text) < 2 or not text.endswith('"'):
        raise ValueError(f"not a quoted path: {text!r}")
    inner = text[1:-1]
    parts: list[bytes] = []
    position = 0
    while position < len(inner):
        if inner[position] == "\\":
            match = _ESCAPE.match(inner, position)
            if match is None:
                raise ValueError(f"unknown escape in path: {text!r}")
            parts.append(_unescaped(match))
            position = match.end()
        elif inner[position] == '"':
            raise ValueError(f"not a quoted path: {text!r}")
        else:
            parts.append(inner[position].encode())
            position += 1
    return b"".join(parts)


def join(root: Path, path: bytes) -> bytes:
    """Return the absolute path, in bytes, of a repository path below ``root``."""
    return os.path.join(os.fsencode(root), path)


def _escaped(path: bytes) -> str:
    pieces: list[str] = []
    for character in path.decode("utf-8", "surrogateescape"):
        code = ord(character)
        if character in _SHORT:
            pieces.append(_SHORT[character])
        elif 0xDC80 <= code <= 0xDCFF:  # how surrogateescape carries a byte that is not UTF-8
            pieces.append(f"\\x{code - 0xDC00:02x}")
        elif unicodedata.category(character) not in _HIDDEN_CATEGORIES:
            pieces.append(character)
        elif code < 0x80:
            pieces.append(f"\\x{code:02x}")
        elif code <= 0xFFFF:
            pieces.append(f"\\u{code:04x}")
        else:
            pieces.append(f"\\U{code:08x}")
    return "".join(pieces)


def _unescaped(match: re.Match[str]) -> bytes:
    short, byte, character, wide = match.groups()
    if short is not None:
        return _LONG[short]
    if byte is not None:
        return bytes([int(byte, 16)])
    return chr(int(character or wide, 16)).encode("utf-8", "surrogatepass")
