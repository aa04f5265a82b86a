"""The forms of transcripts that other programs write: how each is told, and how one is taken in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any, BinaryIO, Final, cast

import orjson

from bridge.control.controller import Controller
from bridge.control.exchange.foreign.places import Places
from bridge.control.exchange.foreign.transcripts import ForeignFormat, Transcript
from bridge.control.exchange.imported import Imported, ImportRequest
from bridge.control.exchange.sources import Source
from bridge.foundation.clock import format_timestamp
from bridge.transcripts.claude import reading as claude
from bridge.transcripts.codex import reading as codex
from bridge.transcripts.errors import TranscriptEmpty, UnknownTranscriptFormat
from bridge.transcripts.foreign.lines import lines_of
from bridge.transcripts.foreign.neutral import Hints, text_or_none
from bridge.transcripts.foreign.records import pieces_of
from bridge.transcripts.gemini import reading as gemini
from bridge.transcripts.opencode import database
from bridge.transcripts.opencode import reading as opencode
from bridge.transcripts.pi import reading as pi

#: Lines by which a form is told: damage at the beginning of a file does not hide what it is.
_LINES_LOOKED_AT: Final = 64
#: Bytes of a small file beside a transcript that are read.
_BESIDE_BYTES: Final = 64 * 1024
#: Bytes of a database's session that are kept in memory; a longer one is laid on the disk.
_SPOOLED_BYTES: Final = 8 * 1024 * 1024
#: Keys of an object that a message names.
_KEYS_SHOWN: Final = 6

CLAUDE: Final = ForeignFormat(claude.FORMAT, "a transcript of Claude Code", claude.ClaudeReader, claude.recognises)
CODEX: Final = ForeignFormat(codex.FORMAT, "a rollout of Codex", codex.CodexReader, codex.recognises)
PI: Final = ForeignFormat(pi.FORMAT, "a session of Pi, version 1 to 3", pi.PiReader, pi.is_record)
GEMINI: Final = ForeignFormat(gemini.FORMAT, "a chat of Gemini CLI", gemini.GeminiReader, gemini.is_record)
OPENCODE: Final = ForeignFormat(
    opencode.FORMAT, "a database of OpenCode", opencode.OpenCodeReader, lambda value: "table" in value
)
#: What makes a record sure to be of a form; of some forms it is the header alone.
_SIGNS: Final = (
    (CLAUDE, claude.recognises),
    (CODEX, codex.recognises),
    (PI, pi.recognises),
    (GEMINI, gemini.recognises),
)
LINE_FORMS: Final = (CLAUDE, CODEX, PI, GEMINI)


def form_of(source: Source) -> ForeignFormat | None:
    """Return the form of a file by what it holds; None if it is none of these."""
    if source.is_directory:
        return None
    head = source.head()
    if head.startswith(database.MAGIC):
        return OPENCODE if source.path is not None else None
    if _is_gemini_document(head):
        return GEMINI
    for value in _first_records(head):
        for form, is_sign in _SIGNS:
            if is_sign(value):
                return form
    return None


def seen_in(source: Source) -> str:
    """Return what a file that is none of these looks like, for a message."""
    if source.is_directory:
        return "a folder"
    head = source.head()
    if head.startswith(database.MAGIC):
        return "a SQLite database that is not OpenCode's"
    if not head:
        return "an empty file"
    if not head.strip():
        return "nothing but blank lines"
    values = list(_first_records(head))
    if values:
        kinds = sorted({str(value.get("type"))[:40] for value in values if "type" in value})
        keys = ", ".join(sorted(map(str, values[0]))[:_KEYS_SHOWN])
        return f"JSON lines of type {', '.join(kinds[:_KEYS_SHOWN])}" if kinds else f"JSON lines with the keys {keys}"
    if head.lstrip()[:1] in (b"{", b"["):
        lines = head.count(b"\n")
        return f"one JSON document over {lines} lines or more" if lines > 1 else "a record that was cut off"
    return "no JSON lines"


def require_form(source: Source, form: ForeignFormat) -> None:
    """Check that a file is of the form that it is said to be.

    Raises
    ------
    TranscriptEmpty
        If it holds nothing whole.
    UnknownTranscriptFormat
        If it is another.
    """
    found = form_of(source)
    if found is form:
        return
    seen = seen_in(source) if found is None else found.title
    kind = TranscriptEmpty if is_empty(source) else UnknownTranscriptFormat
    raise kind(
        f"{source.name!r} is not {form.title}: it holds {seen}. Nothing was written.",
        details={"path": source.name, "format": form.name, "seen": seen},
    )


def is_empty(source: Source) -> bool:
    """Return whether a file holds nothing, or no more than the beginning of its first record."""
    head = source.head()
    return not source.is_directory and (not head.strip() or (b"\n" not in head.strip() and not _is_whole(head)))


def _is_whole(head: bytes) -> bool:
    try:
        orjson.loads(head)
    except orjson.JSONDecodeError:
        return False
    return True


def _first_records(head: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records at the beginning of a file; a line that the look ends in is left out."""
    whole, feed, _ = head.rpartition(b"\n")
    data = whole + feed if feed else head
    stream = _Bytes(data)
    for number, piece in enumerate(pieces_of(lines_of(stream), lambda _value: True)):
        if number >= _LINES_LOOKED_AT:
            return
        for record in piece.records:
            # A document that was rejoined is none of lines.
            if all(damage.kind != "rejoined" for damage in piece.damages):
                yield record.value


