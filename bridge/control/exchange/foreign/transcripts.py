"""One transcript, from its bytes to entries: read in batches, gone on with where reading ended, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import sha256
from io import SEEK_SET
from secrets import token_hex
from typing import Any, BinaryIO, Final

import orjson

from bridge.control.controller import Controller
from bridge.control.exchange.foreign import store as rows
from bridge.control.exchange.foreign.natives import Native
from bridge.control.exchange.foreign.places import Places
from bridge.control.exchange.foreign.preparing import Preparer, Work, safe_key
from bridge.control.exchange.foreign.rawlines import RawLines, masked, may_hold_secret
from bridge.control.exchange.foreign.sinks import DrySink, StoreSink
from bridge.control.exchange.foreign.taking import Findings, Taker
from bridge.control.exchange.imported import Imported, ImportedSession, ImportRequest
from bridge.control.recording import RecordingTransaction
from bridge.foundation.garbage import uncollected
from bridge.foundation.redaction import is_suspicious, redact
from bridge.transcripts.foreign.lines import BLOCK_BYTES, MAX_LINE_BYTES, Line, content_of, lines_of
from bridge.transcripts.foreign.neutral import Hints, Reader
from bridge.transcripts.foreign.records import Piece, Record, pieces_of

#: What one transaction takes in: so many items, or so many bytes of lines.
BATCH_ITEMS: Final = 2000
BATCH_BYTES: Final = 2 * 1024 * 1024
#: Transactions that may wait to be written.
MAX_WAITING: Final = 2
#: Findings of one transcript that are kept whole; all are counted.
MAX_FINDINGS: Final = 1000
#: Sessions of one transcript that are named in a report.
MAX_SESSIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A form of transcript.

    Parameters
    ----------
    name
        As in ``--format``; also the harness of its sessions.
    reader
        Makes a reader from hints and a kept state.
    is_record
        Whether an object can be a record of its own.
    """

    name: str
    title: str
    reader: Callable[[Hints, Mapping[str, Any] | None], Reader]
    is_record: Callable[[Mapping[str, Any]], bool]


@dataclass(slots=True)
class _Batch:
    """What is written in one transaction."""

    raw: RawLines
    works: list[Work] = field(default_factory=list)
    originals: list[bytes | Line] = field(default_factory=list)


