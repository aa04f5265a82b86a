"""Reading in a host's own record what its hooks do not tell: thoughts, words between tools, tokens, missed calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bridge.control.capture.model import Captured
from bridge.control.capture.transcripts import Tail
from bridge.control.controller import Controller
from bridge.conversations.models import EntryDraft
from bridge.conversations.store import listed_ancestry
from bridge.semantics.ownwords import without_notes
from bridge.storage.transaction import Connection
from bridge.transcripts.foreign.lines import Line, lines_of
from bridge.transcripts.foreign.neutral import Hints, Neutral, Reader
from bridge.transcripts.foreign.records import Record, pieces_of
from bridge.transcripts.hosts import HOST_RECORDS

#: Bytes of a record that are read at the end of one turn; the rest is read at the end of the next.
MAX_TAIL_BYTES: Final = 16 * 1024 * 1024
#: Entries of the session that are looked through for what its hooks told.
LOOKED_THROUGH: Final = 2_000
#: Before the external ids of what was read.
PREFIX: Final = "record:"
#: What hooks never tell; of messages and calls they tell most.
_UNTOLD: Final = frozenset({"reasoning.completed", "usage.updated", "model.changed"})
_CALLS: Final = frozenset({"tool.started", "tool.completed"})


class TailReader:
    """Reads records from where it ended last. Not for one session in several threads at once."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, str], Reader] = {}

    def __call__(self, controller: Controller, captured: Captured) -> Tail:
        """Return what is new in a session's record; only whole lines count. Raises OSError if it cannot be read."""
        known = HOST_RECORDS.get(captured.host)
        if known is None or captured.transcript is None:
            return Tail((), captured.transcript_offset)
        key = (captured.host, captured.transcript)
        path = Path(captured.transcript)
        reader = self._readers.setdefault(key, known.reader(Hints(name=path.stem, folder=path.parent.name)))
        items: list[Neutral] = []
        end = captured.transcript_offset
        with path.open("rb") as file:
            file.seek(end)
            lines: list[Line] = []
            for line in lines_of(file, offset=end):
                if not line.is_ended or line.offset - end >= MAX_TAIL_BYTES:
                    break
                lines.append(line)
        for piece in pieces_of(lines, known.is_record):
            for record in piece.records:
                items += _entries(reader, record)
        if lines:
            end = lines[-1].offset + lines[-1].size
        with controller.store.read() as connection:
            told = _Told(connection, captured)
        return Tail(tuple(_drafts(items, captured, told)), end)


class _Told:
    """What hooks have told of the newest turns: texts of messages, and calls by their ids and ends."""

    def __init__(self, connection: Connection, captured: Captured) -> None:
        self.texts: set[str] = set()
        self.calls: set[tuple[str, str]] = set()
        if captured.base_entry_id is None:
            return
        session_id = captured.base_entry_id.rpartition("-")[0]
        for entry in listed_ancestry(connection, session_id, captured.base_entry_id, LOOKED_THROUGH):
            payload: dict[str, Any] = entry.payload or {}
            if entry.kind == "assistant.message":
                self.texts.add(str(payload.get("text")).strip())
            elif entry.kind in _CALLS:
                self.calls.add((entry.kind, str(payload.get("tool_call_id"))))


def _entries(reader: Reader, record: Record) -> Iterator[Neutral]:
    return (item for item in reader.read(record) if isinstance(item, Neutral))


def _drafts(items: list[Neutral], captured: Captured, told: _Told) -> Iterator[EntryDraft]:
    turn = {} if captured.turn_id is None else {"turn_id": captured.turn_id}
    for item in items:
        payload = dict(item.payload)
        if item.kind == "assistant.message":
            text = without_notes(str(payload.get("text", "")))
            if not text.strip() or text.strip() in told.texts:
                continue
            payload["text"] = text
        elif item.kind in _CALLS:
            if (item.kind, str(payload.get("tool_call_id"))) in told.calls:
                continue
        elif item.kind not in _UNTOLD:
            continue
        yield EntryDraft(
            kind=item.kind,
            payload={**payload, **turn},
            cursor=captured.cursor,
            external_id=f"{PREFIX}{item.key}"[:1000],
            external_source=captured.source,
        )
