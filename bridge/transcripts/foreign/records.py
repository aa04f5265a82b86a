"""Records of JSON lines as other programs leave them: repaired where that is certain, reported where it is not.

What is met in the field: two records on one line; a torn record with the next one welded to it; a record whose text
holds raw line feeds and so lies on several lines; a last line that was cut off, or is still being written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson

from bridge.transcripts.foreign.lines import Line, content_of

#: Bad lines in a row that may be one record with raw line feeds, and their bytes.
MAX_REJOINED_LINES: Final = 64
MAX_REJOINED_BYTES: Final = 1024 * 1024
#: Places in a bad line at which a whole record is looked for.
MAX_WELD_TRIES: Final = 64
#: Where a record may begin: an object whose first key is a plain word.
_BEGINNING: Final = re.compile(rb'\{\s*"[$A-Za-z_]')
#: Stands before a text that JSON can write and Unicode cannot hold, or a number that no entry can hold.
NOT_UNICODE: Final = "[not unicode] "
NOT_A_NUMBER: Final = "[number] "
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1


class Record(NamedTuple):
    """One object.

    Parameters
    ----------
    digest
        SHA-256 of the bytes that it was read from, without what ended the line, in hexadecimal.
    """

    value: dict[str, Any]
    line: Line
    digest: str


class Damage(NamedTuple):
    """Something that is not as it should be.

    Parameters
    ----------
    kind
        ``not_json``, ``not_utf8``, ``not_an_object``, ``several_records``, ``welded``, ``rejoined``, ``torn_tail``,
        ``line_too_long``, ``lenient``.
    line, offset
        Where it begins: the line, and the byte in the file.
    """

    kind: str
    message: str
    line: int | None
    offset: int | None


class Piece(NamedTuple):
    """What became of some lines that belong together: usually one line and its one record.

    Parameters
    ----------
    lines
        All lines, in order, so that none is lost: blank and damaged ones as well.
    is_open
        Whether it is the torn end of the file, which may still be growing: nothing of it was taken.
    """

    lines: tuple[Line, ...]
    records: tuple[Record, ...]
    damages: tuple[Damage, ...] = ()
    is_open: bool = False


_NONE: Final[tuple[Record, ...]] = ()


def pieces_of(lines: Iterable[Line], is_record: Callable[[Mapping[str, Any]], bool]) -> Iterator[Piece]:
    """Yield the records of some lines, together with the lines and what is wrong with them.

    Parameters
    ----------
    is_record
        Whether an object can be a record of its own: what is found behind a torn record may be a part of that.
    """
    held: list[Line] = []
    for line in lines:
        piece = _plain_piece(line) or _repaired(line, is_record)
        if piece is not None:
            yield from _damaged(held)
            held = []
            yield piece
            continue
        held.append(line)
        whole = _rejoined(held)
        if whole is not None:
            yield whole
            held = []
        elif len(held) >= MAX_REJOINED_LINES or sum(one.size for one in held) > MAX_REJOINED_BYTES:
            yield from _damaged(held[:1])
            del held[:1]
    yield from _damaged(held)


def _plain_piece(line: Line) -> Piece | None:
    """Return what a line is that is as it should be, or blank; None for any other."""
    if line.is_too_long:
        return None
    data = line.data
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return Piece((line,), _NONE) if line.is_ended and not data.strip() else None
    if type(value) is dict:
        return Piece((line,), (Record(value, line, sha256(content_of(data)).hexdigest()),))
    return Piece((line,), _NONE, (_damage("not_an_object", "the line is not an object", line),))


def _damage(kind: str, message: str, line: Line, at: int = 0) -> Damage:
    return Damage(kind, message, line.number, line.offset + at)


def _damaged(lines: list[Line]) -> Iterator[Piece]:
    """Yield lines of which nothing can be read as one region; a last one that is not ended stays open."""
    if not lines:
        return
    last = lines[-1]
    is_torn = not last.is_ended and not last.is_too_long
    whole = lines[:-1] if is_torn else lines
    if whole:
        first = whole[0]
        try:
            first.data.decode()
        except UnicodeDecodeError as error:
            yield Piece(tuple(whole), _NONE, (_damage("not_utf8", "the line is not UTF-8", first, error.start),))
        else:
            where = "the line is" if len(whole) == 1 else f"{len(whole)} lines are"
            yield Piece(tuple(whole), _NONE, (_damage("not_json", f"{where} no JSON object", first),))
    if is_torn:
        message = "the file ends in the middle of a record"
        yield Piece((last,), _NONE, (_damage("torn_tail", message, last),), is_open=True)


def _repaired(line: Line, is_record: Callable[[Mapping[str, Any]], bool]) -> Piece | None:
    """Return what a line that the fast parser refuses holds all the same; None if nothing whole."""
    if line.is_too_long:
        message = f"the line has {line.size} bytes; Bridge reads lines that are shorter"
        return Piece((line,), _NONE, (_damage("line_too_long", message, line),))
    content = content_of(line.data)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    value = _loads(text)
    if isinstance(value, dict):
        record = Record(_marked(value), line, sha256(content).hexdigest())
        return Piece((line,), (record,), (_damage("lenient", "the line is JSON by lenient rules only", line),))
    values, end = _leading(text)
    rest = text[end:].strip()
    if values and not rest:
        return Piece((line,), tuple(_several(values, line)), (_several_damage(len(values), line),))
    found = _welded(text[end:])
    if found is None or not all(is_record(value) for value, _ in found[1]):
        return None
    start, more = found
    stub = len(text[: end + start].encode())
    kept = len(text[:end].encode())
    message = f"{stub - kept} bytes of a torn record stand before a whole one"
    damages = [_damage("welded", message, line, kept)]
    values = [*values, *more]
    if len(values) > 1:
        damages.append(_several_damage(len(values), line))
    return Piece((line,), tuple(_several(values, line)), tuple(damages))


def _several_damage(count: int, line: Line) -> Damage:
    return _damage("several_records", f"{count} records stand on one line; all were read", line)


def _several(values: list[tuple[dict[str, Any], str]], line: Line) -> Iterator[Record]:
    for value, text in values:
        yield Record(_marked(value), line, sha256(text.encode()).hexdigest())


def _leading(text: str) -> tuple[list[tuple[dict[str, Any], str]], int]:
    """Return the whole objects at the beginning of a text, and where they end."""
    decoder, at = json.JSONDecoder(), 0
    found: list[tuple[dict[str, Any], str]] = []
    while True:
        start = at + len(text[at:]) - len(text[at:].lstrip())
        if not text.startswith("{", start):
            return found, at
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return found, at
        found.append((value, text[start:end]))
        at = end


def _welded(text: str) -> tuple[int, list[tuple[dict[str, Any], str]]] | None:
    """Return where in a text whole objects begin that go on to its end, and those; None if there are none.

    The first such place is taken. An object inside a torn one would end before the text does.
    """
    for tries, match in enumerate(_BEGINNING.finditer(text.encode(errors="surrogatepass"))):
        if tries >= MAX_WELD_TRIES:
            return None
        if match.start() == 0:
            continue
        start = len(text.encode(errors="surrogatepass")[: match.start()].decode(errors="surrogatepass"))
        values, end = _leading(text[start:])
        if values and not text[start + end :].strip():
            return start, values
    return None


def _rejoined(lines: list[Line]) -> Piece | None:
    """Return the record that some lines are together, if its texts hold raw line feeds; None if they are none."""
    if len(lines) < 2:
        return None
    content = b"".join(line.data for line in lines)
    body = content_of(content)
    try:
        value = json.loads(body.decode(), strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    record = Record(_marked(value), lines[0], sha256(body).hexdigest())
    message = f"{len(lines)} lines are one record, whose text has raw line feeds"
    return Piece(tuple(lines), (record,), (_damage("rejoined", message, lines[0]),))


def _loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _marked(value: Any) -> Any:
    """Return a value with what no entry can hold as marked texts: lone surrogates, endless and very wide numbers."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return NOT_UNICODE + value.encode(errors="backslashreplace").decode()
        return value
    if isinstance(value, dict):
        return {_marked(key): _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"{NOT_A_NUMBER}{value}"
    if isinstance(value, int) and not isinstance(value, bool) and not _MIN_INTEGER <= value <= _MAX_INTEGER:
        return f"{NOT_A_NUMBER}{value}"
    return value