class Transcript:
    """One transcript that is being taken in.

    Parameters
    ----------
    path
        Where it is: under this name it is known again. None for a stream.
    name
        What findings call it.
    started_at
        When it began, as far as nothing else tells.
    is_replaced
        Whether it is always read as a whole, and what was kept of an earlier reading is replaced.
    is_document
        Whether all of the file is one record; then it is replaced, too.
    """

    def __init__(
        self,
        controller: Controller,
        form: ForeignFormat,
        request: ImportRequest,
        *,
        path: str | None,
        name: str,
        hints: Hints,
        started_at: str,
        places: Places,
        is_replaced: bool = False,
        is_document: bool = False,
    ) -> None:
        self._controller = controller
        self._form = form
        self._request = request
        self._path = path
        self._hints = hints
        self._is_replaced = is_replaced or is_document
        self._is_document = is_document
        self._total = 0
        self.findings = Findings(name, MAX_FINDINGS)
        self._preparer = Preparer(controller.recorder, places, form.name, started_at)
        self._taker = Taker(self._preparer, self.findings)
        self._reader: Reader = form.reader(hints, None)
        self._row: rows.SourceRow | None = None
        self._whole = sha256()
        self._size = self._lines = self._chunks = 0
        self._skipped_lines = 0
        self._is_torn = False
        self._waiting: list[Future[None]] = []
        self._sink: DrySink | None = None
        self._told: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that were taken in so far."""
        return self._size

    @property
    def is_torn(self) -> bool:
        """Whether the file ended in the middle of a record when it was read last."""
        return self._is_torn

    def begin(self, stream: BinaryIO, size: int) -> None:
        """Find out how much of the file was taken in before; only what follows is read."""
        self._total = size
        if self._path is None:
            return
        with self._controller.store.read() as connection:
            known = rows.sources_at(connection, self._path)
        for row in known:
            if row.format != self._form.name or row.size > size or bool(row.is_redacted) == self._request.keep_raw:
                continue
            whole = _digest_of(stream, row.size)
            if whole.hexdigest() != row.digest or (self._is_replaced and row.size != size):
                continue
            kept = orjson.loads(row.state)
            self._row, self._whole = row, whole
            self._size, self._lines = row.size, row.line_count
            self._skipped_lines = row.line_count
            self._told = tuple(kept.get("sessions", ()))
            self._reader = self._form.reader(self._hints, kept.get("reader"))
            with self._controller.store.read() as connection:
                self._chunks = rows.next_chunk(connection, row.id)
            return
        if self._is_replaced and known and known[0].format == self._form.name:
            # What changed since is read again as a whole; the row stays, its lines are replaced.
            self._row = known[0]

    def go_on(self, stream: BinaryIO) -> None:
        """Take in what follows; what is torn at the end waits for the next time.

        Raises
        ------
        UnsupportedTranscriptVersion
            If it is of a version that is not read; what came before that line is here then.
        """
        stream.seek(self._size, SEEK_SET)
        self._total = max(self._total, self._size)
        if self._request.dry_run:
            with self._controller.store.read() as connection:
                self._sink = DrySink(connection)
                self._read(stream)
        else:
            self._read(stream)

    def _read(self, stream: BinaryIO) -> None:
        self._is_torn = False
        self.findings.drop("torn_tail")
        try:
            for batch, digest in self._batches(stream):
                self._write(batch, digest)
                self._tell()
            self._write_last()
        finally:
            # Whatever happens: what was handed over is either written, or its failure is told.
            waiting, self._waiting = self._waiting, []
            for one in waiting:
                one.result()

    def _batches(self, stream: BinaryIO) -> Iterator[tuple[_Batch, str]]:
        """Yield batches with the digest over the bytes of their lines."""
        lines = lines_of(stream, number=self._line_number(), offset=self._size)
        if self._is_document:
            lines = _document(stream)
        pieces = pieces_of(lines, self._form.is_record)
        is_more = True
        while is_more:
            batch = _Batch(RawLines())
            is_more = self._fill(batch, pieces)
            if batch.raw.count:
                yield batch, self._close(batch, stream)

    def _fill(self, batch: _Batch, pieces: Iterator[Piece]) -> bool:
        """Take pieces until a batch is full; return whether there may be more."""
        with uncollected():
            for piece in pieces:
                if piece.is_open:
                    self._is_torn = True
                    for damage in piece.damages:
                        self.findings.add(damage.kind, damage.message, damage.line, damage.offset)
                    return False
                self._take_piece(batch, piece)
                if len(batch.works) >= BATCH_ITEMS or batch.raw.size >= BATCH_BYTES:
                    return True
        return False

    def _line_number(self) -> int:
        return self._lines + 1

    def _take_piece(self, batch: _Batch, piece: Piece) -> None:
        if len(piece.lines) == 1 and len(piece.records) == 1 and not piece.damages:
            self._take_record(batch, piece.records[0], piece.lines[0])
            return
        first = piece.lines[0]
        for damage in piece.damages:
            batch.works.append((damage, first.number, first.offset))
        for line in piece.lines:
            is_clean = self._request.keep_raw or line.is_too_long or not is_suspicious(line.data)
            self._keep(batch, line, None if is_clean else masked(line.data))
        for record in piece.records:
            batch.works.extend(self._preparer.prepare(self._reader.read(record), record, is_clean=False))

    def _take_record(self, batch: _Batch, record: Record, line: Line) -> None:
        """Take the one record of a line, as nearly all are: one look for secrets is enough for line and entries."""
        is_clean, kept = True, None
        if may_hold_secret(line.data):
            found = redact(record.value)
            if found.count:
                record = record._replace(value=found.value)
                if not self._request.keep_raw:
                    kept = orjson.dumps(found.value) + line.data[len(content_of(line.data)) :]
        self._keep(batch, line, kept)
        batch.works.extend(self._preparer.prepare(self._reader.read(record), record, is_clean=is_clean))

    def _keep(self, batch: _Batch, line: Line, kept: bytes | None) -> None:
        batch.raw.add(line, kept)
        # The original bytes, for the digests; those of a line that is too long are read again.
        batch.originals.append(line if line.is_too_long else line.data)
        self._size += line.size
        self._lines += line.data.count(b"\n") if self._is_document else line.is_ended

    def _close(self, batch: _Batch, stream: BinaryIO) -> str:
        """Return the digest over the bytes of a batch's lines, and add them to that of the whole."""
        part, waiting = sha256(), []
        for one in (*batch.originals, None):
            if isinstance(one, bytes):
                waiting.append(one)
                continue
            block = b"".join(waiting)
            waiting = []
            self._whole.update(block)
            part.update(block)
            if one is not None:
                for again in _bytes_of(stream, one):
                    self._whole.update(again)
                    part.update(again)
        batch.originals.clear()
        return part.hexdigest()

    def _write(self, batch: _Batch, digest: str) -> None:
        if self._sink is not None:
            self._taker.take(self._sink, batch.works)
            return
        if self._row is None:
            self._row = self._new_row()
        number, self._chunks = self._chunks, self._chunks + 1
        row = self._row = self._row_now(self._row)

        def write(recording: RecordingTransaction) -> None:
            if number == 0 and self._is_replaced:
                rows.forget_chunks(recording.tx, row.id)
            with uncollected():
                self._taker.take(StoreSink(recording), batch.works)
            rows.put_source(recording.tx, row)
            # Compressed here: this thread waits for the disk, while the other one reads on.
            rows.add_chunk(recording.tx, batch.raw.chunk(row.id, number, digest))

        self._submit(write)

    def _write_last(self) -> None:
        if self._sink is not None:
            self._taker.end(self._sink)
            return
        self._drain(0)
        if any(native.waiting for native in self._taker.natives.values()):
            self._submit(lambda recording: self._taker.end(StoreSink(recording)))
            self._drain(0)
        if self._row is not None and self._taker.natives:
            # Whose transcript it is, is known for certain at the end.
            row = self._row = self._row_now(self._row)
            self._submit(lambda recording: rows.put_source(recording.tx, row))

    def _submit(self, write: Callable[[RecordingTransaction], None]) -> None:
        self._drain(MAX_WAITING - 1)
        self._waiting.append(self._controller.recorder.submit(write))

    def _drain(self, left: int) -> None:
        while len(self._waiting) > left:
            self._waiting.pop(0).result()

    def _new_row(self) -> rows.SourceRow:
        moment = self._controller.now()
        return rows.SourceRow(
            id=f"i{token_hex(8)}",
            format=self._form.name,
            path=self._path,
            native_id=None,
            size=0,
            line_count=0,
            digest="0" * 64,
            is_redacted=0 if self._request.keep_raw else 1,
            created_at=moment,
            updated_at=moment,
            state="{}",
        )

    def _row_now(self, row: rows.SourceRow) -> rows.SourceRow:
        """Return the source's row as of the lines read so far."""
        sessions = list(dict.fromkeys([*self._told, *self._taker.natives]))
        state = {"reader": self._reader.state(), "sessions": sessions[-MAX_SESSIONS:]}
        return rows.SourceRow(
            id=row.id,
            format=row.format,
            path=row.path,
            native_id=row.native_id or (safe_key(sessions[-1]) if sessions else None),
            size=self._size,
            line_count=self._lines,
            digest=self._whole.hexdigest(),
            is_redacted=row.is_redacted,
            created_at=row.created_at,
            updated_at=self._controller.now(),
            state=orjson.dumps(state).decode(),
        )

    def _tell(self) -> None:
        if self._request.progress is not None:
            self._request.progress("read", self._size, self._total)

    def result(self) -> Imported:
        """Return what became of the transcript so far."""
        natives = self._taker.natives
        sessions = [_session(native) for native in natives.values() if native.is_here]
        if not natives:
            sessions = [*self._unchanged()]
        last = sessions[-1].session_id if sessions else None
        return Imported(
            session_id=last,
            digest=self._whole.hexdigest(),
            is_dry_run=self._request.dry_run,
            sessions=tuple(sessions[:MAX_SESSIONS]),
            format=self._form.name,
            path=self._path or self.findings.path,
            findings=tuple(self.findings.kept),
            problems=self.findings.count,
            lines=self._lines,
            skipped=self._skipped_lines,
        )

    def _unchanged(self) -> Iterator[ImportedSession]:
        with self._controller.store.read() as connection:
            for native_id in self._told:
                row = rows.native(connection, self._form.name, safe_key(native_id))
                session_id = None if row is None else row.session_id or row.copy_session_id
                if session_id is not None:
                    yield ImportedSession(session_id, "unchanged", 0, 0, complete=True)


