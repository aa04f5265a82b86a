"""Lines of a file that may be damaged, torn or still growing, each with where it stands.

A line ends at byte 0x0A and nowhere else: U+2028, U+0085 and their like are text. What ends in CR LF has its CR taken
off the record. Memory is bounded by the longest line that is read; a longer one is passed over and told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple, Protocol

#: Longest line that is read as a record, in bytes.
MAX_LINE_BYTES: Final = 32 * 1024 * 1024
#: Bytes read at a time.
BLOCK_BYTES: Final = 1024 * 1024


class Readable(Protocol):
    """A file opened in binary mode, as far as it is used."""

    def read(self, size: int, /) -> bytes: ...


class Line(NamedTuple):
    """One line of a file.

    Parameters
    ----------
    number, offset
        From 1, and of its first byte from 0.
    data
        Its bytes with what ended it; empty if it was too long to be read.
    is_ended
        Whether a line feed ended it; only the last line of a file may lack one.
    size
        Its length in the file, with what ended it.
    digest
        Of a line that was too long: the SHA-256 of its bytes, in hexadecimal.
    """

    number: int
    offset: int
    data: bytes
    is_ended: bool
    size: int
    digest: str | None = None

    @property
    def is_too_long(self) -> bool:
        return self.digest is not None


def lines_of(
    source: Readable,
    *,
    number: int = 1,
    offset: int = 0,
    max_bytes: int = MAX_LINE_BYTES,
    seen: Callable[[bytes], Any] | None = None,
) -> Iterator[Line]:
    """Yield the lines of a file from where it stands.

    Parameters
    ----------
    number, offset
        Of the first line that is read.
    seen
        Is given every byte that was read, in order.
    """
    rest = b""
    while block := source.read(BLOCK_BYTES):
        if seen is not None:
            seen(block)
        parts = block.split(b"\n")
        if len(parts) == 1 or rest:
            parts[0] = rest + parts[0]
        rest = parts.pop()
        for part in parts:
            size = len(part) + 1
            if size > max_bytes:
                yield Line(number, offset, b"", is_ended=True, size=size, digest=sha256(part + b"\n").hexdigest())
            else:
                yield Line(number, offset, part + b"\n", is_ended=True, size=size)
            number += 1
            offset += size
        if len(rest) > max_bytes:
            line, rest = _pass_over(source, rest, number, offset, seen)
            yield line
            number += 1
            offset += line.size
    if rest:
        yield Line(number, offset, rest, is_ended=False, size=len(rest))


def _pass_over(
    source: Readable, begun: bytes, number: int, offset: int, seen: Callable[[bytes], Any] | None
) -> tuple[Line, bytes]:
    """Read to the end of a line that is too long; return it without its bytes, and what was read of the next."""
    whole, size = sha256(begun), len(begun)
    while block := source.read(BLOCK_BYTES):
        if seen is not None:
            seen(block)
        before, feed, after = block.partition(b"\n")
        whole.update(before + feed)
        size += len(before) + len(feed)
        if feed:
            return Line(number, offset, b"", is_ended=True, size=size, digest=whole.hexdigest()), after
    return Line(number, offset, b"", is_ended=False, size=size, digest=whole.hexdigest()), b""


def content_of(data: bytes) -> bytes:
    """Return a line without what ended it."""
    if data.endswith(b"\r\n"):
        return data[:-2]
    return data[:-1] if data.endswith(b"\n") else data
