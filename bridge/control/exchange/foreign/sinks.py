"""Where entries of a transcript go: into the store, within one transaction; or nowhere, to see what would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from bridge.control.exchange.foreign import store as rows
from bridge.control.recording import RecordingTransaction
from bridge.conversations.errors import SessionRemoved
from bridge.conversations.growing import Grower, Placed
from bridge.conversations.models import NewSession, PreparedEntry
from bridge.conversations.store import get_head, session_exists
from bridge.foundation.canonical import canonical_text
from bridge.foundation.ids import entry_id
from bridge.integrity.events import ENTRIES_IMPORTED
from bridge.integrity.store import first_event_type
from bridge.semantics.stamps import RepositoryState, Stamp
from bridge.storage.transaction import Connection
from bridge.workspaces.store import import_state


class Growing(Protocol):
    """Adds entries to one session."""

    head_id: str
    added: int

    def root(self) -> Placed: ...

    def add(self, prepared: PreparedEntry, parent: Placed) -> Placed: ...


class Sink(Protocol):
    """Takes sessions and entries."""

    is_dry: bool

    @property
    def connection(self) -> Connection: ...

    def create(
        self, new: NewSession, source: Mapping[str, Any], created_at: str, where: _Where, origin: str | None
    ) -> None: ...

    def grower(self, session_id: str) -> Growing: ...

    def finish(self, grower: Growing, head: Placed | None, moment: str) -> str: ...


#: A stamp, and the state that it names if it names one.
_Where = tuple[Stamp, RepositoryState | None]


def require_not_removed(connection: Connection, session_id: str) -> None:
    """Raise SessionRemoved if a session was here and was removed."""
    if not session_exists(connection, session_id) and first_event_type(connection, session_id) is not None:
        raise SessionRemoved(
            f"Session {session_id} was removed from this store. Nothing was written.",
            details={"session_id": session_id},
        )


class StoreSink:
    """Writes within an open transaction."""

    is_dry = False

    def __init__(self, recording: RecordingTransaction) -> None:
        self.recording = recording
        self.moment = recording.moment

    @property
    def connection(self) -> Connection:
        return self.recording.tx.connection

    def create(
        self, new: NewSession, source: Mapping[str, Any], created_at: str, where: _Where, origin: str | None
    ) -> None:
        stamp, state = where
        if state is not None:
            text = canonical_text(state.to_json())
            import_state(self.recording.tx, state.state_digest, text, self.moment)
        self.recording.take_in_session(new, source, created_at, stamp, origin=origin)

    def grower(self, session_id: str) -> Growing:
        return Grower(self.recording.tx, session_id)

    def finish(self, grower: Growing, head: Placed | None, moment: str) -> str:
        """Set a session's head and record what was added by one event."""
        if not isinstance(grower, Grower):
            raise TypeError("a session of another sink")
        if grower.added == 0 and (head is None or head[0] == grower.head_id):
            return grower.head_id
        now = grower.finish(head, moment)
        body: dict[str, Any] = {"added": grower.added, "digest": grower.digest, "head": now, "updated_at": moment}
        if grower.added:
            body |= {"first_sequence": grower.first_sequence, "last_sequence": grower.last_sequence}
        self.recording.event(grower.session_id, ENTRIES_IMPORTED, body)
        return now


class DrySink:
    """Writes nothing; what would be new gets places that are no one's."""

    is_dry = True
    moment = ""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._created: set[str] = set()
        self._growers: dict[str, _DryGrower] = {}

    @property
    def connection(self) -> Connection:
        return self._connection

    def create(
        self, new: NewSession, source: Mapping[str, Any], created_at: str, where: _Where, origin: str | None
    ) -> None:
        del source, created_at, where, origin
        self._created.add(str(new.id))

    def grower(self, session_id: str) -> Growing:
        known = self._growers.get(session_id)
        if known is None:
            head = None if session_id in self._created else get_head(self._connection, session_id)
            root = entry_id(session_id, 0)
            known = _DryGrower(session_id, root if head is None else head.entry_id)
            self._growers[session_id] = known
        known.added = 0
        return known

    def finish(self, grower: Growing, head: Placed | None, moment: str) -> str:
        del moment
        return grower.head_id if head is None else head[0]


class _DryGrower:
    def __init__(self, session_id: str, head_id: str) -> None:
        self._session_id = session_id
        self._next = 1
        self.head_id = head_id
        self.added = 0

    def root(self) -> Placed:
        return entry_id(self._session_id, 0), ""

    def add(self, prepared: PreparedEntry, parent: Placed) -> Placed:
        del prepared, parent
        self.added += 1
        self._next += 1
        return f"{self._session_id}-new-{self._next}", ""


def known_here(sink: Sink, session_id: str, source_name: str, keys: list[str]) -> dict[str, rows.KnownEntry]:
    """Return which of some keys are entries of a session already."""
    return rows.known_entries(sink.connection, session_id, source_name, keys)