def _session(native: Native) -> ImportedSession:
    if native.recorded_as is not None:
        return ImportedSession(native.recorded_as, "recorded", 0, native.seen, complete=True)
    status = "created" if native.is_new else "continued" if native.added else "unchanged"
    if native.session_id is None:
        status = "copy"
    return ImportedSession(
        native.session_id or str(native.copy_of),
        status,
        native.added,
        native.seen,
        complete=True,
        active_entry_id=None if native.leaf is None else native.leaf[0],
    )


def _bytes_of(stream: BinaryIO, line: Line) -> Iterator[bytes]:
    """Yield the bytes of a line, and go back to where the stream was."""
    at = stream.tell()
    stream.seek(line.offset, SEEK_SET)
    left = line.size
    while left > 0 and (block := stream.read(min(left, BLOCK_BYTES))):
        yield block
        left -= len(block)
    stream.seek(at, SEEK_SET)


def _document(stream: BinaryIO) -> Iterator[Line]:
    """Yield all of a file as one line, unless it is longer than lines may be."""
    data = stream.read(MAX_LINE_BYTES + 1)
    if len(data) > MAX_LINE_BYTES:
        rest = sha256(data)
        size = len(data)
        while block := stream.read(BLOCK_BYTES):
            rest.update(block)
            size += len(block)
        yield Line(1, 0, b"", is_ended=True, size=size, digest=rest.hexdigest())
    elif data:
        yield Line(1, 0, data, is_ended=True, size=len(data))


def _digest_of(stream: BinaryIO, size: int) -> Any:
    """Return the running digest over the first bytes of a file."""
    whole, left = sha256(), size
    stream.seek(0, SEEK_SET)
    while left > 0 and (block := stream.read(min(left, BLOCK_BYTES))):
        whole.update(block)
        left -= len(block)
    return whole
