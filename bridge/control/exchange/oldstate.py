"""Use case: taking in folders of old state for good, notes with their senders and times, sessions with their parents.

What is here already stays as it is: the same folder again adds nothing, one that has grown adds what is new. The folder
itself is only ever read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bridge.control.controller import Controller
from bridge.control.errors import ImportUnreadable
from bridge.control.exchange.imported import ImportedSession
from bridge.control.recording import RecordingTransaction
from bridge.conversations.models import OPEN_STATUS, EntryDraft, NewSession
from bridge.conversations.store import find_external, get_session, session_exists
from bridge.foundation.canonical import canonical_bytes
from bridge.foundation.errors import BridgeError
from bridge.foundation.redaction import redact_text
from bridge.integrity.store import first_event_type
from bridge.semantics.kinds import HIDDEN
from bridge.storage.transaction import Connection
from bridge.transcripts.oldstate.model import OldSession, OldState, Problem, Signal
from bridge.transcripts.oldstate.reading import is_old_state, read_old_state

#: The name of the format, and what sessions of it say they come from.
FORMAT: Final = "yaml-sessions"
#: Notes that are written in one transaction.
BATCH: Final = 1_000
#: Longest name of a sender, recipient or type that the contract of notes takes; a longer one is kept beside.
MAX_NAME_CHARACTERS: Final = 1024
#: What holds fields of a session that have no place here.
SESSION_RECORD: Final = "yaml-sessions.session"
#: What a session that had not ended was called there, and what one that had is called here.
_ACTIVE: Final = "active"
_ENDED: Final = "ended"


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What became of a folder."""

    sessions: tuple[ImportedSession, ...]
    problems: tuple[Problem, ...]
    state: OldState
    is_dry_run: bool

    @property
    def added(self) -> int:
        return sum(session.added for session in self.sessions)

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "format": FORMAT,
            "dry_run": self.is_dry_run,
            "added": self.added,
            "sessions": [session.to_json() for session in self.sessions],
            "problems": [problem.to_json() for problem in self.problems],
            "tables": {name: str(state) for name, state in self.state.tables.items()},
            "has_index_failed": self.state.has_index_failed,
        }


def require_old_state(folder: Path) -> OldState:
    """Return what a folder of old state holds.

    Raises
    ------
    ImportUnreadable
        If there is no such folder, or it holds nothing of the kind.
    """
    if not folder.is_dir() or not is_old_state(folder):
        raise ImportUnreadable(
            f"{str(folder)!r} has no sessions.yaml, no sessions/ and no database of signals. Nothing was written.",
            details={"path": str(folder)},
        )
    return read_old_state(folder)


def take_in_old_state(controller: Controller, folder: Path, *, dry_run: bool = False) -> TakenIn:
    """Take in what a folder holds; what cannot be taken in is reported, and the rest is.

    Raises
    ------
    ImportUnreadable
        As :func:`require_old_state`.
    """
    state = require_old_state(folder)
    taking = _Taking(controller, is_dry_run=dry_run)
    ordered = list(_parents_first(state.sessions, taking.problems))
    done = [found for session, parent in ordered if (found := taking.session(session, parent)) is not None]
    return TakenIn(tuple(done), (*state.problems, *taking.problems), state, dry_run)


