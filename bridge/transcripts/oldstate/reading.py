"""Reading a whole folder of old state: the index, a file for each session, and ``signals`` tables.

A session's notes come from a table where one has them. Where the table is missing, is empty, is locked or is damaged
they come from the session's YAML file. Nothing here raises for what a file holds, and nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bridge.foundation.errors import InvalidId
from bridge.foundation.ids import require_safe_id
from bridge.transcripts.oldstate.model import (
    EVERYBODY,
    YAML_SENDER,
    YAML_TYPE,
    OldSession,
    OldState,
    Problem,
    Signal,
    TableState,
)
from bridge.transcripts.oldstate.signals import SignalTable, read_signals
from bridge.transcripts.oldstate.yamlfiles import Loaded, Unreadable, load_file

INDEX: Final = "sessions.yaml"
FOLDER: Final = "sessions"
#: Where tables are looked for first; then in every other file that is named like a database.
DATABASES: Final = ("session.db", ".signals.db", "signals.db", "sessions.db")
_ENDINGS: Final = (".db", ".sqlite", ".sqlite3")
#: Sessions of one folder, and problems that are told.
MAX_SESSIONS: Final = 100_000
MAX_PROBLEMS: Final = 1_000
#: The session of rows that name none.
UNNAMED: Final = "signals"

_TEXT: Final = ("text", "content", "message", "body", "note", "payload")
_TIME: Final = ("created_at", "timestamp", "time", "at", "date")
_SENDER: Final = ("sender", "author", "source")
_ORDER: Final = ("sequence", "seq", "id")
_SESSION: Final = ("session_id", "session")


def is_old_state(folder: Path) -> bool:
    """Tell whether a folder looks like old state."""
    return (folder / INDEX).is_file() or (folder / FOLDER).is_dir() or any(_database_files(folder))


def read_old_state(folder: Path) -> OldState:
    """Return what a folder holds, as far as it can be read, and what could not be."""
    reading = _Reading(folder)
    reading.read_index()
    reading.read_files()
    reading.read_tables()
    return reading.finish()


@dataclass
class _Draft:
    """What is known of a session before its notes are chosen."""

    fields: dict[str, Any] = field(default_factory=dict)
    notes: list[Signal] | None = None
    rows: list[Signal] = field(default_factory=list)


@dataclass
class _Reading:
    folder: Path
    drafts: dict[str, _Draft] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    tables: dict[str, TableState] = field(default_factory=dict)
    has_index_failed: bool = False

    def read_index(self) -> None:
        path = self.folder / INDEX
        if not os.path.lexists(path):
            return
        value = self._load(path)
        entries = _listed(value, "sessions")
        if entries is None:
            self.has_index_failed = True
            if value is not _FAILED:
                self._tell(path, "unexpected_form", "it holds no list of sessions")
            return
        for entry in entries:
            identity = str(entry.get("id", entry.get("session_id", ""))) if isinstance(entry, Mapping) else ""
            if (draft := self._draft(path, identity)) is not None:
                draft.fields |= entry

    def read_files(self) -> None:
        folder = self.folder / FOLDER
        if not folder.is_dir():
            return
        if not folder.resolve().is_relative_to(self.folder.resolve()):
            self._tell(folder, "outside", "it leads out of the folder, and is not followed")
            return
        for path in sorted(folder.glob("*.yaml")):
            if not path.resolve().is_relative_to(self.folder.resolve()):
                self._tell(path, "outside", "it leads out of the folder, and is not followed")
                continue
            if (draft := self._draft(path, path.stem)) is None:
                continue
            loaded = self._loaded(path)
            value = loaded.value
            if isinstance(value, Mapping):
                named = value.get("session_id")
                if named is not None and str(named) != path.stem:
                    self._tell(path, "other_session", f"it says that it is of {str(named)[:80]!r}; its name counts")
                # What the index says of the same field stays: it is what the program went by.
                draft.fields = {**{key: item for key, item in value.items() if key != "notes"}, **draft.fields}
                draft.notes = _notes(path.stem, _listed(value, "notes") or [], has_ended=loaded.has_ended)
            elif value is not _FAILED and value is not None:
                self._tell(path, "unexpected_form", "it holds no notes of a session")

    def read_tables(self) -> None:
        for path in _database_files(self.folder):
            name = str(path.relative_to(self.folder))
            table = read_signals(path)
            self.tables[name] = table.state
            if table.state in {TableState.LOCKED, TableState.DAMAGED}:
                self._tell(path, f"table_{table.state}", table.detail)
            self._take(path, table)

    def _take(self, path: Path, table: SignalTable) -> None:
        grouped: dict[str, list[Mapping[str, Any]]] = {}
        for row in table.rows:
            grouped.setdefault(str(_first(row, _SESSION) or UNNAMED), []).append(row)
        for identity, rows in grouped.items():
            draft = self._draft(path, identity)
            # Of two tables with the same session the first one counts.
            if draft is not None and not draft.rows:
                is_whole = table.state is TableState.READ
                if is_whole or draft.notes is None:
                    draft.rows = _signals(identity, rows)

    def finish(self) -> OldState:
        sessions = tuple(_session(identity, draft) for identity, draft in self.drafts.items())
        return OldState(sessions, tuple(self.problems), self.has_index_failed, self.tables)

    def _draft(self, path: Path, identity: str) -> _Draft | None:
        try:
            require_safe_id(identity)
        except InvalidId as error:
            self._tell(path, error.code, error.message)
            return None
        if identity not in self.drafts and len(self.drafts) >= MAX_SESSIONS:
            self._tell(path, "too_many", f"more than {MAX_SESSIONS} sessions; {identity} was left out")
            return None
        return self.drafts.setdefault(identity, _Draft())

    def _load(self, path: Path) -> Any:
        return self._loaded(path).value

    def _loaded(self, path: Path) -> Loaded:
        try:
            loaded = load_file(path)
        except Unreadable as error:
            self._tell(path, "unreadable", str(error))
            return Loaded(_FAILED)
        if loaded.torn is not None:
            self._tell(path, "torn", f"only its beginning was read: {loaded.torn}")
        return loaded

    def _tell(self, path: Path, code: str, message: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(str(path.relative_to(self.folder)), code, message))


#: Stands for a file that could not be loaded, which is not the same as an empty one.
_FAILED: Final = object()


def _database_files(folder: Path) -> list[Path]:
    found: list[Path] = []
    for place in (folder, folder / FOLDER):
        if not place.is_dir():
            continue
        named = [place / name for name in DATABASES]
        others = sorted(path for path in place.iterdir() if path.suffix in _ENDINGS)
        found += [path for path in dict.fromkeys([*named, *others]) if path.is_file()]
    return [path for path in found if path.resolve().is_relative_to(folder.resolve())]


def _listed(value: Any, key: str) -> list[Any] | None:
    """Return the list that a file holds, bare or under a key; None if it holds none."""
    if isinstance(value, Mapping):
        value = value.get(key)
        # An index may also be a table by id.
        if isinstance(value, Mapping):
            return [{"id": name, **item} for name, item in value.items() if isinstance(item, Mapping)]
        return [] if value is None else value if isinstance(value, list) else None
    return value if isinstance(value, list) else None


def _notes(identity: str, notes: Sequence[Any], *, has_ended: bool) -> list[Signal]:
    # A bare word among fields, or at the very end of a line that was not ended, is what is left of a torn note.
    if any(isinstance(note, Mapping) for note in notes):
        notes = [note for note in notes if isinstance(note, Mapping)]
    elif not has_ended:
        notes = notes[:-1]
    found: list[Signal] = []
    for note in notes:
        fields = note if isinstance(note, Mapping) else {"text": note}
        signal = _signal(identity, len(found), fields, sender=YAML_SENDER, kind=YAML_TYPE)
        if signal is not None:
            found.append(signal)
    return found


def _signals(identity: str, rows: Iterable[Mapping[str, Any]]) -> list[Signal]:
    found: list[Signal] = []
    for row in sorted(rows, key=_place):
        signal = _signal(identity, len(found), row, sender=None, kind=YAML_TYPE)
        if signal is not None:
            found.append(signal)
    return found


def _place(row: Mapping[str, Any]) -> tuple[int, float, str]:
    order = _first(row, _ORDER)
    if isinstance(order, int | float) and not isinstance(order, bool):
        return (0, float(order), "")
    return (1, 0.0, str(_first(row, _TIME)))


def _signal(identity: str, position: int, fields: Mapping[str, Any], *, sender: str | None, kind: str) -> Signal | None:
    text_field = next((name for name in _TEXT if fields.get(name) is not None and fields[name] != ""), None)
    if text_field is None:
        return None
    time_field = next((name for name in _TIME if fields.get(name) is not None), None)
    who = next((name for name in _SENDER if fields.get(name) is not None), None)
    known = {text_field, time_field, who, "recipient", "type", *_SESSION}
    return Signal(
        session_id=identity,
        position=position,
        text=str(fields[text_field]),
        sender=sender if who is None else str(fields[who]),
        recipient=str(fields.get("recipient") or EVERYBODY),
        type=str(fields.get("type") or kind),
        created_at=None if time_field is None else _time(fields[time_field]),
        extra={str(name): _plain(value) for name, value in fields.items() if name not in known},
    )


def _session(identity: str, draft: _Draft) -> OldSession:
    fields = draft.fields
    signals, source = (draft.rows, "sqlite") if draft.rows else (draft.notes or [], "yaml")
    parent = fields.get("parent_session_id")
    known = {"id", "session_id", "parent_session_id", "status", "created_at", "updated_at"}
    return OldSession(
        id=identity,
        parent_session_id=None if parent is None else str(parent),
        status=None if fields.get("status") is None else str(fields["status"]),
        created_at=_time(fields.get("created_at")),
        updated_at=_time(fields.get("updated_at")),
        signals=tuple(signals),
        source=source if signals else "none",
        extra={str(name): _plain(value) for name, value in fields.items() if name not in known},
    )


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _time(value: Any) -> str | None:
    """Return a time with its offset; of one without, which these programs wrote, it is taken that it is UTC's."""
    if value is None or isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            moment = datetime.fromtimestamp(value, UTC)
        else:
            moment = datetime.fromisoformat(str(value).strip().replace(" ", "T", 1))
    except (ValueError, OverflowError, OSError):
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).isoformat()


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return str(value)
