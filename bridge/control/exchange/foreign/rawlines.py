"""The lines of a transcript as they were read: compressed, secrets masked, so that the file can be written again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

import orjson

from bridge.control.exchange.foreign import store as rows
from bridge.foundation.redaction import is_suspicious, redact_text
from bridge.storage.packing import packed, unpacked
from bridge.storage.transaction import Connection
from bridge.transcripts.foreign.lines import Line

#: Letters, digits and slashes written as escapes: what they spell is not seen in the line. One pattern takes an
#: eighth of the time of asking for each escape.
_ESCAPED: Final = re.compile(rb"\\(?:u00[2-7]|/)")
_BEGINNING: Final = 256
#: Key of the line that stands for one that was too long to be kept.
OMITTED_KEY: Final = "bridge_omitted"


@dataclass(slots=True)
class RawLines:
    """Some lines, one after another."""

    first_line: int = 0
    offset: int = 0
    size: int = 0
    changed: int = 0
    count: int = 0
    parts: list[bytes] = field(default_factory=list)

    def add(self, line: Line, kept: bytes | None = None) -> None:
        """Add the next line; ``kept`` is what is kept instead of it."""
        if not self.count:
            self.first_line, self.offset = line.number, line.offset
        self.count += 1
        self.size += line.size
        if line.is_too_long:
            self.changed += 1
            note = {OMITTED_KEY: {"bytes": line.size, "sha256": line.digest}}
            self.parts.append(orjson.dumps(note) + (b"\n" if line.is_ended else b""))
            return
        self.changed += kept is not None
        self.parts.append(line.data if kept is None else kept)

    def chunk(self, source_id: str, number: int, digest: str) -> rows.ChunkRow:
        """Return the row of these lines; ``digest`` is that of the original bytes."""
        body = packed(b"".join(self.parts))
        return rows.ChunkRow(
            source_id, number, self.first_line, self.count, self.offset, self.size, digest, self.changed, body
        )


def may_hold_secret(data: bytes) -> bool:
    """Return whether a line may hold a secret; one with escapes or blanks of its own has to be read first.

    Who writes blanks behind colons does so from the first one on.
    """
    return is_suspicious(data) or _ESCAPED.search(data) is not None or b'": ' in data[:_BEGINNING]


def masked(data: bytes) -> bytes | None:
    """Return a damaged line with the secrets masked that can be told in it; None if there are none."""
    # Bytes that are no UTF-8 come back as they were. An escaped line feed before a secret would hide it.
    text = data.decode(errors="surrogateescape")
    parts = [redact_text(part)[0] for part in text.split("\\n")]
    kept = "\\n".join(parts).encode(errors="surrogateescape")
    return None if kept == data else kept


@dataclass(slots=True)
class Rebuilt:
    """What was written of a transcript.

    Parameters
    ----------
    changed_lines
        Lines that are not as they were: masked secrets, lines that were too long.
    is_exact
        Whether every byte is that of the original.
    """

    lines: int = 0
    size: int = 0
    changed_lines: int = 0
    is_exact: bool = True


def rebuild(connection: Connection, source: rows.SourceRow, done: Rebuilt) -> Iterator[bytes]:
    """Yield the bytes of a transcript as they are kept; ``done`` tells afterwards how true they are."""
    whole = sha256()
    for chunk in rows.chunks_of(connection, source.id):
        body = unpacked(chunk.body)
        done.lines += chunk.line_count
        done.size += len(body)
        done.changed_lines += chunk.changed_lines
        whole.update(body)
        yield body
    done.is_exact = done.changed_lines == 0 and whole.hexdigest() == source.digest