class _Taking:
    def __init__(self, controller: Controller, *, is_dry_run: bool) -> None:
        self._controller = controller
        self._is_dry_run = is_dry_run
        self.problems: list[Problem] = []
        #: Ids that a dry run would have made.
        self._made: set[str] = set()

    def session(self, old: OldSession, parent: str | None) -> ImportedSession | None:
        with self._controller.store.read() as connection:
            why = self._refusal(connection, old)
            exists = session_exists(connection, old.id)
            has_parent = parent is not None and (parent in self._made or session_exists(connection, parent))
        if why is not None:
            self._tell(old, *why)
            return None
        if parent is not None and not has_parent and not exists:
            self._tell(old, "parent_missing", f"its parent {parent} is not here; it is taken in without one")
        drafts = [(draft, position) for position, draft in enumerate(_drafts(old))]
        with self._controller.store.read() as connection:
            fresh = [
                (draft, position)
                for draft, position in drafts
                if not exists or find_external(connection, old.id, FORMAT, draft.external_id or "") is None
            ]
        status = "created" if not exists else "continued" if fresh else "unchanged"
        self._made.add(old.id)
        if not exists and not self._is_dry_run:
            self._create(old, parent if has_parent else None)
        added = len(fresh) if self._is_dry_run else self._write(old, fresh)
        return ImportedSession(old.id, status, added, len(drafts), complete=True)

    def _refusal(self, connection: Connection, old: OldSession) -> tuple[str, str] | None:
        known = get_session(connection, old.id)
        if known is None and first_event_type(connection, old.id) is not None:
            return "session_removed", "it was removed from this store"
        if known is not None and known.harness != FORMAT:
            return "id_taken", "another session here has its id"
        return None

    def _create(self, old: OldSession, parent: str | None) -> None:
        new = NewSession(
            id=old.id,
            harness=FORMAT,
            parent_session_id=parent,
            parent_relation=None if parent is None else "continued",
            status=OPEN_STATUS if old.status in {None, _ACTIVE} else _ENDED,
        )
        self._controller.recorder.create_session(new)

    def _write(self, old: OldSession, fresh: Sequence[tuple[EntryDraft, int]]) -> int:
        recorder, added = self._controller.recorder, 0
        drafts = iter(fresh)
        while batch := list(islice(drafts, BATCH)):
            prepared = []
            for draft, position in batch:
                try:
                    prepared.append(recorder.prepare(draft))
                except BridgeError as error:
                    self._tell(old, error.code, f"entry {position} was left out: {error.message}")

            def write(recording: RecordingTransaction, entries: Sequence[Any] = tuple(prepared)) -> int:
                return sum(recording.append(old.id, entry).is_new for entry in entries)

            added += recorder.transact(write)
        return added

    def _tell(self, old: OldSession, code: str, message: str) -> None:
        self.problems.append(Problem(old.id, code, message))


def _parents_first(sessions: Sequence[OldSession], problems: list[Problem]) -> Iterator[tuple[OldSession, str | None]]:
    """Yield sessions with their parents, each after its parent; a link that would close a circle is left out."""
    by_id = {session.id: session for session in sessions}
    done: set[str] = set()
    for session in sessions:
        line: list[OldSession] = []
        on_line: set[str] = set()
        current: OldSession | None = session
        while current is not None and current.id not in done and current.id not in on_line:
            line.append(current)
            on_line.add(current.id)
            current = by_id.get(current.parent_session_id or "")
        is_circle = current is not None and current.id in on_line
        for place, one in enumerate(reversed(line)):
            parent = one.parent_session_id
            if place == 0 and is_circle:
                problems.append(Problem(one.id, "lineage_cycle", f"its parent {parent} descends from it; left out"))
                parent = None
            done.add(one.id)
            yield one, parent


def _drafts(old: OldSession) -> Iterator[EntryDraft]:
    """Yield what a session becomes: its own record, then its notes."""
    record: dict[str, Any] = {
        key: value
        for key, value in {
            "parent_session_id": old.parent_session_id,
            "status": old.status,
            "created_at": old.created_at,
            "updated_at": old.updated_at,
            **old.extra,
        }.items()
        if value is not None
    }
    if record:
        yield EntryDraft(
            kind="provider.unknown",
            payload={"raw_type": SESSION_RECORD, "raw": record},
            context_visibility=HIDDEN,
            external_id=f"session:{sha256(canonical_bytes(record)).hexdigest()[:32]}",
            external_source=FORMAT,
            created_at=old.created_at,
        )
    seen: Counter[str] = Counter()
    for signal in old.signals:
        # Its words and how often they came before: the same whether a table or a file was readable this time.
        digest = sha256(redact_text(signal.text)[0].encode("utf-8", "surrogatepass")).hexdigest()[:32]
        seen[digest] += 1
        yield EntryDraft(
            kind="note",
            payload=_payload(signal),
            external_id=f"{digest}.{seen[digest]}",
            external_source=FORMAT,
            created_at=signal.created_at,
        )


def _payload(signal: Signal) -> dict[str, Any]:
    names = {"sender": signal.sender, "recipient": signal.recipient, "type": signal.type}
    given = {key: value for key, value in names.items() if value}
    long = {key: value for key, value in given.items() if len(value) > MAX_NAME_CHARACTERS}
    kept: Mapping[str, Any] = {**signal.extra, **long}
    return {
        "text": signal.text,
        **{key: value[:MAX_NAME_CHARACTERS] for key, value in given.items()},
        **({"provider_meta": {"format": FORMAT, "fields": dict(kept)}} if kept else {}),
    }