class _Bytes:
    """A file in memory, as far as it is used."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int, /) -> bytes:
        start, self._at = self._at, self._at + size
        return self._data[start : self._at]


def _is_gemini_document(head: bytes) -> bool:
    """Return whether a file is one JSON document of the older form."""
    begins = head.lstrip()[:1] == b"{"
    first, feed, _ = head.lstrip().partition(b"\n")
    is_spread = bool(feed) and not _is_whole(first)
    return begins and is_spread and b'"sessionId"' in head and b'"projectHash"' in head


def hints_for(path: Path | None, form: ForeignFormat) -> Hints:
    """Return what lies around a transcript: names, and small files beside it that say more."""
    if path is None:
        return Hints()
    meta: Mapping[str, Any] = {}
    cwd = None
    if form is CLAUDE and path.stem.startswith("agent-"):
        beside = _small(path.with_name(f"{path.stem}.meta.json"))
        try:
            value = orjson.loads(beside or b"null")
        except orjson.JSONDecodeError:
            value = None
        meta = value if isinstance(value, dict) else {}
    if form is GEMINI:
        text = (_small(path.parent.parent / ".project_root") or b"").decode(errors="replace").strip()
        cwd = text_or_none(text)
    return Hints(path.stem, path.parent.name, path.parent.parent.name, cwd, meta)


def _small(path: Path) -> bytes | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_BESIDE_BYTES)
    except OSError:
        return None  # most transcripts have no such file


def opened_transcript(
    controller: Controller, source: Source, form: ForeignFormat, request: ImportRequest, places: Places
) -> Transcript:
    """Return a transcript of lines that is about to be taken in."""
    path = None if source.path is None else source.path.absolute()
    return Transcript(
        controller,
        form,
        request,
        path=None if path is None else str(path),
        name=source.name,
        hints=hints_for(path, form),
        started_at=_changed_at(controller, path),
        places=places,
        is_document=form is GEMINI and _is_gemini_document(source.head()),
    )


def _changed_at(controller: Controller, path: Path | None) -> str:
    if path is None:
        return controller.now()
    try:
        return format_timestamp(datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except (OSError, ValueError, OverflowError):
        return controller.now()


def take_in_lines(
    controller: Controller, source: Source, form: ForeignFormat, request: ImportRequest, places: Places | None = None
) -> Imported:
    """Take in one file of lines.

    Raises
    ------
    UnknownTranscriptFormat, UnsupportedTranscriptVersion, ImportUnreadable
        If it is of another form, of a version that is not read, or cannot be read.
    """
    require_form(source, form)
    transcript = opened_transcript(controller, source, form, request, places or Places(controller))
    with source.open() as stream:
        stream.seek(0, 2)
        size = stream.tell()
        transcript.begin(stream, size)
        transcript.go_on(stream)
    return transcript.result()


def take_in_database(
    controller: Controller, source: Source, request: ImportRequest, places: Places | None = None
) -> Imported:
    """Take in all sessions of a database of OpenCode. Raises as :func:`take_in_lines` does."""
    require_form(source, OPENCODE)
    if source.path is None:
        raise ValueError("a database is read from where it lies")
    path, known = source.path.absolute(), places or Places(controller)
    results: list[Imported] = []
    with database.opened(path) as connection:
        if not database.is_opencode(connection):
            raise UnknownTranscriptFormat(
                f"{source.name!r} is not {OPENCODE.title}: it holds {seen_in(source)}. Nothing was written.",
                details={"path": source.name, "format": OPENCODE.name, "seen": seen_in(source)},
            )
        for session, _ in database.sessions_of(connection):
            with SpooledTemporaryFile(_SPOOLED_BYTES) as spooled:
                stream = cast("BinaryIO", cast("IO[bytes]", spooled))
                for line in database.lines_of_session(connection, session):
                    stream.write(line)
                size = stream.tell()
                transcript = Transcript(
                    controller,
                    OPENCODE,
                    request,
                    path=f"{path}#{session}",
                    name=f"{source.name}#{session}",
                    hints=Hints(session),
                    started_at=_changed_at(controller, path),
                    places=known,
                    is_replaced=True,
                )
                transcript.begin(stream, size)
                transcript.go_on(stream)
                results.append(transcript.result())
    return joined(results, OPENCODE.name, str(path), is_dry_run=request.dry_run)


def joined(results: list[Imported], form: str, path: str, *, is_dry_run: bool) -> Imported:
    """Return what became of several transcripts as one result."""
    sessions = tuple(session for one in results for session in one.sessions)
    return Imported(
        session_id=sessions[-1].session_id if sessions else None,
        digest=None,
        is_dry_run=is_dry_run,
        sessions=sessions,
        format=form,
        path=path,
        findings=tuple(finding for one in results for finding in one.findings),
        problems=sum(one.problems for one in results),
        lines=sum(one.lines or 0 for one in results),
        skipped=sum(one.skipped or 0 for one in results),
    )
